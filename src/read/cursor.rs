//! A cursor over a file, for the parsers of headers. It reads ahead, so a short header is one call of the storage.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result, Warning, WarningKind};
use crate::storage::{ReadAt, append_range};
use crate::tensor::{InvalidTensor, TensorInfo, grow, try_reserve};

/// Reads the numbers of a file in order. Errors carry the offset.
///
/// ```
/// use tensorfile::format::{Cursor, ReadAt};
/// use tensorfile::{Dtype, Result, Shape, TensorInfo};
///
/// /// Reads a header: a rank, and as many dims.
/// fn header(file: &mut dyn ReadAt, offset: u64) -> Result<TensorInfo> {
///     let mut cursor = Cursor::new(file, offset);
///     let rank = cursor.u64()?;
///     let dims = cursor.u64s(rank)?.into_iter().map(|dim| usize::try_from(dim).unwrap_or(usize::MAX));
///     Ok(TensorInfo::new(Dtype::F32, dims.collect::<Shape>()))
/// }
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct Cursor<'a> {
    file: &'a mut dyn ReadAt,
    offset: u64,
    /// Bytes read ahead, from `ahead_start` on.
    ahead: [u8; AHEAD],
    ahead_start: u64,
    ahead_len: usize,
    /// The bytes ahead are still in the buffer of a stream, and are consumed on first use.
    is_behind: bool,
}

/// The most bytes to read ahead: most headers are shorter.
const AHEAD: usize = 96;

impl<'a> Cursor<'a> {
    /// A cursor at an offset, in bytes from the start of the file.
    pub fn new(file: &'a mut dyn ReadAt, offset: u64) -> Self {
        Self { file, offset, ahead: [0; AHEAD], ahead_start: offset, ahead_len: 0, is_behind: false }
    }

    /// Reads up to `len` bytes ahead in one step, from a stream only buffered ones. On failure, each number is read
    /// when it is needed, so errors do not change.
    pub(crate) fn read_ahead(&mut self, len: usize) {
        self.ahead_len = 0;
        let most = len.min(AHEAD);
        let Some(left) = self.left() else {
            let at_hand = self.file.at_hand(self.offset);
            let len = at_hand.len().min(most);
            self.ahead[..len].copy_from_slice(&at_hand[..len]);
            (self.ahead_start, self.ahead_len, self.is_behind) = (self.offset, len, true);
            return;
        };
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(most);
        if len > 0 && self.file.read_at(self.offset, &mut self.ahead[..len]).is_ok() {
            (self.ahead_start, self.ahead_len) = (self.offset, len);
        }
    }

    /// Returns the bytes since [`read_ahead`](Self::read_ahead), if all of them were read then.
    pub(crate) fn passed(&self) -> &[u8] {
        let len = self.offset.checked_sub(self.ahead_start).and_then(|len| usize::try_from(len).ok());
        len.and_then(|len| self.ahead[..self.ahead_len].get(..len)).unwrap_or_default()
    }

    /// Consumes the bytes of a stream up to here, so later errors have the right offset.
    #[inline]
    pub(crate) fn catch_up(&mut self) -> Result<()> {
        if self.is_behind { self.read(&mut []) } else { Ok(()) }
    }

    /// Returns the next bytes, if they were read ahead.
    #[inline]
    fn next_ahead(&self, len: usize) -> Option<&[u8]> {
        let index = usize::try_from(self.offset.checked_sub(self.ahead_start)?).ok()?;
        self.ahead[..self.ahead_len].get(index..)?.get(..len)
    }

    /// Returns the offset of the next byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    ///
    /// As [`ReadAt::read_at`]. This holds for all methods.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        if let Some(ahead) = self.next_ahead(N).and_then(|ahead| ahead.first_chunk()) {
            let bytes = *ahead;
            self.offset += N as u64;
            return Ok(bytes);
        }
        let mut bytes = [0; N];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.file.read_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Appends `len` bytes to `bytes`. Memory is allocated only for bytes present in the file; for a stream, as they
    /// arrive.
    pub fn append(&mut self, len: u64, bytes: &mut Vec<u8>) -> Result<()> {
        let end = self.offset.saturating_add(len);
        append_range(self.file, self.offset..end, bytes)?;
        self.offset = end;
        Ok(())
    }

    /// Skips up to 64 bytes, and checks their presence.
    ///
    /// # Panics
    ///
    /// If `len` is more.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        let mut bytes = [0; 64];
        let bytes = usize::try_from(len).ok().and_then(|len| bytes.get_mut(..len)).expect("padding is short");
        if self.next_ahead(bytes.len()).is_some() {
            self.offset += len;
            return Ok(());
        }
        self.read(bytes)
    }

    /// Goes to another offset.
    pub(crate) fn go_to(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Skips any number of bytes, and checks their presence.
    pub(crate) fn pass(&mut self, len: u64) -> Result<()> {
        let Some(before) = len.checked_sub(1) else { return Ok(()) };
        let truncated = |left| Error::new(ErrorKind::Truncated { needed: len, left }).at(self.offset);
        match (self.left(), self.offset.checked_add(before)) {
            (Some(left), _) if left < len => Err(truncated(left)),
            (left, None) => Err(truncated(left.unwrap_or(0))),
            (_, Some(last)) => {
                // A stream finds out whether it has them when it reads the last one.
                self.offset = last;
                self.array::<1>().map(|_| ())
            }
        }
    }

    /// Reads a little-endian number.
    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a little-endian number.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a little-endian number.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// Reads `count` little-endian numbers. Memory is allocated as by [`append`](Self::append).
    pub fn u64s(&mut self, count: u64) -> Result<Vec<u64>> {
        const AT_ONCE: usize = 1 << 17;
        let mut left = usize::try_from(count).unwrap_or(usize::MAX);
        let mut numbers = Vec::new();
        try_reserve(&mut numbers, self.ready(left.saturating_mul(size_of::<u64>())) / size_of::<u64>())?;
        while left > 0 {
            let start = numbers.len();
            grow(&mut numbers, left.min(AT_ONCE), start.saturating_add(left))?;
            numbers.resize(start + left.min(AT_ONCE), 0);
            let bytes = bytemuck::cast_slice_mut(&mut numbers[start..]);
            self.file.read_at(self.offset, bytes)?;
            self.offset += bytes.len() as u64;
            numbers[start..].iter_mut().for_each(|number| *number = u64::from_le(*number));
            left -= numbers.len() - start;
        }
        Ok(numbers)
    }

    /// Returns the range of a payload starting here.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Truncated`] if the file ends first, [`InvalidTensor::TooLarge`].
    pub fn payload(&self, info: &TensorInfo) -> Result<Range<u64>> {
        payload_at(self.offset, self.file.file_len(), info)
    }

    /// Returns how many of `len` bytes are known to be in the file.
    fn ready(&self, len: usize) -> usize {
        usize::try_from(self.left().unwrap_or(0)).unwrap_or(usize::MAX).min(len)
    }

    /// Returns the number of bytes to the end of the file, if its length is known.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        self.file.file_len().map(|len| len.saturating_sub(self.offset))
    }
}

/// Returns the range of a payload starting at `offset` in a file of length `len`, if known.
pub(crate) fn payload_at(offset: u64, len: Option<u64>, info: &TensorInfo) -> Result<Range<u64>> {
    let too_large = || Error::from(InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() }).at(offset);
    let needed = info.payload_bytes().ok_or_else(too_large)? as u64;
    match len.map(|len| len.saturating_sub(offset)) {
        Some(left) if left < needed => Err(Error::new(ErrorKind::Truncated { needed, left }).at(offset)),
        _ => Ok(offset..offset.checked_add(needed).ok_or_else(too_large)?),
    }
}

/// Returns a warning about unused bytes at the end of a file.
pub(crate) fn trailing_bytes(end: u64, len: Option<u64>) -> Option<Warning> {
    let bytes = len?.checked_sub(end).filter(|bytes| *bytes > 0)?;
    let noun = if bytes == 1 { "byte" } else { "bytes" };
    let text = format!("{bytes} {noun} at the end, from byte {end} on, belong to no tensor");
    Some(Warning::new(WarningKind::TrailingBytes, text).at(end))
}

impl std::fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("offset", &self.offset).finish_non_exhaustive()
    }
}
