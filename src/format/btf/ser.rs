use super::header;
use crate::error::Result;
use crate::record::{self, FileLayout, Format, KeptPayloads, Names, Plan, Records, WholeTensor};
use crate::tensor::TensorInfo;

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

    fn records(&self) -> Option<Records> {
        Some(Records { alignment: header::ALIGNMENT, have_headers: true, begin_bytes: Some((8, 8)) })
    }

    fn write_header(&self, _: &str, info: &TensorInfo, _: usize, out: &mut Vec<u8>) {
        header::write(info, self.tfrt_coo, out);
    }

    fn complete(&self, plan: &Plan, kept: KeptPayloads) -> Result<Vec<u8>> {
        let mut file = kept.into_file(plan.len());
        let mut start = header::table_bytes(plan.len() as u64);
        let (words, _) = file.as_chunks_mut();
        let (count, table) = words[..=plan.len()].split_first_mut().expect("it is at least one");
        *count = (plan.len() as u64).to_le_bytes();
        let record_bytes = |info: &TensorInfo, payload_bytes| {
            let mut header = Vec::new();
            header::write(info, self.tfrt_coo, &mut header);
            (header.len() as u64 + payload_bytes as u64).next_multiple_of(header::ALIGNMENT)
        };
        for (place, bytes) in table.iter_mut().zip(plan.by_info(&record_bytes)) {
            *place = start.to_le_bytes();
            start += bytes;
        }
        Ok(file)
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
