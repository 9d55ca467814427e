//! Files inside of other files, such as members of an archive.

use std::ops::Range;

use super::Format;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::read::{Index, Reader, ReaderStorage};
use crate::storage::{ReadAt, Storage};
use crate::tensor::{Dtype, Layout};

/// Returns the name of a tensor, given the number of tensors in its file, its position and its name there. A tensor
/// without a name is named by its position.
pub type EmbeddedName<'x> = &'x mut dyn FnMut(usize, usize, &str) -> String;

impl Index {
    /// Adds the tensors of another file, which lies in a range of this one, such as a member of an archive.
    ///
    /// ```
    /// use tensorfile::format::{Index, IndexReader, ReadAt};
    /// use tensorfile::{Limits, Result, ten};
    ///
    /// /// Reads a `.ten` file after a comment of 64 bytes.
    /// struct Commented;
    ///
    /// impl IndexReader for Commented {
    ///     fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
    ///         let end = file.file_len().unwrap_or(0);
    ///         index.push_file(&ten::FORMAT, file, 64..end, limits, &mut |_, _, name| name.to_owned())?;
    ///         Ok(false)
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`File::open`](crate::File::open). Offsets are those of this file.
    pub fn push_file(
        &mut self,
        format: &Format,
        file: &mut dyn ReadAt,
        range: Range<u64>,
        limits: &Limits,
        name: EmbeddedName<'_>,
    ) -> Result<()> {
        let start = range.start;
        let nested = |error: Error| error.in_format(format.name).nested_at(start);
        let mut file = FileRange { file, range, chunk: Vec::new() };
        let index = match read_one(format, &mut file, limits).map_err(nested)? {
            Some(index) => index,
            None => {
                let storage = ReaderStorage::Boxed(Box::new(file));
                Reader::new(storage, &format.reading, limits.clone()).into_index().map_err(nested)?.0
            }
        };
        for i in 0..index.len() {
            self.push_nested(&index, i, &name(index.len(), i, index.name(i)), start)?;
        }
        Ok(())
    }
}

/// Reads the index of a file of one dense tensor, which needs no other checks than those of its format. Most members of an
/// archive are such files, and a [`Reader`] of them would take half of the time.
fn read_one(format: &Format, file: &mut FileRange<'_>, limits: &Limits) -> Result<Option<Index>> {
    let (mut reader, mut index) = ((format.reading.index_reader)(), Index::default());
    while reader.read_on(file, limits, &mut index)? {
        if index.pushed() > 1 {
            return Ok(None);
        }
    }
    if index.pushed() != 1 || limits.tensors == 0 {
        return Ok(None);
    }
    index.complete()?;
    let info = index.entry(0).info();
    // A list of bytes may be one of names.
    let is_dense = matches!(info.layout, Layout::RowMajor | Layout::DimOrder(_));
    let is_sure = is_dense && !(info.dtype == Dtype::U8 && info.shape.rank() == 1);
    Ok(is_sure.then_some(index))
}

/// A range of a file as a file.
struct FileRange<'a> {
    file: &'a mut dyn ReadAt,
    range: Range<u64>,
    chunk: Vec<u8>,
}

impl FileRange<'_> {
    fn len(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Returns a range of this file as one of the outer file.
    fn outer(&self, range: Range<u64>) -> Result<Range<u64>> {
        if range.end > self.len() || range.start > range.end {
            let needed = range.end.saturating_sub(range.start);
            let left = self.len().saturating_sub(range.start);
            return Err(Error::from(ErrorKind::Truncated { needed, left }).at(range.start));
        }
        Ok(self.range.start + range.start..self.range.start + range.end)
    }
}

impl ReadAt for FileRange<'_> {
    fn file_len(&self) -> Option<u64> {
        Some(self.len())
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let range = self.outer(offset..offset.saturating_add(bytes.len() as u64))?;
        self.file.read_at(range.start, bytes).map_err(Error::without_offset)
    }

    fn bytes<'a>(&'a mut self, range: Range<u64>, memory: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let range = self.outer(range)?;
        self.file.bytes(range, memory).map_err(Error::without_offset)
    }

    fn waits(&self) -> bool {
        self.file.waits()
    }

    fn will_read(&mut self, offsets: &mut dyn Iterator<Item = u64>) {
        let start = self.range.start;
        self.file.will_read(&mut offsets.map(|offset| offset.saturating_add(start)));
    }
}

impl<'de> Storage<'de> for FileRange<'_> {
    fn chunk(&mut self, range: Range<u64>) -> Result<&[u8]> {
        /// An index has few long ranges.
        const CHUNK: usize = 64 << 10;

        let range = self.outer(range)?;
        let len = usize::try_from(range.end - range.start).unwrap_or(CHUNK).min(CHUNK);
        self.chunk.resize(len, 0);
        self.file.read_at(range.start, &mut self.chunk).map_err(Error::without_offset)?;
        Ok(&self.chunk)
    }
}
