use std::ops::Range;

use super::read_at::{ReadAt, Storage};
use crate::error::{Error, ErrorKind, Result};

/// A file in memory. Payloads are borrowed from it.
#[derive(Debug, Clone, Copy)]
pub struct Slice<'de>(&'de [u8]);

impl<'de> Slice<'de> {
    pub(crate) fn new(file: &'de [u8]) -> Self {
        Self(file)
    }

    pub(crate) fn as_bytes(&self) -> &'de [u8] {
        self.0
    }

    /// Returns a range, if the file has all of it.
    #[inline]
    pub(crate) fn get(&self, range: &Range<u64>) -> Option<&'de [u8]> {
        self.0.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }

    fn read(&self, offset: u64, len: u64) -> Result<&'de [u8]> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let bytes = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        bytes.ok_or_else(|| Error::new(ErrorKind::Truncated { needed: len, left: rest.len() as u64 }).at(offset))
    }
}

impl ReadAt for Slice<'_> {
    fn file_len(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(self.read(offset, bytes.len() as u64)?);
        Ok(())
    }

    fn bytes<'a>(&'a mut self, range: Range<u64>, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        self.read(range.start, range.end.saturating_sub(range.start))
    }
}

impl<'de> Storage<'de> for Slice<'de> {
    fn borrow(&self, range: Range<u64>) -> Option<Result<&'de [u8]>> {
        Some(self.read(range.start, range.end - range.start))
    }

    fn chunk(&mut self, range: Range<u64>) -> Result<&[u8]> {
        self.read(range.start, range.end - range.start)
    }
}
