//! Digests of what tensors hold: the same in every format, memory order and version of this crate.
//!
//! Two files hold the same tensors where their [collection digests](CollectionDigester) are equal, whatever formats they
//! have and in whatever order they list the tensors.
//!
//! ```
//! use tensorfile::digest::Digest;
//! use tensorfile::{Layout, Tensor, TensorInfo, TensorView};
//!
//! let rows = Tensor::from_slice(&[1_u8, 2, 3, 4, 5, 6], [2, 3])?;
//! let by_columns = TensorInfo { layout: Layout::from_dim_order(&[1, 0])?, ..rows.info().clone() };
//! let columns = TensorView::new(by_columns, &[1, 4, 2, 5, 3, 6])?;
//! assert_eq!(Digest::of(&rows.as_view()), Digest::of(&columns));
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
//! blob       = magic "blob"       0 byte *
//! collection = magic "collection" 0 count: u64 | (length: u64 | name | digest: u8 * 32) * count
//!
//! magic      = "tensorfile.digest.v1" 0
//! ```
//!
//! - `0` is one zero byte, numbers are little-endian, and `dtype` is [`Dtype::name`](crate::Dtype::name), such as `f32`.
//! - `dense` is a tensor of any memory order; its elements are little-endian and in row-major order.
//! - `sparse` is a tensor in COO layout. Entries are in row-major order of their coordinates, and of several with one
//!   coordinate only the last one given counts, as in [`CooTensor::to_dense`](crate::CooTensor::to_dense). A stored zero
//!   is an entry as any other, and a sparse tensor has another digest than the dense one that it stands for, which may
//!   be larger than any memory.
//! - `blob` is what [`Layout::Blob`](crate::Layout::Blob) says; it has another digest than a `u8` tensor of its bytes.
//! - `collection` lists all tensors, sorted by the bytes of their UTF-8 names; `length` counts those. A tensor without
//!   a name is called by its position, `0`, `1`, ….
//!
//! Elements are compared as bytes: 0.0 and -0.0, and two kinds of NaN, are different. So are equal numbers of two dtypes.

mod collection;
mod tensor;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use collection::CollectionDigester;
pub use tensor::TensorDigester;

/// What all hashed bytes begin with.
const MAGIC: &[u8] = b"tensorfile.digest.v1\0";

/// The digest of a tensor or of a collection; the [module](self) says of which bytes.
///
/// Shown, parsed and serialized as 64 hexadecimal digits.
///
/// ```
/// use tensorfile::digest::Digest;
/// use tensorfile::Tensor;
///
/// let digest = Digest::of(&Tensor::from_slice(&[1.0_f32, 2.0], [2])?.as_view());
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

/// A text that is no digest.
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

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
