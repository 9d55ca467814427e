//! Several files as one, and bytes put together from them.

use std::ops::Range;
use std::sync::Mutex;

use super::FileStorage;
use crate::error::Result;

/// Several files as one. One unused byte separates neighbours, so that an empty payload at the end of a file is not
/// also at the start of the next. What is put together from the files follows them.
#[derive(Debug)]
pub struct JoinedFiles {
    pub(super) parts: Vec<FileStorage>,
    /// The offset of each.
    starts: Vec<u64>,
    /// The number of parts that are files, and their length together.
    files: usize,
    pub(super) len: u64,
    pub(super) end: u64,
    /// Memory for chunks of what is put together, reused because allocating it takes long.
    pub(super) chunk: Mutex<Vec<u8>>,
}

impl JoinedFiles {
    /// Joins one or more files. Returns `None` if they are too long together.
    pub(crate) fn new(parts: Vec<FileStorage>) -> Option<Self> {
        let (files, len) = (parts.len(), parts.iter().map(FileStorage::len).fold(0, u64::saturating_add));
        let mut joined = Self {
            parts: Vec::with_capacity(files),
            starts: Vec::with_capacity(files),
            files,
            len,
            end: 0,
            chunk: Mutex::default(),
        };
        for part in parts {
            joined.push(part)?;
        }
        Some(joined)
    }

    /// Adds bytes that are put together from the files, and returns their offset. `None` if there are too many.
    #[cfg(feature = "safetensors")]
    pub(crate) fn gather(&mut self, gather: Box<dyn GatherBytes>) -> Option<u64> {
        self.push(FileStorage::Gathered(gather))
    }

    fn push(&mut self, part: FileStorage) -> Option<u64> {
        let start = self.end;
        self.end = start.checked_add(part.len())?.checked_add(1)?;
        self.parts.push(part);
        self.starts.push(start);
        Some(start)
    }

    /// Returns the files.
    pub(crate) fn parts(&self) -> &[FileStorage] {
        &self.parts[..self.files]
    }

    /// Returns the offset of each file.
    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Returns the index of the file containing an offset, and the start of the file.
    pub(super) fn part(&self, offset: u64) -> (usize, u64) {
        let index = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        (index, self.starts[index])
    }
}

/// Some of the bytes that [`GatherBytes`] puts together.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// The bytes from an offset on.
    From(u64),
    /// A range of each dim, in row-major order.
    Box(&'a [Range<usize>]),
}

/// Bytes put together from the files of a joined one, such as a tensor in chunks. They follow the files, so that a reader
/// sees one more range.
pub trait GatherBytes: Send + Sync {
    /// Returns the number of bytes.
    fn bytes(&self) -> u64;

    /// Returns the offset of one of the bytes in the files.
    fn start(&self) -> u64;

    /// Returns the ranges of the files with the bytes.
    fn places(&self) -> Vec<Range<u64>>;

    /// Fills `bytes`.
    ///
    /// # Errors
    ///
    /// As [`ReadAt::read_at`](super::ReadAt::read_at), with offsets in the files.
    fn read(&self, files: &FileStorage, wanted: Wanted<'_>, bytes: &mut [u8]) -> Result<()>;

    /// Calls `each` with the ranges of the files that [`read`](Self::read) reads for `len` bytes.
    fn spans(&self, files: &FileStorage, wanted: Wanted<'_>, len: usize, each: &mut dyn FnMut(Range<u64>));
}
