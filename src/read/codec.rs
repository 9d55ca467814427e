//! Payloads that need decoding: byte-swapped or compressed.

use std::io::{self, Read};
use std::num::NonZeroU8;
use std::ops::Range;

use super::member::{Deflated, Zipped};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{ReadSeek, Storage};
use crate::tensor::to_bools;

/// The encoding of a payload in its range of the file. Every entry of an index has room for one, so it is small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Big-endian elements of this size.
    BigEndian(NonZeroU8),
    /// Bools stored as any byte: all but 0 are true. Bools with another codec are read in the same way. Without a
    /// codec, bytes other than 0 and 1 are an error.
    Bools,
    /// The payload is the end of a member of an archive.
    Zipped(Zipped),
    /// Elements with gaps between them in the range, or with flipped signs.
    Strided(Box<Strided>),
    /// Each payload byte is stored as a character of its value, in UTF-8. Big-endian elements have this size.
    Latin1(Option<NonZeroU8>),
    /// The payload is one i64, stored as decimal text.
    Decimal,
}

impl Codec {
    /// Returns the size of big-endian elements, in bytes.
    pub(crate) fn big_endian(&self) -> Option<NonZeroU8> {
        match self {
            Self::BigEndian(bytes) => Some(*bytes),
            Self::Bools | Self::Decimal => None,
            Self::Zipped(zipped) => zipped.big_endian(),
            Self::Strided(strided) => strided.big_endian,
            Self::Latin1(big_endian) => *big_endian,
        }
    }

    /// Returns whether the range has to be decoded to the payload. Bools do not have to, as most are 0 or 1.
    pub(crate) fn decodes(&self) -> bool {
        match self {
            Self::Bools => false,
            Self::Zipped(zipped) => zipped.is_deflated() || zipped.big_endian().is_some(),
            _ => true,
        }
    }

    /// Returns whether stored elements are at different places than in the payload, because of compression or gaps.
    pub(crate) fn moves_elements(&self) -> bool {
        match self {
            Self::BigEndian(_) | Self::Bools => false,
            Self::Zipped(zipped) => zipped.is_deflated(),
            Self::Strided(_) | Self::Latin1(_) | Self::Decimal => true,
        }
    }

    /// Swaps the bytes of elements, if they are big-endian.
    pub(crate) fn swap(&self, bytes: &mut [u8]) {
        swap(self.big_endian(), bytes);
    }
}

/// Elements with gaps between them, repeated ones, or ones with another sign.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Strided {
    /// The size of big-endian elements, in bytes.
    pub(crate) big_endian: Option<NonZeroU8>,
    /// A change of all elements.
    pub(crate) negation: Option<Negation>,
    /// The number of contiguous bytes.
    pub(crate) run: usize,
    /// The number of runs along each dim, and the bytes from one to the next, outermost first. A run may begin before
    /// the one before it.
    pub(crate) dims: Box<[(u64, u64)]>,
}

/// Numbers to negate after reading. A complex number counts as two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Negation {
    /// The size of a number, in bytes.
    pub(crate) bytes: u8,
    /// The numbers are integers. Otherwise the highest bit is the sign.
    pub(crate) are_integers: bool,
    /// Whether numbers at even and at odd positions are negated.
    pub(crate) even_and_odd: [bool; 2],
}

impl Negation {
    /// Negates little-endian numbers. The first one has an even position.
    fn apply(self, bytes: &mut [u8]) {
        for (number, is_negated) in bytes.chunks_exact_mut(self.bytes.into()).zip(self.even_and_odd.iter().cycle()) {
            if !is_negated {
                continue;
            }
            if !self.are_integers {
                number.iter_mut().last().into_iter().for_each(|last| *last ^= 0x80);
                continue;
            }
            let mut carry = true;
            for byte in number {
                (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
            }
        }
    }
}

fn swap(big_endian: Option<NonZeroU8>, bytes: &mut [u8]) {
    match big_endian.map(NonZeroU8::get) {
        Some(2) => reverse::<2>(bytes),
        Some(4) => reverse::<4>(bytes),
        Some(8) => reverse::<8>(bytes),
        _ => {}
    }
}

/// The size of a decoded piece. Every element size divides it.
const PIECE: usize = 32 * 1024;

/// A payload that needs decoding.
pub(crate) struct CodedPayload<'a> {
    codec: &'a Codec,
    /// The length of its range of the file.
    len: u64,
    /// The length of the payload after decoding.
    bytes: u64,
    are_bools: bool,
}

impl<'a> CodedPayload<'a> {
    /// A payload of `bytes` bytes in a range of the file.
    pub(crate) fn new(codec: &'a Codec, range: &Range<u64>, bytes: u64, are_bools: bool) -> Self {
        Self { codec, len: range.end - range.start, bytes, are_bools }
    }
}

/// Decodes a payload piece by piece.
///
/// It holds one piece in memory, regardless of the sizes in the file.
pub(crate) struct PayloadDecoder<R> {
    bytes: Bytes<R>,
    big_endian: Option<NonZeroU8>,
    negation: Option<Negation>,
    /// Any byte but 0 becomes 1.
    are_bools: bool,
    /// The number of payload bytes left to decode.
    left: u64,
    /// The range was checked to its end.
    is_checked: bool,
    piece: Vec<u8>,
}

enum Bytes<R> {
    Plain(R),
    Deflated(Deflated<R>),
    Strided(StridedReader<R>),
    Latin1(io::BufReader<R>),
    Decimal(io::Take<R>),
}

impl<R: ReadSeek> PayloadDecoder<R> {
    /// Decodes a payload from its range of the file.
    pub(crate) fn new(reader: R, CodedPayload { codec, len, bytes: payload, are_bools }: &CodedPayload<'_>) -> Self {
        let bytes = match codec {
            Codec::Zipped(zipped) if zipped.is_deflated() => Bytes::Deflated(Deflated::new(reader, zipped, *len)),
            Codec::Strided(strided) => Bytes::Strided(StridedReader::new(reader, strided.clone())),
            Codec::Latin1(_) => Bytes::Latin1(io::BufReader::with_capacity(PIECE, reader)),
            Codec::Decimal => Bytes::Decimal(reader.take(*len)),
            _ => Bytes::Plain(reader),
        };
        Self {
            bytes,
            big_endian: codec.big_endian(),
            negation: match codec {
                Codec::Strided(strided) => strided.negation,
                _ => None,
            },
            are_bools: *are_bools,
            left: *payload,
            is_checked: false,
            piece: Vec::new(),
        }
    }

    /// Returns the next piece, or `None` after the last one. The whole range is checked before the last piece is
    /// returned.
    pub(crate) fn piece(&mut self) -> Result<Option<&[u8]>> {
        if self.left == 0 {
            if !std::mem::replace(&mut self.is_checked, true) {
                self.bytes.read(&mut [])?;
                self.bytes.end()?;
            }
            return Ok(None);
        }
        let now = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE);
        self.piece.resize(now, 0);
        self.bytes.read(&mut self.piece)?;
        self.left -= now as u64;
        if self.left == 0 {
            self.is_checked = true;
            self.bytes.end()?;
        }
        swap(self.big_endian, &mut self.piece);
        // A piece has whole complex numbers.
        if let Some(negation) = self.negation {
            negation.apply(&mut self.piece);
        }
        if self.are_bools {
            to_bools(&mut self.piece);
        }
        Ok(Some(&self.piece))
    }
}

fn reverse<const SIZE: usize>(bytes: &mut [u8]) {
    bytes.as_chunks_mut::<SIZE>().0.iter_mut().for_each(|element| element.reverse());
}

impl<R: ReadSeek> Bytes<R> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self {
            Self::Plain(reader) => reader.read_exact(bytes).map_err(Error::from),
            Self::Deflated(stream) => stream.read(bytes),
            Self::Strided(gather) => gather.read(bytes).map_err(Error::from),
            Self::Latin1(text) => read_latin_1(text, bytes),
            Self::Decimal(text) => read_decimal(text, bytes),
        }
    }

    /// Checks the end of the stream, and its checksum.
    fn end(&mut self) -> Result<()> {
        match self {
            Self::Plain(_) | Self::Strided(_) | Self::Latin1(_) | Self::Decimal(_) => Ok(()),
            Self::Deflated(stream) => stream.end(),
        }
    }
}

/// Reads bytes stored as UTF-8 characters.
fn read_latin_1(text: &mut impl Read, bytes: &mut [u8]) -> Result<()> {
    for byte in bytes {
        let mut first = [0];
        text.read_exact(&mut first)?;
        *byte = match first {
            [ascii @ 0..0x80] => ascii,
            [lead @ (0xc2 | 0xc3)] => {
                let mut second = [0];
                text.read_exact(&mut second)?;
                lead << 6 | second[0] & 0x3f
            }
            [_] => {
                let what = "bytes that are stored as a text have a character that is not one of them".to_owned();
                return Err(ErrorKind::Malformed { what }.into());
            }
        };
    }
    Ok(())
}

/// Reads the number that a text is, and the text to its end.
fn read_decimal<R: Read>(text: &mut io::Take<R>, bytes: &mut [u8]) -> Result<()> {
    /// Longer text is not a number that anybody wrote.
    const LONGEST: u64 = 64;

    let Some(bytes) = bytes.first_chunk_mut() else { return Ok(()) };
    let mut found = Vec::new();
    if text.limit() <= LONGEST {
        text.read_to_end(&mut found)?;
    }
    let number = str::from_utf8(&found).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let number = number.ok_or_else(|| {
        let found =
            if found.is_empty() { format!("{} bytes", text.limit()) } else { format!("`{}`", found.escape_ascii()) };
        ErrorKind::Malformed { what: format!("found {found}, but expected an i64 as text") }
    })?;
    *bytes = number.to_le_bytes();
    Ok(())
}

/// Reads the runs of strided elements in order.
struct StridedReader<R> {
    reader: io::BufReader<R>,
    strided: Box<Strided>,
    indices: Vec<u64>,
    /// The offsets of the current run and of the reader.
    run: u64,
    i: u64,
    /// The number of bytes of the run already returned.
    done: usize,
    /// A run of one element, and its offset.
    element: Vec<u8>,
    element_offset: Option<u64>,
}

impl<R: ReadSeek> StridedReader<R> {
    /// Runs up to this length are held, because they may be repeated.
    const ELEMENT: usize = 16;

    fn new(reader: R, strided: Box<Strided>) -> Self {
        let indices = vec![0; strided.dims.len()];
        let reader = io::BufReader::with_capacity(PIECE, reader);
        Self { reader, strided, indices, run: 0, i: 0, done: 0, element: Vec::new(), element_offset: None }
    }

    fn read(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.done == self.strided.run {
                self.advance();
            }
            let now = bytes.len().min(self.strided.run - self.done);
            let (piece, rest) = bytes.split_at_mut(now);
            if self.strided.run <= Self::ELEMENT {
                if self.element_offset != Some(self.run) {
                    self.go_to(self.run)?;
                    self.element.resize(self.strided.run, 0);
                    self.reader.read_exact(&mut self.element)?;
                    self.i += self.strided.run as u64;
                    self.element_offset = Some(self.run);
                }
                piece.copy_from_slice(&self.element[self.done..self.done + now]);
            } else {
                self.go_to(self.run + self.done as u64)?;
                self.reader.read_exact(piece)?;
                self.i += now as u64;
            }
            self.done += now;
            bytes = rest;
        }
        Ok(())
    }

    /// Goes on to the next run.
    fn advance(&mut self) {
        self.done = 0;
        for ((count, step), index) in self.strided.dims.iter().zip(&mut self.indices).rev() {
            *index += 1;
            self.run += step;
            if *index < *count {
                return;
            }
            self.run -= count * step;
            *index = 0;
        }
    }

    /// Moves the reader to an offset.
    fn go_to(&mut self, offset: u64) -> io::Result<()> {
        if offset != self.i {
            let by = offset.cast_signed().checked_sub(self.i.cast_signed());
            self.reader.seek_relative(by.ok_or(io::ErrorKind::InvalidInput)?)?;
            self.i = offset;
        }
        Ok(())
    }
}

/// A range of a file, as a reader.
pub(crate) struct RangeReader<'a, 'de> {
    storage: &'a mut (dyn Storage<'de> + 'de),
    range: Range<u64>,
}

impl<'a, 'de> RangeReader<'a, 'de> {
    pub(crate) fn new(storage: &'a mut (dyn Storage<'de> + 'de), range: Range<u64>) -> Self {
        Self { storage, range }
    }
}

impl Read for RangeReader<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let now = usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX).min(bytes.len());
        self.storage.read_at(self.range.start, &mut bytes[..now])?;
        self.range.start += now as u64;
        Ok(now)
    }
}

impl io::Seek for RangeReader<'_, '_> {
    /// Moves on by some bytes.
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let io::SeekFrom::Current(by) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        let start = self.range.start.checked_add_signed(by).filter(|start| *start <= self.range.end);
        self.range.start = start.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(self.range.start)
    }
}
