//! Binary Tensor Format (`.btf`): unnamed dense or sparse tensors behind an offset table.
//!
//! ```text
//! count: u64 | offset: u64 × count | record…
//! record = rank: u64 | dtype: u8 | layout: u8 | 0: u8 × 6 | payload | 0 up to a multiple of 8
//! payload = dim: u64 × rank | elements                                                                (dense)
//!         | dim: u64 × rank | n: u64 | rank: u64 | index: u64 × rank × n | n: u64 | element × n       (COO)
//! ```
//!
//! All numbers are little-endian, elements are in row-major order, and offsets count from the start of the file.
//!
//! # Specification
//!
//! `documents/binary_tensor_format.md` of the TensorFlow Runtime (TFRT), and its `include/tfrt/tensor/btf.h`.
//!
//! # Names
//!
//! The format has none. A value is written depth first in the order of its fields, and read back by position: dtypes and shapes are checked at every step, and
//! tell which `Option`s are there and how long lists are. Where they leave a choice, the answer is [`ErrorKind::Ambiguous`](crate::ErrorKind::Ambiguous), not a guess.
//! [`Options::embed_names`] adds a last tensor of bytes that holds all names, which every reader of the format can read and ours understands.
//!
//! # Deviations
//!
//! - The document lists the dtypes 0 to 5, TFRT's code also 6 to 9, unsigned integers. All ten are read and written.
//! - The document gives COO the layout number 2, TFRT's code 1. Both are read; 2 is written, or 1 with [`Options::tfrt_coo`].
//! - The document says nothing about the order of records. They are read in any order, with gaps between them and with offsets that two tensors share, as TFRT does; they
//!   are written in order and adjacent, the last one padded too, as TFRT does.
//! - Old writers left garbage in the six reserved bytes. Any are read, zeros are written.
//! - TFRT crashes on, or misreads, dims that overflow and offsets that point outside of the file. These are errors, and so are records that overlap, offsets into the
//!   offset table, and dims above 2⁶³ − 1, which TFRT takes for negative.
//! - TFRT's inspector does not compare COO indices with the dims. An index outside is an error.

mod de;
mod header;
mod ser;

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

pub use self::de::Walk;
pub use self::header::DTYPES;
pub use self::ser::Encode;
use super::{Format, functions};
use crate::error::Result;
use crate::limits::Limits;
use crate::wire;

/// The format in [`FORMATS`](crate::FORMATS).
pub(super) const FORMAT: Format = Format {
    name: "btf",
    extensions: &["btf"],
    dtypes: DTYPES,
    max_rank: None,
    max_name: Some(0),
    sparse: true,
    functions: functions!(),
};

/// A serde serializer that writes a BTF file by its [`Plan`].
///
/// ```
/// use serde::Serialize;
/// use tensorfile::{TensorView, btf};
///
/// let tensors = [TensorView::from_slice(&[1.0_f32, 2.0], [2])?];
/// let plan = btf::plan(&tensors)?;
/// let mut serializer = btf::Serializer::new(Vec::new(), plan);
/// tensors.serialize(&mut serializer)?;
/// assert_eq!(serializer.end()?, btf::to_vec(&tensors)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Serializer<W> = crate::model::Serializer<wire::Pour<W, Encode>>;

/// A serde deserializer that reads a BTF file; `B` is where the bytes come from.
///
/// ```
/// use serde::Deserialize;
/// use tensorfile::{TensorMap, btf};
///
/// let file = btf::to_vec(&TensorMap::new())?;
/// let mut deserializer = btf::Deserializer::from_slice(&file);
/// let map = TensorMap::deserialize(&mut deserializer)?;
/// deserializer.end()?;
/// assert!(map.is_empty());
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Deserializer<'de, B> = crate::model::Deserializer<wire::Reader<'de, B, Walk>>;

/// What a file will be, known before it is written.
pub type Plan = wire::Plan<Encode>;

/// Serializes a value into a BTF file in memory.
///
/// The file is allocated once, at its length, and each element is copied into it once.
///
/// ```
/// use tensorfile::{TensorView, btf};
///
/// let file = btf::to_vec(&TensorView::from_slice(&[1_i32, 2], [2])?)?;
/// assert_eq!(file.len(), 16 + 24 + 8);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): a tensor that the format cannot store, such as one of `bf16`.
/// - [`ErrorKind::NotATensor`](crate::ErrorKind::NotATensor): a part of the value that is no tensor, such as a string.
/// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the value, which is serialized twice, was not the same the second time.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    Options::new().to_vec(value)
}

/// Serializes a value into a writer as a BTF file.
///
/// The value is serialized twice: for the lengths, which the file begins with, and for the elements. Nothing is held in memory
/// but the heads of the tensors, and the writer need not seek. Small writes are gathered, large ones passed on as they are.
///
/// # Errors
///
/// As [`to_vec`]; then nothing has been written, but for `Changed`. [`ErrorKind::Io`](crate::ErrorKind::Io): the writer failed.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    Options::new().to_writer(writer, value)
}

/// Deserializes a value from a BTF file held in memory.
///
/// Tensors of `T` may borrow from `file`: views do, owned arrays are copied once. Without embedded names structs are filled by position.
///
/// ```
/// use tensorfile::{btf, TensorView};
///
/// let file = btf::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [1, 2])?])?;
/// let tensors: Vec<TensorView> = btf::from_slice(&file)?;
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

/// Deserializes a value from a reader that yields a BTF file.
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
/// use tensorfile::{TensorMap, TensorView, btf};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let file = btf::Options::new().embed_names(true).to_vec(&BTreeMap::from([("bias", bias)]))?;
/// let map: TensorMap = btf::from_slice(&file)?;
/// assert!(map.get("bias").is_some());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    encode: Encode,
    limits: Limits,
}

impl Options {
    /// The defaults: no names, COO with layout number 2, the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to write all names into one more tensor at the end.
    ///
    /// It is a vector of `u8` that begins with `tensorfile.names.v1`, NUL; then come the names in the order of the tensors, each with a NUL behind it.
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        self.encode.embed_names = embed;
        self
    }

    /// Whether to write sparse tensors with the layout number of TFRT's code, 1, instead of the specification's, 2.
    #[must_use]
    pub fn tfrt_coo(mut self, tfrt: bool) -> Self {
        self.encode.tfrt_coo = tfrt;
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
