//! A format as data: its specification, and its functions for reading, writing and recognizing files.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use hashbrown::HashSet;

use crate::error::Result;
use crate::limits::Limits;
use crate::model::{
    FileMetadata, FormatSpec, MetadataChanges, Rewritten, TensorRecord, TensorSink, Tensors, TypedEntry, ValueTree,
};
use crate::read::{IndexReader, ReadSmall, Reading};
use crate::storage::ReadAt;
use crate::write::{Encode, WriteOptions, is_position};

/// A file format: what it can store, and how to read and write it.
///
/// The formats of this crate are in [`FORMATS`](crate::FORMATS). A format of your own is a `static` made with
/// [`Format::new`], to be passed to [`OpenOptions::format`](crate::OpenOptions::format) and
/// [`SaveOptions::format`](crate::SaveOptions::format); `examples/own_format.rs` is one.
///
/// ```
/// use tensorfile::{Dtype, Format, TensorMap, WriteOptions};
///
/// let ten = Format::named("ten").expect("it is always there");
/// assert!(ten.dtypes.contains(&Dtype::F16) && ten.stores_name("weight") && !ten.stores_name("encoder.weight"));
/// let file = ten.to_vec(&TensorMap::from_iter([("weight", ndarray::array![1.0_f32])]), &WriteOptions::new())?;
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Format {
    pub(crate) reading: Reading,
    pub(crate) encode: fn(&WriteOptions) -> Result<Arc<dyn Encode>>,
    pub(crate) metadata: MetadataFunctions,
    pub(crate) looks_like: Option<fn(&mut dyn ReadAt) -> bool>,
    pub(crate) check_others: Option<CheckOthers>,
    pub(crate) value_tree: Option<ReadValueTree>,
}

/// How metadata is read with its types, and changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataFunctions {
    pub(crate) read_typed: Option<ReadTyped>,
    pub(crate) rewrite: Option<Rewrite>,
}

/// A format's function for reading typed metadata.
pub(crate) type ReadTyped = fn(&mut dyn ReadAt, &Limits) -> Result<Vec<TypedEntry>>;

/// A format's function for comparing the checksums of everything except tensors, which start at the given offsets.
pub(crate) type CheckOthers = fn(&mut dyn ReadAt, &Limits, &HashSet<u64>) -> Result<()>;

/// A format's function for reading the whole value of a file.
pub(crate) type ReadValueTree = fn(&mut dyn ReadAt, &Limits) -> Result<ValueTree>;

/// A format's function for making a file with different metadata.
pub(crate) type Rewrite = fn(&mut dyn ReadAt, &Limits, &MetadataChanges) -> Result<Rewritten>;

impl Format {
    /// A format. `index_reader` makes a reader of a file's index. `encode` makes a writer with the given options, and
    /// refuses unsupported options.
    #[must_use]
    pub const fn new(
        spec: FormatSpec,
        index_reader: fn() -> Box<dyn IndexReader>,
        encode: fn(&WriteOptions) -> Result<Arc<dyn Encode>>,
    ) -> Self {
        Self {
            reading: Reading { spec, index_reader, metadata: |_, _| Ok(FileMetadata::default()), small: None },
            encode,
            metadata: MetadataFunctions { read_typed: None, rewrite: None },
            looks_like: None,
            check_others: None,
            value_tree: None,
        }
    }

    /// Returns what the format can store.
    #[must_use]
    pub const fn spec(&self) -> &FormatSpec {
        &self.reading.spec
    }

    /// Sets the function that reads metadata.
    #[must_use]
    pub const fn with_metadata(mut self, read: fn(&mut dyn ReadAt, &Limits) -> Result<FileMetadata>) -> Self {
        self.reading.metadata = read;
        self
    }

    /// Sets the function that reads typed metadata.
    pub(crate) const fn with_typed_metadata(mut self, read: ReadTyped) -> Self {
        self.metadata.read_typed = Some(read);
        self
    }

    /// Sets the function that makes a file with different metadata.
    pub(crate) const fn with_metadata_edits(mut self, rewrite: Rewrite) -> Self {
        self.metadata.rewrite = Some(rewrite);
        self
    }

    /// Sets the function that compares the checksums of everything except tensors.
    pub(crate) const fn with_checksums(mut self, check: CheckOthers) -> Self {
        self.check_others = Some(check);
        self
    }

    /// Sets the function that reads the whole value of a file.
    pub(crate) const fn with_value_tree(mut self, read: ReadValueTree) -> Self {
        self.value_tree = Some(read);
        self
    }

    /// Sets the function that finds the tensors of a small file.
    pub(crate) const fn with_small_files(mut self, read: ReadSmall) -> Self {
        self.reading.small = Some(read);
        self
    }

    /// Sets the function that recognizes files without a magic, or with a weak one.
    #[must_use]
    pub const fn with_detection(mut self, looks_like: fn(&mut dyn ReadAt) -> bool) -> Self {
        self.looks_like = Some(looks_like);
        self
    }

    /// Returns whether the metadata of a file can be changed by a [`MetadataEdit`](crate::file::MetadataEdit).
    #[must_use]
    pub fn edits_metadata(&self) -> bool {
        self.metadata.rewrite.is_some()
    }

    /// Returns whether files hold values besides tensors, which [`File::value_tree`](crate::File::value_tree) reads.
    /// Their texts in the metadata are left out where a format has no place for them.
    ///
    /// ```
    /// # #[cfg(feature = "pytorch")]
    /// assert!(tensorfile::pytorch::FORMAT.has_values());
    /// assert!(!tensorfile::ten::FORMAT.has_values());
    /// ```
    #[must_use]
    pub fn has_values(&self) -> bool {
        self.value_tree.is_some()
    }

    /// Returns whether a tensor's name can be stored, if it is not just a position.
    ///
    /// ```
    /// use tensorfile::Format;
    ///
    /// let ten = Format::named("ten").expect("it is always there");
    /// assert!(ten.stores_name("weight"));
    /// assert!(!ten.stores_name("encoder.weight"));
    /// ```
    #[must_use]
    pub fn stores_name(&self, name: &str) -> bool {
        self.has_room_for(name) && (self.check_name)(name).is_ok()
    }

    /// Returns whether some name needs embedding, in a format that supports it, because it would be lost or is too
    /// long.
    pub(crate) fn needs_embedded_names(&self, tensors: &dyn Tensors) -> Result<bool> {
        if self.max_name.is_none() || !self.embeds_names {
            return Ok(false);
        }
        let mut names = UnstoredNames { format: self, tensors: 0, found: false };
        tensors.send(&mut names)?;
        Ok(names.found)
    }

    /// Returns whether a name is short enough to be stored without embedding. With a limit of 0, an empty name is not
    /// stored either; in other formats an empty name may mean none.
    pub(crate) fn has_room_for(&self, name: &str) -> bool {
        let Some(most) = self.max_name else { return true };
        // A name can be stored in fewer bytes than it has here.
        let stored = || (self.encode)(&WriteOptions::new()).is_ok_and(|encode| encode.name_bytes(name) <= most);
        match name.len() {
            0 => most > 0 && (self.check_name)("").is_ok(),
            len => len <= most || most > 0 && stored(),
        }
    }
}

/// Looks for names too long for the format.
struct UnstoredNames<'f> {
    format: &'f Format,
    tensors: usize,
    found: bool,
}

impl TensorSink for UnstoredNames<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        // Asking about a long name makes an encoder, so one is enough.
        self.found = self.found || !is_position(tensor.name, self.tensors) && !self.format.has_room_for(tensor.name);
        self.tensors += 1;
        Ok(())
    }

    fn needs_names(&mut self) {
        // Where there is room for names, positions are stored as names.
        self.found = self.found || self.format.max_name == Some(0);
    }
}

impl Deref for Format {
    type Target = FormatSpec;

    fn deref(&self) -> &FormatSpec {
        self.spec()
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}
