use super::header;
use crate::error::Result;
use crate::model::FormatSpec;
use crate::tensor::TensorInfo;
use crate::write;
use crate::write::{FileLayout, NamePolicy, PlannedTensors, SmallFile, SmallFormat, SmallTensors};

/// Writes tensors in order, each as two chunks.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) embed_names: bool,
}

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        &super::FORMAT
    }

    fn names(&self) -> NamePolicy {
        if self.embed_names { NamePolicy::Embedded } else { NamePolicy::Stored }
    }

    fn name_bytes(&self, name: &str) -> usize {
        header::bytes_of(name).len()
    }

    fn small(&self) -> Option<&dyn SmallFormat> {
        Some(self)
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        plan.stack(0, header::ALIGNMENT, &mut |name, info, out| {
            let payload_bytes = info.payload_bytes().expect("the plan was checked");
            header::write(name, info, payload_bytes, out);
        })
    }
}

impl SmallFormat for Encode {
    fn front_bytes(&self, _: usize) -> usize {
        0
    }

    fn alignment(&self) -> u64 {
        header::ALIGNMENT
    }

    fn write_header(&self, name: &str, info: &TensorInfo, payload_bytes: usize, file: &mut Vec<u8>) {
        header::write(name, info, payload_bytes, file);
    }

    fn finish(&self, _: &SmallTensors, _: &mut SmallFile<'_>) -> Result<()> {
        Ok(())
    }
}
