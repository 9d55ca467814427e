//! Binary Tensor Format (`.btf`): unnamed dense or sparse tensors after an offset table.
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
//! The format stores no names. A value is written depth first in field order, and read back by position: dtypes and
//! shapes are checked at every step, and decide which `Option`s are present and how long lists are. If they leave a
//! choice, the result is [`ErrorKind::Ambiguous`](crate::ErrorKind::Ambiguous), not a guess. [`Options::embed_names`]
//! adds a last tensor of bytes with all names. Other readers see it as a tensor, this crate takes the names from it. In
//! a file without names, the last tensor must not look like such a list, which is an error on write.
//!
//! # Deviations
//!
//! - The document lists the dtypes 0 to 5. TFRT's code also has 6 to 9, unsigned integers. All ten are read and
//!   written.
//! - The document gives COO the layout number 2, TFRT's code 1. Both are read. 2 is written, or 1 with
//!   [`Options::tfrt_coo`]. TFRT's code skips tensors with the number 2.
//! - The document does not mention the order of records. As in TFRT, they are read in any order, with gaps, and with
//!   offsets shared by two tensors. They are written in order and adjacent, including padding after the last one, as
//!   TFRT does.
//! - Bytes outside of all records, between them or after the last one, are ignored, as TFRT does.
//! - Old writers left garbage in the six reserved bytes. Any value is read, zeros are written.
//! - TFRT crashes on, or misreads, dims that overflow and offsets outside of the file. These are errors, and so are
//!   records that overlap, offsets into the offset table, and dims above 2⁶³ − 1, which TFRT reads as negative.
//! - TFRT's inspector does not compare COO indices with the dims. An index outside is an error.

mod de;
mod header;
mod ser;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

pub use self::header::DTYPES;
use crate::error::Result;
use crate::format::{self, Format, HasFormat, WritesFormat, known};
use crate::model::FormatSpec;
use crate::write::{Encode, LentEncode, WriteOptions};

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(de::Reader::default()), encode)
    .with_small_files(de::small)
    .with_detection(de::looks_like)
    .with_metadata(de::metadata);

const SPEC: FormatSpec = FormatSpec {
    max_dim: Some(header::MAX_DIM),
    max_name: Some(0),
    sparse: true,
    unknown_dtypes: Some("btf"),
    ..known::BTF.spec(DTYPES)
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

fn encode(options: &WriteOptions) -> Result<Arc<dyn Encode>> {
    options.only_alignment(&FORMAT, 8)?.only_metadata(&FORMAT)?;
    Ok(Options::new().embed_names(options.embeds_names()).tfrt_coo(options.tfrt_coo).shared_encode())
}

/// Serializes a value into a BTF file in memory, as [`Options::to_vec`] does.
///
/// ```
/// use tensorfile::{TensorView, btf};
///
/// let file = btf::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// assert_eq!(file.len(), 8 + 8 + (16 + 8) + 8);
/// let tensors: Vec<TensorView> = btf::from_slice(&file)?;
/// assert_eq!(*tensors[0].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    defaults().to_vec(value)
}

/// Serializes a value to a writer as a BTF file, as [`Options::to_writer`] does.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    defaults().to_writer(writer, value)
}

/// Deserializes a value from a BTF file in memory, as [`Options::from_slice`] does.
///
/// # Errors
///
/// Besides those of every format:
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside a record, or a stream inside the
///   offset table.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): the offset table is longer than the file, an offset is not
///   a multiple of 8 or points into the table, or a dim is above 2⁶³ − 1.
/// - [`ErrorKind::UnknownDtype`](crate::ErrorKind::UnknownDtype): a dtype is unknown, and where the record ends is not
///   known: it is the last one of a stream, or records are not in order.
/// - [`ErrorKind::UnknownLayout`](crate::ErrorKind::UnknownLayout): a layout is neither dense nor COO.
/// - [`ErrorKind::InvalidTensor`](crate::ErrorKind::InvalidTensor): a tensor is larger than can be addressed, or the
///   coordinates of a sparse tensor do not fit its shape or its values.
/// - [`ErrorKind::Overlap`](crate::ErrorKind::Overlap): two records share some of their bytes.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the list of embedded names is broken.
/// - [`ErrorKind::DuplicateName`](crate::ErrorKind::DuplicateName): two embedded names are the same.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    defaults().from_slice(file)
}

/// Deserializes a value from a reader of a BTF file, as [`Options::from_reader`] does.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    defaults().from_reader(reader)
}

/// Options for reading and writing BTF files.
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
pub type Options = format::Options<ser::Encode>;

impl Options {
    /// Writes all names into one more tensor at the end.
    ///
    /// It is a vector of `u8`: `tensorfile.names.v1`, NUL, then the names in the order of the tensors, each followed by
    /// a NUL.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{TensorMap, btf};
    ///
    /// let map = TensorMap::from_iter([("encoder.weight", array![1.0_f32])]);
    /// let file = btf::Options::new().embed_names(true).to_vec(&map)?;
    /// assert!(btf::from_slice::<TensorMap>(&file)?.contains("encoder.weight"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        self.encode.embed_names = embed;
        self
    }

    /// Writes sparse tensors with the layout number of TFRT's code, 1, instead of the specification's, 2.
    ///
    /// ```
    /// use tensorfile::{CooTensor, btf};
    ///
    /// let sparse = CooTensor::new([2], vec![1], vec![1.0_f32])?;
    /// let file = btf::Options::new().tfrt_coo(true).to_vec(&sparse)?;
    /// assert_eq!(file[16 + 9], 1);            // the layout number of the first record
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn tfrt_coo(mut self, tfrt: bool) -> Self {
        self.encode.tfrt_coo = tfrt;
        self
    }
}
