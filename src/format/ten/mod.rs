//! Tensors as a stream of chunks (`.ten`, "tenbin"): no count, no index, a name of up to 8 bytes each.
//!
//! ```text
//! tensor = chunk(header) | chunk(elements)
//! chunk  = "~TenBin~" | length: i64 | contents | 0 up to a multiple of 64 of the length
//! header = dtype: u8 × 8 | name: u8 × 8 | rank: i64 | dim: i64 × rank
//! ```
//!
//! All numbers are little-endian and elements are in row-major order. Dtype and name are text with NULs behind it. As a chunk takes a multiple of 64
//! bytes and 16, elements lie at multiples of 32 from the start of the stream.
//!
//! # Specification
//!
//! `webdataset.tenbin`, from which the format comes; the Go package `ten` and `tensorcom` read and write it too. In WebDataset a member `name.ten` of a tar file holds a
//! list of tensors, mostly without names.
//!
//! # Names
//!
//! A name takes up to 8 bytes. A tensor whose name is its position, as the items of a list have it, is written without one. Where no tensor of a file has a
//! name, values are found by position, as [in BTF](crate::btf#names). [`Options::embed_names`] writes names of any length into one more tensor at the end.
//!
//! # Deviations
//!
//! - The reference writers refuse rank 10 and above, the readers take it. It is read, not written.
//! - Python's writer takes ASCII names only, Go's any bytes. UTF-8 is written; what is not UTF-8 is read with escapes, `\xff`. NULs inside of a name stay, at its ends they are
//!   no part of it.
//! - Python cannot read or write `u4`, for a slip in its table, Go cannot do `f2`. Both are read and written. Python cannot read rank 0.
//! - A header whose length is not `8 × (3 + rank)`, elements that are more or fewer than the shape says, and a dim of −1, which Python takes for a wildcard, are errors.
//! - A stream that ends within a tensor is an error, and so is anything but a tensor after the last one. Padding may be of any bytes, but it must be there: without it Go
//!   drops the last tensor in silence.
//! - Python writes big-endian arrays as they are, labelled as little-endian. No reader can tell.

mod de;
mod header;
mod ser;
mod stream;

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

pub use self::de::Walk;
pub use self::header::DTYPES;
pub use self::ser::Encode;
pub use self::stream::{Decoder, Encoder};
use super::{Format, functions};
use crate::error::Result;
use crate::limits::Limits;
use crate::wire;

/// The format in [`FORMATS`](crate::FORMATS).
pub(super) const FORMAT: Format = Format {
    name: "ten",
    extensions: &["ten"],
    dtypes: DTYPES,
    max_rank: Some(header::MAX_RANK),
    max_name: Some(header::NAME),
    sparse: false,
    functions: functions!(),
};

/// A serde serializer that writes a ten file by its [`Plan`].
///
/// ```
/// use serde::Serialize;
/// use tensorfile::{TensorView, ten};
///
/// let tensors = [TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
/// let plan = ten::plan(&tensors)?;
/// let mut serializer = ten::Serializer::new(Vec::new(), plan);
/// tensors.serialize(&mut serializer)?;
/// assert_eq!(serializer.end()?, ten::to_vec(&tensors)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Serializer<W> = crate::model::Serializer<wire::Pour<W, Encode>>;

/// A serde deserializer that reads a ten file; `B` is where the bytes come from.
///
/// ```
/// use serde::Deserialize;
/// use tensorfile::{TensorMap, ten};
///
/// let file = ten::to_vec(&TensorMap::new())?;
/// let mut deserializer = ten::Deserializer::from_slice(&file);
/// let map = TensorMap::deserialize(&mut deserializer)?;
/// deserializer.end()?;
/// assert!(map.is_empty());
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Deserializer<'de, B> = crate::model::Deserializer<wire::Reader<'de, B, Walk>>;

/// What a file will be, known before it is written.
pub type Plan = wire::Plan<Encode>;

/// Serializes a value into a ten file in memory.
///
/// The file is allocated once, at its length, and each element is copied into it once.
///
/// ```
/// use tensorfile::{TensorView, ten};
///
/// let file = ten::to_vec(&TensorView::from_slice(&[1_i32, 2], [2])?)?;
/// assert_eq!(file.len(), 16 + 64 + 16 + 64);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): a tensor that the format cannot store, such as one of `bf16`, or with a name of 9 bytes.
/// - [`ErrorKind::NotATensor`](crate::ErrorKind::NotATensor): a part of the value that is no tensor, such as a string.
/// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the value, which is serialized twice, was not the same the second time.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    Options::new().to_vec(value)
}

/// Serializes a value into a writer as a ten file.
///
/// The value is serialized twice: once to see that all of it can be stored, and for the elements. Nothing is held in memory
/// but the heads of the tensors, and the writer need not seek. Small writes are gathered, large ones passed on as they are.
///
/// # Errors
///
/// As [`to_vec`]; then nothing has been written, but for `Changed`. [`ErrorKind::Io`](crate::ErrorKind::Io): the writer failed.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    Options::new().to_writer(writer, value)
}

/// Deserializes a value from a ten file held in memory.
///
/// Tensors of `T` may borrow from `file`: views do, owned arrays are copied once. Where no tensor has a name, structs are filled by position.
///
/// ```
/// use tensorfile::{ten, TensorView};
///
/// let file = ten::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [1, 2])?])?;
/// let tensors: Vec<TensorView> = ten::from_slice(&file)?;
/// assert_eq!(*tensors[0].shape(), [1, 2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// By [`category`](crate::Error::category): `File` where the file is malformed, which is checked before the first value is made, `Mismatch`
/// where it does not hold what `T` wants, and `Limit` where it passes the default [`Limits`].
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    Options::new().from_slice(file)
}

/// Deserializes a value from a reader that yields a ten file.
///
/// Elements are copied from the reader's buffer into their arrays where the file is in the order of `T`, and held in between where it is not. The
/// reader is read ahead, up to 256 KiB beyond the last tensor.
///
/// # Errors
///
/// As [`from_slice`], and [`ErrorKind::Io`](crate::ErrorKind::Io) where the reader fails.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    Options::new().from_reader(reader)
}

/// What a file will be, for [`Serializer::new`](Serializer).
///
/// # Errors
///
/// As [`to_vec`].
pub fn plan<T: Serialize + ?Sized>(value: &T) -> Result<Plan> {
    Options::new().plan(value)
}

/// How files are written and read.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorMap, TensorView, ten};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let file = ten::Options::new().embed_names(true).to_vec(&BTreeMap::from([("bias", bias)]))?;
/// let map: TensorMap = ten::from_slice(&file)?;
/// assert!(map.get("bias").is_some());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    encode: Encode,
    limits: Limits,
}

impl Options {
    /// The defaults: each name with its tensor, the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to write all names, of any length, into one more tensor at the end; the others are then written without.
    ///
    /// It is a vector of `u8` that begins with `tensorfile.names.v1`, NUL; then come the names in the order of the tensors, each with a NUL behind it.
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        self.encode.embed_names = embed;
        self
    }

    /// How much a file may ask for when it is read.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// As [`plan`](fn@plan).
    ///
    /// # Errors
    ///
    /// As [`to_vec`](fn@to_vec).
    pub fn plan<T: Serialize + ?Sized>(&self, value: &T) -> Result<Plan> {
        wire::plan(value, self.encode.clone())
    }

    /// As [`to_vec`](fn@to_vec).
    ///
    /// # Errors
    ///
    /// As [`to_vec`](fn@to_vec).
    pub fn to_vec<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>> {
        wire::to_vec(value, self.encode.clone())
    }

    /// As [`to_writer`](fn@to_writer).
    ///
    /// # Errors
    ///
    /// As [`to_writer`](fn@to_writer).
    pub fn to_writer<T: Serialize + ?Sized>(&self, writer: impl Write, value: &T) -> Result<()> {
        wire::to_writer(writer, value, self.encode.clone())
    }

    /// As [`from_slice`](fn@from_slice).
    ///
    /// # Errors
    ///
    /// As [`from_slice`](fn@from_slice).
    pub fn from_slice<'de, T: Deserialize<'de>>(&self, file: &'de [u8]) -> Result<T> {
        wire::from_slice(file, Walk::default(), self.limits.clone())
    }

    /// As [`from_reader`](fn@from_reader).
    ///
    /// # Errors
    ///
    /// As [`from_reader`](fn@from_reader).
    pub fn from_reader<T: for<'de> Deserialize<'de>>(&self, reader: impl Read) -> Result<T> {
        wire::from_reader(reader, Walk::default(), self.limits.clone())
    }
}
