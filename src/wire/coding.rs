//! Payloads that do not lie in a file as they are: with their bytes in another order, or compressed.

use std::io::{self, Read};
use std::marker::PhantomData;
use std::ops::Range;

use serde::de::{DeserializeSeed, SeqAccess};

#[cfg(feature = "npz")]
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::source::{ByteSource, Piece};

/// How a payload lies in its range of the file.
#[derive(Debug, Clone)]
pub(crate) struct Coding {
    /// Whether elements have their highest byte first, and how many bytes each has.
    pub(crate) big_endian: Option<usize>,
    /// Whether the range is a deflate stream.
    #[cfg(feature = "npz")]
    pub(crate) deflated: Option<Deflated>,
}

impl Coding {
    /// Elements of so many bytes, the highest first.
    pub(crate) fn big_endian(bytes: usize) -> Self {
        Self {
            big_endian: Some(bytes),
            #[cfg(feature = "npz")]
            deflated: None,
        }
    }
}

/// A deflate stream with a payload at its end.
#[cfg(feature = "npz")]
#[derive(Debug, Clone)]
pub(crate) struct Deflated {
    /// The bytes of the stream as it lies in the file.
    pub(crate) len: u64,
    /// What the stream has before the payload.
    pub(crate) head: u64,
    /// The checksum of both.
    pub(crate) crc32: u32,
}

/// The most that is decoded at once; every element's size divides it.
const PIECE: usize = 32 * 1024;

/// Decodes a payload piece by piece.
///
/// The memory is a piece's, whatever the file says: who gathers the pieces has as much as came.
pub(crate) struct Decoder<R> {
    bytes: Bytes<R>,
    big_endian: Option<usize>,
    /// The bytes of the payload that are not decoded.
    left: u64,
    /// Whether the range was checked to its end.
    is_checked: bool,
    piece: Vec<u8>,
}

enum Bytes<R> {
    Plain(R),
    #[cfg(feature = "npz")]
    Deflated {
        stream: Inflate<R>,
        is_at_payload: bool,
        expected: Deflated,
        crc: flate2::Crc,
    },
}

impl<R: Read> Decoder<R> {
    /// The payload of so many bytes whose range in the file is what `reader` gives.
    pub(crate) fn new(reader: R, coding: &Coding, payload: u64) -> Self {
        let bytes = match coding {
            #[cfg(feature = "npz")]
            Coding { deflated: Some(deflated), .. } => Bytes::Deflated {
                stream: inflate(reader),
                is_at_payload: false,
                expected: deflated.clone(),
                crc: flate2::Crc::new(),
            },
            _ => Bytes::Plain(reader),
        };
        Self { bytes, big_endian: coding.big_endian, left: payload, is_checked: false, piece: Vec::new() }
    }

    /// The next piece of the payload, or `None` behind the last one. The whole of the range is checked before the last
    /// piece is given away.
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
        match self.big_endian {
            Some(2) => reverse::<2>(&mut self.piece),
            Some(4) => reverse::<4>(&mut self.piece),
            Some(8) => reverse::<8>(&mut self.piece),
            _ => {}
        }
        Ok(Some(&self.piece))
    }
}

fn reverse<const SIZE: usize>(bytes: &mut [u8]) {
    bytes.as_chunks_mut::<SIZE>().0.iter_mut().for_each(|element| element.reverse());
}

impl<R: Read> Bytes<R> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self {
            Self::Plain(reader) => reader.read_exact(bytes).map_err(read_error),
            #[cfg(feature = "npz")]
            Self::Deflated { stream, is_at_payload, expected, crc } => {
                if !std::mem::replace(is_at_payload, true) {
                    let mut head = Vec::new();
                    stream.take(expected.head).read_to_end(&mut head).map_err(not_deflated)?;
                    crc.update(&head);
                }
                stream.read_exact(bytes).map_err(not_deflated)?;
                crc.update(bytes);
                Ok(())
            }
        }
    }

    /// Checks that there is no more, and that it was what it should be.
    fn end(&mut self) -> Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            #[cfg(feature = "npz")]
            Self::Deflated { stream, expected, crc, .. } => {
                if stream.read(&mut [0]).map_err(not_deflated)? > 0 {
                    return Err(malformed("the deflate stream goes on behind the tensor".to_owned()));
                }
                if stream.total_in() != expected.len {
                    let (found, len) = (stream.total_in(), expected.len);
                    return Err(malformed(format!("the deflate stream takes {found} bytes, but the file has {len}")));
                }
                let (found, expected) = (crc.sum(), expected.crc32);
                match found == expected {
                    true => Ok(()),
                    false => Err(malformed(format!("the CRC-32 is {found:08x}, but the file has {expected:08x}"))),
                }
            }
        }
    }
}

/// A deflate stream, with no more memory than it takes.
#[cfg(feature = "npz")]
pub(crate) type Inflate<R> = flate2::bufread::DeflateDecoder<io::BufReader<R>>;

#[cfg(feature = "npz")]
pub(crate) fn inflate<R: Read>(reader: R) -> Inflate<R> {
    flate2::bufread::DeflateDecoder::new(io::BufReader::with_capacity(4096, reader))
}

/// What a failure to read a deflate stream means: it is damaged, or it could not be read at all.
#[cfg(feature = "npz")]
pub(crate) fn not_deflated(error: io::Error) -> Error {
    let is_ours = error.get_ref().is_some_and(|inner| inner.is::<Error>());
    match error.kind() {
        io::ErrorKind::UnexpectedEof if !is_ours => malformed("the member ends before its tensor does".to_owned()),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if !is_ours => {
            malformed("the deflate stream is damaged".to_owned())
        }
        _ => read_error(error),
    }
}

#[cfg(feature = "npz")]
fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}

/// The error that went through a reader, or the reader's own.
fn read_error(error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(Error::from)
}

/// A range of a file, as a reader.
pub(crate) struct RangeReader<'a, 'de, B> {
    source: &'a mut B,
    range: Range<u64>,
    file: PhantomData<&'de [u8]>,
}

impl<'a, B> RangeReader<'a, '_, B> {
    pub(crate) fn new(source: &'a mut B, range: Range<u64>) -> Self {
        Self { source, range, file: PhantomData }
    }
}

impl<'de, B: ByteSource<'de>> Read for RangeReader<'_, 'de, B> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let now = usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX).min(bytes.len());
        self.source.read_at(self.range.start, &mut bytes[..now])?;
        self.range.start += now as u64;
        Ok(now)
    }
}

impl<'de, R: Read> SeqAccess<'de> for Decoder<R> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.piece()? {
            Some(piece) => seed.deserialize(Piece(piece)).map(Some),
            None => Ok(None),
        }
    }
}
