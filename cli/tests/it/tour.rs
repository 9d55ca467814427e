//! Checks that the tour in the README shows the output of the program.
//!
//! The tour uses a real model, which `tests/interop/setup.sh` installs in `target/interop` or `$TENSORFILE_INTEROP`.
//! Without it, this test is skipped. `UPDATE_TOUR=1` updates the README.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::skipped;

const MODEL: &str = "silero_vad_16k.safetensors";
const BEGIN: &str = "<!-- tour: tests/it/tour.rs keeps it true -->";
const END: &str = "<!-- end of tour -->";

#[test]
fn readme_tour_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interop = std::env::var_os("TENSORFILE_INTEROP").map_or_else(|| root.join("../target/interop"), PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    if std::fs::copy(interop.join("models").join(MODEL), folder.path().join(MODEL)).is_err() {
        skipped(format_args!("{MODEL} is missing; tests/interop/setup.sh installs it"));
        return;
    }

    let path = root.join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (tour, after) = rest.split_once(END).unwrap();
    let mut played = String::new();
    let mut in_block = false;
    for line in tour.lines() {
        match line.strip_prefix("$ ") {
            Some(command) if in_block => {
                played += &format!("{line}\n{}", run(command, folder.path()));
            }
            // Skips the old output.
            None if in_block && line != "```" => {}
            _ => {
                in_block = line == "```console";
                played += &format!("{line}\n");
            }
        }
    }
    if std::env::var_os("UPDATE_TOUR").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{played}{END}{after}")).unwrap();
        return;
    }
    assert!(tour == played, "the tour should be:\n{played}");
}

/// Runs a line in the shell, with the program in its path; returns standard output and standard error.
fn run(line: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_tensorfile")).parent().unwrap();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::join_paths([program.to_owned()].into_iter().chain(std::env::split_paths(&paths))).unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("exec 2>&1\n{line}")])
        .current_dir(folder)
        .env("PATH", paths)
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS");
    let output = shell.stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
