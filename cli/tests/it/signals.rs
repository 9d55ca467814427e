//! The files that remain when the program is stopped while it writes one, or when it cannot write more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tensorfile::{FORMATS, Format, TensorMap};

use crate::{Session, weights};

/// A session with a file of 12 MB in a format, and command lines that replace other files.
struct Writing {
    session: Session,
    extension: &'static str,
    /// Another file, of the same tensors in part.
    old: TensorMap,
    has_shards: bool,
}

impl Writing {
    fn new(format: &'static Format) -> Self {
        // In memory, if the system has a place for that: flushing files to a disk takes longer than all else.
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let session = Session { folder: folder.unwrap() };
        let extension = format.extensions[0];
        let count = format.max_tensors.unwrap_or(4);
        let name = |at: usize| if count == 1 { at.to_string() } else { format!("layers.{at}.weight") };
        let large = weights(&[(3 << 20) / count]);
        session.write(&format!("large.{extension}"), &(0..count).map(|at| (name(at), large.clone())).collect());
        let first = if count == 1 { 0 } else { count };
        let old: TensorMap = (0..count).map(|at| (name(first + at), weights(&[3 + at]))).collect();
        Self { session, extension, old, has_shards: count > 1 }
    }

    /// The commands, whose words have no spaces.
    fn commands(&self) -> Vec<String> {
        let end = self.extension;
        let mut commands = vec![format!("convert large.{end} old.{end}")];
        if self.has_shards {
            commands.push(format!("append old.{end} large.{end}"));
            commands.push(format!("split large.{end} --max-shard-size 3MB --out old.{end}"));
        }
        commands
    }

    /// Writes the files that the commands replace, and returns all small files.
    fn reset(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        for path in self.files().keys().filter(|path| !path.ends_with(format!("large.{}", self.extension))) {
            std::fs::remove_file(path).unwrap();
        }
        let old = format!("old.{}", self.extension);
        self.session.write(&old, &self.old);
        if self.has_shards {
            let output = self.session.run(&["split", &old, "--max-shard-size", "1"]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        self.files()
    }

    /// Returns all files but the large one, whose bytes are left out.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let large = self.session.path(&format!("large.{}", self.extension));
        let paths = std::fs::read_dir(self.session.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let bytes = |path: &PathBuf| if *path == large { Vec::new() } else { std::fs::read(path).unwrap() };
        paths.map(|path| (path.clone(), bytes(&path))).collect()
    }

    /// Runs the commands that write the old files, without removing others first.
    fn save_again(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let end = self.extension;
        let small = format!("small.{end}");
        self.session.write(&small, &self.old);
        for arguments in [
            &["convert", &small, &format!("old.{end}")][..],
            &["split", &small, "--max-shard-size", "1", "--out", &format!("old.{end}")],
        ] {
            let output = self.session.run(arguments);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        self.files()
    }

    fn spawn(&self, command: &str) -> Child {
        let mut command = self.session.command(&command.split(' ').collect::<Vec<_>>());
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    fn has_temporary(&self) -> bool {
        let mut entries = std::fs::read_dir(self.session.folder.path()).unwrap();
        entries.any(|entry| entry.unwrap().file_name().as_encoded_bytes().ends_with(b".tmp"))
    }

    /// Sends a signal some time after there is a temporary file; `None` if the program was faster.
    fn interrupted(&self, command: &str, signal: Signal, after: Duration) -> Option<ExitStatus> {
        let mut child = self.spawn(command);
        let limit = Instant::now() + Duration::from_secs(60);
        while !self.has_temporary() {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success() && Instant::now() < limit, "{command}");
                return None;
            }
        }
        std::thread::sleep(after);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        (!status.success()).then_some(status)
    }
}

#[test]
fn sigint_and_sigterm_remove_temporary_files() {
    for format in FORMATS.iter().filter(|format| !format.read_only) {
        let writing = Writing::new(format);
        for command in writing.commands() {
            writing.reset();
            assert!(writing.spawn(&command).wait().unwrap().success(), "{command}");
            let new = writing.files();
            let mut before = writing.reset();
            let mut stopped = 0;
            // Later and later, until it was stopped by each signal.
            for attempt in 0.. {
                assert!(attempt < 100, "{command} is too fast to be stopped");
                let (signal, code) = [(Signal::INT, 130), (Signal::TERM, 143)][stopped % 2];
                let after = Duration::from_micros(attempt * 1300 % 9000);
                let status = writing.interrupted(&command, signal, after);
                let left = writing.files();
                if let Some(status) = status {
                    assert_eq!(status.code(), Some(code), "{command}");
                    // The new files may just have been put in place.
                    assert!(left == before || left == new, "{command}: {:?}", left.keys());
                    stopped += 1;
                }
                if stopped == 2 {
                    break;
                }
                if left != before {
                    before = writing.reset();
                }
            }
        }
    }
}

#[test]
fn a_command_removes_what_killed_ones_left() {
    let format = Format::named("ten").unwrap();
    let writing = Writing::new(format);
    for command in writing.commands() {
        writing.reset();
        let mut left = 0;
        for round in 0..15 {
            let mut child = writing.spawn(&command);
            std::thread::sleep(Duration::from_millis(round * 5 % 17));
            // It may have ended.
            let _ = child.kill();
            child.wait().unwrap();
            left += usize::from(writing.has_temporary());
            for whole in ["old.ten", "old.ten.index.json"] {
                let output = writing.session.run(&["verify", "--payload", whole]);
                let text = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{command}, round {round}: {text}");
            }
            let after = writing.save_again();
            assert!(!writing.has_temporary(), "{command}, round {round}: {:?}", after.keys());
        }
        assert!(left > 0, "{command}");
    }
}

/// Runs a command that may not write files over 50 KiB.
fn with_limit(session: &Session, command: &str) -> (Option<i32>, String) {
    let script = format!("ulimit -f 100; exec '{}' {command}", env!("CARGO_BIN_EXE_tensorfile"));
    let output = Command::new("sh").args(["-c", &script]).current_dir(session.folder.path()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_limit_of_the_file_size_is_an_error() {
    for format in FORMATS.iter().filter(|format| !format.read_only) {
        let writing = Writing::new(format);
        let before = writing.reset();
        for command in writing.commands() {
            let (code, message) = with_limit(&writing.session, &command);
            assert_eq!(code, Some(3), "{command}: {message}");
            let expected = format!("tensorfile: old.{}: ", writing.extension);
            assert!(message.starts_with(&expected) && message.contains("File too large"), "{command}: {message}");
            assert!(writing.files() == before, "{command}: {:?}", writing.files().keys());
        }
    }
}

#[test]
fn charts_reports_and_manual_pages_are_replaced_as_a_whole() {
    let session = Session::new();
    for name in ["chart.svg", "page.html", "man/tensorfile-ls.1"] {
        let path = session.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "old").unwrap();
        // Another name of the old file shows whether it was written to.
        std::fs::hard_link(&path, path.with_extension("other")).unwrap();
    }
    let commands = ["stats model.ptd --plot chart.svg", "report model.ptd -o page.html", "man --out man"];
    for (command, path) in commands.iter().zip(["chart.svg", "page.html", "man/tensorfile"]) {
        let limited = format!("ulimit -f 1; exec '{}' {command}", env!("CARGO_BIN_EXE_tensorfile"));
        let output = Command::new("sh").args(["-c", &limited]).current_dir(session.folder.path()).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{command}: {message}");
        assert!(message.contains(path) && message.contains("File too large"), "{command}: {message}");
    }
    for name in ["chart.svg", "page.html", "man/tensorfile-ls.1"] {
        assert_eq!(std::fs::read(session.path(name)).unwrap(), b"old", "a failure leaves the old file");
    }
    for command in commands {
        assert!(session.run(&command.split(' ').collect::<Vec<_>>()).status.success(), "{command}");
    }
    for name in ["chart", "page", "man/tensorfile-ls"] {
        assert_eq!(std::fs::read(session.path(&format!("{name}.other"))).unwrap(), b"old");
    }
    assert!(std::fs::read(session.path("chart.svg")).unwrap().starts_with(b"<svg"));
    assert!(std::fs::read(session.path("man/tensorfile-ls.1")).unwrap().len() > 100);
    for folder in [session.path(""), session.path("man")] {
        let mut names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.all(|name| !name.to_str().unwrap().ends_with(".tmp")));
    }
}
