//! Digests of tensors: the same in every format, memory order and version of this crate.
//!
//! Two files of any formats hold the same tensors, in any order, if their [collection digests](CollectionDigester) are
//! equal.
//!
//! ```
//! use tensorfile::digest::Digest;
//! use tensorfile::{Layout, Tensor, TensorInfo, TensorView};
//!
//! let rows = Tensor::from_slice(&[1_u8, 2, 3, 4, 5, 6], [2, 3])?;
//! let by_columns = TensorInfo { layout: Layout::from_dim_order(&[1, 0])?, ..rows.info().clone() };
//! let columns = TensorView::new(by_columns, &[1, 4, 2, 5, 3, 6])?;
//! assert_eq!(Digest::new(&rows.as_view()), Digest::new(&columns));
//! # Ok::<(), tensorfile::Error>(())
//! ```
//!
//! # Definition
//!
//! A digest is the 32 bytes of the plain (unkeyed) BLAKE3 hash of these bytes, so that any language can compute it:
//!
//! ```text
//! dense      = magic "dense"      0 dtype 0 rank: u64 | dim: u64 * rank | element *
//! sparse     = magic "coo"        0 dtype 0 rank: u64 | dim: u64 * rank
//!                    | index: u64 * rank * entries | entries: u64 | element * entries
//! unknown    = magic "unknown"    0 dtype 0 rank: u64 | dim: u64 * rank | byte *
//! blob       = magic "blob"       0 byte *
//! collection = magic "collection" 0 count: u64 | (length: u64 | name | digest: u8 * 32) * count
//!
//! magic      = "tensorfile.digest.v1" 0
//! ```
//!
//! - `0` is one zero byte, numbers are little-endian, and `dtype` is [`Dtype::name`](crate::Dtype::name), such as
//!   `f32`.
//! - `dense` is a tensor of any memory order. Its elements are little-endian and in row-major order.
//! - `sparse` is a tensor in COO layout. Entries are in row-major order of their coordinates. Of several entries with
//!   the same coordinate only the last one counts, as in [`CooTensor::to_dense`](crate::CooTensor::to_dense). A stored
//!   zero is an entry like any other. A sparse tensor and the same tensor in dense layout have different digests.
//! - `unknown` is for [`Layout::Unknown`](crate::Layout::Unknown); its `dtype` is what the file calls the dtype.
//! - `blob` is for [`Layout::Blob`](crate::Layout::Blob). A blob and a `u8` tensor of its bytes have different digests.
//! - `collection` lists all tensors, sorted by the bytes of their UTF-8 names; `length` is the number of these bytes.
//!   The name of a tensor without one is its position, `0`, `1`, ….
//!
//! Elements are compared as bytes: 0.0 and -0.0 are different, as are NaN with different bits, and equal numbers of
//! different dtypes.

mod collection;
mod tensor;
mod tree;

use std::fmt;
use std::str::FromStr;

pub use collection::{CollectionDigester, SortedDigester};
pub use tensor::TensorDigester;

/// The start of all hashed bytes.
const MAGIC: &[u8] = b"tensorfile.digest.v1\0";

/// The digest of a tensor or of a collection, as defined in the [module](self).
///
/// Displayed, parsed and serialized as 64 hexadecimal digits.
///
/// ```
/// use tensorfile::digest::Digest;
/// use tensorfile::Tensor;
///
/// let digest = Digest::new(&Tensor::from_slice(&[1.0_f32, 2.0], [2])?.as_view());
/// assert_eq!(digest.to_string(), "5269e7ad8f79053be61faa5329ba781daa7dbf2b9b4ef315b03d1e4682204f89");
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The error for a text that is not a digest.
///
/// ```
/// use tensorfile::digest::{Digest, InvalidDigest};
///
/// assert_eq!("5269e7".parse::<Digest>(), Err(InvalidDigest));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidDigest;

impl fmt::Display for InvalidDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a digest is 64 hexadecimal digits")
    }
}

impl std::error::Error for InvalidDigest {}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        blake3::Hash::from_hex(text).map(Self::from).map_err(|_| InvalidDigest)
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.into())
    }
}
