//! Sends payloads to writers, decoded and with their checksums compared.

use std::io;
use std::ops::Range;

use super::window::LoadWindow;
use crate::error::Result;
use crate::read::{
    CheckedIndices, ElementWriter, Entry, PayloadDecoder, RangeReader, Sum, check_stored, check_value_count,
};
use crate::storage::{FileReader, FileStorage};
use crate::tensor::Layout;
use crate::tensor::checked_io::{check_written, write_all};

impl Entry<'_> {
    /// Decodes the first `end` bytes of the payload, and few after them. A checksum covers all bytes, so it is compared
    /// only if these are all.
    pub(crate) fn decode_to(
        &self,
        storage: &FileStorage,
        end: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(codec) = self.codec().filter(|_| end > 0) else { return Ok(()) };
        let mut file = LoadWindow::with_payload(storage, self);
        let mut decoder = PayloadDecoder::new(RangeReader::new(&mut file, self.range()), &self.coded(codec));
        let mut done = 0;
        while done < end
            && let Some(piece) = decoder.piece()?
        {
            take(piece)?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// Decodes the bytes of the payload in a range, as [`decode_to`](Self::decode_to). Memory grows while they are
    /// decoded, because a short file can state any length.
    pub(crate) fn decode(&self, storage: &FileStorage, wanted: Range<u64>) -> Result<Vec<u8>> {
        let (mut bytes, mut done) = (Vec::new(), 0);
        let expected = usize::try_from(wanted.end - wanted.start).unwrap_or(usize::MAX);
        let end = if wanted.is_empty() { 0 } else { wanted.end };
        self.decode_to(storage, end, &mut |piece| {
            let within =
                |index: u64| usize::try_from(index.saturating_sub(done)).unwrap_or(usize::MAX).min(piece.len());
            let piece_wanted = &piece[within(wanted.start)..within(wanted.end)];
            crate::tensor::grow(&mut bytes, piece_wanted.len(), expected)?;
            bytes.extend_from_slice(piece_wanted);
            done += piece.len() as u64;
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Writes the payload to `out`: in one call if it is stored as it is and in memory. A checksum is compared first if
    /// the payload is in memory, else in the end. The indices of a sparse tensor are checked as they are written.
    pub(crate) fn write_to(&self, storage: &FileStorage, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_ranges(storage, FileStorage::write_to, out)
    }

    /// Writes the payload to `out`, which is a file, as [`write_to`](Self::write_to) does.
    pub(crate) fn copy_to(&self, storage: &FileStorage, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_ranges(storage, FileStorage::copy_to, out)
    }

    /// Returns the place of some bytes of the payload, if they are in the file as they are.
    pub(crate) fn stored_range(&self, wanted: &Range<u64>) -> Option<Range<u64>> {
        let is_stored = self.codec().is_none() && !self.has_bools() && !self.has_checksum();
        let is_stored = is_stored && !matches!(self.info().layout, Layout::Coo { .. });
        is_stored.then(|| self.start() + wanted.start..self.start() + wanted.end)
    }

    fn write_ranges(&self, storage: &FileStorage, write: WriteRange, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(codec) = self.codec() {
            let mut file = LoadWindow::with_payload(storage, self);
            check_stored(&mut file, self)?;
            let mut decoder = PayloadDecoder::new(RangeReader::new(&mut file, self.range()), &self.coded(codec));
            while let Some(piece) = decoder.piece()? {
                write_all(out, piece)?;
            }
            return Ok(());
        }
        let range = self.range();
        let (start, len) = (range.start, range.end - range.start);
        if let Layout::Coo { .. } = self.info().layout {
            let [indices, count, elements] = self.parts();
            let write =
                |range: Range<u64>, out: &mut dyn io::Write| write(storage, range.start, range.end - range.start, out);
            write(indices, &mut CheckedIndices::new(self.info(), out))?;
            check_value_count(&mut FileReader::new(storage), self)?;
            write(count, out)?;
            return write(elements, &mut ElementWriter::new(*self, out));
        }
        let mut elements;
        let out: &mut dyn io::Write = if self.has_bools() {
            elements = ElementWriter::new(*self, out);
            &mut elements
        } else {
            out
        };
        if !self.has_checksum() {
            return write(storage, start, len, out);
        }
        if storage.takes_requests(start) {
            // The checksum also covers bytes before the payload, so they are read in one stream with it.
            let (from, mut sum) = (self.needed_from(), Sum::after(self, &[]));
            let mut summed = Summed { out, sum: &mut sum, head: start - from };
            storage.write_to(from, start - from + len, &mut summed)?;
            return Ok(sum.end()?);
        }
        let mut sum = Sum::of(self, &mut FileReader::new(storage))?;
        if let Some(bytes) = storage.borrow(start, len) {
            let bytes = bytes?;
            sum.update(bytes);
            sum.end()?;
            return write_all(out, bytes);
        }
        // Several threads sum a long chunk.
        storage.write_to(start, len, &mut Summed { out, sum: &mut sum, head: 0 })?;
        Ok(sum.end()?)
    }
}

/// A function that writes the range of a file with an offset and a length.
type WriteRange = fn(&FileStorage, u64, u64, &mut dyn io::Write) -> io::Result<()>;

/// Passes on a payload, and adds it to its checksum, with the bytes before it.
struct Summed<'a> {
    out: &'a mut dyn io::Write,
    sum: &'a mut Sum,
    /// The number of bytes before the payload, which are not passed on.
    head: u64,
}

impl io::Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.head > 0 {
            let now = usize::try_from(self.head).unwrap_or(usize::MAX).min(bytes.len());
            self.sum.update(&bytes[..now]);
            self.head -= now as u64;
            return Ok(now);
        }
        let written = check_written(self.out.write(bytes)?, bytes.len())?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
