use super::header;
use crate::error::Result;
use crate::record::{self, FileLayout, Format, Names, Plan};

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

    fn begin_single(&self, plan: &Plan, file: &mut Vec<u8>) -> bool {
        if !self.embed_names {
            header::write(plan.stored_name(0), plan.info(0), file);
        }
        !self.embed_names
    }

    fn end_single(&self, plan: &Plan, file: &mut Vec<u8>) -> Result<()> {
        plan.pad_single(header::ALIGNMENT, file);
        Ok(())
    }

    fn lay_out(&self, plan: &Plan) -> Result<FileLayout> {
        plan.stack(0, header::ALIGNMENT, &mut header::write)
    }
}
