//! Compressed shards: gzip and zstd, found by their first bytes.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use tensorfile::{ErrorKind, Limits};

use crate::archive::LONGEST_END;
use crate::error::{Error, Result};

/// A reader of a shard.
pub(crate) type ShardRead = Box<dyn Read + Send>;

/// The beginnings of compressed files.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// A skippable zstd frame; `pzstd` writes one before each other frame. Its first byte is `0x50` to `0x5f`.
const SKIPPED: &[u8] = &[0x2a, 0x4d, 0x18];
const OTHERS: &[(&[u8], &str)] = &[(b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x04\x22\x4d\x18", "lz4")];

/// Returns whether a file with this beginning is compressed.
pub(crate) fn is_compressed(begin: &[u8]) -> bool {
    begin.starts_with(GZIP) || is_zstd(begin) || OTHERS.iter().any(|(magic, _)| begin.starts_with(magic))
}

fn is_zstd(begin: &[u8]) -> bool {
    begin.starts_with(ZSTD) || begin.first().is_some_and(|first| first >> 4 == 5) && begin[1..].starts_with(SKIPPED)
}

/// The number of bytes that a decoder holds.
pub(crate) type Window = Arc<AtomicU64>;

/// Returns a reader of the uncompressed bytes. [`Limits::held`] bounds the bytes it holds, and `window` counts them.
pub(crate) fn decompress(reader: ShardRead, limits: &Limits, window: &Window) -> Result<ShardRead> {
    let mut reader = Compressed::new(reader);
    let begin = reader.peek(8)?;
    if let Some((_, name)) = OTHERS.iter().find(|(magic, _)| begin.starts_with(magic)) {
        let (what, instead) = (format!("read a shard compressed with {name}"), "gzip and zstd are read".to_owned());
        return Err(ErrorKind::Unsupported { what, instead }.into());
    }
    Ok(if begin.starts_with(GZIP) {
        Box::new(GzipMembers { member: Some(GzDecoder::new(reader)) })
    } else if is_zstd(begin) {
        let held = limits.held.min(limits.payload);
        let window = Arc::clone(window);
        let frames = ZstdFrames { reader, decoder: FrameDecoder::new(), held, window, is_open: false };
        Box::new(BufReader::with_capacity(128 << 10, frames))
    } else {
        Box::new(reader)
    })
}

/// Compressed bytes, with a look ahead. It keeps an error of reading them, which could otherwise be taken for an error
/// of the decoder.
struct Compressed {
    ahead: Vec<u8>,
    /// The number of bytes of `ahead` that were read.
    done: usize,
    reader: BufReader<ShardRead>,
    failure: Option<io::Error>,
}

impl Compressed {
    fn new(reader: ShardRead) -> Self {
        Self { ahead: Vec::new(), done: 0, reader: BufReader::with_capacity(64 << 10, reader), failure: None }
    }

    /// Returns the next bytes, up to `len` of them, without reading them.
    fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        self.ahead.drain(..self.done);
        self.done = 0;
        let missing = len.saturating_sub(self.ahead.len());
        (&mut self.reader).take(missing as u64).read_to_end(&mut self.ahead)?;
        Ok(&self.ahead[..len.min(self.ahead.len())])
    }

    /// Returns the error of reading the compressed bytes if there was one, else the error of the decoder.
    fn error(&mut self, format: &str, error: &dyn std::fmt::Display) -> io::Error {
        self.failure.take().unwrap_or_else(|| damaged(format, error))
    }

    fn kept<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::Interrupted {
                self.failure = Some(error);
            }
            kind.into()
        })
    }
}

impl Read for Compressed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = &self.ahead[self.done..];
        if left.is_empty() {
            let read = self.reader.read(bytes);
            return self.kept(read);
        }
        let now = left.len().min(bytes.len());
        bytes[..now].copy_from_slice(&left[..now]);
        self.done += now;
        Ok(now)
    }
}

impl BufRead for Compressed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.done < self.ahead.len() {
            return Ok(&self.ahead[self.done..]);
        }
        let filled = self.reader.fill_buf().map(drop);
        self.kept(filled)?;
        Ok(self.reader.buffer())
    }

    fn consume(&mut self, bytes: usize) {
        if self.done < self.ahead.len() {
            self.done += bytes;
        } else {
            self.reader.consume(bytes);
        }
    }
}

/// Decodes the members of a gzip file one after the other, and checks their checksums. Zeros may follow, as on a tape.
struct GzipMembers {
    member: Option<GzDecoder<Compressed>>,
}

impl Read for GzipMembers {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = self.member.as_mut().filter(|_| !bytes.is_empty()) {
            match member.read(bytes) {
                Ok(0) => {
                    let reader = self.member.take().expect("there is one").into_inner();
                    self.member = next_member(reader)?;
                }
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    let error = match error.kind() {
                        io::ErrorKind::UnexpectedEof => member.get_mut().error("gzip", &"the file ends early"),
                        _ => member.get_mut().error("gzip", &error),
                    };
                    return Err(error);
                }
                read => return read,
            }
        }
        Ok(0)
    }
}

/// Returns the decoder of the next member, if there is one.
fn next_member(mut reader: Compressed) -> io::Result<Option<GzDecoder<Compressed>>> {
    if reader.peek(2)?.starts_with(GZIP) {
        return Ok(Some(GzDecoder::new(reader)));
    }
    let mut zeros = 0;
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if zeros > LONGEST_END || bytes.iter().any(|byte| *byte != 0) {
            return Err(damaged("gzip", &"other bytes follow the compressed ones"));
        }
        let len = bytes.len();
        zeros += len as u64;
        reader.consume(len);
    }
}

/// Decodes the frames of a zstd file one after the other, and checks their checksums.
struct ZstdFrames {
    reader: Compressed,
    decoder: FrameDecoder,
    /// The most bytes of a window.
    held: u64,
    /// The largest window so far.
    window: Window,
    is_open: bool,
}

/// The largest window that we decode, which is the default of `zstd`.
const LARGEST_WINDOW: u64 = 128 << 20;

/// The largest window that a decoder takes after another frame.
const LARGEST_REUSED: u64 = 100 << 20;

impl ZstdFrames {
    /// Opens the next frame. Returns whether there is one.
    fn open(&mut self) -> io::Result<bool> {
        /// The longest header of a frame.
        const HEADER: usize = 18;

        loop {
            let header = self.reader.peek(HEADER)?;
            if header.is_empty() {
                return Ok(false);
            }
            if let Some(window) = window(header) {
                self.check_window(window)?;
            }
            match self.decoder.init(&mut self.reader) {
                Ok(()) => {
                    self.is_open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut (&mut self.reader).take(length.into()), &mut io::sink());
                    match skipped {
                        Ok(skipped) if skipped == u64::from(length) => {}
                        Ok(_) => return Err(damaged("zstd", &"the file ends early")),
                        Err(error) => return Err(self.reader.error("zstd", &error)),
                    }
                }
                Err(error) => return Err(self.reader.error("zstd", &error)),
            }
        }
    }

    /// Checks that there is memory for a window, because the decoder would panic.
    fn check_window(&mut self, window: u64) -> io::Result<()> {
        let limit = self.held.min(LARGEST_WINDOW);
        if window > limit {
            let what = "number of bytes of a zstd window";
            return Err(Error::from(ErrorKind::Limit { what, found: window, limit }).into());
        }
        self.window.fetch_max(window, Ordering::Relaxed);
        if window > LARGEST_REUSED {
            self.decoder = FrameDecoder::new();
        }
        // Its length is a power of two, and while it grows it needs half as much again.
        let bytes = usize::try_from(window + (1 << 20)).ok().and_then(usize::checked_next_power_of_two);
        let mut memory = Vec::<u8>::new();
        let bytes = bytes.unwrap_or(usize::MAX) / 2 * 3;
        let reserved = memory.try_reserve_exact(bytes);
        reserved.map_err(|_| Error::from(ErrorKind::OutOfMemory { bytes: bytes as u64 }).into())
    }

    fn check_sum(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(found)) if stored != found => {
                Err(damaged("zstd", &format!("the checksum is {found:08x}, but the file has {stored:08x}")))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the number of bytes that a frame refers back to, from its header.
fn window(header: &[u8]) -> Option<u64> {
    let header = header.strip_prefix(ZSTD)?;
    let descriptor = *header.first()?;
    let is_single = descriptor & 0x20 != 0;
    let id = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = 1 + usize::from(!is_single) + id;
    let number = |len: usize| {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(header.get(size..size + len)?);
        Some(u64::from_le_bytes(bytes))
    };
    let content = match descriptor >> 6 {
        0 => is_single.then(|| number(1)).flatten(),
        1 => number(2).map(|size| size + 256),
        2 => number(4),
        _ => number(8),
    };
    if is_single {
        return content;
    }
    let window = *header.get(1)?;
    let base = 1_u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}

impl Read for ZstdFrames {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        while self.is_open || self.open()? {
            while self.decoder.can_collect() < bytes.len() && !self.decoder.is_finished() {
                let more = BlockDecodingStrategy::UptoBytes(bytes.len() - self.decoder.can_collect());
                let decoded = self.decoder.decode_blocks(&mut self.reader, more);
                decoded.map_err(|error| self.reader.error("zstd", &error))?;
            }
            let read = self.decoder.read(bytes)?;
            if read > 0 {
                return Ok(read);
            }
            self.is_open = false;
            self.check_sum()?;
        }
        Ok(0)
    }
}

fn damaged(format: &str, error: &dyn std::fmt::Display) -> io::Error {
    Error::malformed(format!("{format}: {error}")).into()
}
