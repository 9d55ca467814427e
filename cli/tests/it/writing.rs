//! Commands that write files, and the files they replace. Tests stop the commands, or leave them no room.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tensorfile::{Format, TensorMap};

use super::every_command::commands;
use super::{Session, weights};

/// A command that writes files.
pub struct WriteCommand {
    /// The arguments, which have no spaces.
    pub line: String,
    /// The file at fault if it cannot be written: the first of several.
    pub output: String,
    /// It writes 12 MB, for which it takes so long that it can be stopped. The others write a page or two at once.
    pub is_long: bool,
}

impl WriteCommand {
    pub fn arguments(&self) -> Vec<&str> {
        self.line.split(' ').collect()
    }
}

/// A session with a file of 12 MB in a format, and other files, which the commands replace.
pub struct Writing {
    pub session: Session,
    pub extension: &'static str,
    /// Other tensors.
    old: TensorMap,
    has_shards: bool,
    has_metadata: bool,
}

impl Writing {
    pub fn new(format: &'static Format) -> Self {
        // In memory, if the system has a place for that: flushing files to a disk takes longer than all else.
        let memory = Path::new("/dev/shm");
        Self::in_folder(format, if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() })
    }

    /// Makes the session in a new folder below one.
    pub fn in_folder(format: &'static Format, folder: impl AsRef<Path>) -> Self {
        let session = Session { folder: tempfile::tempdir_in(folder).unwrap() };
        let extension = format.extensions[0];
        let count = format.max_tensors.unwrap_or(4);
        let name = |at: usize| if count == 1 { at.to_string() } else { format!("layers.{at}.weight") };
        // Of different lengths, because some formats store equal tensors once.
        let large = |at: usize| weights(&[(3 << 20) / count + at]);
        session.write(&format!("large.{extension}"), &(0..count).map(|at| (name(at), large(at))).collect());
        let first = if count == 1 { 0 } else { count };
        let old: TensorMap = (0..count).map(|at| (name(first + at), weights(&[3 + at]))).collect();
        Self { session, extension, old, has_shards: count > 1, has_metadata: format.edits_metadata() }
    }

    /// Every command that writes files, as far as the format allows it.
    pub fn commands(&self) -> Vec<WriteCommand> {
        let end = self.extension;
        let old = format!("old.{end}");
        let long = |line: String| WriteCommand { line, output: old.clone(), is_long: true };
        let short = |line: String, output: &str| WriteCommand { line, output: output.to_owned(), is_long: false };
        let mut commands = vec![
            long(format!("convert large.{end} old.{end}")),
            short(format!("report old.{end} -o page.html"), "page.html"),
            short(format!("stats old.{end} --plot chart.svg"), "chart.svg"),
            short("man --out .".to_owned(), "./tensorfile.1"),
        ];
        if self.has_shards {
            commands.push(long(format!("append old.{end} large.{end}")));
            commands.push(long(format!("merge old.{end} large.{end} -o old.{end}")));
            commands.push(long(format!("split large.{end} --max-shard-size 3MB --out old.{end}")));
        }
        if self.has_metadata {
            commands.push(long(format!("edit large.{end} --set model=new -o old.{end}")));
        }
        commands
    }

    /// The commands that write so much that they can be stopped.
    pub fn long_commands(&self) -> Vec<WriteCommand> {
        self.commands().into_iter().filter(|command| command.is_long).collect()
    }

    /// Writes the files that the commands replace, and returns all small files.
    pub fn reset(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let large = self.large();
        for path in self.files().keys().filter(|path| **path != large) {
            std::fs::remove_file(path).unwrap();
        }
        let old = format!("old.{}", self.extension);
        self.session.write(&old, &self.old);
        if self.has_shards {
            self.run(&["split", &old, "--max-shard-size", "1"]);
        }
        for page in ["page.html", "chart.svg", "tensorfile.1", "tensorfile-ls.1"] {
            std::fs::write(self.session.path(page), "old").unwrap();
        }
        self.files()
    }

    /// Runs the commands that write the old files, without removing others first.
    pub fn save_again(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let end = self.extension;
        let small = format!("small.{end}");
        self.session.write(&small, &self.old);
        // The shards replace a single file.
        self.run(&["split", &small, "--max-shard-size", "1", "--out", &format!("old.{end}")]);
        self.run(&["convert", &small, &format!("old.{end}")]);
        self.files()
    }

    /// Runs a command, which succeeds.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) {
        let output = self.session.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn large(&self) -> PathBuf {
        self.session.path(&format!("large.{}", self.extension))
    }

    /// Returns all files but the large one, whose bytes are left out.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let large = self.large();
        let paths = std::fs::read_dir(self.session.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let bytes = |path: &PathBuf| if *path == large { Vec::new() } else { std::fs::read(path).unwrap() };
        paths.map(|path| (path.clone(), bytes(&path))).collect()
    }

    pub fn has_temporary(&self) -> bool {
        let mut entries = std::fs::read_dir(self.session.folder.path()).unwrap();
        entries.any(|entry| entry.unwrap().file_name().as_encoded_bytes().ends_with(b".tmp"))
    }
}

/// The options of the commands tell which of them write files.
#[test]
fn every_command_that_writes_is_listed() {
    let writing = Writing::new(&tensorfile::safetensors::FORMAT);
    let lines = writing.commands();
    let listed: BTreeSet<&str> = lines.iter().map(|command| command.arguments()[0]).collect();
    let all = commands(&writing.session);
    let writes = |command: &&str| {
        let help = String::from_utf8(writing.session.run(&[command, "--help"]).stdout).unwrap();
        // `append` always replaces a file.
        help.contains("--no-clobber") || help.contains("--replace")
    };
    assert_eq!(listed, all.iter().map(String::as_str).filter(writes).collect());
}

#[test]
fn old_files_are_replaced_as_a_whole() {
    let writing = Writing::new(&tensorfile::safetensors::FORMAT);
    for command in writing.commands() {
        let before = writing.reset();
        // Another name of an old file shows whether it was written to.
        let other = |path: &Path| PathBuf::from(format!("{}.other", path.display()));
        for path in before.keys().filter(|path| **path != writing.large()) {
            std::fs::hard_link(path, other(path)).unwrap();
        }
        writing.run(&command.arguments());
        let after = writing.files();
        for (path, old) in before.iter().filter(|(path, _)| **path != writing.large()) {
            assert!(after[&other(path)] == *old, "{}: {} was written to", command.line, path.display());
        }
        let path = writing.session.path(&command.output);
        // Shards are next to their index.
        let is_replaced = after.get(&path) != before.get(&path) || command.line.starts_with("split");
        assert!(is_replaced && after.len() > before.len(), "{}", command.line);
        assert!(!writing.has_temporary(), "{}", command.line);
    }
}
