//! Memory mapping.

use std::fs::File;
use std::sync::OnceLock;

use memmap2::{Mmap, MmapOptions};

#[cfg(feature = "shards")]
use super::pool::PooledFile;

/// A file mapped into memory when its bytes are first borrowed. The system reads a page on first access, and some pages
/// after it.
#[derive(Debug)]
pub struct Mapping {
    /// Indices and large payloads are read from the file: access to the mapping would read many pages for each header.
    /// So some files are never mapped.
    file: MappedFile,
    len: u64,
    bytes: OnceLock<Option<Mmap>>,
}

/// A file that stays open, or may be closed once it is mapped.
#[derive(Debug)]
pub(super) enum MappedFile {
    Open(File),
    #[cfg(feature = "shards")]
    Pooled(PooledFile),
}

impl Mapping {
    /// A file of `len` bytes.
    pub(super) fn new(file: MappedFile, len: u64) -> Self {
        Self { file, len, bytes: OnceLock::new() }
    }

    pub(super) fn file(&self) -> &MappedFile {
        &self.file
    }

    #[cfg(feature = "shards")]
    pub(super) fn into_file(self) -> MappedFile {
        self.file
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the bytes of the file; `None` if it cannot be mapped.
    #[inline]
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self.bytes.get() {
            Some(Some(bytes)) => Some(bytes),
            _ => self.map(),
        }
    }

    /// Maps the file, on the first call only.
    #[cold]
    #[inline(never)]
    fn map(&self) -> Option<&[u8]> {
        let map = || {
            let mut options = MmapOptions::new();
            options.len(usize::try_from(self.len).ok()?);
            // SAFETY: the bytes must not change while they are borrowed. No program can promise this for a file
            // writable by others, so the docs of `Backend::Mapped` pass the duty to the caller, and
            // `Backend::Positioned` reads files that may change.
            #[expect(unsafe_code, reason = "a file cannot be mapped without it")]
            let map = |file: &File| unsafe { options.map(file) };
            match &self.file {
                MappedFile::Open(file) => map(file).ok(),
                #[cfg(feature = "shards")]
                MappedFile::Pooled(file) => map(&*file.open().ok()?).ok(),
            }
        };
        self.bytes.get_or_init(map).as_deref()
    }
}
