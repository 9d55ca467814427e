//! The program, for benchmarks that run it.

use std::io;
use std::path::PathBuf;
use std::process::Command;

/// Builds the program in the profile of this benchmark, and returns its path. Set `BENCH_PROGRAM` to the path of
/// another one to use.
pub fn build() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("BENCH_PROGRAM") {
        return std::path::absolute(path);
    }
    let benchmark = std::env::current_exe()?;
    let target =
        benchmark.ancestors().nth(2).ok_or_else(|| io::Error::other("the benchmark is in no target directory"))?;
    let mut build = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    build.args(["build", "--quiet", "--package", "tensorfile-cli"]);
    if target.ends_with("release") {
        build.arg("--release");
    }
    if build.status()?.success() {
        Ok(target.join("tensorfile"))
    } else {
        Err(io::Error::other("the program could not be built"))
    }
}
