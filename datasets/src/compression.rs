//! Compressed shards: gzip and zstd, found by their first bytes.

use std::io::{self, BufRead as _, BufReader, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use tensorfile::ErrorKind;

use crate::error::{Error, Result};

/// A reader of a shard.
pub(crate) type ShardRead = Box<dyn Read + Send>;

/// The beginnings of compressed files.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const OTHERS: &[(&[u8], &str)] = &[(b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x04\x22\x4d\x18", "lz4")];

/// Returns whether a file with this beginning is compressed.
pub(crate) fn is_compressed(begin: &[u8]) -> bool {
    [GZIP, ZSTD].iter().chain(OTHERS.iter().map(|(magic, _)| magic)).any(|magic| begin.starts_with(magic))
}

/// Returns a reader of the uncompressed bytes.
pub(crate) fn decompress(mut reader: ShardRead) -> Result<ShardRead> {
    let mut begin = Vec::new();
    (&mut reader).take(8).read_to_end(&mut begin)?;
    if let Some((_, name)) = OTHERS.iter().find(|(magic, _)| begin.starts_with(magic)) {
        let (what, instead) = (format!("read a shard compressed with {name}"), "gzip and zstd are read".to_owned());
        return Err(ErrorKind::Unsupported { what, instead }.into());
    }
    let (is_gzip, is_zstd) = (begin.starts_with(GZIP), begin.starts_with(ZSTD));
    let reader = BufReader::with_capacity(64 << 10, Cursor::new(begin).chain(reader));
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(reader))
    } else if is_zstd {
        let frames = ZstdFrames { reader, decoder: FrameDecoder::new(), is_open: false };
        Box::new(BufReader::with_capacity(128 << 10, frames))
    } else {
        Box::new(reader)
    })
}

type Begun = BufReader<Chain<Cursor<Vec<u8>>, ShardRead>>;

/// The frames of a zstd file, one after the other, with their checksums.
struct ZstdFrames {
    reader: Begun,
    decoder: FrameDecoder,
    is_open: bool,
}

impl ZstdFrames {
    /// Opens the next frame. Returns whether there is one.
    fn open(&mut self) -> io::Result<bool> {
        while !self.reader.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.reader) {
                Ok(()) => {
                    self.is_open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut (&mut self.reader).take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(zstd_error(error)),
            }
        }
        Ok(false)
    }

    fn check_sum(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(found)) if stored != found => {
                Err(zstd_error(format!("the checksum is {found:08x}, but the file has {stored:08x}")))
            }
            _ => Ok(()),
        }
    }
}

impl Read for ZstdFrames {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        while self.is_open || self.open()? {
            while self.decoder.can_collect() < bytes.len() && !self.decoder.is_finished() {
                let more = BlockDecodingStrategy::UptoBytes(bytes.len() - self.decoder.can_collect());
                self.decoder.decode_blocks(&mut self.reader, more).map_err(zstd_error)?;
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

fn zstd_error(error: impl std::fmt::Display) -> io::Error {
    Error::malformed(format!("zstd: {error}")).into()
}
