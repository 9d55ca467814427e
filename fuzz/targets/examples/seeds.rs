//! Writes the seeds of all targets: `cargo run -p tensorfile-fuzz-targets --example seeds -- FOLDER`.

use std::path::PathBuf;

use tensorfile_fuzz_targets::TARGETS;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("fuzz/work"), PathBuf::from);
    for target in TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (at, seed) in target.seeds().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at:03}")), seed)?;
        }
    }
    Ok(())
}
