//! Decoded samples per second of processor time, compared with Python's webdataset.
//!
//!     cargo bench --package tensorfile-datasets --bench webdataset [-- PYTHON]
//!
//! PYTHON must have webdataset; by default it is the Python of `tests/interop/setup.sh`. A sample has an image of u8
//! (64 × 64 × 3 or 256 × 256 × 3), a vector of 64 f32, a label and a line of JSON. Both programs read the same shards
//! from the page cache with one thread, and the best of several runs counts.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the numbers of benchmarks are small"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ndarray::{Array1, Array3, ArrayBase, ArrayView1, ArrayView3, Data, Ix1, Ix3};
use tensorfile::TensorFile;
use tensorfile_datasets::{Result, ShardWriter, Shards};

#[derive(TensorFile)]
struct Example<I, E> {
    image: I,
    embedding: E,
    label: i64,
    #[tensor(metadata)]
    json: String,
}

type Owned = Example<Array3<u8>, Array1<f32>>;
type Borrowed<'a> = Example<ArrayView3<'a, u8>, ArrayView1<'a, f32>>;

impl<I: Data<Elem = u8>, E: Data<Elem = f32>> Example<ArrayBase<I, Ix3>, ArrayBase<E, Ix1>> {
    /// Touches every field.
    fn touch(&self) -> i64 {
        self.label + i64::from(self.image[[0, 0, 0]]) + self.embedding.len() as i64 + self.json.len() as i64
    }
}

const RUNS: usize = 5;

/// The width and height of the images, and the number of samples.
const SIZES: [(usize, usize); 2] = [(64, 20_000), (256, 2_000)];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shrink = std::env::var("BENCH_SHRINK").ok().and_then(|shrink| shrink.parse().ok()).unwrap_or(1);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).map(PathBuf::from);
    let interop = std::env::var_os("TENSORFILE_INTEROP").map_or_else(|| root.join("../target/interop"), PathBuf::from);
    let python = given.unwrap_or_else(|| interop.join("venv/bin/python"));
    if !python.exists() {
        println!("skipped: {} does not exist, so there is no webdataset to compare with", python.display());
    }
    println!("samples per second of processor time:");
    for (side, samples) in SIZES {
        let samples = (samples / shrink).max(20);
        let folder = tempfile::tempdir()?;
        write(folder.path(), side, samples)?;
        let pattern = folder.path().join("bench-*.tar");
        let pattern = pattern.to_str().ok_or("the folder is not UTF-8")?;
        let rate = |touched: &dyn Fn(Shards) -> Result<i64>| -> Result<f64, Box<dyn std::error::Error>> {
            Ok(samples as f64 / best(&|| touched(Shards::new(pattern)?))?.as_secs_f64())
        };
        let owned = rate(&|shards| shards.load::<Owned>().map(|sample| Ok(sample?.touch())).sum())?;
        let borrowed = rate(&|shards| shards.map(|sample| Ok(sample?.load::<Borrowed<'_>>()?.touch())).sum())?;
        println!("{side} × {side} × 3: structs of arrays {owned:.0}, structs of views {borrowed:.0}");
        if python.exists() {
            let decode = root.join("benches/decode.py");
            let output = Command::new(&python).arg(decode).arg(pattern).arg(RUNS.to_string()).output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            }
            let theirs: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
            let (arrays, views) = (owned / theirs, borrowed / theirs);
            println!("    webdataset {theirs:.0}; arrays: {arrays:.1} x webdataset, views: {views:.1} x webdataset");
        }
    }
    Ok(())
}

fn write(folder: &Path, side: usize, samples: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut writer = ShardWriter::new(folder.join("bench-{000000..}.tar"))?.max_samples(2_000);
    for i in 0..samples {
        let sample = Example {
            image: Array3::from_elem((side, side, 3), (i % 256) as u8),
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
fn best(run: &dyn Fn() -> Result<i64>) -> Result<Duration, Box<dyn std::error::Error>> {
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
