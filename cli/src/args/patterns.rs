//! Patterns and directories of input files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hashbrown::HashSet;
use tensorfile::FORMATS;
use tensorfile::file::FolderFiles;
use tensorfile_datasets::locations;

use super::opening::options;
use crate::exit::{At, Failure, Outcome};
use crate::output::note;

/// Replaces patterns by the paths and URLs that they stand for, and directories by the tensor files in them, in the
/// order of their names.
pub fn expand(paths: &[PathBuf]) -> Vec<Outcome<PathBuf>> {
    let mut expanded = Vec::with_capacity(paths.len());
    let matches = paths.iter().flat_map(|path| match matching(path) {
        Ok(matches) => matches.into_iter().map(Ok).collect(),
        Err(failure) => vec![Err(failure)],
    });
    for path in matches {
        let path = match path {
            Ok(path) if path.is_dir() => path,
            other => {
                expanded.push(other);
                continue;
            }
        };
        match options().tensor_files(&path).at(&path) {
            // The library explains the contents.
            Ok(found) if found.files.is_empty() => expanded.push(Ok(path)),
            Ok(found) => {
                note_left_out(&path, &found);
                expanded.extend(found.files.into_iter().map(Ok));
            }
            Err(failure) => expanded.push(Err(failure)),
        }
    }
    if expanded.len() > 1 {
        let paths: Vec<PathBuf> = expanded.iter().flatten().cloned().collect();
        let others = other_parts(&paths);
        expanded.retain(|path| path.as_ref().map_or(true, |path| !others.contains(path)));
    }
    expanded
}

/// Returns the paths and URLs that a pattern stands for, such as `train-{000..123}.tar`, which a shell passes on where
/// it is quoted, or is none of Unix. A path that is not a pattern, or exists, stands for itself.
fn matching(path: &Path) -> Outcome<Vec<PathBuf>> {
    // Patterns are texts.
    let Some(pattern) = path.to_str() else { return Ok(vec![path.to_owned()]) };
    let found = locations(pattern).map_err(|error| Failure::from_shards(path, &error))?;
    Ok(found.into_iter().map(PathBuf::from).collect())
}

/// Prints which files of a directory are not read, and where the model is if they are not of one.
fn note_left_out(folder: &Path, found: &FolderFiles) {
    /// A command can look at its folders more than once.
    static NOTED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

    if !NOTED.lock().expect("no thread panics with it").insert(folder.to_owned()) {
        return;
    }
    let folder = folder.display();
    if let Some(model) = &found.model {
        note(format_args!("{folder}: the files in it are not the model, which is in {}", model.display()));
    }
    let [first, rest @ ..] = &found.left_out[..] else { return };
    let name = first.file_name().unwrap_or_default().display();
    let others = match rest.len() {
        0 => String::new(),
        1 => " and 1 other file".to_owned(),
        others => format!(" and {others} other files"),
    };
    note(format_args!("{folder}: left out `{name}`{others}, of other formats or without tensors"));
}

/// Replaces patterns and directories as [`expand`] does, but not a directory with a checkpoint in it.
pub fn expand_joined(paths: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    // A checkpoint that cannot be opened is not a folder of files.
    let is_one = |path: &Path| path.is_dir() && !options().open(path).is_err_and(|error| error.is_without_checkpoint());
    let expanded = paths.iter().map(|path| {
        if is_one(path) {
            Ok(vec![path.clone()])
        } else {
            expand(std::slice::from_ref(path)).into_iter().collect::<Outcome<Vec<_>>>()
        }
    });
    Ok(expanded.collect::<Outcome<Vec<_>>>()?.concat())
}

/// Returns the files opened together with the first part of their model, if it is among `paths` too.
pub fn other_parts(paths: &[PathBuf]) -> HashSet<PathBuf> {
    let is_first = |path: &&PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.contains("-00001-of-") && path.is_file()
    };
    let parts = paths.iter().filter(is_first).filter_map(|path| options().open(path).ok());
    parts.flat_map(|file| file.shards().iter().skip(1).cloned().collect::<Vec<_>>()).collect()
}

/// Returns whether a path has the extension of a format.
pub fn has_extension(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    FORMATS.iter().flat_map(|format| format.extensions).any(|own| extension.eq_ignore_ascii_case(own))
}
