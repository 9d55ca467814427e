use indexmap::IndexMap;

use super::{entries, metadata};
use crate::error::Result;
use crate::limits::Limits;
use crate::read::{Index, IndexReader};
use crate::storage::ReadAt;

/// Reads the metadata. The tensors are in the order of their data.
#[derive(Debug, Default)]
pub(super) struct Reader {
    is_read: bool,
    model: Option<String>,
    operations: Vec<metadata::Operation>,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(false);
        }
        metadata::open(file, limits, |contents| {
            index.reserve(contents.len());
            contents.each_tensor(limits, &mut |tensor| tensor.header.push(index, Some(tensor.name), tensor.range))?;
            self.model = contents.model.map(str::to_owned);
            self.operations = contents.operations;
            Ok(true)
        })
    }

    fn metadata_entries(&mut self) -> Option<IndexMap<String, String>> {
        Some(entries::entries(self.model.take(), &self.operations))
    }

    fn names_may_repeat(&self) -> bool {
        true
    }

    fn is_in_file_order(&self) -> bool {
        true
    }
}
