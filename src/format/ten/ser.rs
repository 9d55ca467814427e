use super::header;
use crate::error::Result;
use crate::record::{self, FileLayout, Format, Names, Plan, Records, WholeTensor};
use crate::tensor::TensorInfo;

/// Writes tensors one after the other, as two chunks each.
#[derive(Debug, Clone, Default)]
pub(super) struct Encode {
    pub(super) embed_names: bool,
}

impl record::Encode for Encode {
    fn format(&self) -> &'static Format {
        &super::FORMAT
    }

    fn names(&self) -> Names {
        if self.embed_names { Names::Embedded } else { Names::Stored }
    }

    fn name_bytes(&self, name: &str) -> usize {
        header::bytes_of(name).len()
    }

    fn expected_header_bytes(&self) -> usize {
        104
    }

    fn write_whole(&self, tensor: &WholeTensor<'_>, file: &mut Vec<u8>) -> bool {
        header::write("", tensor.info, tensor.payload_bytes(), file);
        tensor.append_to(file, header::ALIGNMENT)
    }

    fn records(&self) -> Option<Records> {
        Some(Records { alignment: header::ALIGNMENT, have_headers: true, begin_bytes: Some((0, 0)) })
    }

    fn write_header(&self, name: &str, info: &TensorInfo, payload_bytes: usize, out: &mut Vec<u8>) {
        header::write(name, info, payload_bytes, out);
    }

    fn lay_out(&self, plan: &Plan) -> Result<FileLayout> {
        plan.stack(0, header::ALIGNMENT, &mut |name, info, out| {
            let payload_bytes = info.payload_bytes().expect("the plan was checked");
            header::write(name, info, payload_bytes, out);
        })
    }
}
