//! The two traits of storage: one for reading an index, and one for reading payloads.

use std::io;
use std::ops::Range;

use crate::error::Result;
use crate::tensor::{Buffer, grow, try_reserve, try_zeros};

/// Bytes at offsets, as the reader of an index sees them.
///
/// An index is parsed by asking for ranges, in file order wherever the format allows it. So memory, files and streams
/// share one parser.
pub trait ReadAt {
    /// Returns the length of the file in bytes, if it is known before the end is reached.
    fn file_len(&self) -> Option<u64>;

    /// Fills `bytes` from `offset` on.
    ///
    /// A stream only goes forward: bytes before `offset` are lost, unless all were [kept](Self::keep_rest).
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Truncated`](crate::ErrorKind::Truncated): the file ends first.
    /// - [`ErrorKind::Io`](crate::ErrorKind::Io): reading failed.
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()>;

    /// Fills `bytes`, at most a few, from `offset` on, without consuming them.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    fn peek_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.read_at(offset, bytes)
    }

    /// Returns a range of any length: borrowed if it is in memory, otherwise read into `memory`, which is empty.
    ///
    /// ```
    /// use tensorfile::Result;
    /// use tensorfile::format::ReadAt;
    ///
    /// /// Reads a list of names: its length, and the names with a line feed after each.
    /// fn names(file: &mut dyn ReadAt) -> Result<Vec<Vec<u8>>> {
    ///     let mut len = [0; 8];
    ///     file.read_at(0, &mut len)?;
    ///     let mut memory = Vec::new();
    ///     let list = file.bytes(8..u64::from_le_bytes(len).saturating_add(8), &mut memory)?;
    ///     Ok(list.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
    /// }
    /// ```
    ///
    /// Memory is allocated only for bytes present in the file; for a stream, as they arrive.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    fn bytes<'a>(&'a mut self, range: Range<u64>, memory: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        append_range(self, range, memory)?;
        Ok(memory)
    }

    /// Returns buffered bytes of a stream from `offset` on, without consuming them. The stream may have more, and there
    /// may be none.
    // Not in `Storage`, as `Cursor` has it for streams: reading each number of a header took 9 % (btf) and 34 % (ten)
    // more instructions for a tensor.
    #[doc(hidden)]
    fn at_hand(&self, _offset: u64) -> &[u8] {
        &[]
    }

    /// Hints that these offsets will be read next, in this order, so that a slow disk can fetch them at once. The
    /// offsets may be wrong. Storage that gains nothing from hints ignores them.
    fn will_read(&mut self, _offsets: &mut dyn Iterator<Item = u64>) {}

    /// Returns whether the file ends at `offset`.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    fn ends_at(&mut self, offset: u64) -> Result<bool> {
        Ok(self.file_len() == Some(offset))
    }

    /// Makes everything from here to the end readable in any order. A stream holds up to `limit` bytes for it.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), and [`ErrorKind::Limit`](crate::ErrorKind::Limit).
    fn keep_rest(&mut self, _limit: u64) -> Result<()> {
        Ok(())
    }
}

/// [`ReadAt`] with access to payloads, and to what a stream has buffered. Readers of indices need neither.
pub trait Storage<'de>: ReadAt {
    /// Returns a range without a copy, if it is in memory with the lifetime of the file.
    fn borrow(&self, _range: Range<u64>) -> Option<Result<&'de [u8]>> {
        None
    }

    /// Returns whether borrowed bytes can change, as in a mapped file when another process writes to it.
    fn may_change(&self) -> bool {
        false
    }

    /// Returns whether reading a range into memory of its own takes less time than a copy of borrowed bytes.
    fn reads_faster(&self, _range: &Range<u64>) -> bool {
        false
    }

    /// Returns bytes of a stream from an offset on, without consuming them: at least `at_least`, or fewer at the end or
    /// before an error. The error is the one of reading on.
    ///
    /// # Errors
    ///
    /// As [`ReadAt::ends_at`].
    fn ready(&mut self, _offset: u64, _at_least: usize) -> Result<&[u8]> {
        Ok(&[])
    }

    /// Returns all bytes of a short, unread stream, without consuming them.
    fn short_file(&mut self) -> Option<&[u8]> {
        None
    }

    /// Consumes and returns a non-empty range, if a stream has buffered all of it.
    fn take_at_hand(&mut self, _range: Range<u64>) -> Option<&[u8]> {
        None
    }

    /// Takes a payload held in its own memory.
    ///
    /// # Errors
    ///
    /// As [`ReadAt::read_at`].
    fn take_held(&mut self, _range: &Range<u64>) -> Result<Option<Buffer>> {
        Ok(None)
    }

    /// Holds a range in memory if going on would lose it.
    ///
    /// # Errors
    ///
    /// As [`ReadAt::read_at`].
    fn keep(&mut self, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    /// Frees what is held before `offset`. The caller does not ask for it again.
    fn release(&mut self, _offset: u64) {}

    /// Returns the beginning of a non-empty range: at least one byte.
    ///
    /// # Errors
    ///
    /// As [`ReadAt::read_at`].
    fn chunk(&mut self, range: Range<u64>) -> Result<&[u8]>;

    /// Appends the beginning of a non-empty range: at least one byte. Returns the number of bytes.
    ///
    /// `buffer` has `expected` bytes in the end. After an error, the end of it is undefined.
    ///
    /// # Errors
    ///
    /// As [`ReadAt::read_at`].
    fn append_to(&mut self, buffer: &mut Buffer, range: Range<u64>, expected: usize) -> Result<u64> {
        append_chunk(self, buffer, range, expected)
    }
}

/// Appends a range to `bytes`, as [`ReadAt::bytes`] reads it.
pub(crate) fn append_range(
    file: &mut (impl ReadAt + ?Sized),
    Range { mut start, end }: Range<u64>,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    const AT_ONCE: usize = 1 << 20;
    const MANY: usize = 1 << 10;
    /// The fewest bytes for which it is worth checking that memory is available.
    const LARGE: usize = 1 << 24;
    let mut left = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
    let in_file = file.file_len().unwrap_or(0).saturating_sub(start);
    let ready = usize::try_from(in_file).unwrap_or(usize::MAX).min(left);
    if ready >= LARGE {
        // Where `file_len` is a guess or a lie, this is an error instead of an abort.
        Vec::<u8>::new().try_reserve_exact(ready).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    }
    if bytes.is_empty() && left >= MANY && ready == left {
        // For large allocations, the system provides zeroed pages faster than we could write zeros.
        *bytes = try_zeros(left)?;
        return file.read_at(start, bytes);
    }
    try_reserve(bytes, ready)?;
    while left > 0 {
        let (now, before) = (left.min(AT_ONCE), bytes.len());
        grow(bytes, now, before.saturating_add(left))?;
        bytes.resize(before + now, 0);
        file.read_at(start, &mut bytes[before..])?;
        start += now as u64;
        left -= now;
    }
    Ok(())
}

pub(super) fn append_chunk<'de>(
    storage: &mut (impl Storage<'de> + ?Sized),
    buffer: &mut Buffer,
    range: Range<u64>,
    expected: usize,
) -> Result<u64> {
    let chunk = storage.chunk(range)?;
    buffer.append(chunk, expected)?;
    Ok(chunk.len() as u64)
}
