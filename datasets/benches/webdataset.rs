//! Decoded samples per second of processor time, beside Python's webdataset.
//!
//!     cargo bench --package tensorfile-datasets --bench webdataset [-- PYTHON]
//!
//! The Python has webdataset; by default it is the one of `tests/interop/setup.sh`. Each sample is an image of 64 × 64 × 3 u8,
//! a vector of 64 f32, a label and a line of JSON. Both read the same shards from the system's memory, on one thread, and the
//! best of several runs counts.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the numbers of benchmarks are small"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ndarray::{Array1, Array3, ArrayView1, ArrayView3};
use tensorfile::TensorFile;
use tensorfile_datasets::{ShardWriter, Shards};

#[derive(TensorFile)]
struct Owned {
    image: Array3<u8>,
    embedding: Array1<f32>,
    label: i64,
    #[tensor(metadata)]
    json: String,
}

#[derive(TensorFile)]
struct Borrowed<'a> {
    image: ArrayView3<'a, u8>,
    embedding: ArrayView1<'a, f32>,
    label: i64,
    #[tensor(metadata)]
    json: String,
}

const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shrink = std::env::var("BENCH_SHRINK").ok().and_then(|shrink| shrink.parse().ok()).unwrap_or(1);
    let samples = (20_000 / shrink).max(20);
    let folder = tempfile::tempdir()?;
    write(folder.path(), samples)?;
    let pattern = folder.path().join("bench-*.tar");
    let pattern = pattern.to_str().ok_or("the folder is not UTF-8")?;

    let owned = best(&|| {
        Shards::new(pattern)?.load::<Owned>().try_fold(0, |sum, sample| {
            let sample = sample?;
            Ok(sum
                + sample.label
                + i64::from(sample.image[[0, 0, 0]])
                + sample.embedding.len() as i64
                + sample.json.len() as i64)
        })
    })?;
    let borrowed = best(&|| {
        Shards::new(pattern)?.try_fold(0, |sum, sample| {
            let sample = sample?;
            let sample: Borrowed<'_> = sample.load()?;
            Ok(sum
                + sample.label
                + i64::from(sample.image[[0, 0, 0]])
                + sample.embedding.len() as i64
                + sample.json.len() as i64)
        })
    })?;
    let rate = |time: Duration| samples as f64 / time.as_secs_f64();
    println!("structs of arrays: {:9.0} samples per second of processor time", rate(owned));
    println!("structs of views:  {:9.0} samples per second of processor time", rate(borrowed));

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).map(PathBuf::from);
    let interop = std::env::var_os("TENSORFILE_INTEROP").map_or_else(|| root.join("../target/interop"), PathBuf::from);
    let python = given.unwrap_or_else(|| interop.join("venv/bin/python"));
    if !python.exists() {
        println!("skipped: {} does not exist, so there is no webdataset to compare with", python.display());
        return Ok(());
    }
    let output =
        Command::new(&python).arg(root.join("benches/decode.py")).arg(pattern).arg(RUNS.to_string()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let theirs: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
    println!("webdataset:        {theirs:9.0} samples per second of processor time");
    println!("arrays: {:.1} x webdataset, views: {:.1} x webdataset", rate(owned) / theirs, rate(borrowed) / theirs);
    Ok(())
}

fn write(folder: &Path, samples: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut writer = ShardWriter::new(folder.join("bench-{000000..}.tar"))?.max_samples(2_000);
    for i in 0..samples {
        let sample = Owned {
            image: Array3::from_elem((64, 64, 3), (i % 256) as u8),
            embedding: Array1::from_elem(64, i as f32),
            label: i as i64,
            json: format!("{{\"id\": {i}, \"caption\": \"a sample\"}}"),
        };
        writer.write(&format!("{i:08}"), &sample)?;
    }
    writer.finish()?;
    Ok(())
}

/// Returns the least processor time of several runs.
fn best(run: &dyn Fn() -> tensorfile_datasets::Result<i64>) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut least = Duration::MAX;
    for _ in 0..RUNS {
        let start = processor_time();
        std::hint::black_box(run()?);
        least = least.min(processor_time() - start);
    }
    Ok(least)
}

/// Returns the processor time of this process; on other systems than Unix, the time since it began.
fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
        START.elapsed()
    }
}
