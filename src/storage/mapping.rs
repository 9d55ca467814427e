//! Memory mapping.

use std::fs::File;
use std::ops::Deref;

use memmap2::Mmap;

/// A file mapped into memory. The system reads a page when it is first accessed, and pages after it.
#[derive(Debug)]
pub struct Mapping {
    bytes: Mmap,
    /// Indices are read from the file. Access to the mapping would read many pages for each header.
    file: File,
}

impl Mapping {
    /// Maps a whole file. Gives it back if that fails.
    pub(super) fn new(file: File) -> Result<Self, File> {
        // SAFETY: the bytes must not change while they are borrowed. No program can promise this for a file that others
        // can write to, so the docs of `Backend::Mapped` ask it of the caller, and `Backend::Positioned` reads files
        // that others may change.
        #[expect(unsafe_code, reason = "a file cannot be mapped without it")]
        match unsafe { Mmap::map(&file) } {
            Ok(bytes) => Ok(Self { bytes, file }),
            Err(_) => Err(file),
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
