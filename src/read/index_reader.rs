use indexmap::IndexMap;

use super::Index;
use crate::error::Result;
use crate::limits::Limits;
use crate::model::{FileMetadata, FilePart};
use crate::storage::ReadAt;

/// Reads the index of a file, wherever the bytes come from.
pub trait IndexReader {
    /// Adds the next tensor to the index, or all those that the same part of the file describes. Returns `false` at the
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

    /// Adds the tensor at a position to the index, without reading the headers of the others. The position is less than
    /// the [`count`](Self::count), which was asked for before.
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

    /// Returns the entries of [`metadata`](Self::metadata) for a value that is read, after the first tensor was
    /// returned. In a stream, this is the only way to them.
    fn metadata_entries(&mut self) -> Option<IndexMap<String, String>> {
        self.metadata().map(|metadata| metadata.entries)
    }

    /// Returns which part of a model the file is, if it states that it is one of several. The index was read before.
    fn part(&self) -> Option<FilePart> {
        None
    }

    /// Returns whether tensors come in the order of their payloads, so that a stream need not hold what was read.
    fn is_in_file_order(&self) -> bool {
        false
    }

    /// Returns whether two tensors may have the same name, as in a stream in which nothing is looked up by name.
    /// Otherwise that is an error.
    fn names_may_repeat(&self) -> bool {
        false
    }
}
