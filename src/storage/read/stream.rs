//! A stream as a storage: read once, from front to back, in reads that grow with the tensors.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind as IoErrorKind, Read};
use std::ops::Range;

use super::read_at::{ReadAt, Storage, append_chunk};
use super::rest::Rest;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::checked_io::check_read;
use crate::tensor::{Buffer, grow};

/// A file read once, from front to back.
#[derive(Debug)]
pub struct Stream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The unconsumed part of the buffer.
    ready: Range<usize>,
    /// The error of the last read, if nobody has seen it.
    failed: Option<Error>,
    /// The last read filled the buffer, so the next may be larger.
    grows: bool,
    position: u64,
    /// Skipped payloads that may be requested later, by offset.
    kept: BTreeMap<u64, Vec<u8>>,
    /// The kept payload requested last.
    current: Vec<u8>,
    /// Everything from an offset on, once the tensors are not read in file order.
    rest: Option<Rest>,
}

/// The size of the first read. For a stream of one small message, allocating a large buffer would cost more than
/// everything else.
const FIRST: usize = 1 << 10;

/// The largest buffer, reached while tensors are small. A larger one saves hardly any calls per byte, takes longer to
/// allocate, and evicts other data from the processor's caches.
// A stream of 1,000 messages of 500 floats from memory took 2 to 12 % less time with 64 KiB than with 256 KiB, and 5 % less
// again with 32 KiB. From a file or a socket, 32 KiB take as long as 64 KiB.
const BUFFER: usize = 32 << 10;

/// The largest size of a single read into the destination.
const PIECE: usize = 256 << 10;

/// The least number of bytes to read directly into their destination, unless the buffer is smaller.
const DIRECT: usize = 4 << 10;

impl<R: Read> Stream<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            // Not zeros: zeroed memory does not come from the allocator's cache.
            buffer: vec![u8::MAX; FIRST],
            ready: 0..0,
            failed: None,
            grows: false,
            position: 0,
            kept: BTreeMap::new(),
            current: Vec::new(),
            rest: None,
        }
    }

    /// Returns the next bytes: at least `at_least`, or fewer at the end of the stream.
    #[inline]
    fn fill(&mut self, at_least: usize) -> Result<&[u8]> {
        if self.ready.len() < at_least {
            self.read_on(at_least).map_err(|error| error.at(self.position))?;
        }
        Ok(&self.buffer[self.ready.clone()])
    }

    /// Reads until at least `at_least` bytes are in the buffer, or up to the end of the stream.
    #[cold]
    fn read_on(&mut self, at_least: usize) -> Result<()> {
        if at_least > self.buffer.len() {
            self.buffer.resize(at_least, 0);
        }
        while self.ready.len() < at_least {
            self.buffer.copy_within(self.ready.clone(), 0);
            self.ready = 0..self.ready.len();
            if self.grows && self.buffer.len() < BUFFER {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
            let now = read(&mut self.reader, &mut self.failed, &mut self.buffer[self.ready.end..])?;
            if now == 0 {
                break;
            }
            self.ready.end += now;
            self.grows = self.ready.end == self.buffer.len();
        }
        Ok(())
    }

    /// Fills `bytes` without the buffer, which is empty. Returns the number of bytes: fewer at the end of the stream.
    fn read_directly(&mut self, bytes: &mut [u8]) -> Result<usize> {
        debug_assert!(self.ready.is_empty(), "bytes in the buffer come first");
        let mut filled = 0;
        while filled < bytes.len() {
            let now = read(&mut self.reader, &mut self.failed, &mut bytes[filled..]);
            match now.map_err(|error| error.at(self.position))? {
                0 => break,
                now => {
                    filled += now;
                    self.position += now as u64;
                }
            }
        }
        // Tensors are large, so a larger buffer would only be one more copy.
        self.grows &= bytes.len() < DIRECT;
        Ok(filled)
    }

    /// Returns the least number of bytes to read directly.
    fn direct(&self) -> usize {
        DIRECT.min(self.buffer.len())
    }

    fn consume(&mut self, len: usize) {
        self.ready.start += len;
        self.position += len as u64;
    }

    /// Takes the next bytes from the buffer: at least one, and at most `most`.
    fn take(&mut self, most: u64) -> Result<&[u8]> {
        let ready = self.fill(1)?.len();
        if ready == 0 {
            return Err(truncated(self.position, most, 0));
        }
        let now = ready.min(usize::try_from(most).unwrap_or(usize::MAX));
        self.consume(now);
        Ok(&self.buffer[self.ready.start - now..self.ready.start])
    }

    /// Returns whether the byte at `offset` was skipped, and not kept.
    pub(super) fn has_lost(&self, offset: u64) -> bool {
        offset < self.position && self.kept_from(offset).is_none_or(<[u8]>::is_empty)
    }

    /// Skips to the end, and returns its offset.
    pub(super) fn pass_rest(&mut self) -> Result<u64> {
        loop {
            match self.fill(1)?.len() {
                0 => return Ok(self.position),
                len => self.consume(len),
            }
        }
    }

    /// Skips to `offset`, where `len` bytes are wanted.
    fn skip_to(&mut self, offset: u64, len: u64) -> Result<()> {
        if offset < self.position {
            let what = "read a stream backwards".to_owned();
            let instead = "its bytes are read once, in the order of the file".to_owned();
            return Err(Error::new(ErrorKind::Unsupported { what, instead }).at(offset));
        }
        while self.position < offset {
            let skipped = self.take(offset - self.position).map(drop);
            skipped.map_err(|error| match error.kind() {
                ErrorKind::Truncated { .. } => truncated(offset, len, 0),
                _ => error,
            })?;
        }
        Ok(())
    }

    /// Returns the bytes from an offset to the end of its kept payload.
    fn kept_from(&self, offset: u64) -> Option<&[u8]> {
        let (start, kept) = self.kept.range(..=offset).next_back()?;
        kept.get(usize::try_from(offset - start).ok()?..)
    }

    /// Copies bytes held in memory. Returns `None` if they are not.
    fn copy_held(&self, offset: u64, bytes: &mut [u8]) -> Option<Result<()>> {
        if offset < self.position
            && let Some(kept) = self.kept_from(offset)
            && let Some(kept) = kept.get(..bytes.len())
        {
            bytes.copy_from_slice(kept);
            return Some(Ok(()));
        }
        let rest = self.rest.as_ref().filter(|rest| rest.holds(offset))?;
        let mut index = 0;
        while index < bytes.len() {
            let piece = rest.piece(offset.saturating_add(index as u64), (bytes.len() - index) as u64);
            if piece.is_empty() {
                return Some(Err(truncated(offset, bytes.len() as u64, index as u64)));
            }
            bytes[index..index + piece.len()].copy_from_slice(piece);
            index += piece.len();
        }
        Some(Ok(()))
    }
}

/// Reads some bytes; none at the end of the stream. If an earlier read failed, returns that error first.
fn read(reader: &mut impl Read, failed: &mut Option<Error>, bytes: &mut [u8]) -> Result<usize> {
    if let Some(error) = failed.take() {
        return Err(error);
    }
    loop {
        match reader.read(bytes) {
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            read => return Ok(check_read(read?, bytes.len())?),
        }
    }
}

fn truncated(offset: u64, needed: u64, left: u64) -> Error {
    Error::new(ErrorKind::Truncated { needed, left }).at(offset)
}

impl<R: Read> ReadAt for Stream<R> {
    fn file_len(&self) -> Option<u64> {
        self.rest.as_ref().map(Rest::end)
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if let Some(held) = self.copy_held(offset, bytes) {
            return held;
        }
        self.skip_to(offset, bytes.len() as u64)?;
        let mut filled = 0;
        while filled < bytes.len() {
            if self.ready.is_empty() && bytes.len() - filled >= self.direct() {
                filled += self.read_directly(&mut bytes[filled..])?;
                if filled < bytes.len() {
                    return Err(truncated(offset, bytes.len() as u64, filled as u64));
                }
                break;
            }
            let chunk = self.take((bytes.len() - filled) as u64).map_err(|error| match error.kind() {
                ErrorKind::Truncated { .. } => truncated(offset, bytes.len() as u64, filled as u64),
                _ => error,
            })?;
            bytes[filled..filled + chunk.len()].copy_from_slice(chunk);
            filled += chunk.len();
        }
        Ok(())
    }

    fn peek_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if let Some(held) = self.copy_held(offset, bytes) {
            return held;
        }
        self.skip_to(offset, bytes.len() as u64)?;
        let ready = self.fill(bytes.len())?;
        let (found, len) = (ready.len(), bytes.len());
        let ready = ready.get(..len).ok_or_else(|| truncated(offset, len as u64, found as u64))?;
        bytes.copy_from_slice(ready);
        Ok(())
    }

    fn at_hand(&self, offset: u64) -> &[u8] {
        let ahead = offset.checked_sub(self.position).and_then(|ahead| usize::try_from(ahead).ok());
        let ready = &self.buffer[self.ready.clone()];
        ahead.filter(|_| self.rest.is_none()).and_then(|ahead| ready.get(ahead..)).unwrap_or_default()
    }

    fn ends_at(&mut self, offset: u64) -> Result<bool> {
        if let Some(len) = self.file_len() {
            return Ok(offset == len);
        }
        let (start, len) = (self.position, offset.saturating_sub(self.position));
        while self.position < offset {
            let done = self.position - start;
            self.take(len - done).map(drop).map_err(|error| match error.kind() {
                // The bytes up to the offset are missing.
                ErrorKind::Truncated { .. } => truncated(start, len, done),
                _ => error,
            })?;
        }
        self.fill(1).map(<[u8]>::is_empty)
    }

    fn keep_rest(&mut self, limit: u64) -> Result<()> {
        if self.rest.is_some() {
            return Ok(());
        }
        let mut rest = Rest::new(self.position);
        loop {
            let chunk = self.fill(1)?;
            if chunk.is_empty() {
                break;
            }
            rest.push(chunk).map_err(|_| io::Error::from(IoErrorKind::OutOfMemory))?;
            let len = chunk.len();
            self.consume(len);
            if rest.len() > limit {
                let what = "the length of a stream that cannot be read in order";
                return Err(ErrorKind::Limit { what, found: rest.len(), limit }.into());
            }
        }
        self.rest = Some(rest);
        Ok(())
    }
}

impl<'de, R: Read> Storage<'de> for Stream<R> {
    fn short_file(&mut self) -> Option<&[u8]> {
        while self.position == 0 && self.ready.len() < FIRST && self.failed.is_none() {
            match read(&mut self.reader, &mut self.failed, &mut self.buffer[self.ready.end..]) {
                Ok(0) => return Some(&self.buffer[self.ready.clone()]),
                Ok(now) => self.ready.end += now,
                Err(error) => self.failed = Some(error),
            }
        }
        self.grows = self.ready.end == self.buffer.len();
        None
    }

    fn keep(&mut self, range: Range<u64>) -> Result<()> {
        if self.rest.is_none() && !range.is_empty() && !self.kept.contains_key(&range.start) {
            let len = range.end - range.start;
            self.skip_to(range.start, len)?;
            let mut bytes = Vec::new();
            while self.position < range.end {
                let done = bytes.len() as u64;
                let chunk = self.take(len - done).map_err(|error| match error.kind() {
                    ErrorKind::Truncated { .. } => truncated(range.start, len, done),
                    _ => error,
                })?;
                grow(&mut bytes, chunk.len(), usize::try_from(len).unwrap_or(usize::MAX))?;
                bytes.extend_from_slice(chunk);
            }
            self.kept.insert(range.start, bytes);
        }
        Ok(())
    }

    fn release(&mut self, offset: u64) {
        if let Some(rest) = &mut self.rest {
            rest.release(offset);
        }
        while let Some(kept) = self.kept.first_entry().filter(|kept| *kept.key() < offset) {
            kept.remove();
        }
    }

    fn chunk(&mut self, range: Range<u64>) -> Result<&[u8]> {
        let len = range.end - range.start;
        if self.rest.as_ref().is_some_and(|rest| rest.holds(range.start)) {
            let rest = self.rest.as_ref().expect("it holds the range");
            return match rest.piece(range.start, len) {
                [] => Err(truncated(range.start, len, 0)),
                chunk => Ok(chunk),
            };
        }
        if let Some(kept) = self.kept.remove(&range.start) {
            self.current = kept;
            return Ok(&self.current);
        }
        self.skip_to(range.start, len)?;
        self.take(len)
    }

    fn ready(&mut self, offset: u64, at_least: usize) -> Result<&[u8]> {
        if self.at_hand(offset).len() < at_least && !self.ends_at(offset)? {
            // The error is kept, and returned when reading comes to its offset.
            self.failed = self.read_on(at_least).err();
        }
        Ok(self.at_hand(offset))
    }

    fn take_at_hand(&mut self, range: Range<u64>) -> Option<&[u8]> {
        let len = usize::try_from(range.end - range.start).ok().filter(|len| *len > 0)?;
        let passed = self.at_hand(range.start).get(len..)?.len();
        self.position = range.end;
        self.ready.start = self.ready.end - passed;
        Some(&self.buffer[self.ready.start - len..self.ready.start])
    }

    fn append_to(&mut self, buffer: &mut Buffer, range: Range<u64>, expected: usize) -> Result<u64> {
        let len = range.end - range.start;
        let is_held = self.rest.as_ref().is_some_and(|rest| rest.holds(range.start));
        if is_held || self.kept.contains_key(&range.start) || len < self.direct() as u64 {
            return append_chunk(self, buffer, range, expected);
        }
        self.skip_to(range.start, len)?;
        if !self.ready.is_empty() {
            return append_chunk(self, buffer, range, expected);
        }
        // A piece is still in the processor's cache when it is read into, after it was filled with zeros.
        let piece = usize::try_from(len).unwrap_or(PIECE).min(PIECE);
        match self.read_directly(buffer.append_zeros(piece, expected)?)? {
            filled if filled == piece => Ok(piece as u64),
            filled => Err(truncated(range.start, len, filled as u64)),
        }
    }
}
