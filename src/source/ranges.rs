use std::ops::Range;

use serde::de::{DeserializeSeed, SeqAccess, Visitor};

use super::piece::Piece;
use super::storage::PIECE;
use super::{ByteSource, Storage};
use crate::error::{Error, Result};

/// An opened file, read by ranges. What is in memory is borrowed.
#[derive(Debug)]
pub struct Ranges<'f> {
    storage: &'f Storage,
    /// The bytes last read of a file that is read at positions: heads lie close together.
    window: Vec<u8>,
    window_start: u64,
    piece: Vec<u8>,
}

/// Bytes read at once where only a few are asked for.
const WINDOW: usize = 4096;

impl<'f> Ranges<'f> {
    pub(crate) fn new(storage: &'f Storage) -> Self {
        Self { storage, window: Vec::new(), window_start: 0, piece: Vec::new() }
    }

    fn in_window(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.window_start)?).ok()?;
        self.window.get(at..at.checked_add(len)?)
    }
}

impl<'f> ByteSource<'f> for Ranges<'f> {
    fn len(&self) -> Option<u64> {
        Some(self.storage.len())
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if bytes.len() > WINDOW || matches!(self.storage.borrow(offset, 0), Some(Ok(_))) {
            return self.storage.read_at(offset, bytes);
        }
        if self.in_window(offset, bytes.len()).is_none() {
            self.window.resize(WINDOW, 0);
            let read = self.storage.read_some(offset, &mut self.window)?;
            self.window.truncate(read);
            self.window_start = offset;
        }
        match self.in_window(offset, bytes.len()) {
            Some(found) => bytes.copy_from_slice(found),
            // The file ends: the error is that of reading just these.
            None => self.storage.read_at(offset, bytes)?,
        }
        Ok(())
    }

    fn ends_at(&mut self, offset: u64) -> Result<bool> {
        Ok(offset == self.storage.len())
    }

    fn keep(&mut self, _: Range<u64>) -> Result<()> {
        Ok(())
    }

    fn peek_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.read_at(offset, bytes)
    }

    fn keep_rest(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn release(&mut self, _: u64) {}

    fn payload<V: Visitor<'f>>(&mut self, range: Range<u64>, visitor: V) -> Result<V::Value> {
        match self.storage.borrow(range.start, range.end - range.start) {
            Some(bytes) => visitor.visit_borrowed_bytes(bytes?),
            None => visitor.visit_seq(PieceAccess { storage: self.storage, piece: &mut self.piece, range }),
        }
    }
}

/// A payload in pieces that are read one after the other.
struct PieceAccess<'a> {
    storage: &'a Storage,
    piece: &'a mut Vec<u8>,
    range: Range<u64>,
}

impl<'de> SeqAccess<'de> for PieceAccess<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let left = self.range.end - self.range.start;
        if left == 0 {
            return Ok(None);
        }
        let now = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        self.piece.resize(now, 0);
        self.storage.read_at(self.range.start, self.piece)?;
        self.range.start += now as u64;
        seed.deserialize(Piece(self.piece)).map(Some)
    }
}
