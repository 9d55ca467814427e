//! A part of a file, read as a file of its own.

use std::ops::Range;

use super::ReadAt;
use crate::error::{Error, ErrorKind, Result};

/// A range of a file. Offsets, also those of errors, count from its start.
pub(crate) struct Section<'a> {
    file: &'a mut dyn ReadAt,
    range: Range<u64>,
}

impl<'a> Section<'a> {
    /// A range within the file.
    pub(crate) fn new(file: &'a mut dyn ReadAt, range: Range<u64>) -> Self {
        Self { file, range }
    }
}

impl ReadAt for Section<'_> {
    fn file_len(&self) -> Option<u64> {
        Some(self.range.end - self.range.start)
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let len = self.range.end - self.range.start;
        let (needed, left) = (bytes.len() as u64, len.saturating_sub(offset));
        if needed > left {
            return Err(Error::new(ErrorKind::Truncated { needed, left }).at(offset));
        }
        self.file.read_at(self.range.start + offset, bytes).map_err(|error| error.without_offset().at(offset))
    }

    fn waits(&self) -> bool {
        self.file.waits()
    }

    fn will_read(&mut self, offsets: &mut dyn Iterator<Item = u64>) {
        let start = self.range.start;
        self.file.will_read(&mut offsets.map(|offset| start.saturating_add(offset)));
    }
}
