use indexmap::IndexMap;

use super::Index;
use crate::error::Result;
use crate::limits::Limits;
use crate::model::{FileMetadata, FilePart};
use crate::storage::ReadAt;

/// Reads the index of a file, wherever the bytes come from.
pub trait IndexReader {
    /// Adds the next tensor to the index, or all tensors described by the same part of the file. Returns `false` at the
    /// end of the file.
    ///
    /// In a stream, the payloads of all tensors are read, or passed over, before this is called again.
    ///
    /// # Errors
    ///
    /// If the file is malformed, passes a limit or cannot be read.
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool>;

    /// Returns the number of tensors, if [`read_one`](Self::read_one) can find each of them. It is not asked for in a
    /// stream.
    ///
    /// # Errors
    ///
    /// As [`read_on`](Self::read_on).
    fn count(&mut self, _file: &mut dyn ReadAt, _limits: &Limits) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Adds the tensor at a position to the index, without reading the headers of other tensors. The position is below
    /// [`count`](Self::count), which was called before.
    ///
    /// # Errors
    ///
    /// As [`read_on`](Self::read_on).
    fn read_one(&mut self, _at: usize, _file: &mut dyn ReadAt, _limits: &Limits, _index: &mut Index) -> Result<()> {
        Ok(())
    }

    /// Returns the metadata, if reading the index to its end has read it too. Otherwise the format reads it by itself.
    fn metadata(&mut self) -> Option<FileMetadata> {
        None
    }

    /// Returns the entries of [`metadata`](Self::metadata), after the first tensor was returned. In a stream, there is
    /// no other access to them.
    fn metadata_entries(&mut self) -> Option<IndexMap<String, String>> {
        self.metadata().map(|metadata| metadata.entries)
    }

    /// Returns the file's place among the files of a model, if stated. Called after the index was read.
    fn part(&self) -> Option<FilePart> {
        None
    }

    /// Returns whether tensors come in payload order, so that a stream need not hold bytes already read.
    fn is_in_file_order(&self) -> bool {
        false
    }

    /// Returns whether each header is found by the one before it, so that a server is best asked for all of a file at
    /// once, if all of it is read.
    fn is_chained(&self) -> bool {
        false
    }

    /// Returns whether names may repeat, as in a stream without lookups by name. Otherwise a repeated name is an error.
    fn names_may_repeat(&self) -> bool {
        false
    }
}
