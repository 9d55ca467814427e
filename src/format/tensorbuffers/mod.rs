//! TensorBuffers (`.tbs`): named dense tensors, followed by their metadata as a flatbuffer.
//!
//! ```text
//! "TBS1" | elements… | metadata | length of the metadata: u32 | "TBS1"
//! metadata  = 0 version: string | 1 model: string | 2 tensors: [tensor] | 3 operations: [operation]
//! tensor    = 0 id: u64 (key) | 1 name: string | 2 shape: [u32] | 3 dtype: i8 | 4 offset: u32 | 5 bytes: u32
//! operation = 0 id: u64 (key) | 1 operation: i8 | 2 output: u64 | 3 inputs: [u64]
//! ```
//!
//! The metadata is a FlatBuffers table with the fields numbered above. All numbers are little-endian, elements are in
//! row-major order, and offsets count from the start of the file.
//!
//! # Specification
//!
//! `docs/data_format.md` and `schema.fbs` of the `tensorbuffers` project, and its Rust code, here called the reference.
//! Our schema is `schema.fbs` next to this file.
//!
//! # Names
//!
//! Any name is stored, so structs are read by name. A tensor's id is [a hash of its name](id). Lookups compare names.
//! Ids may be wrong, as reported by [`metadata`], and in any order.
//!
//! # Deviations
//!
//! - The reference finds a tensor by a binary search for its id, but its writer does not sort: it misses tensors in its
//!   own files. Tensors and operations are written sorted by id, and read in any order. They come in the order of their
//!   data.
//! - The reference packs tensors, so elements begin at any byte. We pad each tensor to 64 bytes, and also the bytes
//!   before the metadata; an [`Options::alignment`] of 1 packs. Any offset is read, with gaps, and with several tensors
//!   at one offset.
//! - The reference stores offsets past 4 GiB wrapped around. Tensors that end there are refused before anything is
//!   written.
//! - The reference ignores the version and the magic at the end. Both magics must be present. A version other than 1.x
//!   is a [warning](crate::report::WarningKind::Version), and such a file cannot be appended to.
//! - The reference's schema lets the shape be missing, its reader does not. It must be there; it is empty at rank 0.
//! - Of several tensors with one id, the reference finds one. All are listed, with a warning. Tensors with one name are
//!   read by position: as a list, or by [`File`](crate::File) as `#0`.
//! - Tensors that overlap or reach into the metadata, and lengths that contradict dtype and shape, are errors. The
//!   dtype 0, "no dtype" in the schema, is [unknown](crate::Layout::Unknown).
//! - Operations of kinds unknown to the reference are kept.
//!
//! # Streams
//!
//! The metadata is at the end: a file from a reader is held in memory whole before the first value is made. It is freed
//! up to the next tensor to read, so at most one tensor is held twice if values ask for tensors in file order.
//!
//! # Limits
//!
//! A tensor ends below 4 GiB, a dim is below 2³², and the metadata below 2 GiB.
//!
//! # Appending
//!
//! [`append`](fn@append) adds tensors to a file, by writing a new one next to it and renaming it.

mod append;
mod de;
mod entries;
mod header;
mod metadata;
mod options;
mod ser;

use std::io::{Read, Write};
use std::path::Path;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use self::header::{DTYPES, id};
pub use self::metadata::{Metadata, Operation, metadata};
pub use self::options::Options;
use crate::error::Result;
use crate::format::{Format, HasFormat, WritesFormat, known};
use crate::model::FormatSpec;
use crate::write::LentEncode;

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format =
    Format::new(SPEC, || Box::new(de::Reader::default()), |options| Ok(entries::options(options)?.shared_encode()))
        .with_small_files(metadata::small)
        .with_metadata(entries::file_metadata)
        .with_metadata_edits(append::rewrite_metadata);

const SPEC: FormatSpec = FormatSpec {
    max_dim: Some(u32::MAX as u64),
    keeps_metadata: entries::keeps,
    unknown_dtypes: Some("tensorbuffers"),
    ..known::TENSORBUFFERS.spec(DTYPES)
};

impl HasFormat for ser::Encode {
    fn format() -> &'static Format {
        &FORMAT
    }
}

impl WritesFormat for ser::Encode {
    fn lent(&self) -> &dyn LentEncode {
        self
    }
}

// Borrowed, so that the crates of users do not compile the drop code of options.
fn defaults() -> &'static Options {
    static DEFAULTS: LazyLock<Options> = LazyLock::new(Options::new);
    &DEFAULTS
}

/// Serializes a value into a TensorBuffers file in memory, as [`Options::to_vec`] does.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, tensorbuffers};
///
/// let file = tensorbuffers::to_vec(&BTreeMap::from([("bias", TensorView::from_slice(&[1.0_f32, 2.0], [2])?)]))?;
/// assert!(file.starts_with(b"TBS1"));
/// let tensors: BTreeMap<String, TensorView> = tensorbuffers::from_slice(&file)?;
/// assert_eq!(*tensors["bias"].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    defaults().to_vec(value)
}

/// Serializes a value to a writer as a TensorBuffers file, as [`Options::to_writer`] does.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    defaults().to_writer(writer, value)
}

/// Deserializes a value from a TensorBuffers file in memory, as [`Options::from_slice`] does.
///
/// # Errors
///
/// Besides those of every format:
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file is too short for the magics and the footer.
/// - [`ErrorKind::BadMagic`](crate::ErrorKind::BadMagic): the file does not begin and end with `TBS1`.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): the metadata is longer than the file, or an offset in it is
///   wrong.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the metadata is not a flatbuffer of the schema, or a tensor
///   lies outside of the data.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    defaults().from_slice(file)
}

/// Deserializes a value from a reader of a TensorBuffers file, as [`Options::from_reader`] does.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    defaults().from_reader(reader)
}

/// Adds the tensors of a value to an existing file.
///
/// A new file is written next to the old one and flushed to disk before it replaces the old one: at any time the path
/// leads to one of them, complete. The old tensors are copied unchanged, and so are the model and the operations.
/// Permissions are kept, and links followed. Unfinished files of killed processes are removed as by
/// [`save`](crate::save()). Concurrent calls for one file wait for each other, by its
/// [lock](crate::file::atomic::FileLock); without locks, they must take turns, or tensors are lost.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorMap, TensorView, tensorbuffers};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.tbs");
/// let tensor = TensorView::from_slice(&[0.5_f32], [1])?;
/// std::fs::write(&path, tensorbuffers::to_vec(&BTreeMap::from([("weight", tensor.clone())]))?)?;
/// tensorbuffers::append(&path, &BTreeMap::from([("bias", tensor)]))?;
/// let map: TensorMap = tensorbuffers::from_slice(&std::fs::read(&path)?)?;
/// assert_eq!(map.names().collect::<Vec<_>>(), ["weight", "bias"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - As [`from_slice`], if the file is malformed, and as [`to_vec`].
/// - [`ErrorKind::RepeatedName`](crate::ErrorKind::RepeatedName): the file already has a tensor with this name.
/// - [`ErrorKind::Io`](crate::ErrorKind::Io): reading or writing failed.
///
/// After any of these, the file is unchanged.
pub fn append<T: Serialize + ?Sized>(path: impl AsRef<Path>, value: &T) -> Result<()> {
    Options::new().append(path, value)
}
