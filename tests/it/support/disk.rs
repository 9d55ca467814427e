//! A small disk for tests to fill: a file system in memory, mounted for one process.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use super::skipped;

/// The variable with the folder in which the disk is mounted.
const DISK: &str = "TENSORFILE_TEST_DISK";

/// Runs an ignored test of this program in a process of its own, which finds a disk with [`disk`]. The options are
/// those of `tmpfs`.
pub fn run_with_disk(test: &str, options: &str) {
    const MOUNT: &str = "mount -t tmpfs -o \"$0\" tmpfs \"$TENSORFILE_TEST_DISK\" && exec \"$@\"";

    let folder = tempfile::tempdir().unwrap();
    // The second one is for users who are not root.
    for namespace in ["-m", "-rm"] {
        let mounted = |program: &[&OsStr]| {
            let mut command = Command::new("unshare");
            command.args([namespace, "sh", "-c", MOUNT, options]).args(program).env(DISK, folder.path()).output()
        };
        if mounted(&["true".as_ref()]).is_ok_and(|output| output.status.success()) {
            let program = std::env::current_exe().unwrap();
            let arguments = [test, "--exact", "--ignored", "--nocapture"].map(OsStr::new);
            let output = mounted(&[&[program.as_os_str()], &arguments[..]].concat()).unwrap();
            let [said, log] = [output.stderr, output.stdout].map(|text| String::from_utf8_lossy(&text).into_owned());
            assert!(output.status.success(), "{said}");
            assert!(log.contains("1 passed"), "{test} did not run: {log}");
            return;
        }
    }
    skipped("a file system in memory cannot be mounted here; it can as root, or where users may make namespaces");
}

/// Returns the folder of the disk, in a test that [`run_with_disk`] runs.
pub fn disk() -> Option<PathBuf> {
    std::env::var_os(DISK).map(PathBuf::from)
}
