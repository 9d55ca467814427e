//! TensorBuffers (`.tbs`): named dense tensors, and their metadata behind them as a flatbuffer.
//!
//! ```text
//! "TBS1" | elements… | metadata | length of the metadata: u32 | "TBS1"
//! metadata  = 0 version: string | 1 model: string | 2 tensors: [tensor] | 3 operations: [operation]
//! tensor    = 0 id: u64 (key) | 1 name: string | 2 shape: [u32] | 3 dtype: i8 | 4 offset: u32 | 5 bytes: u32
//! operation = 0 id: u64 (key) | 1 operation: i8 | 2 output: u64 | 3 inputs: [u64]
//! ```
//!
//! The metadata is a FlatBuffers table, of which the numbers above are the fields. All numbers are little-endian,
//! elements are in row-major order, and offsets count from the start of the file.
//!
//! # Specification
//!
//! `docs/data_format.md` and `schema.fbs` of the `tensorbuffers` project, and its Rust code, here called the reference.
//! Ours is `schema.fbs` beside this file.
//!
//! # Names
//!
//! Any name is stored, so structs are read by name. A tensor's id is [a hash of its name](id). Names are found by
//! comparing names: ids need not be those of the names, which [`metadata`] tells of, and need not be in order.
//!
//! # Deviations
//!
//! - The reference finds a tensor by a binary search for its id, but its writer does not sort: it misses tensors in its
//!   own files. Tensors and operations are written sorted by id, and read in any order. They come in the order of their
//!   data.
//! - The reference packs tensors, so that elements lie at any byte. Each tensor is padded to 64 bytes, and so is what
//!   lies before the metadata; [`Options::alignment`] of 1 packs. Any place is read, with gaps, and with several
//!   tensors in one place.
//! - The reference stores offsets past 4 GiB wrapped around. Tensors that end there are refused before anything is
//!   written.
//! - The reference ignores the version and the magic at the end. The version must be 1.x, and both magics must be
//!   there.
//! - The reference's schema lets the shape be missing, its reader does not. It must be there; it is empty at rank 0.
//! - Ids that occur twice, tensors that overlap or reach into the metadata, the dtype 0 and a length that is not that
//!   of dtype and shape are errors.
//! - The numbers of the operations are passed on, also those that the reference does not have.
//!
//! # Streams
//!
//! The metadata is at the end: what comes from a reader is held in memory whole before the first value is made. Then it
//! is let go of as far as the tensors before are read, so that no more than a tensor is held twice where values ask for
//! the tensors in the order of the file.
//!
//! # Limits
//!
//! A tensor ends below 4 GiB, a dim is below 2³², and the metadata below 2 GiB.
//!
//! # Appending
//!
//! [`append`](fn@append) adds tensors to a file, by writing a new one beside it that then takes its name.

mod append;
mod de;
mod entries;
#[rustfmt::skip]
#[allow(
    unsafe_code,
    dead_code,
    missing_docs,
    missing_debug_implementations,
    unused_qualifications,
    clippy::all,
    clippy::unwrap_used,
    reason = "flatc makes it, so it is as it is; it accesses what the verifier has checked"
)]
mod generated;
mod header;
mod metadata;
mod ser;

use std::path::Path;

use serde::Serialize;

#[doc(hidden)]
pub use self::de::Walk;
pub(super) use self::entries::options;
pub use self::header::{DTYPES, id};
pub use self::metadata::{Metadata, Operation, metadata};
#[doc(hidden)]
pub use self::ser::Encode;
use super::{Format, Magic, face, functions};
use crate::error::Result;
use crate::limits::Limits;

/// The format in [`FORMATS`](crate::FORMATS).
pub(super) const FORMAT: Format = Format {
    name: "tensorbuffers",
    extensions: &["tbs"],
    dtypes: DTYPES,
    max_rank: None,
    max_name: None,
    max_tensors: None,
    sparse: false,
    magics: &[Magic { offset: 0, bytes: &header::MAGIC }],
    functions: functions!(entries::file_metadata, entries::keeps, None),
};

face!("TensorBuffers", "tensorbuffers");

/// Adds the tensors of a value to an existing file.
///
/// The file is replaced by a new one that is written beside it and reaches the disk first: whatever happens, the path
/// leads to the old file or to the new one, whole. The tensors that it has are copied as they are, and so are its model
/// and operations. Permissions are kept, and links followed. A process that is killed can leave its unfinished file
/// behind, as `.NAME.….tmp`. Two that append to one file at the same time must take turns, or the tensors of one are
/// lost.
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
/// As [`from_slice`] where the file is malformed, and as [`to_vec`];
/// [`ErrorKind::DuplicateName`](crate::ErrorKind::DuplicateName): the file has a tensor of that
/// name; [`ErrorKind::Io`](crate::ErrorKind::Io). Then the file is what it was.
pub fn append<T: Serialize + ?Sized>(path: impl AsRef<Path>, value: &T) -> Result<()> {
    Options::new().append(path, value)
}

/// How files are written and read.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, tensorbuffers};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let file = tensorbuffers::Options::new().alignment(1).to_vec(&BTreeMap::from([("bias", bias)]))?;
/// assert_eq!(file[4..8], 0.5_f32.to_le_bytes());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    encode: Encode,
    limits: Limits,
}

impl Options {
    /// Where tensors begin, and the metadata: at multiples of so many bytes, a power of two. Default: 64.
    ///
    /// With 1 they are packed as the reference packs them. Then most cannot be borrowed from the file, as their
    /// elements are not aligned.
    #[must_use]
    pub fn alignment(mut self, bytes: u64) -> Self {
        self.encode.alignment = bytes;
        self
    }

    /// The name of the model. Default: none, or the one in the file that is appended to.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.encode.model = Some(model.into());
        self
    }

    /// The graph of computations. Default: none, or the one in the file that is appended to.
    ///
    /// It is written sorted by id, by which the reference looks operations up.
    #[must_use]
    pub fn operations(mut self, operations: impl Into<Vec<Operation>>) -> Self {
        self.encode.operations = Some(operations.into());
        self
    }

    /// Takes over the model and the operations of another file, so that a file that is read and written again keeps
    /// them.
    ///
    /// ```
    /// use tensorfile::{TensorMap, tensorbuffers};
    ///
    /// let file = tensorbuffers::Options::new().model("MiniLM").to_vec(&TensorMap::new())?;
    /// let map: TensorMap = tensorbuffers::from_slice(&file)?;
    /// let options = tensorbuffers::Options::new().keep(&tensorbuffers::metadata(&file)?);
    /// assert_eq!(options.to_vec(&map)?, file);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn keep(mut self, metadata: &Metadata) -> Self {
        self.encode.model.clone_from(&metadata.model);
        self.operations(metadata.operations.clone())
    }

    /// As [`append`](fn@append).
    ///
    /// # Errors
    ///
    /// As [`append`](fn@append).
    pub fn append<T: Serialize + ?Sized>(&self, path: impl AsRef<Path>, value: &T) -> Result<()> {
        append::append(path.as_ref(), value, &self.encode, &self.limits)
    }
}
