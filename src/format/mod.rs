//! The formats, the table of them, and what a format of your own implements.

mod descriptor;
mod detect;
mod embedded;
mod file_names;
mod known;
mod options;

pub mod btf;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "npy")]
mod numpy;
#[cfg(feature = "ptd")]
pub mod ptd;
#[cfg(feature = "ptd")]
pub(crate) mod pte;
#[cfg(all(feature = "npz", feature = "safetensors"))]
pub(crate) mod ptn;
#[cfg(feature = "pytorch")]
pub mod pytorch;
#[cfg(feature = "safetensors")]
pub mod safetensors;
pub mod ten;
#[cfg(feature = "tensorbuffers")]
pub mod tensorbuffers;

use std::io::{Read, Write};
use std::path::Path;

use crate::error::Result;
use crate::limits::Limits;
use crate::model::{Store, Tensors};
use crate::read::foreign;
use crate::tensor::TensorMap;
use crate::write;

pub use crate::error::cannot_store;
pub use crate::find::Deserializer;
pub use crate::model::{FormatSpec, Magic, Serializer};
pub use crate::read::{Cursor, Index, IndexReader};
pub use crate::storage::ReadAt;
pub use crate::write::{
    Encode, FileLayout, FileWriter, IoSlices, NamePolicy, Output, Plan, PlanWriter, Planned, PlannedIter,
    PlannedTensors, Sharing, WriteOptions,
};
#[doc(hidden)]
pub use crate::write::{SmallFile, SmallFormat, SmallTensors};
pub(crate) use descriptor::CheckOthers;
pub use descriptor::Format;
pub use embedded::EmbeddedName;
pub use options::{HasFormat, Options, WritesFormat};

#[cfg(feature = "npy")]
pub use numpy::npy;
#[cfg(feature = "npz")]
pub use numpy::npz;

pub(crate) use detect::{
    by_extension, detect, has_known_extension, has_magic, misnamed_as, recognize, recognize_begin, unknown,
};
pub(crate) use file_names::{is_ambiguous, is_of_other_kind, is_training_state, may_have_tensors};

/// All formats of this crate.
///
/// ```
/// use tensorfile::{FORMATS, Tensor, TensorMap, WriteOptions};
///
/// let map: TensorMap = [("0", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
/// for format in FORMATS {
///     let file = format.to_vec(&map, &WriteOptions::new())?;
///     assert_eq!(format.from_slice(&file)?, map, "{}", format.name);
/// }
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub const FORMATS: &[&Format] = &[
    &btf::FORMAT,
    &ten::FORMAT,
    #[cfg(feature = "ptd")]
    &ptd::FORMAT,
    #[cfg(feature = "tensorbuffers")]
    &tensorbuffers::FORMAT,
    #[cfg(feature = "safetensors")]
    &safetensors::FORMAT,
    #[cfg(feature = "npy")]
    &npy::FORMAT,
    #[cfg(feature = "npz")]
    &npz::FORMAT,
    #[cfg(feature = "pytorch")]
    &pytorch::FORMAT,
    #[cfg(feature = "gguf")]
    &gguf::FORMAT,
];

/// The formats that are only read, besides [`FORMATS`]: the programs of ExecuTorch and its packages.
///
/// ```
/// use tensorfile::format::READ_FORMATS;
///
/// assert!(READ_FORMATS.iter().all(|format| format.read_only));
/// assert!(READ_FORMATS.iter().any(|format| format.name == "pte"));
/// ```
pub const READ_FORMATS: &[&Format] = &[
    #[cfg(feature = "ptd")]
    &pte::FORMAT,
    #[cfg(all(feature = "npz", feature = "safetensors"))]
    &ptn::FORMAT,
];

/// Returns the error for a file to write in a format that is only read.
pub(crate) fn only_read(format: &str) -> crate::error::Error {
    let (what, instead) = (format!("write {format} files"), "ExecuTorch makes them; they are only read".to_owned());
    crate::error::ErrorKind::Unsupported { what, instead }.into()
}

/// The error for a folder that a trainer saved.
#[cfg(not(feature = "pytorch"))]
pub(crate) fn saved_folder_off() -> crate::error::Error {
    known::PYTORCH.feature_off()
}

/// The error for an index of shards.
#[cfg(not(feature = "safetensors"))]
pub(crate) fn shards_off() -> crate::error::Error {
    crate::error::ErrorKind::FeatureOff { format: "sharded", feature: known::SAFETENSORS.name }.into()
}

impl Format {
    /// Returns a format by name, if this crate has it.
    ///
    /// ```
    /// use tensorfile::Format;
    ///
    /// assert_eq!(Format::named("ten").unwrap().extensions, ["ten"]);
    /// assert!(Format::named("tin").is_none());
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().chain(READ_FORMATS).copied().find(|format| format.name == name)
    }

    /// Returns the format in which a new file at a path is saved, by its extension.
    ///
    /// ```
    /// use std::path::Path;
    /// use tensorfile::Format;
    ///
    /// let format = Format::for_path(Path::new("model.ptd")).expect("the feature `ptd` is on by default");
    /// assert_eq!(format.name, "ptd");
    /// assert!(Format::for_path(Path::new("model.txt")).is_none());
    /// ```
    #[must_use]
    pub fn for_path(path: &Path) -> Option<&'static Self> {
        by_extension(path).ok()
    }

    /// Writes tensors to a file in memory.
    ///
    /// ```
    /// use tensorfile::{Tensor, TensorMap, WriteOptions, ten};
    ///
    /// let map: TensorMap = [("bias", Tensor::from_slice(&[1.0_f32], [1])?)].into_iter().collect();
    /// assert_eq!(ten::FORMAT.to_vec(&map, &WriteOptions::new())?, ten::to_vec(&map)?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_writer`](Self::to_writer).
    pub fn to_vec(&self, tensors: &dyn Tensors, options: &WriteOptions) -> Result<Vec<u8>> {
        write::to_vec(tensors, &(self.encode)(options)?)
    }

    /// Writes tensors to a writer.
    ///
    /// ```
    /// use tensorfile::{Tensor, TensorMap, WriteOptions, btf};
    ///
    /// let map: TensorMap = [("bias", Tensor::from_slice(&[1.0_f32], [1])?)].into_iter().collect();
    /// let mut file = Vec::new();
    /// btf::FORMAT.to_writer(&mut file, &map, &WriteOptions::new().embed_names(true))?;
    /// assert_eq!(btf::FORMAT.from_slice(&file)?, map);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the format does not have such an option, or cannot
    ///   store the metadata or one of the tensors.
    /// - [`ErrorKind::RepeatedName`](crate::ErrorKind::RepeatedName): two tensors have the same name, and the format
    ///   stores names.
    /// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the tensors are sent twice, and the results differed.
    /// - [`ErrorKind::Io`](crate::ErrorKind::Io): writing failed.
    pub fn to_writer(&self, mut out: impl Write, tensors: &dyn Tensors, options: &WriteOptions) -> Result<()> {
        write::to_writer(&mut out, tensors, &(self.encode)(options)?)
    }

    /// Writes tensors to a file in memory, reusing its allocation. `file` is replaced by the file; after an error it is
    /// empty.
    ///
    /// ```
    /// use tensorfile::{Tensor, TensorMap, WriteOptions, ten};
    ///
    /// let map: TensorMap = [("bias", Tensor::from_slice(&[1.0_f32], [1])?)].into_iter().collect();
    /// let mut file = Vec::new();
    /// ten::FORMAT.to_vec_into(&mut file, &map, &WriteOptions::new())?;
    /// assert_eq!(file, ten::to_vec(&map)?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_writer`](Self::to_writer).
    pub fn to_vec_into(&self, file: &mut Vec<u8>, tensors: &dyn Tensors, options: &WriteOptions) -> Result<()> {
        file.clear();
        write::to_vec_into(file, tensors, &(self.encode)(options)?)
    }

    /// Writes a value to a file in slices, for a socket or another writer with vectored writes. Payloads are borrowed
    /// from the value as far as the value [lends](Store::borrow_payloads) them.
    ///
    /// ```
    /// use tensorfile::{Tensor, TensorMap, WriteOptions, ten};
    ///
    /// let map: TensorMap = [("bias", Tensor::from_slice(&[1.0_f32; 1000], [1000])?)].into_iter().collect();
    /// let file = ten::FORMAT.to_io_slices(&map, &WriteOptions::new())?;
    /// assert_eq!((file.as_slices().len(), file.file_bytes()), (3, ten::to_vec(&map)?.len() as u64));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_writer`](Self::to_writer).
    pub fn to_io_slices<'a, T: Store + ?Sized>(&self, value: &'a T, options: &WriteOptions) -> Result<IoSlices<'a>> {
        write::to_io_slices(value, (self.encode)(options)?)
    }

    /// Returns the length in bytes of the file that [`to_writer`](Self::to_writer) would write.
    ///
    /// ```
    /// use tensorfile::{Tensor, TensorMap, WriteOptions, ten};
    ///
    /// let map: TensorMap = [("bias", Tensor::from_slice(&[1.0_f32], [1])?)].into_iter().collect();
    /// assert_eq!(ten::FORMAT.file_bytes(&map, &WriteOptions::new())?, 160);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`to_writer`](Self::to_writer), except errors of the writer.
    pub fn file_bytes(&self, tensors: &dyn Tensors, options: &WriteOptions) -> Result<u64> {
        Plan::new(tensors, (self.encode)(options)?).map(|plan| plan.file_bytes())
    }

    /// Reads all tensors of a file in memory.
    ///
    /// ```
    /// use tensorfile::{Tensor, TensorMap, ten};
    ///
    /// let map: TensorMap = [("bias", Tensor::from_slice(&[1.0_f32], [1])?)].into_iter().collect();
    /// assert_eq!(ten::FORMAT.from_slice(&ten::to_vec(&map)?)?, map);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// By [`category`](crate::Error::category): `File` if the file is malformed, `Limit` if it exceeds the default
    /// [`Limits`].
    pub fn from_slice(&self, file: &[u8]) -> Result<TensorMap> {
        let read = read(Deserializer::with_slice(&self.reading, file, Limits::default()));
        read.map_err(|error| foreign::or_other(error.in_format(self.name), self, file))
    }

    /// Reads all tensors of a file from a reader.
    ///
    /// ```
    /// use tensorfile::{Tensor, TensorMap, ten};
    ///
    /// let map: TensorMap = [("bias", Tensor::from_slice(&[1.0_f32], [1])?)].into_iter().collect();
    /// assert_eq!(ten::FORMAT.from_reader(&ten::to_vec(&map)?[..])?, map);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`from_slice`](Self::from_slice), and [`ErrorKind::Io`](crate::ErrorKind::Io) if reading fails.
    pub fn from_reader(&self, reader: impl Read) -> Result<TensorMap> {
        read(Deserializer::with_reader(&self.reading, reader, Limits::default()))
            .map_err(|error| error.in_format(self.name))
    }
}

impl<'de> Deserializer<'de> {
    /// A deserializer of a file in memory.
    #[must_use]
    pub fn from_slice(format: &'de Format, file: &'de [u8]) -> Self {
        Self::with_slice(&format.reading, file, Limits::default())
    }

    /// A deserializer of a stream.
    pub fn from_reader(format: &'de Format, reader: impl Read + 'de) -> Self {
        Self::with_reader(&format.reading, reader, Limits::default())
    }
}

fn read(mut deserializer: Deserializer<'_>) -> Result<TensorMap> {
    let map = deserializer.load()?;
    deserializer.end()?;
    Ok(map)
}
