//! Shell completion of tensor names, metadata keys and dtypes.

use std::ffi::OsStr;
use std::path::Path;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use indexmap::IndexSet;

use tensorfile::cast::Caster;
use tensorfile::{Dtype, File};

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

/// Completes `OLD=NEW`: OLD is the name of a tensor of the files on the command line, and NEW begins as the same.
pub fn tensor_name_and_new() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let files = files();
        let names = || files.iter().flat_map(File::tensors).map(|tensor| tensor.name());
        match current.to_str().and_then(|current| current.split_once('=')) {
            Some((old, _)) => {
                offer("", current, names().filter(|name| *name == old).map(|name| format!("{name}={name}")))
            }
            None => offer("", current, names().map(|name| format!("{name}="))),
        }
    })
}

/// Completes a key of the metadata of the files on the command line. A value follows if there is an `end`.
pub fn metadata_key(end: &'static str) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let metadata = files().into_iter().filter_map(|file| file.metadata().ok());
        offer("", current, metadata.flat_map(|metadata| metadata.entries.into_keys()).map(|key| format!("{key}{end}")))
    })
}

/// Completes `TO` and `FROM=TO`, for possible casts.
pub fn dtype_rule() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let numbers = || Dtype::ALL.iter().filter(|dtype| dtype.is_float() || dtype.is_integer());
        let text = current.to_str().unwrap_or_default();
        // Rules are separated by commas, and the last one is completed.
        let (before, rule) = text.split_at(text.rfind(',').map_or(0, |comma| comma + 1));
        let Some((from, _)) = rule.rsplit_once('=') else {
            return offer(before, current, numbers().map(|to| to.name().to_owned()));
        };
        let dtype = from.parse::<Dtype>();
        let fits = |to: Dtype| match dtype {
            Ok(dtype) => to != dtype && Caster::new(dtype, to).is_ok(),
            // The names of tensors.
            Err(_) => true,
        };
        offer(before, current, numbers().filter(|to| fits(**to)).map(|to| format!("{from}={to}")))
    })
}

fn names(current: &OsStr) -> Vec<CompletionCandidate> {
    let files = files();
    offer("", current, files.iter().flat_map(File::tensors).map(|tensor| tensor.name().to_owned()))
}

/// Opens the files on the command line.
fn files() -> Vec<File> {
    // The completer does not get the other arguments, but they are in the arguments of this process.
    let can_be_opened = |path: &Path| path.is_file() || path.is_dir();
    let paths = std::env::args_os().skip(1).filter(|argument| can_be_opened(Path::new(argument)));
    paths.filter_map(|path| File::open(path).ok()).collect()
}

/// Returns the distinct texts that continue the typed text after `before`, and are safe to insert.
fn offer(before: &str, current: &OsStr, texts: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    /// More would fill the terminal.
    const SHOWN: usize = 1000;

    let Some(current) = current.to_str().and_then(|current| current.strip_prefix(before)) else { return Vec::new() };
    let texts = texts.filter(|text| text.starts_with(current) && is_plain(text));
    // Several files have the same names.
    let texts: IndexSet<String> = texts.take(SHOWN).collect();
    texts.into_iter().map(|text| CompletionCandidate::new(format!("{before}{text}"))).collect()
}

/// Returns whether a shell takes a text literally: a name in a file may be a command.
fn is_plain(name: &str) -> bool {
    let is_first = |char: char| char.is_alphanumeric() || char == '_';
    let is_plain = |char: char| is_first(char) || "-./:@+=".contains(char);
    name.starts_with(is_first) && name.chars().all(is_plain)
}
