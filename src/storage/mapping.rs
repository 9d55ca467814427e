//! Memory mapping.

use std::fs::File;
use std::sync::OnceLock;

use memmap2::{Mmap, MmapOptions};

/// A file that is mapped into memory when its bytes are first borrowed. The system reads a page when it is first accessed,
/// and pages after it.
#[derive(Debug)]
pub struct Mapping {
    /// Indices and large payloads are read from the file: access to the mapping would read many pages for each header. So
    /// some files are never mapped.
    file: File,
    len: u64,
    bytes: OnceLock<Option<Mmap>>,
}

impl Mapping {
    /// A file of `len` bytes.
    pub(super) fn new(file: File, len: u64) -> Self {
        Self { file, len, bytes: OnceLock::new() }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
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

    /// Maps the file, unless that was tried before.
    #[cold]
    #[inline(never)]
    fn map(&self) -> Option<&[u8]> {
        let map = || {
            let mut options = MmapOptions::new();
            options.len(usize::try_from(self.len).ok()?);
            // SAFETY: the bytes must not change while they are borrowed. No program can promise this for a file that
            // others can write to, so the docs of `Backend::Mapped` ask it of the caller, and `Backend::Positioned` reads
            // files that others may change.
            #[expect(unsafe_code, reason = "a file cannot be mapped without it")]
            let bytes = unsafe { options.map(&self.file) };
            bytes.ok()
        };
        self.bytes.get_or_init(map).as_deref()
    }
}
