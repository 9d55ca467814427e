//! Full disks and limits on the size of files: saving is an error, and the old file stays.

use std::process::Command;

use tensorfile::Category;
use tensorfile::file::Backend;

use super::writers::{LEN, Target, for_each_target};
use crate::support::child::command;
use crate::support::disk::{disk, run_with_disk};

/// The variable of the process whose limit is lowered.
const LIMITED: &str = "TENSORFILE_TEST_LIMITED";

/// Saves over an old file, and returns whether that succeeded. After an error, checks the old file.
fn saves(target: Target<'_>, what: &str) -> bool {
    let before = target.names();
    match target.save(2) {
        Ok(()) => {
            assert_eq!(target.saved(Backend::Mapped), 2, "{target}, {what}");
            true
        }
        Err(error) => {
            assert_eq!(error.category(), Category::Io, "{target}, {what}: {error}");
            let path = target.folder.join("model");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{target}, {what}: {error}");
            assert_eq!(target.names(), before, "{target}, {what}");
            assert_eq!(target.saved(Backend::Positioned), 1, "{target}, {what}");
            false
        }
    }
}

#[test]
fn files_over_the_limit_of_their_size() {
    let test = command("every_format::full_disk::limits_the_size_of_files", &[]);
    let mut shell = Command::new("sh");
    // A program that does not ignore the signal is killed by it.
    shell.args(["-c", "trap '' XFSZ && exec \"$0\" \"$@\""]).arg(test.get_program()).args(test.get_args());
    let output = shell.env(LIMITED, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "another test starts it"]
fn limits_the_size_of_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    if std::env::var_os(LIMITED).is_none() {
        return;
    }
    let unlimited = getrlimit(Resource::Fsize);
    for_each_target(true, |target| {
        target.save(1).unwrap();
        let largest = 20 * LEN as u64 + 4096;
        let limits = (0..200).map(|at| at * 23).chain((4600..largest).step_by(4001));
        let mut refused = 0;
        for limit in limits {
            setrlimit(Resource::Fsize, Rlimit { current: Some(limit), ..unlimited }).unwrap();
            let saved = saves(target, &format!("files of up to {limit} bytes"));
            setrlimit(Resource::Fsize, unlimited).unwrap();
            refused += usize::from(!saved);
            if saved {
                break;
            }
        }
        assert!(refused > 100, "{target}");
        target.save(1).unwrap();
        target.assert_no_litter();
    });
}

#[test]
fn disks_that_are_full() {
    run_with_disk("every_format::full_disk::fills_a_disk", "size=512k,nr_inodes=24");
}

#[test]
#[ignore = "another test starts it"]
fn fills_a_disk() {
    let Some(disk) = disk() else { return };
    for_each_target(true, |elsewhere| {
        let folder = disk.join("folder");
        std::fs::create_dir(&folder).unwrap();
        let target = Target { folder: &folder, ..elsewhere };
        target.save(1).unwrap();
        // The first saves find no room, and the last one does.
        let ballast = disk.join("ballast");
        let mut refused = 0;
        for pages in (0..128).rev() {
            // As much as there is room for.
            let _ = std::fs::write(&ballast, vec![0; pages << 12]);
            if saves(target, &format!("{pages} pages of other files")) {
                break;
            }
            refused += 1;
        }
        assert!(refused > 0, "{target}");
        std::fs::remove_file(&ballast).unwrap();
        target.save(1).unwrap();

        // Without room for another file.
        let mut others = 0;
        while std::fs::write(disk.join(format!("other{others}")), "").is_ok() {
            others += 1;
        }
        assert!(!saves(target, "no more files"));
        (0..others).for_each(|at| std::fs::remove_file(disk.join(format!("other{at}"))).unwrap());
        assert!(saves(target, "room again"));
        target.assert_no_litter();
        std::fs::remove_dir_all(&folder).unwrap();
    });
}
