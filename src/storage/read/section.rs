//! A part of a file, read like a whole file.

use std::ops::Range;

use super::read_at::{ReadAt, Storage};
use crate::error::{Error, ErrorKind, Result};

/// A range of a file. All offsets count from its start, in errors too.
pub(crate) struct Section<'a> {
    file: &'a mut dyn ReadAt,
    range: Range<u64>,
    chunk: Vec<u8>,
}

impl<'a> Section<'a> {
    /// A range within the file.
    pub(crate) fn new(file: &'a mut dyn ReadAt, range: Range<u64>) -> Self {
        Self { file, range, chunk: Vec::new() }
    }

    fn len(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Returns a range of this file as one of the outer file.
    fn outer(&self, range: Range<u64>) -> Result<Range<u64>> {
        if range.end > self.len() || range.start > range.end {
            let needed = range.end.saturating_sub(range.start);
            let left = self.len().saturating_sub(range.start);
            return Err(Error::from(ErrorKind::Truncated { needed, left }).at(range.start));
        }
        Ok(self.range.start + range.start..self.range.start + range.end)
    }
}

impl ReadAt for Section<'_> {
    fn file_len(&self) -> Option<u64> {
        Some(self.len())
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let range = self.outer(offset..offset.saturating_add(bytes.len() as u64))?;
        self.file.read_at(range.start, bytes).map_err(|error| error.without_offset().at(offset))
    }

    fn bytes<'b>(&'b mut self, range: Range<u64>, memory: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let offset = range.start;
        let range = self.outer(range)?;
        self.file.bytes(range, memory).map_err(|error| error.without_offset().at(offset))
    }

    fn will_read(&mut self, offsets: &mut dyn Iterator<Item = u64>) {
        let start = self.range.start;
        self.file.will_read(&mut offsets.map(|offset| start.saturating_add(offset)));
    }
}

impl<'de> Storage<'de> for Section<'_> {
    fn chunk(&mut self, range: Range<u64>) -> Result<&[u8]> {
        /// Short chunks are enough, because an index has few long ranges.
        const CHUNK: usize = 64 << 10;

        let offset = range.start;
        let range = self.outer(range)?;
        let len = usize::try_from(range.end - range.start).unwrap_or(CHUNK).min(CHUNK);
        self.chunk.resize(len, 0);
        self.file.read_at(range.start, &mut self.chunk).map_err(|error| error.without_offset().at(offset))?;
        Ok(&self.chunk)
    }
}
