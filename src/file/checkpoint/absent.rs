//! The errors for a directory without a checkpoint, and for a file that is only a part of one.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::directory::{
    ITEMS_EXTENSION, Instead, METADATA, NAMES, file_names, index_of, is_index_name, is_unfinished_metadata,
    own_checkpoint,
};
use super::trainers::{ModelPlace, find_model};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{is_training_state, may_have_tensors};
use crate::storage::{refused_scheme, unknown_scheme};

/// Returns the file to open instead, after opening `path` failed with `error`.
pub(in crate::file) fn instead_of(path: &Path, error: &io::Error) -> Result<Option<Instead>> {
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

fn in_directory(folder: &Path) -> Result<Instead> {
    if let Some(found) = own_checkpoint(folder)? {
        return Ok(found);
    }
    let saved = folder.join(METADATA);
    if folder.join("data.pkl").is_file() && folder.join("data").is_dir() {
        let name = folder.file_name().unwrap_or_default().display().to_string();
        let name = if name.is_empty() { "checkpoint" } else { &name };
        let message = format!(
            "is a checkpoint of PyTorch that was unzipped, with `data.pkl` and `data/`; zip it again, without compression: \
             `zip -0 -r {name}.pt {name}` next to it"
        );
        return Err(no_checkpoint(message));
    }
    let others = tensor_files(folder)?;
    if others.is_empty() && saved.is_file() {
        return Ok(Instead::File(saved));
    }
    if let Some(name) = file_names(folder)?.iter().find(|name| is_unfinished_metadata(name)) {
        let name = name.display();
        let message =
            format!("is a folder of a trainer that was not saved whole: it has `{name}` until all ranks are saved");
        return Err(no_checkpoint(message));
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
        return Err(no_checkpoint(message));
    }
    let mut message = without_checkpoint("directory");
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
    } else {
        message += &instead(&named);
    }
    Err(no_checkpoint(message))
}

/// Returns the error for a folder without a checkpoint. [`Error::is_without_checkpoint`] recognizes it.
fn no_checkpoint(message: String) -> Error {
    io::Error::new(io::ErrorKind::IsADirectory, message).into()
}

fn without_checkpoint(folder: &str) -> String {
    let [file, _, pickle, _] = NAMES;
    format!("is a {folder} without `{file}` or `{pickle}`, or an index of its shards")
}

/// Returns the end of a message that names the files to open in the folder.
fn instead(files: &[&PathBuf]) -> String {
    let [first, rest @ ..] = files else { return String::new() };
    let end = match rest.len() {
        0 => String::new(),
        1 => " or the other tensor file".to_owned(),
        others => format!(" or one of {others} others"),
    };
    format!("; open `{}` in it{end}", first.display())
}

/// Returns the error for a folder on a server with these files, but without a checkpoint.
pub(in crate::file) fn no_checkpoint_among(names: &[String]) -> Error {
    let names: Vec<PathBuf> = names.iter().map(PathBuf::from).filter(|name| looks_like_tensors(name)).collect();
    let models: Vec<&PathBuf> = names.iter().filter(|name| !name.to_str().is_some_and(is_training_state)).collect();
    no_checkpoint(without_checkpoint("folder") + &instead(&models))
}

/// Returns the error for opening a single file of a trainer's folder.
pub(super) fn only_in_folder(path: &Path) -> Option<Error> {
    (path.extension()? == ITEMS_EXTENSION).then(|| {
        let what = "read one file of a folder that a trainer saved".to_owned();
        let instead = format!("open the folder: its `{METADATA}` says what is in the files");
        ErrorKind::Unsupported { what, instead }.into()
    })
}

/// Returns the names of the files in a directory that look like tensor files, in order.
fn tensor_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = file_names(folder)?;
    names.retain(|name| looks_like_tensors(name) && folder.join(name).is_file());
    Ok(names)
}

/// Returns whether a name looks like a tensor file. An index stands for its shards.
fn looks_like_tensors(name: &Path) -> bool {
    may_have_tensors(name) && !name.to_string_lossy().contains("-of-") || is_index_name(name)
}

#[cfg(all(test, not(feature = "safetensors")))]
mod tests {
    use std::fs;

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
