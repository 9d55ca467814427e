//! Paths that are not those of a file: the directory of a checkpoint, and the name of a file that is saved in shards.
//!
//! Hugging Face's libraries save a model to a directory and load it from there, under fixed names. A cache of
//! `huggingface_hub` links these names to the files. Trainers save a directory of the files of all processes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::trainers::{ModelPlace, find_model};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{is_training_state, may_have_tensors};
use crate::storage::{refused_scheme, unknown_scheme};

/// The end of the name of an index of shards, after the name of the file that is in shards.
pub(super) const INDEX_EXTENSION: &str = ".index.json";

/// The metadata of a folder that a trainer saved.
pub(super) const METADATA: &str = ".metadata";

/// The extension of the other files of such a folder.
const ITEMS_EXTENSION: &str = "distcp";

/// The first byte of a pickle.
pub(super) const PICKLE: u8 = 0x80;

/// The file names to open in a directory. The first match counts, as in `transformers`.
const NAMES: [&str; 4] =
    ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"];

/// What is opened instead of a path.
pub(super) enum Instead {
    File(PathBuf),
    /// The files of the processes of a trainer, in the directory.
    #[cfg(feature = "safetensors")]
    RankFiles(Vec<PathBuf>),
}

/// Returns what to open after opening `path` failed with `error`.
pub(super) fn instead_of(path: &Path, error: &io::Error) -> Result<Option<Instead>> {
    // Some systems report a different error for a directory.
    if path.is_dir() {
        return in_directory(path).map(Some);
    }
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    if let Some(url) = unknown_scheme(path).filter(|_| is_missing) {
        return Err(refused_scheme(url));
    }
    Ok(is_missing.then(|| index_of(path)).filter(|index| index.is_file()).map(Instead::File))
}

/// Returns the path of the index of a file that is in shards.
pub(super) fn index_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(INDEX_EXTENSION);
    path.with_file_name(name)
}

/// Returns whether a path is that of an index of shards.
pub(super) fn is_index_name(path: &Path) -> bool {
    path.file_name().unwrap_or_default().as_encoded_bytes().ends_with(INDEX_EXTENSION.as_bytes())
}

/// Returns what to open for a directory that is a checkpoint itself.
pub(super) fn own_checkpoint(folder: &Path) -> Result<Option<Instead>> {
    let paths = || NAMES.iter().map(|name| folder.join(name));
    // The error of opening a dangling link says more than "no checkpoint".
    let is_dangling = |path: &PathBuf| path.is_symlink() && !path.exists();
    if let Some(found) = paths().find(|path| path.is_file()).or_else(|| paths().find(is_dangling)) {
        return Ok(Some(Instead::File(found)));
    }
    let saved = folder.join(METADATA);
    // Other software has files of this name, too.
    if begins_as_pickle(&saved) {
        return Ok(Some(Instead::File(saved)));
    }
    #[cfg(feature = "safetensors")]
    if let paths = super::rank_files::in_folder(folder)?
        && !paths.is_empty()
    {
        return Ok(Some(Instead::RankFiles(paths)));
    }
    Ok(None)
}

/// Returns whether a directory is a checkpoint itself.
pub(super) fn is_checkpoint(folder: &Path) -> bool {
    own_checkpoint(folder).is_ok_and(|found| found.is_some())
}

fn in_directory(folder: &Path) -> Result<Instead> {
    if let Some(found) = own_checkpoint(folder)? {
        return Ok(found);
    }
    let saved = folder.join(METADATA);
    let [file, _, pickle, _] = NAMES;
    if folder.join("data.pkl").is_file() && folder.join("data").is_dir() {
        let name = folder.file_name().unwrap_or_default().display().to_string();
        let name = if name.is_empty() { "checkpoint" } else { &name };
        let message = format!(
            "is a checkpoint of PyTorch that was unzipped, with `data.pkl` and `data/`; zip it again, without compression: \
             `zip -0 -r {name}.pt {name}` next to it"
        );
        return Err(io::Error::new(io::ErrorKind::IsADirectory, message).into());
    }
    let others = tensor_files(folder)?;
    if others.is_empty() && saved.is_file() {
        return Ok(Instead::File(saved));
    }
    let is_of_trainer = |name: &&PathBuf| name.extension() == Some(OsStr::new(ITEMS_EXTENSION));
    if others.is_empty()
        && let Some(name) = file_names(folder)?.iter().find(is_of_trainer)
    {
        let name = name.display();
        let message = format!(
            "is a folder of a trainer that did not finish, or was not copied whole: it has `{name}`, but no `{METADATA}`, which \
             is saved last"
        );
        return Err(io::Error::new(io::ErrorKind::IsADirectory, message).into());
    }
    let mut message = format!("is a directory without `{file}` or `{pickle}`, or an index of its shards");
    let is_model = |name: &&PathBuf| !name.to_str().is_some_and(is_training_state);
    let models: Vec<&PathBuf> = others.iter().filter(is_model).collect();
    let place = find_model(folder).filter(|place| place.trainer.is_some() || models.is_empty());
    let named = if models.is_empty() { others.iter().collect() } else { models };
    if let Some(ModelPlace { trainer, path, others, hint }) = place {
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let has_path = path.is_some();
        let open = path.map(|path| format!("; open `{}` in it", path.display())).unwrap_or_default();
        let has = match others {
            0 => "which has the model".to_owned(),
            1 => "which has a part of the model, as has another file".to_owned(),
            others => format!("which has a part of the model, as have {others} other files"),
        };
        message = match trainer {
            Some(trainer) if has_path => format!("is a folder of {trainer}{open}, {has}{hint}"),
            Some(trainer) => format!("is a folder of {trainer} without a file of the whole model{hint}"),
            None => format!("{message}{open}, {has}{hint}"),
        };
    } else if let [first, rest @ ..] = &named[..] {
        let end = match rest.len() {
            0 => String::new(),
            1 => " or the other tensor file".to_owned(),
            others => format!(" or one of {others} others"),
        };
        message += &format!("; open `{}` in it{end}", first.display());
    }
    Err(io::Error::new(io::ErrorKind::IsADirectory, message).into())
}

pub(super) fn begins_as_pickle(path: &Path) -> bool {
    let mut begin = [0];
    let mut read = || fs::File::open(path)?.read_exact(&mut begin);
    path.is_file() && read().is_ok() && begin == [PICKLE]
}

/// Returns the error for a file of a trainer's folder that is opened by itself.
pub(super) fn only_in_folder(path: &Path) -> Option<Error> {
    (path.extension()? == ITEMS_EXTENSION).then(|| {
        let what = "read one file of a folder that a trainer saved".to_owned();
        let instead = format!("open the folder: its `{METADATA}` says what is in the files");
        ErrorKind::Unsupported { what, instead }.into()
    })
}

/// Returns the names of the files in a directory that look like tensor files, in order. An index stands for its shards.
fn tensor_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_shard = |name: &OsStr| name.to_string_lossy().contains("-of-");
    let mut names = file_names(folder)?;
    names.retain(|name| {
        let is_whole = may_have_tensors(name) && !is_shard(name.as_os_str());
        (is_whole || is_index_name(name)) && folder.join(name).is_file()
    });
    Ok(names)
}

/// Returns the names in a directory, in order.
pub(super) fn file_names(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into()));
    let mut names = names.collect::<io::Result<Vec<PathBuf>>>()?;
    names.sort_unstable();
    Ok(names)
}

#[cfg(all(test, not(feature = "safetensors")))]
mod tests {
    use super::*;
    use crate::file::File;

    #[test]
    fn an_index_names_the_feature_that_is_off() {
        let folder = tempfile::tempdir().unwrap();
        let index = folder.path().join("model.safetensors.index.json");
        fs::write(&index, r#"{"weight_map": {"a": "model-1.safetensors"}}"#).unwrap();
        let expected = format!("{}: sharded files need the Cargo feature `safetensors`", index.display());
        for path in [&*index, &*folder.path().join("model.safetensors"), folder.path()] {
            assert_eq!(File::open(path).unwrap_err().to_string(), expected);
        }
        let folder = tempfile::tempdir().unwrap();
        let metadata = folder.path().join(METADATA);
        fs::write(&metadata, b"\x80\x04N.").unwrap();
        let expected = format!("{}: pytorch files need the Cargo feature `pytorch`", metadata.display());
        assert_eq!(File::open(folder.path()).unwrap_err().to_string(), expected);
    }
}
