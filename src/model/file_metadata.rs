use std::ops::Range;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use crate::error::Warning;

/// Information in a file besides its tensors, in any format.
///
/// ```
/// use tensorfile::{File, TensorMap, tensorbuffers};
///
/// let file = tensorbuffers::Options::new().model("MiniLM").to_vec(&TensorMap::new())?;
/// let metadata = File::from_bytes(file)?.metadata()?;
/// for (key, value) in &metadata.entries {
///     println!("{key} = {value}");
/// }
/// assert_eq!(metadata.entries["model"], "MiniLM");
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FileMetadata {
    /// The version of the format, if the file states one.
    pub version: Option<String>,
    /// Entries about the tensors as a whole, such as `model`. They can be written to another file with
    /// [`WriteOptions::metadata`](crate::WriteOptions::metadata).
    pub entries: IndexMap<String, String>,
    /// Whether the file states that it has no entries: `"__metadata__": {}` in safetensors, whose own software tells it
    /// from a file that does not speak of metadata.
    pub has_no_entries: bool,
    /// The distinct layout numbers of the sparse tensors in a BTF file: 1 in TFRT's code, 2 in the specification.
    pub coo_layouts: Vec<u8>,
    /// Oddities of a readable file.
    pub warnings: Vec<Warning>,
    /// The entries with their types, if the format has types.
    pub(crate) typed: Option<Arc<Vec<TypedEntry>>>,
    /// What the folder of a trainer has besides tensors.
    pub(crate) saved: Option<Arc<SavedValues>>,
}

/// The values of a folder that a trainer saved, so that another folder can have them too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SavedValues {
    /// The place of each tensor and each object in the value that was saved, by name.
    pub(crate) paths: IndexMap<String, Vec<PathPart>>,
    /// Values that are not tensors, as they are stored.
    pub(crate) objects: IndexMap<String, Vec<u8>>,
}

/// A step of a path into nested dicts and lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathPart {
    /// A key of a dict.
    Key(String),
    /// A position in a list.
    Position(u64),
}

/// The place of a file among the files of a model, if stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePart {
    /// The number of the file, from 0 on.
    pub index: u64,
    /// The number of files.
    pub count: u64,
    /// The number of tensors in all files.
    pub tensors: Option<u64>,
}

/// The layout number of sparse tensors in the code of the TensorFlow Runtime.
pub(crate) const COO_OF_TFRT: u8 = 1;

/// An entry of metadata as the bytes of its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedEntry {
    pub(crate) key: String,
    /// The value in [`FileMetadata::entries`].
    pub(crate) text: String,
    /// The number of its type.
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Changes to the entries of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetadataChanges {
    pub(crate) set: IndexMap<String, String>,
    pub(crate) unset: IndexSet<String>,
}

impl MetadataChanges {
    /// Changes entries. New ones come last.
    pub(crate) fn apply(&self, entries: &mut IndexMap<String, String>) {
        entries.retain(|key, _| !self.unset.contains(key));
        entries.extend(self.set.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// A file with changed metadata.
#[derive(Debug)]
pub struct Rewritten {
    /// The bytes before the tensors.
    pub(crate) begin: Vec<u8>,
    /// The range of the old file to keep.
    pub(crate) kept: Range<u64>,
    /// The bytes after the tensors.
    pub(crate) end: Vec<u8>,
}

impl FileMetadata {
    /// Returns whether an entry is a value of the folder of a trainer, or a part of one, that another such folder can
    /// have: see [`WriteOptions::keep_metadata`](crate::WriteOptions::keep_metadata).
    #[must_use]
    pub fn has_value(&self, key: &str) -> bool {
        let Some(saved) = &self.saved else { return false };
        let ends = key.match_indices('.').map(|(end, _)| end).chain([key.len()]);
        ends.into_iter().any(|end| saved.objects.contains_key(&key[..end]))
    }

    pub(crate) fn add_coo_layout(&mut self, layout: u8) {
        if let Err(i) = self.coo_layouts.binary_search(&layout) {
            self.coo_layouts.insert(i, layout);
        }
    }
}
