use super::metadata;
use crate::error::Result;
use crate::limits::Limits;
use crate::record::{Entry, IndexReader};
use crate::storage::ReadAt;

/// Reads the metadata, then returns its tensors in the order of their data.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The tensors that are still to come, once the metadata is read.
    entries: Option<std::vec::IntoIter<Entry>>,
}

impl IndexReader for Reader {
    fn next(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Option<Entry>> {
        let entries = match &mut self.entries {
            Some(entries) => entries,
            unread => unread.insert(read_index(file, limits)?.into_iter()),
        };
        Ok(entries.next())
    }

    fn is_in_file_order(&self) -> bool {
        true
    }
}

fn read_index(file: &mut dyn ReadAt, limits: &Limits) -> Result<Vec<Entry>> {
    metadata::open(file, limits, |contents| {
        let entry =
            |tensor: metadata::Record<'_>| Ok(Entry::new(Some(tensor.name.to_owned()), tensor.info, tensor.range));
        contents.each_tensor(limits, entry)
    })
}
