//! Edits the metadata of a file without decoding its tensors.

use std::io::Write;
use std::path::Path;

use indexmap::IndexMap;

use super::File;
use crate::error::{ErrorKind, NameList, Result};
use crate::format::FORMATS;
use crate::model::{MetadataChanges, Rewritten};
use crate::storage::{FileReader, replace};
use crate::tensor::checked_io::write_all;

/// Changes to the metadata of a file. Its tensors stay unchanged.
///
/// The bytes of the tensors are copied in pieces, for all dtypes, and keep their order and alignment. Unchanged entries
/// keep their order and, in GGUF, their types; new ones come last.
/// [`Format::edits_metadata`](crate::Format::edits_metadata) lists the formats.
///
/// ```
/// use tensorfile::file::MetadataEdit;
/// use tensorfile::{File, TensorMap, safetensors};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// tensorfile::save(&path, &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
/// MetadataEdit::new().set("author", "me").save(&File::open(&path)?, &path)?;
/// assert_eq!(File::open(&path)?.metadata()?.entries["author"], "me");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetadataEdit {
    changes: MetadataChanges,
}

impl MetadataEdit {
    /// No changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry, or gives it another value.
    ///
    /// In GGUF, an existing entry keeps its type, and the value must fit it. A new entry is a string.
    ///
    /// ```
    /// use tensorfile::file::MetadataEdit;
    /// use tensorfile::{File, TensorMap, safetensors};
    ///
    /// let file = File::from_bytes(safetensors::to_vec(&TensorMap::new())?)?;
    /// let mut edited = Vec::new();
    /// MetadataEdit::new().set("format", "pt").to_writer(&file, &mut edited)?;
    /// assert_eq!(safetensors::metadata(&edited)?["format"], "pt");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.changes.set.insert(key.into(), value.into());
        self
    }

    /// Removes an existing entry.
    ///
    /// ```
    /// use tensorfile::file::MetadataEdit;
    /// use tensorfile::{File, TensorMap, safetensors};
    ///
    /// let file = safetensors::Options::new().metadata("format", "pt").to_vec(&TensorMap::new())?;
    /// let file = File::from_bytes(file)?;
    /// let error = MetadataEdit::new().unset("fromat").to_writer(&file, &mut Vec::new()).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "safetensors: cannot remove the metadata `fromat`; the file has no such entry, but `format`"
    /// );
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn unset(mut self, key: impl Into<String>) -> Self {
        self.changes.unset.insert(key.into());
        self
    }

    /// Returns the entries of a file after the changes.
    ///
    /// ```
    /// use tensorfile::file::MetadataEdit;
    /// use tensorfile::{File, TensorMap, safetensors};
    ///
    /// let file = File::from_bytes(safetensors::to_vec(&TensorMap::new())?)?;
    /// assert_eq!(MetadataEdit::new().set("format", "pt").entries(&file)?["format"], "pt");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_writer`](Self::to_writer), with nothing written.
    pub fn entries(&self, file: &File) -> Result<IndexMap<String, String>> {
        self.rewrite(file)?;
        let mut entries = file.metadata()?.entries;
        self.changes.apply(&mut entries);
        Ok(entries)
    }

    /// Writes the changed file to a path, possibly its own.
    ///
    /// The path is written as [`save`](crate::save()) does: on success the file is complete and on disk, and on failure
    /// the old file is unchanged. Programs that change a file concurrently should hold its
    /// [`FileLock`](crate::file::atomic::FileLock) from before they open it.
    ///
    /// ```
    /// use tensorfile::file::MetadataEdit;
    /// use tensorfile::{File, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// tensorfile::save(&path, &TensorMap::new())?;
    /// let _lock = tensorfile::file::atomic::FileLock::acquire(&path)?;
    /// MetadataEdit::new().set("author", "me").save(&File::open(&path)?, &path)?;
    /// assert_eq!(File::open(&path)?.metadata()?.entries["author"], "me");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_writer`](Self::to_writer), and [`ErrorKind::Io`](crate::ErrorKind::Io) if the file could not be renamed.
    pub fn save(&self, file: &File, path: impl AsRef<Path>) -> Result<()> {
        let rewritten = self.rewrite(file)?;
        replace(path.as_ref(), |out| write(file, &rewritten, out))
    }

    /// Writes the file with the changes.
    ///
    /// ```
    /// use tensorfile::file::MetadataEdit;
    /// use tensorfile::{File, TensorMap, safetensors};
    ///
    /// let file = File::from_bytes(safetensors::to_vec(&TensorMap::new())?)?;
    /// let mut edited = Vec::new();
    /// MetadataEdit::new().set("format", "pt").to_writer(&file, &mut edited)?;
    /// assert_eq!(safetensors::metadata(&edited)?["format"], "pt");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the metadata of this format cannot be edited; the
    ///   file is an index of shards; an entry to remove is missing; or a value does not fit the type of its entry.
    /// - [`ErrorKind::UnsupportedMetadata`](crate::ErrorKind::UnsupportedMetadata): the format has no place for a key.
    /// - [`ErrorKind::Io`](crate::ErrorKind::Io): reading or writing failed.
    pub fn to_writer(&self, file: &File, mut out: impl Write) -> Result<()> {
        let rewritten = self.rewrite(file)?;
        write(file, &rewritten, &mut out)
    }

    fn rewrite(&self, file: &File) -> Result<Rewritten> {
        self.try_rewrite(file).map_err(|error| file.place(error))
    }

    /// Checks the changes, and makes the bytes of the file except its tensors.
    fn try_rewrite(&self, file: &File) -> Result<Rewritten> {
        let unsupported = |what: String, instead: String| Err(ErrorKind::Unsupported { what, instead }.into());
        if file.path().is_some_and(|path| file.shards().iter().any(|shard| shard == path)) {
            let instead = "merge them into one file first".to_owned();
            return unsupported("edit the metadata of a model in several files".to_owned(), instead);
        }
        if !file.shards().is_empty() {
            let instead = "the files that it lists can be edited one by one".to_owned();
            return unsupported("edit the metadata of an index of shards".to_owned(), instead);
        }
        let MetadataChanges { set, unset } = &self.changes;
        let Some(rewrite) = file.format().metadata.rewrite else {
            let formats = FORMATS.iter().filter(|format| format.edits_metadata()).map(|format| format.name);
            let formats = formats.collect::<Vec<_>>().join(", ");
            return unsupported(
                format!("edit the metadata of a {} file", file.format().name),
                if formats.is_empty() {
                    "no format of this build can".to_owned()
                } else {
                    format!("that of {formats} can be")
                },
            );
        };
        if let Some(key) = set.keys().find(|key| !file.format().keeps_metadata(key)) {
            return Err(file.format().no_place_for_metadata(key).into());
        }
        if let Some(key) = set.keys().find(|key| unset.contains(*key)) {
            return unsupported(format!("set the metadata `{key}`"), "it is removed too".to_owned());
        }
        let entries = file.untyped_metadata()?.entries;
        if let Some(key) = unset.iter().find(|key| !entries.contains_key(*key)) {
            return unsupported(format!("remove the metadata `{key}`"), not_there(key, &entries));
        }
        rewrite(&mut FileReader::new(&file.storage), &file.limits, &self.changes)
    }
}

fn not_there(key: &str, entries: &IndexMap<String, String>) -> String {
    match ErrorKind::by_similarity(key, entries.keys().cloned().collect()) {
        keys if keys.is_empty() => "the file has none".to_owned(),
        keys => NameList { lead: "the file has no such entry, but ", names: &keys, others: 0 }.to_string(),
    }
}

fn write(file: &File, rewritten: &Rewritten, out: &mut dyn Write) -> Result<()> {
    let Rewritten { begin, kept, end } = rewritten;
    write_all(out, begin)?;
    let copied = file.storage.copy_to(kept.start, kept.end - kept.start, out);
    copied.map_err(|error| file.place(error.into()))?;
    write_all(out, end)?;
    Ok(out.flush()?)
}
