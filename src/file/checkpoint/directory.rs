//! Finds the file to open for a directory, or for the name of a file that was saved in shards.
//!
//! Hugging Face's libraries save a model to a directory and load it from there, under fixed names. A cache of
//! `huggingface_hub` links these names to the files. Trainers save a directory with a file for each process.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::error::Result;

/// The suffix that turns the name of a file in shards into the name of their index.
pub(in crate::file) const INDEX_EXTENSION: &str = ".index.json";

/// The metadata of a folder that a trainer saved.
pub(in crate::file) const METADATA: &str = ".metadata";

/// The metadata while the folder is not complete.
pub(in crate::file) const UNFINISHED_METADATA: &str = ".metadata.tmp";

/// Returns whether a name is that of metadata while the folder is not complete, of one job or several.
pub(super) fn is_unfinished_metadata(name: &Path) -> bool {
    let name = name.as_os_str().as_encoded_bytes();
    name.starts_with(b".metadata.") && (name.ends_with(b".tmp") || name.ends_with(b".part"))
}

/// The extension of the other files in a trainer's folder.
pub(super) const ITEMS_EXTENSION: &str = "distcp";

/// The first byte of a pickle.
pub(in crate::file) const PICKLE: u8 = 0x80;

/// The file names to open in a directory. The first match counts, as in `transformers`.
pub(in crate::file) const NAMES: [&str; 4] =
    ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"];

/// The file or files to open in place of a path.
pub(in crate::file) enum Instead {
    File(PathBuf),
    /// The names of a directory's files, one for each process of a trainer.
    #[cfg(feature = "safetensors")]
    RankFiles(Vec<String>),
}

/// Returns the path of the index of shards, given the path they were saved to.
pub(in crate::file) fn index_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(INDEX_EXTENSION);
    path.with_file_name(name)
}

/// Returns whether a path ends like the name of an index of shards.
pub(in crate::file) fn is_index_name(path: &Path) -> bool {
    path.file_name().unwrap_or_default().as_encoded_bytes().ends_with(INDEX_EXTENSION.as_bytes())
}

/// Returns what to open for a directory that is a checkpoint itself.
pub(in crate::file) fn own_checkpoint(folder: &Path) -> Result<Option<Instead>> {
    let paths = || NAMES.iter().map(|name| folder.join(name));
    // The error of opening a dangling link says more than "no checkpoint".
    let is_dangling = |path: &PathBuf| path.is_symlink() && !path.exists();
    if let Some(found) = paths().find(|path| path.is_file()).or_else(|| paths().find(is_dangling)) {
        return Ok(Some(Instead::File(found)));
    }
    let saved = folder.join(METADATA);
    // Other software also uses this file name.
    if begins_as_pickle(&saved) {
        return Ok(Some(Instead::File(saved)));
    }
    #[cfg(feature = "safetensors")]
    if let names = super::rank_files::in_folder(folder)?
        && !names.is_empty()
        && !file_names(folder)?.iter().any(|name| is_unfinished_metadata(name))
    {
        return Ok(Some(Instead::RankFiles(names)));
    }
    Ok(None)
}

/// Returns whether a directory is a checkpoint itself.
pub(super) fn is_checkpoint(folder: &Path) -> bool {
    own_checkpoint(folder).is_ok_and(|found| found.is_some())
}

pub(in crate::file) fn begins_as_pickle(path: &Path) -> bool {
    let mut begin = [0];
    let mut read = || fs::File::open(path)?.read_exact(&mut begin);
    path.is_file() && read().is_ok() && begin == [PICKLE]
}

/// Returns the names in a directory, in order.
pub(in crate::file) fn file_names(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into()));
    let mut names = names.collect::<io::Result<Vec<PathBuf>>>()?;
    names.sort_unstable();
    Ok(names)
}
