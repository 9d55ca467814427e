use std::sync::Arc;

use indexmap::IndexMap;

use super::header::Writer;
use crate::error::{ErrorKind, Result};
use crate::model::MetadataValue;
use crate::record::{self, FileLayout, Format, KeptPayloads, Names, Plan, Records, WholeTensor, cannot_store};
use crate::tensor::TensorInfo;

/// Writes the header, then the tensors without gaps.
#[derive(Debug, Clone, Default)]
pub(super) struct Encode {
    pub(super) metadata: IndexMap<String, String>,
}

impl record::Encode for Encode {
    fn format(&self) -> &'static Format {
        &super::FORMAT
    }

    fn names(&self) -> Names {
        Names::Stored
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        // The crate multiplies all dims, even if one of them is zero.
        let bits = 8 * info.dtype.block_bytes() / info.dtype.block_elements();
        match info.shape.iter().try_fold(bits, |bits, dim| bits.checked_mul(*dim)) {
            Some(_) => Ok(()),
            None => Err(cannot_store(info.to_string(), "readers of safetensors count its bits, which are too many")),
        }
    }

    fn with_metadata(&self, entries: &[(String, MetadataValue)]) -> Result<Arc<dyn record::Encode>> {
        let mut metadata = self.metadata.clone();
        metadata.extend(entries.iter().map(|(key, value)| (key.clone(), value.to_string())));
        Ok(Arc::new(Self { metadata }))
    }

    fn expected_header_bytes(&self) -> usize {
        96
    }

    fn write_whole(&self, tensor: &WholeTensor<'_>, file: &mut Vec<u8>) -> bool {
        let mut header = Writer::new(std::mem::take(file), &self.metadata);
        header.tensor(&tensor.planned(), 0);
        header.finish().is_ok_and(|begin| {
            *file = begin;
            tensor.append_to(file, 1)
        })
    }

    fn lay_out(&self, plan: &Plan) -> Result<FileLayout> {
        let mut layout = plan.stack_payloads(0, 1)?;
        let buffer = Vec::with_capacity(Writer::expected_bytes(plan.len()));
        layout.put_before(self.header(plan, buffer)?)?;
        Ok(layout)
    }

    fn records(&self) -> Option<Records> {
        Some(Records { alignment: 1, have_headers: false, begin_bytes: None })
    }

    fn complete(&self, plan: &Plan, mut kept: KeptPayloads) -> Result<Vec<u8>> {
        let file_bytes = Writer::expected_bytes(plan.len()) + kept.records().len();
        let mut file = self.header(plan, kept.take_buffer_for(file_bytes as u64))?;
        file.extend_from_slice(kept.records());
        Ok(file)
    }
}

impl Encode {
    /// Returns the header of a file of the planned tensors, in an empty buffer.
    fn header(&self, plan: &Plan, buffer: Vec<u8>) -> Result<Vec<u8>> {
        let mut header = Writer::new(buffer, &self.metadata);
        header.tensors(plan);
        header.finish()
    }
}
