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
//! The format has none. A value is written depth first in the order of its fields, and read back by position: dtypes
//! and shapes are checked at every step, and tell which `Option`s are there and how long lists are. Where they leave a
//! choice, the answer is [`ErrorKind::Ambiguous`](crate::ErrorKind::Ambiguous), not a guess. [`Options::embed_names`]
//! adds a last tensor of bytes that holds all names, which every reader of the format can read and ours understands.
//!
//! # Deviations
//!
//! - The document lists the dtypes 0 to 5, TFRT's code also 6 to 9, unsigned integers. All ten are read and written.
//! - The document gives COO the layout number 2, TFRT's code 1. Both are read; 2 is written, or 1 with
//!   [`Options::tfrt_coo`].
//! - The document says nothing about the order of records. They are read in any order, with gaps between them and with
//!   offsets that two tensors share, as TFRT does; they are written in order and adjacent, the last one padded too, as
//!   TFRT does.
//! - Bytes that no record takes, between the records or behind the last one, are ignored, as TFRT does.
//! - Old writers left garbage in the six reserved bytes. Any are read, zeros are written.
//! - TFRT crashes on, or misreads, dims that overflow and offsets that point outside of the file. These are errors, and
//!   so are records that overlap, offsets into the offset table, and dims above 2⁶³ − 1, which TFRT takes for negative.
//! - TFRT's inspector does not compare COO indices with the dims. An index outside is an error.

mod de;
mod header;
mod ser;

#[doc(hidden)]
pub use self::de::Walk;
pub use self::header::DTYPES;
#[doc(hidden)]
pub use self::ser::Encode;
use super::{FileMetadata, Format, WriteOptions, face, functions};
use crate::error::Result;
use crate::limits::Limits;

/// The format in [`FORMATS`](crate::FORMATS).
pub(super) const FORMAT: Format = Format {
    name: "btf",
    extensions: &["btf"],
    dtypes: DTYPES,
    max_rank: None,
    max_name: Some(0),
    max_tensors: None,
    sparse: true,
    magics: &[],
    functions: functions!(|_, _| Ok(FileMetadata::default()), |_| false, Some(de::looks_like)),
};

face!("BTF", "btf");

pub(super) fn options(options: &WriteOptions) -> Result<Options> {
    options.without_alignment("btf", "8 bytes")?.only_metadata("btf", FORMAT.functions.keeps_metadata)?;
    Ok(Options::new().embed_names(options.embed_names))
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
    /// Whether to write all names into one more tensor at the end.
    ///
    /// It is a vector of `u8` that begins with `tensorfile.names.v1`, NUL; then come the names in the order of the
    /// tensors, each with a NUL behind it.
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
}
