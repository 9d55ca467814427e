//! Memory mapping.

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::Mmap;

/// A file mapped into memory. The system reads a page when it is first accessed.
#[derive(Debug)]
pub struct Mapping(Mmap);

impl Mapping {
    /// Maps a whole file.
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the bytes must not change while they are borrowed. No program can promise this for a file that others
        // can write to, so the docs of `Backend::Mapped` ask it of the caller, and `Backend::Positioned` reads files
        // that others may change.
        #[expect(unsafe_code, reason = "a file cannot be mapped without it")]
        unsafe { Mmap::map(file) }.map(Self)
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
