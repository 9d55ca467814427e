//! Files inside of other files, such as members of an archive.

use std::ops::Range;

use super::Format;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::read::{Index, Reader, ReaderStorage};
use crate::storage::{ReadAt, Section};
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
    /// As [`File::open`](crate::File::open). Offsets count from the start of the embedded file.
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
        let mut file = Section::new(file, range);
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

/// Reads the index of a file of one dense tensor, which needs no other checks than those of its format. Most members of
/// an archive are such files, and a [`Reader`] of them would take half of the time.
fn read_one(format: &Format, file: &mut Section<'_>, limits: &Limits) -> Result<Option<Index>> {
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
