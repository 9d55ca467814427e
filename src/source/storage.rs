use std::fs::File;
use std::io;

#[cfg(feature = "mmap")]
use super::mapping::Mapping;
use crate::error::{Error, ErrorKind, Result};

/// The bytes of an opened file: there to be borrowed, or to be read where they are asked for.
#[derive(Debug)]
pub enum Storage {
    /// All in memory.
    Memory(Vec<u8>),
    /// Mapped into memory.
    #[cfg(feature = "mmap")]
    Mapped(Mapping),
    /// Read at positions.
    Positioned(Positioned),
}

/// A file that is read at positions.
#[derive(Debug)]
pub struct Positioned {
    file: File,
    len: u64,
}

/// The size of the pieces in which a payload is read.
pub(super) const PIECE: usize = 1 << 20;

impl Storage {
    /// Maps the file.
    #[cfg(feature = "mmap")]
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        Mapping::new(file).map(Self::Mapped)
    }

    /// The file, which is `len` bytes long, to be read at positions.
    pub(crate) fn positioned(file: File, len: u64) -> Self {
        Self::Positioned(Positioned { file, len })
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self.bytes() {
            Ok(bytes) => bytes.len() as u64,
            Err(file) => file.len,
        }
    }

    /// The bytes from `offset` on, where they are in memory.
    pub(crate) fn borrow(&self, offset: u64, len: u64) -> Option<Result<&[u8]>> {
        let bytes = self.bytes().ok()?;
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let found = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        Some(found.ok_or_else(|| truncated(offset, len, rest.len() as u64)))
    }

    /// Fills `bytes` from `offset` on.
    pub(crate) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        match self.borrow(offset, bytes.len() as u64) {
            Some(found) => bytes.copy_from_slice(found?),
            None => {
                let read = self.read_some(offset, bytes)?;
                if read < bytes.len() {
                    return Err(truncated(offset, bytes.len() as u64, read as u64));
                }
            }
        }
        Ok(())
    }

    /// Fills as much of `bytes` as the file has from `offset` on; returns how much that is.
    pub(crate) fn read_some(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let file = match self.bytes() {
            Ok(_) => {
                let now = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
                return self.read_at(offset, &mut bytes[..now]).map(|()| now);
            }
            Err(positioned) => &positioned.file,
        };
        let mut filled = 0;
        while filled < bytes.len() {
            match read_file_at(file, offset.saturating_add(filled as u64), &mut bytes[filled..]) {
                Ok(0) => break,
                Ok(now) => filled += now,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from(error).at(offset)),
            }
        }
        Ok(filled)
    }

    /// Calls `take` with the bytes from `offset` on, in one piece where they are in memory.
    pub(crate) fn pour(&self, offset: u64, len: u64, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if let Some(bytes) = self.borrow(offset, len) {
            return take(bytes?);
        }
        let mut piece = vec![0; usize::try_from(len).unwrap_or(PIECE).min(PIECE)];
        let mut done = 0;
        while done < len {
            let now = usize::try_from(len - done).unwrap_or(PIECE).min(PIECE);
            let read = self.read_some(offset + done, &mut piece[..now])?;
            if read < now {
                return Err(truncated(offset, len, done + read as u64));
            }
            take(&piece[..now])?;
            done += now as u64;
        }
        Ok(())
    }

    fn bytes(&self) -> Result<&[u8], &Positioned> {
        match self {
            Self::Memory(bytes) => Ok(bytes),
            #[cfg(feature = "mmap")]
            Self::Mapped(mapping) => Ok(mapping),
            Self::Positioned(positioned) => Err(positioned),
        }
    }
}

fn truncated(offset: u64, needed: u64, left: u64) -> Error {
    Error::new(ErrorKind::Truncated { needed, left }).at(offset)
}

#[cfg(unix)]
fn read_file_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_file_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

#[cfg(not(any(unix, windows)))]
fn read_file_at(_: &File, _: u64, _: &mut [u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
