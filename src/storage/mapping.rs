//! Memory mapping.

use std::sync::OnceLock;

use super::disk_file::DiskFile;
use super::pool::PooledFile;

/// A file mapped into memory when its bytes are first borrowed. The system reads a page on first access, and some pages
/// after it.
#[derive(Debug)]
pub struct Mapping {
    /// Indices and large payloads are read from the file: access to the mapping would read many pages for each header.
    /// So some files are never mapped.
    file: MappedFile,
    len: u64,
    bytes: OnceLock<Option<sys::Bytes>>,
}

/// A file that stays open, or may be closed once it is mapped.
#[derive(Debug)]
pub(super) enum MappedFile {
    Open(DiskFile),
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
            let len = usize::try_from(self.len).ok()?;
            match &self.file {
                MappedFile::Open(file) => sys::map(file, len),
                MappedFile::Pooled(file) => sys::map(&*file.open().ok()?, len),
            }
        };
        self.bytes.get_or_init(map).as_deref()
    }
}

#[cfg(feature = "mmap")]
mod sys {
    use std::fs::File;

    pub(super) type Bytes = memmap2::Mmap;

    #[expect(unsafe_code, reason = "a file cannot be mapped without it")]
    pub(super) fn map(file: &File, len: usize) -> Option<Bytes> {
        // SAFETY: the bytes must not change while they are borrowed. No program can promise this for a file
        // writable by others, so the docs of `Backend::Mapped` pass the duty to the caller, and
        // `Backend::Positioned` reads files that may change.
        unsafe { memmap2::MmapOptions::new().len(len).map(file) }.ok()
    }
}

/// Without the feature, no file is mapped.
#[cfg(not(feature = "mmap"))]
mod sys {
    pub(super) type Bytes = Vec<u8>;

    pub(super) fn map(_: &std::fs::File, _: usize) -> Option<Bytes> {
        None
    }
}
