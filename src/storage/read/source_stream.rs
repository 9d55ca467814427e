//! Reads a source of ranges as a stream.

use std::io;
use std::ops::Range;

use super::ReadRanges;
use crate::error::Error;
use crate::tensor::checked_io::write_all;
use crate::tensor::try_zeros;

/// The largest length of a block. Two blocks are held at a time.
const BLOCK: usize = 32 << 20;

/// Reads a source as a stream. Long ranges are read in blocks, the next one while one is passed on. If reading
/// continues where it ended, more is read ahead.
#[derive(Debug, Default)]
pub(super) struct SourceStream {
    /// A block of the source, and its offset.
    start: u64,
    block: Vec<u8>,
    /// The end of the last range.
    end: u64,
    /// The length of the next block, if reading goes on.
    next: usize,
}

impl SourceStream {
    /// The largest gap that reading ahead crosses.
    const GAP: u64 = 128 << 10;

    /// The length of the first block read ahead.
    const FIRST: usize = 1 << 20;

    /// The length of a part of a block. Several parts are read at once.
    const PART: usize = 8 << 20;

    /// Writes a range to `out`. It is within the source, of `source_len` bytes.
    pub(super) fn write_to(
        &mut self,
        source: &dyn ReadRanges,
        source_len: u64,
        range: Range<u64>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let Range { start: offset, end } = range;
        let goes_on = offset.checked_sub(self.end).is_some_and(|gap| gap <= Self::GAP) && self.end > 0;
        self.next = if goes_on { self.next.max(Self::FIRST) } else { 0 };
        let mut done = offset;
        while done < end {
            if self.rest(done).is_empty() {
                let wanted = usize::try_from(end - done).unwrap_or(BLOCK).max(self.next).min(BLOCK);
                self.block = read_block(source, done, block_len(wanted, source_len - done)?)?;
                (self.start, self.next) = (done, (2 * self.next).min(BLOCK));
            }
            let start = self.start + self.block.len() as u64;
            if start >= end {
                let now = usize::try_from(end - done).unwrap_or(usize::MAX);
                write_all(out, &self.rest(done)[..now])?;
                break;
            }
            // More blocks are needed, so the next one is read while this one is passed on.
            let wanted = usize::try_from(end - start).unwrap_or(BLOCK).max(self.next).min(BLOCK);
            let len = block_len(wanted, source_len - start)?;
            let next = std::thread::scope(|scope| {
                let ahead = std::thread::Builder::new().spawn_scoped(scope, || read_block(source, start, len));
                let written = write_all(out, self.rest(done));
                let next = match ahead {
                    Ok(ahead) => ahead.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    Err(_) => read_block(source, start, len),
                };
                written.and(next)
            });
            self.block.clear();
            self.block = next?;
            (self.start, done) = (start, start);
        }
        self.end = end;
        if self.rest(end).is_empty() {
            self.block = Vec::new();
        }
        Ok(())
    }

    /// Returns the bytes of the block from an offset on.
    fn rest(&self, offset: u64) -> &[u8] {
        let index = offset.checked_sub(self.start).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.block.get(index..)).unwrap_or_default()
    }
}

fn block_len(wanted: usize, left: u64) -> io::Result<usize> {
    match usize::try_from(left).unwrap_or(usize::MAX).min(wanted) {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        len => Ok(len),
    }
}

/// Reads a block in several parts at once.
fn read_block(source: &dyn ReadRanges, start: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut block = try_zeros(len).map_err(Error::from)?;
    let parts = block.chunks_mut(SourceStream::PART).enumerate();
    let mut ranges: Vec<_> = parts.map(|(i, part)| (start + (i * SourceStream::PART) as u64, part)).collect();
    source.read_many(&mut ranges).map_err(|error| Error::from(error).at(start))?;
    Ok(block)
}
