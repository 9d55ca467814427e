//! Measures planning and committing a job on one core: a million shards of 1 GiB, which are a petabyte.
//!
//!     cargo run --release -p tensorfile-datasets --example million_splits [SPLITS]
//!
//! The shards exist only as a listing. The parts are files of holes in a temporary folder, so only their lengths are
//! compared. Everything else runs as in a real job.

use std::error::Error;
use std::fs::{self, File};

use tensorfile::digest::Digest;
use tensorfile_datasets::splits::{Part, Planner, Split, commit_by_length};

fn main() -> Result<(), Box<dyn Error>> {
    let splits: usize = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    println!("{:<44}  {:>9}  {:>12}  {:>12}", "step", "seconds", "bytes", "peak memory");

    let listed = (0..splits).map(|i| (format!("s3://bucket/dataset/train-{i:07}.tar"), 1_u64 << 30));
    let listed: Vec<(String, u64)> = listed.collect();
    let plan = timed("plan from a listing", || Ok((Planner::by_bytes(1 << 30).plan_listed(listed)?, 0)))?;
    assert_eq!(plan.len(), splits);
    let lines = timed("splits as JSON, one line each", || {
        let lines: Vec<String> = plan.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let bytes = total(&lines);
        Ok((lines, bytes))
    })?;
    drop(plan);

    // Each task does this for one line.
    let parts = timed("splits parsed, parts as JSON", || {
        let parts: Vec<String> = lines.iter().map(|line| part(line)).collect::<Result<_, _>>()?;
        let bytes = total(&parts);
        Ok((parts, bytes))
    })?;
    drop(lines);
    timed("files of the parts (not a job's)", || {
        for i in 1..=splits {
            File::create(folder.path().join(format!("part-{i:05}-of-{splits:05}.tar")))?.set_len(1 << 30)?;
        }
        Ok(((), 0))
    })?;
    timed("commit: parts parsed, folder listed, index", || {
        let parts = parts.iter().map(|line| serde_json::from_str::<Part>(line)).collect::<Result<Vec<_>, _>>()?;
        let committed = commit_by_length(folder.path(), parts)?;
        assert_eq!(committed.files.len(), splits);
        let bytes = fs::metadata(committed.index)?.len();
        Ok(((), bytes))
    })
}

/// Returns the line of a part of 1 GiB.
fn part(line: &str) -> Result<String, Box<dyn Error>> {
    let Split { plan, number, of, .. } = serde_json::from_str(line)?;
    let digest = Digest(*blake3::hash(line.as_bytes()).as_bytes());
    let (file, rows, bytes) = (format!("part-{number:05}-of-{of:05}.tar"), 10_000, 1_u64 << 30);
    let part = serde_json::json!({
        "plan": plan, "number": number, "of": of, "format": "tar", "file": file, "rows": rows, "bytes": bytes,
        "digest": digest,
    });
    Ok(part.to_string())
}

fn total(lines: &[String]) -> u64 {
    lines.iter().map(|line| line.len() as u64 + 1).sum()
}

/// Runs a step, and prints its processor time and the number of bytes that it returns.
fn timed<T>(step: &str, run: impl FnOnce() -> Result<(T, u64), Box<dyn Error>>) -> Result<T, Box<dyn Error>> {
    let start = processor_seconds();
    let (value, bytes) = run()?;
    println!("{step:<44}  {:>9.2}  {bytes:>12}  {:>12}", processor_seconds() - start, peak_memory());
    Ok(value)
}

/// Returns the processor seconds of this thread, as Linux counts them; NaN on other systems.
fn processor_seconds() -> f64 {
    let found = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = found.split(' ').next().and_then(|text| text.parse::<f64>().ok());
    nanoseconds.map_or(f64::NAN, |nanoseconds| nanoseconds / 1e9)
}

/// Returns the peak memory of the process so far, as Linux counts it.
fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(str::trim);
    peak.unwrap_or("unknown").to_owned()
}
