//! A seekable reader as a source of ranges.

use std::borrow::Cow;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

use super::ranges::{ReadCost, ReadRanges, check_all_read, read_calls};
use crate::tensor::checked_io::check_read;

/// A seekable reader.
pub trait ReadSeek: Read + Seek {}

impl<R: Read + Seek> ReadSeek for R {}

/// A reader that one thread at a time moves to a position.
pub(super) struct SeekableReader(pub(super) Mutex<Box<dyn ReadSeek + Send>>);

impl ReadRanges for SeekableReader {
    fn len(&self) -> io::Result<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seek(SeekFrom::End(0))
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        // The lock may be poisoned by a panic, but every read begins with a seek.
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = bytes.len();
        let read = read_calls(bytes, &mut |filled, rest| {
            reader.seek(SeekFrom::Start(offset.saturating_add(filled as u64)))?;
            check_read(reader.read(rest)?, rest.len())
        });
        check_all_read(read?, needed)
    }

    fn cost(&self) -> ReadCost {
        ReadCost::SerialCall
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
}
