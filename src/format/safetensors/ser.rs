use std::sync::Arc;

use indexmap::IndexMap;

use super::header::Writer;
use crate::error::{ErrorKind, Result, cannot_store};
use crate::model::{FormatSpec, MetadataValue};
use crate::tensor::TensorInfo;
use crate::write;
use crate::write::{FileLayout, NamePolicy, PlannedIter, PlannedTensors, SmallFile, SmallFormat, SmallTensors};

/// Writes the header, then the tensors without gaps.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) metadata: IndexMap<String, String>,
}

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        &super::FORMAT
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        // The crate multiplies all dims, even if one of them is zero.
        let bits = 8 * info.dtype.block_bytes() / info.dtype.block_elements();
        match info.shape.iter().try_fold(bits, |bits, dim| bits.checked_mul(*dim)) {
            Some(_) => Ok(()),
            None => Err(cannot_store(info.to_string(), "readers of safetensors count its bits, which are too many")),
        }
    }

    fn with_metadata(&self, entries: &[(String, MetadataValue)]) -> Result<Arc<dyn write::Encode>> {
        let mut metadata = self.metadata.clone();
        metadata.extend(entries.iter().map(|(key, value)| (key.clone(), value.to_string())));
        Ok(Arc::new(Self { metadata }))
    }

    fn small(&self) -> Option<&dyn SmallFormat> {
        Some(self)
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        let mut layout = plan.stack_payloads(0, 1)?;
        let buffer = Vec::with_capacity(Writer::expected_bytes(plan.len()));
        layout.put_before(self.header(plan.iter(), buffer)?)?;
        Ok(layout)
    }
}

impl Encode {
    /// Returns the header of a file of these tensors, in an empty buffer.
    fn header(&self, tensors: PlannedIter<'_>, buffer: Vec<u8>) -> Result<Vec<u8>> {
        let mut header = Writer::new(buffer, &self.metadata);
        header.tensors(tensors);
        header.finish()
    }
}

impl SmallFormat for Encode {
    fn front_bytes(&self, tensors: usize) -> usize {
        Writer::expected_bytes(tensors)
    }

    fn alignment(&self) -> u64 {
        1
    }

    fn finish(&self, tensors: &SmallTensors, file: &mut SmallFile<'_>) -> Result<()> {
        let header = self.header(tensors.iter(), Vec::with_capacity(Writer::expected_bytes(tensors.len())))?;
        file.set_front(header.len())?.copy_from_slice(&header);
        Ok(())
    }
}
