//! Completion of tensor names, which the shell asks the program for.

use std::ffi::OsStr;
use std::path::Path;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use indexmap::IndexSet;

use tensorfile::File;

/// Completes the name of a tensor of the files on the command line.
pub fn tensor_name() -> ArgValueCompleter {
    ArgValueCompleter::new(names)
}

/// Completes a path, or the name of a tensor of the files on the command line.
pub fn path_or_tensor_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut candidates = names(current);
        candidates.extend(PathCompleter::any().complete(current));
        candidates
    })
}

fn names(current: &OsStr) -> Vec<CompletionCandidate> {
    /// More would fill the terminal.
    const SHOWN: usize = 1000;

    let Some(current) = current.to_str() else { return Vec::new() };
    // The completer is not told the other arguments, but they are those of this process.
    let can_be_opened = |path: &Path| path.is_file() || path.is_dir();
    let paths = std::env::args_os().skip(1).filter(|argument| can_be_opened(Path::new(argument)));
    let files: Vec<File> = paths.filter_map(|path| File::open(path).ok()).collect();
    let names = files.iter().flat_map(File::tensors).map(|tensor| tensor.name());
    let names = names.filter(|name| name.starts_with(current) && is_plain(name));
    // Several files have the same names.
    let names: IndexSet<&str> = names.take(SHOWN).collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns whether a name means itself to a shell, which inserts it as it is: a name in a file may be a command.
fn is_plain(name: &str) -> bool {
    let is_first = |char: char| char.is_alphanumeric() || char == '_';
    let is_plain = |char: char| is_first(char) || "-./:@+".contains(char);
    name.starts_with(is_first) && name.chars().all(is_plain)
}
