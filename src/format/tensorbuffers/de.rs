use indexmap::IndexMap;

use super::{entries, metadata};
use crate::error::Result;
use crate::limits::Limits;
use crate::record::{Entry, IndexReader, Packed, Waiting};
use crate::storage::ReadAt;

/// Reads the metadata, then returns its tensors in the order of their data.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The tensors that are still to come, once the metadata is read.
    tensors: Option<Packed>,
    model: Option<String>,
    operations: Vec<metadata::Operation>,
}

impl IndexReader for Reader {
    fn next(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Option<Entry>> {
        let tensors = match &mut self.tensors {
            Some(tensors) => tensors,
            unread => {
                let (tensors, model, operations) = read_index(file, limits)?;
                (self.model, self.operations) = (model, operations);
                unread.insert(tensors)
            }
        };
        Ok(tensors.pop().map(Waiting::into_entry))
    }

    fn remaining(&self) -> usize {
        self.tensors.as_ref().map_or(0, Packed::len)
    }

    fn metadata_entries(&mut self) -> Option<IndexMap<String, String>> {
        Some(entries::entries(self.model.take(), &self.operations))
    }

    fn is_in_file_order(&self) -> bool {
        true
    }
}

type Contents = (Packed, Option<String>, Vec<metadata::Operation>);

fn read_index(file: &mut dyn ReadAt, limits: &Limits) -> Result<Contents> {
    metadata::open(file, limits, |contents| {
        let mut tensors = Packed::default();
        contents.each_tensor(limits, &mut |tensor| {
            tensors.push(&Waiting::new(tensor.name, tensor.info, &tensor.range));
            Ok(())
        })?;
        Ok((tensors, contents.model.map(str::to_owned), contents.operations))
    })
}
