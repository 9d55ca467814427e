//! safetensors (`.safetensors`): named tensors behind a header of JSON, as Hugging Face stores models.
//!
//! ```text
//! header: u64 | {"__metadata__":{…},"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},…} | blank… | data
//! ```
//!
//! All numbers are little-endian, elements are in row-major order, and data offsets count from the end of the header,
//! which blanks bring to a multiple of 8. The data has no gaps: each tensor begins where another ends, the first at the
//! beginning, and the last ends with the file.
//!
//! # Specification
//!
//! The README of [safetensors](https://github.com/huggingface/safetensors). Dtypes and entries of the header are those of
//! its Rust crate, through `serde_json`.
//!
//! # Names
//!
//! Any string but `__metadata__`, under which stands what the file says of itself: [`metadata`] and
//! [`Options::metadata`].
//!
//! # Deviations
//!
//! - The crate sorts tensors on write, those of wide dtypes first, so that each is aligned. We write them in the order of
//!   the value, without a second look at it. As gaps are forbidden, a tensor behind one of narrower elements may begin
//!   at any byte. Every reader copies such a tensor into an array, but it cannot be borrowed as one. A value in the
//!   crate's order is written as the crate writes it.
//! - The crate writes its metadata in any order. We write it sorted, so that the same value makes the same file.
//! - The specification forbids two entries of one name. The crate takes the last, and so do its metadata's keys. Both are
//!   errors.
//! - The specification lets a header begin with `{` only. The crate also reads blanks before it, we do not.
//! - The crate counts elements dim by dim, so it refuses a shape such as `[2^40, 2^40, 0]`, which is read here and not
//!   written.
//! - Tensors are read in the order of their data, whatever the order of the header. The crate has them in no order.
//!
//! # Limits
//!
//! A header has up to 100 million bytes, as in the crate. The dtypes `C64`, `F4`, `F6_E2M3`, `F6_E3M2` and `F8_E8M0`
//! have no counterpart here; a file with one of them is refused. Tensors cannot share bytes: tied ones are stored once
//! for each name. Sparse tensors and blobs cannot be stored.

mod de;
mod header;
mod ser;

use indexmap::IndexMap;

#[doc(hidden)]
pub use self::de::Walk;
pub use self::header::DTYPES;
#[doc(hidden)]
pub use self::ser::Encode;
use super::{FileMetadata, Format, WriteOptions, face, functions};
use crate::error::Result;
use crate::limits::Limits;
use crate::source::{Ranges, Slice, Storage};
use crate::wire::Walk as _;

/// The format in [`FORMATS`](crate::FORMATS).
pub(super) const FORMAT: Format = Format {
    name: "safetensors",
    extensions: &["safetensors"],
    dtypes: DTYPES,
    max_rank: None,
    max_name: None,
    max_tensors: None,
    sparse: false,
    magics: &[],
    functions: functions!(file_metadata, |_| true, Some(header::looks_like)),
};

face!("safetensors", "safetensors");

pub(super) fn options(options: &WriteOptions) -> Result<Options> {
    options.without_alignment("safetensors", "8 bytes, and packs tensors from there")?;
    let entries = options.metadata.iter();
    Ok(entries.fold(Options::new(), |options, (key, value)| options.metadata(key, value)))
}

fn file_metadata(storage: &Storage, limits: &Limits) -> Result<FileMetadata> {
    let entries = de::read(&mut Ranges::new(storage), limits)?.metadata;
    Ok(FileMetadata { entries, ..FileMetadata::default() })
}

/// What a file says of itself, beside its tensors: its `__metadata__`, in the order of the file. All of its header is
/// checked.
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
/// As [`from_slice`] where the file is malformed.
pub fn metadata(file: &[u8]) -> Result<IndexMap<String, String>> {
    let contents = de::read(&mut Slice::new(file), &Limits::default());
    contents.map(|contents| contents.metadata).map_err(|error| error.in_format(Walk::FORMAT))
}

/// How files are written and read.
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
#[derive(Debug, Clone, Default)]
pub struct Options {
    encode: Encode,
    limits: Limits,
}

impl Options {
    /// Adds an entry to the metadata, or replaces the one of that key. Python's libraries put `pt`, `tf`, `np`, … under
    /// `format`, and some of them refuse files without it.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.encode.metadata.insert(key.into(), value.into());
        self
    }
}
