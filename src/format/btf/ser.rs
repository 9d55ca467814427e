use super::header;
use crate::error::Result;
use crate::record::{self, FileLayout, Format, Names, Plan, WholeTensor};

/// Writes records in order and adjacent, each padded.
#[derive(Debug, Clone, Default)]
pub(super) struct Encode {
    pub(super) embed_names: bool,
    pub(super) tfrt_coo: bool,
}

impl record::Encode for Encode {
    fn format(&self) -> &'static Format {
        &super::FORMAT
    }

    fn names(&self) -> Names {
        if self.embed_names { Names::Embedded } else { Names::Omitted }
    }

    fn expected_header_bytes(&self) -> usize {
        64
    }

    fn write_whole(&self, tensor: &WholeTensor<'_>, file: &mut Vec<u8>) -> bool {
        file.extend_from_slice([1, header::table_bytes(1)].map(u64::to_le_bytes).as_flattened());
        header::write(tensor.info, self.tfrt_coo, file);
        tensor.append_to(file, header::ALIGNMENT)
    }

    fn lay_out(&self, plan: &Plan) -> Result<FileLayout> {
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
