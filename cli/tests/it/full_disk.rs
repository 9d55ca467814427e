//! Full disks: the error names the file, and the old file stays.

#[path = "../../../tests/it/support/disk.rs"]
mod memory;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tensorfile::FORMATS;

use super::skipped;
use super::writing::Writing;
use memory::{disk, run_with_disk};

#[test]
fn full_disks_leave_the_old_files() {
    run_with_disk("full_disk::fills_a_disk", "size=20m");
}

#[test]
#[ignore = "another test starts it"]
fn fills_a_disk() {
    let Some(disk) = disk() else { return };
    let ballast = disk.join("ballast");
    for format in FORMATS {
        let writing = Writing::in_folder(format, &disk);
        let before = writing.reset();
        for command in writing.commands() {
            let line = &command.line;
            // A part of the 12 MB that some commands write, so that split files have a shard or two.
            fill(&ballast, if command.is_long { 5 << 20 } else { 0 });
            let output = writing.session.run(&command.arguments());
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{line}: {message}");
            let expected = format!("tensorfile: {}: ", command.output);
            assert!(message.starts_with(&expected) && message.contains("No space left on device"), "{line}: {message}");
            assert!(writing.files() == before, "{line}: {:?}", writing.files().keys());
            std::fs::remove_file(&ballast).unwrap();
        }
    }
}

/// Writes a file that leaves `room` bytes of the disk.
fn fill(path: &Path, room: u64) {
    let mut file = File::create(path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let bytes = file.metadata().unwrap().len();
    file.set_len(bytes.checked_sub(room).unwrap()).unwrap();
}
