use super::header;
use crate::error::Result;
use crate::model::FormatSpec;
use crate::tensor::TensorInfo;
use crate::write;
use crate::write::{FileLayout, NamePolicy, PlannedTensors, SmallFile, SmallFormat, SmallTensors};

/// Writes records in order and adjacent, each padded.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) embed_names: bool,
    pub(super) tfrt_coo: bool,
}

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        &super::FORMAT
    }

    fn names(&self) -> NamePolicy {
        if self.embed_names { NamePolicy::Embedded } else { NamePolicy::Omitted }
    }

    fn small(&self) -> Option<&dyn SmallFormat> {
        Some(self)
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        let table = header::table_bytes(plan.len() as u64);
        let mut layout = plan.stack(table, header::ALIGNMENT, &mut |_, info, out| {
            header::write(info, self.tfrt_coo, out);
        })?;
        plan.end_with_unknown(header::ALIGNMENT, &mut layout)?;
        let mut begin = Vec::with_capacity(8 * (plan.len() + 1));
        begin.extend_from_slice(&(plan.len() as u64).to_le_bytes());
        for (header, payload) in layout.placed() {
            begin.extend_from_slice(&(payload - header.len() as u64).to_le_bytes());
        }
        layout.begin = begin;
        Ok(layout)
    }
}

impl SmallFormat for Encode {
    fn front_bytes(&self, tensors: usize) -> usize {
        size_of::<u64>() * (1 + tensors)
    }

    fn alignment(&self) -> u64 {
        header::ALIGNMENT
    }

    fn write_header(&self, _: &str, info: &TensorInfo, _: usize, file: &mut Vec<u8>) {
        header::write(info, self.tfrt_coo, file);
    }

    fn finish(&self, tensors: &SmallTensors, file: &mut SmallFile<'_>) -> Result<()> {
        let front = file.set_front(self.front_bytes(tensors.len()))?;
        let mut start = front.len() as u64;
        let (words, _) = front.as_chunks_mut();
        let (count, table) = words.split_first_mut().expect("the count is always there");
        *count = (tensors.len() as u64).to_le_bytes();
        for (place, tensor) in table.iter_mut().zip(tensors.iter()) {
            *place = start.to_le_bytes();
            let bytes = header::dense_bytes(&tensor.info.shape) + tensor.payload_bytes as u64;
            start += bytes.next_multiple_of(header::ALIGNMENT);
        }
        Ok(())
    }
}
