//! Checksums of uncompressed payloads.

use super::member::MemberSum;
use super::{Cursor, Entry};
use crate::error::Result;
use crate::storage::ReadAt;

/// The checksum of a payload, while it is being read, and the start of its range. Formats without checksums have none.
pub(crate) struct Sum(Option<(MemberSum, u64)>);

impl Sum {
    /// Begins the checksum of a payload with the covered bytes before it.
    pub(crate) fn of(entry: &Entry<'_>, file: &mut dyn ReadAt) -> Result<Self> {
        let (start, payload, mut head) = (entry.needed_from(), entry.range().start, Vec::new());
        if entry.has_checksum() {
            Cursor::new(file, start).append(payload - start, &mut head)?;
        }
        Ok(Self::after(entry, &head))
    }

    /// As [`of`](Self::of), after the bytes that it covers before the payload.
    pub(crate) fn after(entry: &Entry<'_>, head: &[u8]) -> Self {
        Self(entry.stored().map(|stored| {
            let mut sum = MemberSum::new(stored);
            sum.update(head);
            (sum, entry.needed_from())
        }))
    }

    /// Adds the next bytes of the payload.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some((sum, _)) = &mut self.0 {
            sum.update(bytes);
        }
    }

    /// Compares the checksum after the last byte.
    pub(crate) fn end(&mut self) -> Result<()> {
        match self.0.take() {
            Some((sum, start)) => sum.end().map_err(|error| error.at(start)),
            None => Ok(()),
        }
    }
}
