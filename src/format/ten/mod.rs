//! Tensors as a stream of chunks (`.ten`, "tenbin"): no count, no index, a name of up to 8 bytes each.
//!
//! ```text
//! tensor = chunk(header) | chunk(elements)
//! chunk  = "~TenBin~" | length: i64 | contents | 0 up to a multiple of 64 of the length
//! header = dtype: u8 × 8 | name: u8 × 8 | rank: i64 | dim: i64 × rank
//! ```
//!
//! All numbers are little-endian and elements are in row-major order. Dtype and name are text with NULs behind it. As a
//! chunk takes a multiple of 64 bytes and 16, elements lie at multiples of 32 from the start of the stream.
//!
//! # Specification
//!
//! `webdataset.tenbin`, from which the format comes; the Go package `ten` and `tensorcom` read and write it too. In
//! WebDataset a member `name.ten` of a tar file holds a list of tensors, mostly without names.
//!
//! # Names
//!
//! A name takes up to 8 bytes. A tensor whose name is its position, as the items of a list have it, is written without
//! one. Where no tensor of a file has a name, values are found by position, as [in BTF](crate::btf#names).
//! [`Options::embed_names`] writes names of any length into one more tensor at the end.
//!
//! # Deviations
//!
//! - The reference writers refuse rank 10 and above, the readers take it. It is read, not written.
//! - Python's writer takes ASCII names only, Go's any bytes. UTF-8 is written; what is not UTF-8 is read with escapes,
//!   `\xff`. NULs inside of a name stay, at its ends they are no part of it.
//! - Python cannot read or write `u4`, for a slip in its table, Go cannot do `f2`. Both are read and written. Python
//!   cannot read rank 0.
//! - A header whose length is not `8 × (3 + rank)`, elements that are more or fewer than the shape says, and a dim of
//!   −1, which Python takes for a wildcard, are errors.
//! - A stream that ends within a tensor is an error, and so is anything but a tensor after the last one. Padding may be
//!   of any bytes, but it must be there: without it Go drops the last tensor in silence.
//! - Python writes big-endian arrays as they are, labelled as little-endian. No reader can tell.

mod de;
mod header;
mod ser;
mod stream;

#[doc(hidden)]
pub use self::de::Walk;
pub use self::header::DTYPES;
#[doc(hidden)]
pub use self::ser::Encode;
pub use self::stream::{Decoder, Encoder};
use super::{FileMetadata, Format, Magic, WriteOptions, face, functions};
use crate::error::Result;
use crate::limits::Limits;

/// The format in [`FORMATS`](crate::FORMATS).
pub(super) const FORMAT: Format = Format {
    name: "ten",
    extensions: &["ten"],
    dtypes: DTYPES,
    max_rank: Some(header::MAX_RANK),
    max_name: Some(header::NAME),
    max_tensors: None,
    sparse: false,
    magics: &[Magic { offset: 0, bytes: &header::MAGIC }],
    functions: functions!(|_, _| Ok(FileMetadata::default()), |_| false, None),
};

face!("ten", "ten");

pub(super) fn options(options: &WriteOptions) -> Result<Options> {
    options.without_alignment("ten", "32 bytes")?.only_metadata("ten", FORMAT.functions.keeps_metadata)?;
    Ok(Options::new().embed_names(options.embed_names))
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
    /// Whether to write all names, of any length, into one more tensor at the end; the others are then written without.
    ///
    /// It is a vector of `u8` that begins with `tensorfile.names.v1`, NUL; then come the names in the order of the
    /// tensors, each with a NUL behind it.
    #[must_use]
    pub fn embed_names(mut self, embed: bool) -> Self {
        self.encode.embed_names = embed;
        self
    }
}
