//! The end of a member of a zip archive, as a payload.

use std::io::{self, Read};
use std::num::NonZeroU8;

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use crate::error::{Error, ErrorKind, Result};

/// A member of a zip archive with a payload at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zipped {
    /// The size of big-endian elements, in bytes.
    pub(crate) big_endian: Option<NonZeroU8>,
    /// The range is a deflate stream of the member, and not only the payload.
    pub(crate) is_deflated: bool,
    /// The number of bytes before the payload, decoded.
    pub(crate) head: u32,
    /// The CRC-32 of the bytes before the payload and the payload.
    pub(crate) crc32: u32,
}

impl Zipped {
    pub(crate) fn big_endian(&self) -> Option<NonZeroU8> {
        self.big_endian
    }

    pub(crate) fn is_deflated(&self) -> bool {
        self.is_deflated
    }

    pub(crate) fn head(&self) -> u32 {
        self.head
    }
}

/// The checksum of a member, while it is being read.
pub(super) struct MemberSum {
    crc: Crc,
    expected: u32,
}

impl MemberSum {
    pub(super) fn new(zipped: &Zipped) -> Self {
        Self { crc: Crc::new(), expected: zipped.crc32 }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
    }

    pub(super) fn end(&self) -> Result<()> {
        check_crc32(self.crc.sum(), self.expected)
    }
}

/// Decodes a payload from the deflate stream of its member, with small buffers.
pub(super) struct Deflated<R> {
    stream: DeflateDecoder<io::BufReader<R>>,
    /// The number of bytes to skip before the payload.
    head: u32,
    /// The length of the stream in the file, in bytes.
    len: u64,
    sum: MemberSum,
}

impl<R: Read> Deflated<R> {
    pub(super) fn new(reader: R, zipped: &Zipped, len: u64) -> Self {
        let stream = DeflateDecoder::new(io::BufReader::with_capacity(4096, reader));
        Self { stream, head: zipped.head, len, sum: MemberSum::new(zipped) }
    }

    pub(super) fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut head = Vec::new();
        let before = std::mem::take(&mut self.head).into();
        self.stream.by_ref().take(before).read_to_end(&mut head).map_err(not_deflated)?;
        self.sum.update(&head);
        self.stream.read_exact(bytes).map_err(not_deflated)?;
        self.sum.update(bytes);
        Ok(())
    }

    /// Checks the end of the stream, and its checksum.
    pub(super) fn end(&mut self) -> Result<()> {
        let len = self.len;
        if self.stream.read(&mut [0]).map_err(not_deflated)? > 0 {
            return Err(malformed("the deflate stream goes on after the tensor".to_owned()));
        }
        match self.stream.total_in() {
            found if found == len => self.sum.end(),
            found => Err(malformed(format!("the deflate stream takes {found} bytes, but the file has {len}"))),
        }
    }
}

pub(crate) fn check_crc32(found: u32, expected: u32) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(malformed(format!("the CRC-32 is {found:08x}, but the file has {expected:08x}")))
    }
}

/// Distinguishes a damaged deflate stream from a failure to read it.
pub(crate) fn not_deflated(error: io::Error) -> Error {
    let is_ours = error.get_ref().is_some_and(|inner| inner.is::<Error>());
    match error.kind() {
        io::ErrorKind::UnexpectedEof if !is_ours => malformed("the member ends before its tensor does".to_owned()),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if !is_ours => {
            malformed("the deflate stream is damaged".to_owned())
        }
        _ => Error::from(error),
    }
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
