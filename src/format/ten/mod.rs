//! Tensors as a stream of chunks (`.ten`, "tenbin"): no count, no index, a name of up to 8 bytes each.
//!
//! ```text
//! tensor = chunk(header) | chunk(elements)
//! chunk  = "~TenBin~" | length: i64 | contents | 0 up to a multiple of 64 of the length
//! header = dtype: u8 × 8 | name: u8 × 8 | rank: i64 | dim: i64 × rank
//! ```
//!
//! All numbers are little-endian and elements are in row-major order. Dtype and name are text, filled up with NULs. As
//! a chunk takes a multiple of 64 bytes and 16, elements begin at multiples of 32 from the start of the stream.
//!
//! # Specification
//!
//! `webdataset.tenbin`, the origin of the format. The Go package `ten` and `tensorcom` read and write it too. In
//! WebDataset a member `name.ten` of a tar file holds a list of tensors, mostly without names.
//!
//! # Names
//!
//! A name takes up to 8 bytes. A tensor named by its position, such as a list item, is written without a name, unless
//! the value has parts that store nothing and could then not be told from missing ones. If no tensor of a file has a
//! name, values are found by position, as [in BTF](crate::btf#names). [`Options::embed_names`] writes names of any
//! length into an extra tensor at the end. A file cut right before it reads as a file without names. In a file without
//! names, the last tensor must not look like such a list, which is an error on write.
//!
//! Names may repeat, because streams have no lookups by name: WebDataset writes such files. They are listed, and read
//! by position: as a list or a tuple, by [`File`](crate::File) as `#0`, or by [`Decoder`], which also takes consecutive
//! structs. Reading a whole file as a struct or a map needs distinct names, as does writing.
//!
//! # Deviations
//!
//! - The reference writers refuse rank 10 and above, the readers accept it. It is read, not written.
//! - Python's writer takes ASCII names only, Go's any bytes. Names outside of UTF-8 are read with escapes, `\xff`, and
//!   written back as the original bytes. Names that look like such escapes are escaped too: their backslashes are read
//!   as `\\`. NULs inside of a name stay, NULs at its ends are stripped.
//! - Python cannot read or write `u4`, because of an error in its table, and Go cannot do `f2`. Both are read and
//!   written. Python cannot read rank 0.
//! - A header with a length other than `8 × (3 + rank)`, more or fewer elements than the shape has, and a dim of −1, a
//!   wildcard in Python, are errors.
//! - A stream cut within a tensor is an error, and so is anything but a tensor after the last one. Padding may be any
//!   bytes, but must be present: without it Go silently drops the last tensor.
//! - Python writes big-endian arrays as they are, labelled as little-endian. No reader can detect this.

mod de;
mod header;
mod ser;
mod stream;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

pub use self::header::DTYPES;
pub use self::stream::{Decoder, Encoder};
use crate::error::Result;
use crate::format::{self, Format, HasFormat, WritesFormat, known};
use crate::model::FormatSpec;
use crate::write::{Encode, LentEncode, WriteOptions};

/// The format: what it can store, and how it is recognized.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(de::Reader::default()), encode).with_small_files(de::small);

const SPEC: FormatSpec = FormatSpec {
    max_rank: Some(header::MAX_RANK),
    max_dim: Some(header::MAX_DIM),
    max_name: Some(header::NAME),
    check_name: header::check_name,
    unknown_dtypes: Some("ten"),
    ..known::TEN.spec(DTYPES)
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
    options.only_alignment(&FORMAT, 32)?.only_metadata(&FORMAT)?;
    Ok(Options::new().embed_names(options.embeds_names()).shared_encode())
}

/// Serializes a value into a ten file in memory, as [`Options::to_vec`] does.
///
/// ```
/// use tensorfile::{TensorView, ten};
///
/// let file = ten::to_vec(&[TensorView::from_slice(&[1.0_f32, 2.0], [2])?])?;
/// assert_eq!(file.len(), (16 + 64) + (16 + 64));
/// let tensors: Vec<TensorView> = ten::from_slice(&file)?;
/// assert_eq!(*tensors[0].shape(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    defaults().to_vec(value)
}

/// Serializes a value to a writer as a ten file, as [`Options::to_writer`] does.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> Result<()> {
    defaults().to_writer(writer, value)
}

/// Deserializes a value from a ten file in memory, as [`Options::from_slice`] does.
///
/// # Errors
///
/// Besides those of every format:
///
/// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends inside a tensor or its padding.
/// - [`ErrorKind::BadMagic`](crate::ErrorKind::BadMagic): a chunk does not begin with `~TenBin~`.
/// - [`ErrorKind::BadNumber`](crate::ErrorKind::BadNumber): a length, a rank or a dim is negative, or a header's length
///   does not fit its rank.
/// - [`ErrorKind::Malformed`](crate::ErrorKind::Malformed): the list of embedded names is broken.
pub fn from_slice<'de, T: Deserialize<'de>>(file: &'de [u8]) -> Result<T> {
    defaults().from_slice(file)
}

/// Deserializes a value from a reader of a ten file, as [`Options::from_reader`] does.
///
/// A stream does not state its number of tensors, so this reads to its end. On an open socket or pipe, it waits until
/// the other side closes it: read single tensors or structs with a [`Decoder`] there.
pub fn from_reader<T: for<'de> Deserialize<'de>>(reader: impl Read) -> Result<T> {
    defaults().from_reader(reader)
}

/// Options for reading and writing ten files.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorMap, TensorView, ten};
///
/// let bias = TensorView::from_slice(&[0.5_f32], [1])?;
/// let file = ten::Options::new().embed_names(true).to_vec(&BTreeMap::from([("decoder.bias", bias)]))?;
/// let map: TensorMap = ten::from_slice(&file)?;
/// assert!(map.get("decoder.bias").is_some());
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub type Options = format::Options<ser::Encode>;

impl Options {
    /// Writes all names, of any length, into an extra tensor at the end. The tensors themselves are then written
    /// without names.
    ///
    /// It is a vector of `u8`: `tensorfile.names.v1`, NUL, then the names in tensor order, each followed by a NUL. A
    /// stream does not state its number of tensors, so a stream cut right before the names is a valid one without
    /// names.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("encoder.weight", array![1.0_f32])]);
    /// let file = ten::Options::new().embed_names(true).to_vec(&map)?;
    /// assert!(ten::from_slice::<TensorMap>(&file)?.contains("encoder.weight"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        self.encode.embed_names = embed;
        self
    }
}
