//! The one place where bytes are mapped into memory.

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::Mmap;

/// A file as memory: read by the system, page by page, when it is looked at.
#[derive(Debug)]
pub struct Mapping(Mmap);

impl Mapping {
    /// Maps a whole file.
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the bytes must not change while they are borrowed. No program can promise that of a file that others
        // may write to; as everywhere that files are mapped, it is asked of the caller, in the docs of
        // `Backend::Mapped`. `Backend::Positioned` is there for files that cannot be trusted to stay as they are.
        #[expect(unsafe_code, reason = "mapping cannot be done without")]
        unsafe { Mmap::map(file) }.map(Self)
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
