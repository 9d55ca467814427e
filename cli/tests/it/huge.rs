//! Files of 20 GiB, mostly holes, listed, sliced and reported within 1 GiB of addresses.

#[path = "../../../tests/it/support/huge.rs"]
mod file;

use std::process::Command;

use tensorfile::FORMATS;

use super::skipped;

#[test]
fn lists_slices_and_reports_in_bounded_memory() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for &format in FORMATS {
        let path = folder.path().join("huge").with_extension(format.extensions[0]);
        let Some(huge) = file::write(format, &path) else {
            skipped(
                "this file system has no holes, so no huge files are tried; $CARGO_TARGET_DIR can name a folder on one that has",
            );
            return;
        };
        let last = huge.0.last().unwrap().0.clone();
        for (arguments, expected) in [
            (&["ls", "--json"][..], format!("\"bytes\": {}", huge.bytes())),
            (&["report", "--json", "--charts", "3", "--sample", "64KiB"], format!("\"bytes\": {}", huge.bytes())),
            (&["show", "--format", "json", "--slice", "-1,-2:"], "[0.0, 1.5]".to_owned()),
        ] {
            let mut shell = Command::new("sh");
            shell.args(["-c", "ulimit -v 1048576; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tensorfile")]);
            shell.args(arguments).arg(&path);
            if arguments[0] == "show" {
                shell.arg(&last);
            }
            let mut outputs = vec![shell.output().unwrap()];
            if arguments[0] == "ls" {
                // A file that is standard input is not read whole either.
                let mut shell = Command::new("sh");
                shell.args(["-c", "ulimit -v 1048576; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tensorfile")]);
                let stdin = std::fs::File::open(&path).unwrap();
                outputs.push(shell.args(arguments).arg("-").stdin(stdin).output().unwrap());
            }
            for output in outputs {
                let text = String::from_utf8_lossy(&output.stdout);
                assert!(text.contains(&expected), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
