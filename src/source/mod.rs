//! Where the bytes of a file come from: ranges of them, whatever the format.

#[cfg(feature = "mmap")]
mod mapping;
mod piece;
mod ranges;
mod rest;
mod slice;
mod storage;
mod stream;

use std::ops::Range;

use serde::de::Visitor;

use crate::error::Result;

#[cfg(feature = "npy")]
pub(crate) use piece::Piece;
pub use ranges::Ranges;
pub use slice::Slice;
#[cfg(feature = "shards")]
pub use storage::Joined;
pub use storage::Storage;
pub use stream::Stream;

/// Bytes at offsets.
///
/// An index is parsed by asking for ranges, in the order in which they lie in the file wherever the format allows; so
/// memory, files and streams share one parser.
pub trait ByteSource<'de> {
    /// The length of the file, where it is known before its end.
    fn len(&self) -> Option<u64>;

    /// Fills `bytes` from `offset` on.
    ///
    /// A stream only goes forward: what lies before `offset` is gone, but for what was [kept](Self::keep).
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()>;

    /// Whether the file ends at `offset`.
    fn ends_at(&mut self, offset: u64) -> Result<bool>;

    /// Holds a range for later, where going on would lose it.
    fn keep(&mut self, range: Range<u64>) -> Result<()>;

    /// Fills `bytes`, which are few, from `offset` on, and leaves them to be read again.
    fn peek_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()>;

    /// Holds all that follows, so that it can be read in any order.
    fn keep_rest(&mut self, limit: u64) -> Result<()>;

    /// Lets go of what lies before `offset`, which nobody will ask for.
    fn release(&mut self, offset: u64);

    /// Hands a range to `visitor`: borrowed, as bytes, or as a list of bytes. It can be had once.
    fn payload<V: Visitor<'de>>(&mut self, range: Range<u64>, visitor: V) -> Result<V::Value>;
}
