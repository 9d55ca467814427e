//! Sparse files of 20 GiB in any format, opened, listed and sliced in little memory.
//!
//! On file systems without sparse files, and on systems other than Linux, the tests print that they are skipped.

use std::fs;
use std::process::Command;

use tensorfile::OpenOptions;
use tensorfile::file::Backend;

use crate::support::{skipped, written_formats};

use crate::support::huge::{GIB, write};
use crate::support::interop::run;

/// The memory that opening, listing and slicing may take.
const BOUND: u64 = 64 << 20;

/// Returns the peak memory of the process in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Returns whether this process runs only the given test. Otherwise runs it in a process of its own, as the memory that
/// [`peak`] counts is that of all tests in the process.
#[track_caller]
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "TENSORFILE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let printed = run(command.args(["--exact", test, "--nocapture"]).env(ALONE, "1"));
    assert!(printed.contains("1 passed"), "{printed}");
    print!("{printed}");
    false
}

#[test]
fn opens_lists_and_slices_in_bounded_memory() {
    if !is_alone("huge::opens_lists_and_slices_in_bounded_memory") {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for format in written_formats() {
        let path = folder.path().join("huge").with_extension(format.extensions[0]);
        let Some(huge) = write(format, &path) else {
            skipped(
                "this file system has no holes, so no huge files are tried; $CARGO_TARGET_DIR can name a folder on one that has",
            );
            return;
        };
        let before = peak();
        for backend in [Backend::Mapped, Backend::Positioned] {
            let file = OpenOptions::new().backend(backend).open(&path).unwrap();
            let listed: u64 = file.tensors().map(|tensor| tensor.payload_bytes()).sum();
            assert_eq!((file.len(), listed), (huge.0.len(), huge.bytes()));
            let (rows, columns) = (huge.0[0].1.shape[0], huge.0[0].1.shape[1]);
            let corner = file.slice(&huge.0.last().unwrap().0, &[rows - 2..rows, columns - 1..columns]).unwrap();
            assert_eq!(corner.as_view().array::<f32>().unwrap().as_slice(), Some(&[0.0, 1.5][..]), "{}", format.name);
            let row = file.slice(&huge.0[0].0, &[5..6, 0..1 << 14]).unwrap();
            assert_eq!(row.as_bytes().len(), 4 << 14);
        }
        let used = peak() - before;
        assert!(used < BOUND, "{}: took {used} bytes", format.name);
        println!("{}: {} GiB opened, listed and sliced in {} KiB more", format.name, huge.bytes() / GIB, used >> 10);
        fs::remove_file(&path).unwrap();
    }
}
