use std::collections::HashMap;
use std::io::{ErrorKind as IoErrorKind, Read};
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

use super::ByteSource;
use super::rest::Rest;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::grow;

/// A file that is read once, from front to back. Payloads are copied out of its buffer piece by piece.
#[derive(Debug)]
pub struct Stream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The part of the buffer that is read from the stream but not taken from here.
    ready: Range<usize>,
    position: u64,
    /// Ranges read ahead of their use, by where they begin.
    kept: HashMap<u64, Vec<u8>>,
    /// All from an offset on, once the order of reading is not the file's.
    rest: Option<Rest>,
}

/// Bytes asked from the reader at once; also the size of the pieces of a payload.
const BUFFER: usize = 256 * 1024;

impl<R: Read> Stream<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BUFFER], ready: 0..0, position: 0, kept: HashMap::new(), rest: None }
    }

    /// The bytes that come next: at least so many, fewer only at the end.
    fn fill(&mut self, at_least: usize) -> Result<&[u8]> {
        debug_assert!(at_least <= BUFFER, "more than the buffer holds");
        while self.ready.len() < at_least {
            self.buffer.copy_within(self.ready.clone(), 0);
            self.ready = 0..self.ready.len();
            match self.reader.read(&mut self.buffer[self.ready.end..]) {
                Ok(0) => break,
                Ok(len) => self.ready.end += len,
                Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from(error).at(self.position)),
            }
        }
        Ok(&self.buffer[self.ready.clone()])
    }

    fn consume(&mut self, len: usize) {
        self.ready.start += len;
        self.position += len as u64;
    }

    /// Calls `take` with the next `len` bytes, piece by piece.
    fn pieces(&mut self, len: u64, mut take: impl FnMut(&[u8])) -> Result<()> {
        let (start, mut left) = (self.position, len);
        while left > 0 {
            let piece = self.fill(1)?;
            if piece.is_empty() {
                return Err(truncated(start, len, len - left));
            }
            let now = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            take(&piece[..now]);
            self.consume(now);
            left -= now as u64;
        }
        Ok(())
    }

    /// Passes over what lies before `offset`, of which `len` bytes are wanted.
    fn skip_to(&mut self, offset: u64, len: u64) -> Result<()> {
        debug_assert!(offset >= self.position, "a stream only goes forward");
        self.pieces(offset.saturating_sub(self.position), |_| {}).map_err(|error| match error.kind() {
            ErrorKind::Truncated { .. } => truncated(offset, len, 0),
            _ => error,
        })
    }

    /// Copies held bytes; `None` where they are not held.
    fn copy_held(&self, offset: u64, bytes: &mut [u8]) -> Option<Result<()>> {
        let rest = self.rest.as_ref().filter(|rest| rest.holds(offset))?;
        let mut at = 0;
        while at < bytes.len() {
            let piece = rest.piece(offset.saturating_add(at as u64), (bytes.len() - at) as u64);
            if piece.is_empty() {
                return Some(Err(truncated(offset, bytes.len() as u64, at as u64)));
            }
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Some(Ok(()))
    }
}

fn truncated(offset: u64, needed: u64, left: u64) -> Error {
    Error::new(ErrorKind::Truncated { needed, left }).at(offset)
}

impl<'de, R: Read> ByteSource<'de> for Stream<R> {
    fn len(&self) -> Option<u64> {
        self.rest.as_ref().map(Rest::end)
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if let Some(held) = self.copy_held(offset, bytes) {
            return held;
        }
        self.skip_to(offset, bytes.len() as u64)?;
        let mut at = 0;
        self.pieces(bytes.len() as u64, |piece| {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        })
    }

    fn ends_at(&mut self, offset: u64) -> Result<bool> {
        if let Some(len) = ByteSource::len(self) {
            return Ok(offset == len);
        }
        // Here the bytes up to the offset are what is wanted.
        self.pieces(offset.saturating_sub(self.position), |_| {})?;
        self.fill(1).map(<[u8]>::is_empty)
    }

    fn keep(&mut self, range: Range<u64>) -> Result<()> {
        if self.rest.is_none() && !range.is_empty() && !self.kept.contains_key(&range.start) {
            self.skip_to(range.start, range.end - range.start)?;
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let mut bytes = Vec::new();
            self.pieces(range.end - range.start, |piece| {
                grow(&mut bytes, piece.len(), len);
                bytes.extend_from_slice(piece);
            })?;
            self.kept.insert(range.start, bytes);
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

    fn keep_rest(&mut self, limit: u64) -> Result<()> {
        let mut rest = Rest::new(self.position);
        loop {
            let piece = self.fill(1)?;
            if piece.is_empty() {
                break;
            }
            rest.push(piece);
            let len = piece.len();
            self.consume(len);
            if rest.len() > limit {
                let what = "the length of a stream that cannot be read in order";
                return Err(ErrorKind::Limit { what, found: rest.len(), limit }.into());
            }
        }
        self.rest = Some(rest);
        Ok(())
    }

    fn release(&mut self, offset: u64) {
        if let Some(rest) = &mut self.rest {
            rest.release(offset);
        }
    }

    fn payload<V: Visitor<'de>>(&mut self, range: Range<u64>, visitor: V) -> Result<V::Value> {
        if let Some(rest) = self.rest.as_ref().filter(|rest| rest.holds(range.start)) {
            let len = range.end - range.start;
            return match rest.piece(range.start, len) {
                whole if whole.len() as u64 == len => visitor.visit_bytes(whole),
                _ => visitor.visit_seq(HeldAccess { rest, range }),
            };
        }
        if range.is_empty() {
            return visitor.visit_bytes(&[]);
        }
        if let Some(kept) = self.kept.remove(&range.start) {
            return visitor.visit_bytes(&kept);
        }
        self.skip_to(range.start, range.end - range.start)?;
        visitor.visit_seq(PieceAccess { stream: self, len: range.end - range.start, end: range.end })
    }
}

/// A payload in the pieces that the buffer holds.
struct PieceAccess<'a, R> {
    stream: &'a mut Stream<R>,
    len: u64,
    end: u64,
}

impl<'de, R: Read> SeqAccess<'de> for PieceAccess<'_, R> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let left = self.end - self.stream.position;
        if left == 0 {
            return Ok(None);
        }
        let piece = self.stream.fill(1)?;
        if piece.is_empty() {
            return Err(truncated(self.end - self.len, self.len, self.len - left));
        }
        let now = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let value = seed.deserialize(PieceDeserializer(&piece[..now]))?;
        self.stream.consume(now);
        Ok(Some(value))
    }
}

/// A payload in the pieces that the blocks of the rest hold.
struct HeldAccess<'a> {
    rest: &'a Rest,
    range: Range<u64>,
}

impl<'de> SeqAccess<'de> for HeldAccess<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let left = self.range.end - self.range.start;
        if left == 0 {
            return Ok(None);
        }
        let piece = self.rest.piece(self.range.start, left);
        if piece.is_empty() {
            return Err(truncated(self.range.start, left, 0));
        }
        self.range.start += piece.len() as u64;
        seed.deserialize(PieceDeserializer(piece)).map(Some)
    }
}

/// A piece of a payload.
pub(crate) struct PieceDeserializer<'a>(pub(crate) &'a [u8]);

impl<'de> Deserializer<'de> for PieceDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_bytes(self.0)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
