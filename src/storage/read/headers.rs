//! Reads only the headers of a stream. Payloads are skipped and not kept.

use std::cell::Cell;
use std::fmt;
use std::io::{Chain, Cursor, Read};
use std::ops::Range;

use super::{ReadAt, Storage, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::try_zeros;

/// The header bytes of a stream, and its length.
///
/// Payloads were passed over and cannot be read.
#[derive(Debug, Default)]
pub struct Headers {
    bytes: Vec<u8>,
    /// The runs of contiguous bytes, in file order: the offset of each in the file and in `bytes`.
    runs: Vec<(u64, usize)>,
    file_len: u64,
}

impl Headers {
    /// Returns the length of the file in bytes.
    pub(super) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the bytes from `offset` to the end of its run.
    fn rest(&self, offset: u64) -> &[u8] {
        let after = self.runs.partition_point(|(start, _)| *start <= offset);
        let Some((start, from)) = after.checked_sub(1).and_then(|index| self.runs.get(index)) else { return &[] };
        let to = self.runs.get(after).map_or(self.bytes.len(), |(_, from)| *from);
        let run = self.bytes.get(*from..to).unwrap_or_default();
        usize::try_from(offset - start).ok().and_then(|index| run.get(index..)).unwrap_or_default()
    }

    /// Returns `len` bytes from `offset` on.
    pub(super) fn get(&self, offset: u64, len: u64) -> Result<&[u8]> {
        let left = self.file_len.saturating_sub(offset);
        if left < len {
            return Err(Error::new(ErrorKind::Truncated { needed: len, left }).at(offset));
        }
        let found = usize::try_from(len).ok().and_then(|len| self.rest(offset).get(..len));
        found.ok_or_else(|| passed_over(offset))
    }

    /// Adds bytes read at `offset`, possibly a second time.
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        match self.runs.last() {
            // The bytes were added before.
            Some((start, _)) if offset < *start => {}
            Some((start, from)) if offset <= start + (self.bytes.len() - from) as u64 => {
                let known = start + (self.bytes.len() - from) as u64 - offset;
                let new = usize::try_from(known).ok().and_then(|known| bytes.get(known..));
                self.bytes.extend_from_slice(new.unwrap_or_default());
            }
            _ if bytes.is_empty() => {}
            _ => {
                self.runs.push((offset, self.bytes.len()));
                self.bytes.extend_from_slice(bytes);
            }
        }
    }

    /// Returns the end of the known bytes.
    fn end(&self) -> u64 {
        self.runs.last().map_or(0, |(start, from)| start + (self.bytes.len() - from) as u64)
    }
}

fn passed_over(offset: u64) -> Error {
    let what = "read elements of a stream of which only the index was read".to_owned();
    let instead = "they were passed over, and are gone".to_owned();
    Error::new(ErrorKind::Unsupported { what, instead }).at(offset)
}

/// A stream for reading an index. Bytes read are kept, and the rest is passed over: payloads too, although they are
/// read in chunks.
pub struct HeaderStream<'r> {
    stream: Stream<Chain<Cursor<Vec<u8>>, &'r mut dyn Read>>,
    headers: Headers,
    /// Whether no tensor is known yet, so that skipped bytes are part of the header and may be requested later.
    is_in_header: &'r Cell<bool>,
    /// The longest payload to keep as a possible list of names.
    longest_kept: u64,
}

/// The most skipped header bytes to keep. Metadata is mostly shorter, and there is no reason for a gap of this size.
const LONGEST_PART: u64 = 16 << 20;

impl<'r> HeaderStream<'r> {
    /// A stream that continues after the bytes `begin`.
    pub(crate) fn new(
        begin: Vec<u8>,
        reader: &'r mut dyn Read,
        is_in_header: &'r Cell<bool>,
        longest_kept: u64,
    ) -> Self {
        let mut headers = Headers::default();
        headers.add(0, &begin);
        Self { stream: Stream::new(Cursor::new(begin).chain(reader)), headers, is_in_header, longest_kept }
    }

    /// Skips the rest of the stream.
    pub(crate) fn finish(mut self) -> Result<Headers> {
        self.headers.file_len = self.stream.pass_rest()?;
        Ok(self.headers)
    }

    /// Keeps the skipped part of the header before `offset`.
    fn keep_part(&mut self, offset: u64) -> Result<()> {
        let is_part = offset.checked_sub(self.headers.end()).is_some_and(|len| len <= LONGEST_PART);
        while is_part && self.is_in_header.get() && self.headers.end() < offset {
            let end = self.headers.end();
            let mut part = [0; 4 << 10];
            let len = usize::try_from(offset - end).unwrap_or(usize::MAX).min(part.len());
            self.stream.read_at(end, &mut part[..len])?;
            self.headers.add(end, &part[..len]);
        }
        Ok(())
    }
}

impl ReadAt for &mut HeaderStream<'_> {
    fn file_len(&self) -> Option<u64> {
        None
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.keep_part(offset)?;
        self.stream.read_at(offset, bytes)?;
        self.headers.add(offset, bytes);
        Ok(())
    }

    fn peek_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.keep_part(offset)?;
        self.stream.peek_at(offset, bytes)?;
        self.headers.add(offset, bytes);
        Ok(())
    }

    fn ends_at(&mut self, offset: u64) -> Result<bool> {
        self.stream.ends_at(offset)
    }

    fn keep_rest(&mut self, _limit: u64) -> Result<()> {
        let what = "read the index of a stream that cannot be read in order".to_owned();
        let instead = "all of it has to be in memory or in a file".to_owned();
        Err(ErrorKind::Unsupported { what, instead }.into())
    }
}

impl<'de> Storage<'de> for &mut HeaderStream<'_> {
    fn keep(&mut self, range: Range<u64>) -> Result<()> {
        let len = range.end.saturating_sub(range.start);
        if len > self.longest_kept {
            return Ok(());
        }
        self.stream.keep(range.clone())?;
        let mut bytes = try_zeros(usize::try_from(len).unwrap_or(usize::MAX))?;
        self.stream.read_at(range.start, &mut bytes)?;
        self.headers.add(range.start, &bytes);
        Ok(())
    }

    /// Returns the beginning of a payload, without keeping it.
    fn chunk(&mut self, range: Range<u64>) -> Result<&[u8]> {
        if self.stream.has_lost(range.start) {
            return Err(passed_over(range.start));
        }
        self.stream.chunk(range)
    }
}

impl fmt::Debug for HeaderStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderStream").field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// The beginning of a file of unknown length.
#[derive(Debug)]
pub struct FileStart<'b>(pub &'b [u8]);

impl ReadAt for FileStart<'_> {
    /// Returns more than any file has, so that no stated length looks wrong.
    fn file_len(&self) -> Option<u64> {
        Some(u64::MAX)
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        super::Slice::new(self.0).read_at(offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_and_do_not_overlap() {
        let mut headers = Headers { file_len: 100, ..Headers::default() };
        for (offset, bytes) in [(0, &[0, 1, 2, 3][..]), (2, &[2, 3, 4]), (1, &[1]), (50, &[50]), (51, &[51]), (3, &[3])]
        {
            headers.add(offset, bytes);
        }
        assert_eq!((headers.runs.len(), headers.bytes.len(), headers.end()), (2, 7, 52));
        assert_eq!(headers.get(1, 4).unwrap(), [1, 2, 3, 4]);
        assert_eq!(headers.get(50, 2).unwrap(), [50, 51]);
        assert_eq!(headers.get(100, 0).map(<[u8]>::len).ok(), Some(0));
        let message = |offset, len| headers.get(offset, len).unwrap_err().to_string();
        let passed =
            "cannot read elements of a stream of which only the index was read; they were passed over, and are gone";
        assert_eq!(message(4, 2), format!("{passed} (at byte 4)"));
        assert_eq!(message(60, 1), format!("{passed} (at byte 60)"));
        assert!(message(99, 2).contains("2"), "{}", message(99, 2));
    }
}
