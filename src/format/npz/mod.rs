//! Archives of numpy's arrays (`.npz`): named dense tensors, each an `.npy` file in a zip archive.
//!
//! ```text
//! member… | directory
//! member  = local header | name | extra fields | array, or its deflate stream | data descriptor
//! ```
//!
//! What the array is, [`npy`](crate::npy) says; the directory at the end says where the members are.
//!
//! # Specification
//!
//! `numpy.lib.format` and `numpy.savez`; PKWARE's APPNOTE.TXT for zip, with its 64-bit extensions.
//!
//! # Names
//!
//! Any name is stored but one with NUL in it; the member has `.npy` behind it. Slashes and all else stay as they are.
//! Names of members that are not UTF-8 are read with escapes, `\xff`.
//!
//! # Compression
//!
//! Members are stored as they are, with their elements at multiples of 64 bytes, or deflated with
//! [`Options::compress`]. Stored ones are read without a copy. Deflated ones are decoded piece by piece as they are
//! read, and their checksums compared; those of stored ones are not, as that would read them once more.
//!
//! # Memory order
//!
//! As with [`npy`](crate::npy#memory-order).
//!
//! # Deviations
//!
//! - A member whose name does not end in `.npy` is a blob of that name, as numpy gives its bytes; also a folder, of no
//!   bytes. Blobs are written as such members.
//! - Members of one name, members that share bytes, encrypted ones, other compressions than deflate, and sizes that are
//!   not those of the array are errors.
//! - Sizes and checksums stand behind the members and in the directory, not before them, as the writer need not seek.
//! - A name that is not ASCII, nor a plain relative path, such as `/ä`, is written without the mark that it is UTF-8.
//!   It is always read as that where it can be.
//!
//! # Streams
//!
//! The directory is at the end: what comes from a reader is held in memory whole before the first value is made.
//!
//! # Limits
//!
//! A deflated tensor can be a thousand times larger than in the file. [`Limits::shared`] bounds by how much all of them
//! may be larger than the file. Tensors to be written are of up to 2⁴⁸ bytes.

mod de;
mod header;
mod ser;

#[doc(hidden)]
pub use self::de::Walk;
pub use self::header::DTYPES;
#[doc(hidden)]
pub use self::ser::Encode;
use super::{FileMetadata, Format, Magic, WriteOptions, face, functions};
use crate::error::Result;
use crate::limits::Limits;

/// The format in [`FORMATS`](crate::FORMATS).
pub(super) const FORMAT: Format = Format {
    name: "npz",
    extensions: &["npz"],
    dtypes: DTYPES,
    max_rank: Some(header::MAX_RANK),
    max_name: None,
    max_tensors: None,
    sparse: false,
    magics: &[Magic { offset: 0, bytes: b"PK\x03\x04" }, Magic { offset: 0, bytes: b"PK\x05\x06" }],
    functions: functions!(|_, _| Ok(FileMetadata::default()), |_| false, None),
};

face!("npz", "npz");

pub(super) fn options(options: &WriteOptions) -> Result<Options> {
    options.without_alignment("npz", "64 bytes")?.only_metadata("npz", FORMAT.functions.keeps_metadata)?;
    Ok(Options::new())
}

/// How files are written and read.
///
/// ```
/// use std::collections::BTreeMap;
/// use tensorfile::{TensorView, npz};
///
/// let zeros = BTreeMap::from([("bias", TensorView::from_slice(&[0.0_f32; 1000], [1000])?)]);
/// let file = npz::Options::new().compress(true).to_vec(&zeros)?;
/// assert!(file.len() < 400);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    encode: Encode,
    limits: Limits,
}

impl Options {
    /// Whether to deflate the members. How long the file will be is then not known beforehand: a [`Plan`] tells the
    /// length without.
    #[must_use]
    pub fn compress(mut self, compress: bool) -> Self {
        self.encode.compress = compress;
        self
    }

    /// Whether to write an array that lies in Fortran order in memory in that order, and not in row-major order.
    ///
    /// Arrays in still other orders of their dims are then refused.
    #[must_use]
    pub fn keep_dim_order(mut self, keep: bool) -> Self {
        self.encode.keep_dim_order = keep;
        self
    }
}
