//! safetensors (`.safetensors`): named tensors after a JSON header, as Hugging Face stores models.
//!
//! ```text
//! header: u64 | {"__metadata__":{…},"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},…} | blank… | data
//! ```
//!
//! All numbers are little-endian, elements are in row-major order, and data offsets count from the end of the header,
//! which blanks bring to a multiple of 8. The data has no gaps: the first tensor begins at the start of the data, each
//! other tensor at the end of another, and the last tensor ends with the file.
//!
//! # Specification
//!
//! The README of [safetensors](https://github.com/huggingface/safetensors), and its Rust crate, here called the crate.
//!
//! # Names
//!
//! Any string but `__metadata__`, the key of the metadata: [`metadata`] reads it, [`Options::metadata`] writes it.
//!
//! # Deviations
//!
//! - The crate sorts tensors on write: wide dtypes first, so that each tensor is aligned, then by name. So do we if the
//!   value has several dtypes. A value of one dtype keeps its order, as each tensor is aligned anyway. A value with an
//!   unknown dtype keeps its order too, and any value with [`Options::keep_order`]. Gaps are forbidden, so a tensor
//!   after narrower elements may then begin at any byte. Readers copy such a tensor into an array, but cannot borrow
//!   it.
//! - The crate writes its metadata in any order. We write it sorted, so that the same value makes the same file.
//! - The specification forbids two entries of one name. The crate takes the last, also of two metadata entries. Both
//!   are errors here.
//! - The crate takes `"__metadata__": null` for no metadata, and so do we.
//! - The specification requires a header to begin with `{`. The crate also reads blanks before it, we do not.
//! - The specification makes a tensor's entry an object. The crate also reads an array of the three values, we do not.
//! - The crate multiplies dim by dim, so it refuses a shape such as `[2^40, 2^40, 0]`. We read such a shape, and do not
//!   write it.
//! - We read tensors in the order of their data, even if the header has another. In the crate they have no order.
//!
//! # Limits
//!
//! A header has up to 100 million bytes, as in the crate. Tensors cannot share bytes: tied ones are stored once for
//! each name. Sparse tensors and blobs cannot be stored.

mod de;
mod header;
mod scan;
mod ser;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub(super) use self::de::read as read_index;
pub use self::header::DTYPES;
use crate::error::Result;
use crate::format::{self, Format, HasFormat, WritesFormat, known};
use crate::limits::Limits;
use crate::model::FormatSpec;
use crate::storage::Slice;
use crate::write::{Encode, LentEncode, WriteOptions};

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(de::Reader::default()), encode)
    .with_metadata(de::metadata)
    .with_metadata_edits(de::rewrite_metadata)
    .with_small_files(de::small)
    .with_detection(header::looks_like);

const SPEC: FormatSpec = FormatSpec {
    keeps_metadata: |_| true,
    check_name: header::check_name,
    unknown_dtypes: Some("safetensors"),
    ..known::SAFETENSORS.spec(DTYPES)
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
    options.without_alignment(&FORMAT, "8 bytes, and packs tensors from there")?;
    let entries = options.metadata.iter();
    let mut own = Options::new().keep_order(options.keep_order);
    own.encode.empty_metadata = options.empty_metadata;
    Ok(entries.fold(own, |own, (key, value)| own.metadata(key, value)).shared_encode())
}

/// Serializes a value into a safetensors file in memory, as [`Options::to_vec`] does.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, safetensors};
///
/// let file = safetensors::to_vec(&BTreeMap::from([("bias", TensorView::from_slice(&[1.0_f32, 2.0], [2])?)]))?;
/// assert!(file[8..].starts_with(br#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#));
/// let tensors: BTreeMap<String, TensorView> = safetensors::from_slice(&file)?;
/// assert_eq!(*tensors["bias"].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    defaults().to_vec(value)
}

/// Serializes a value to a writer as a safetensors file, as [`Options::to_writer`] does.
///
/// A value of several dtypes is sorted as it is written. Up to 16 MiB of early tensors are held; for the others the
/// value is serialized again, about once for each dtype if its names are sorted. [`Options::keep_order`] writes any
/// value in one go.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    defaults().to_writer(writer, value)
}

/// Deserializes a value from a safetensors file in memory, as [`Options::from_slice`] does.
///
/// # Errors
///
/// Besides those of every format:
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside the header or a tensor.
/// - [`ErrorKind::BadMagic`](crate::ErrorKind::BadMagic): the header does not begin with `{`.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the header is not JSON of the specified form, or the file
///   has bytes that belong to no tensor.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): the header is too short or too long, or a tensor does not
///   begin where the one before it ends.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    defaults().from_slice(file)
}

/// Deserializes a value from a reader of a safetensors file, as [`Options::from_reader`] does.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    defaults().from_reader(reader)
}

/// Reads the metadata of a file in memory, in the order of the file. The whole header is checked.
///
/// ```
/// use tensorfile::{TensorMap, safetensors};
///
/// let file = safetensors::Options::new().metadata("format", "pt").to_vec(&TensorMap::new())?;
/// assert_eq!(safetensors::metadata(&file)?["format"], "pt");
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`from_slice`], if the file is malformed.
pub fn metadata(file: &[u8]) -> Result<IndexMap<String, String>> {
    let metadata = de::metadata(&mut Slice::new(file), &Limits::default());
    metadata.map(|metadata| metadata.entries).map_err(|error| error.in_format(FORMAT.name))
}

/// Options for reading and writing safetensors files.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, safetensors};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let options = safetensors::Options::new().metadata("format", "pt").metadata("author", "me");
/// let file = options.to_vec(&BTreeMap::from([("bias", bias)]))?;
/// assert!(file[8..].starts_with(br#"{"__metadata__":{"author":"me","format":"pt"},"bias":{"dtype":"F32","#));
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Options = format::Options<ser::Encode>;

impl Options {
    /// Adds an entry to the metadata, or replaces the entry of the same key.
    ///
    /// Python's libraries put `pt`, `tf`, `np`, … under `format`, and some of them refuse files without it.
    ///
    /// ```
    /// use tensorfile::{TensorMap, safetensors};
    ///
    /// let options = safetensors::Options::new().metadata("format", "pt").metadata("step", "1000");
    /// let file = options.to_vec(&TensorMap::new())?;
    /// assert_eq!(safetensors::metadata(&file)?["step"], "1000");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.encode.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets whether to write tensors of several dtypes in the order of the value. By default they are sorted, wide
    /// dtypes first and then by name, so that each tensor is aligned and can be borrowed.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{Tensor, TensorMap, safetensors};
    ///
    /// let map = TensorMap::from_iter([("mask", Tensor::from(array![1_u8])), ("bias", Tensor::from(array![0.5_f32]))]);
    /// let sorted: TensorMap = safetensors::from_slice(&safetensors::to_vec(&map)?)?;
    /// assert!(sorted.names().eq(["bias", "mask"]));
    /// let kept: TensorMap = safetensors::from_slice(&safetensors::Options::new().keep_order(true).to_vec(&map)?)?;
    /// assert!(kept.names().eq(["mask", "bias"]));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn keep_order(mut self, keep: bool) -> Self {
        self.encode.keep_order = keep;
        self
    }
}
