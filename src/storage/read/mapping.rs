//! Memory mapping.

use std::sync::{Arc, OnceLock};

use super::disk_file::DiskFile;
use super::once::get_or_make;

/// A file mapped into memory when its bytes are first borrowed. The system reads a page on first access, and some pages
/// after it.
#[derive(Debug)]
pub struct Mapping {
    /// Indices and large payloads are read from the file: access to the mapping would read many pages for each header.
    /// So some files are never mapped.
    file: DiskFile,
    len: u64,
    bytes: OnceLock<Option<sys::Bytes>>,
    /// A second mapping, to be lent to other libraries. They may write to it, while a Rust slice must not change.
    lent: OnceLock<Option<Arc<sys::Private>>>,
}

/// Memory of a file, lent to another library by [`FileTensor::lend`](crate::file::FileTensor::lend).
///
/// It stays valid as long as this value or a clone of it. If the other library writes to it, the change stays in this
/// process: the system copies a page when it is first changed.
#[derive(Debug, Clone)]
pub struct LentBytes {
    mapping: Arc<sys::Private>,
    start: usize,
    len: usize,
}

impl LentBytes {
    /// Returns the address of the first byte. Nothing else in this crate reads or writes this memory.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        sys::pointer(&self.mapping).wrapping_add(self.start)
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Mapping {
    /// A file of `len` bytes.
    pub(super) fn new(file: DiskFile, len: u64) -> Self {
        Self { file, len, bytes: OnceLock::new(), lent: OnceLock::new() }
    }

    pub(super) fn file(&self) -> &DiskFile {
        &self.file
    }

    pub(super) fn into_file(self) -> DiskFile {
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

    #[cfg(test)]
    pub(super) fn is_mapped(&self) -> bool {
        self.bytes.get().is_some()
    }

    /// Maps the file, on the first call only.
    #[cold]
    #[inline(never)]
    fn map(&self) -> Option<&[u8]> {
        get_or_make(&self.bytes, &|| self.map_by(sys::map)).as_deref()
    }

    /// Returns a range of a private mapping; `None` if the file cannot be mapped or is shorter.
    pub(super) fn lend(&self, start: u64, len: u64) -> Option<LentBytes> {
        let mapping = get_or_make(&self.lent, &|| self.map_by(sys::map_privately).map(Arc::new)).as_ref()?;
        let is_inside = start.checked_add(len).is_some_and(|end| end <= self.len);
        let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
        is_inside.then(|| LentBytes { mapping: Arc::clone(mapping), start, len })
    }

    fn map_by<T>(&self, map: fn(&std::fs::File, usize) -> Option<T>) -> Option<T> {
        let len = usize::try_from(self.len).ok()?;
        map(&*self.file.open().ok()?, len)
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

    pub(super) type Private = memmap2::MmapRaw;

    /// Maps a file of any length. No memory is reserved for pages that may be changed.
    #[expect(unsafe_code, reason = "a file cannot be mapped without it")]
    pub(super) fn map_privately(file: &File, len: usize) -> Option<Private> {
        // SAFETY: we never make a reference to these bytes, so they may change at any time. Other libraries only get
        // their address.
        let mapped = unsafe { memmap2::MmapOptions::new().len(len).no_reserve_swap().map_copy(file) };
        mapped.ok().map(Private::from)
    }

    pub(super) fn pointer(mapping: &Private) -> *mut u8 {
        mapping.as_mut_ptr()
    }
}

/// Without the feature, no file is mapped.
#[cfg(not(feature = "mmap"))]
mod sys {
    pub(super) type Bytes = Vec<u8>;

    pub(super) fn map(_: &std::fs::File, _: usize) -> Option<Bytes> {
        None
    }

    /// Without the feature, there is no private mapping.
    #[derive(Debug)]
    pub(super) enum Private {}

    pub(super) fn map_privately(_: &std::fs::File, _: usize) -> Option<Private> {
        None
    }

    pub(super) fn pointer(mapping: &Private) -> *mut u8 {
        match *mapping {}
    }
}
