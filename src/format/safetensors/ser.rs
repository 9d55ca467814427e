use std::collections::BTreeMap;

use super::header::{METADATA, Writer};
use crate::error::{ErrorKind, Result};
use crate::record::{self, FileLayout, Format, Names, Plan, cannot_store};
use crate::tensor::TensorInfo;

/// Writes the header, then the tensors without gaps.
#[derive(Debug, Clone, Default)]
pub(super) struct Encode {
    pub(super) metadata: BTreeMap<String, String>,
}

impl record::Encode for Encode {
    fn format(&self) -> &'static Format {
        &super::FORMAT
    }

    fn names(&self) -> Names {
        Names::Stored
    }

    fn check(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        if name == METADATA {
            let instead = "safetensors keeps this name for metadata";
            return Err(cannot_store(format!("a tensor named `{METADATA}`"), instead));
        }
        // The crate multiplies all dims, even if one of them is zero.
        let bits = 8 * info.dtype.block_bytes() / info.dtype.block_elements();
        match info.shape.iter().try_fold(bits, |bits, dim| bits.checked_mul(*dim)) {
            Some(_) => Ok(()),
            None => Err(cannot_store(info.to_string(), "readers of safetensors count its bits, which are too many")),
        }
    }

    fn lay_out(&self, plan: &Plan) -> Result<FileLayout> {
        let mut header = Writer::new(&self.metadata);
        for (at, offset) in plan.stack(0, 1, &mut |_, _| ())?.payloads.into_iter().enumerate() {
            header.tensor(plan.name(at), plan.info(at), offset..offset + plan.payload_bytes(at) as u64);
        }
        let begin = header.finish()?;
        // Offsets in the header count from its end, which is known only now.
        let layout = plan.stack(begin.len() as u64, 1, &mut |_, _| ())?;
        Ok(FileLayout { begin, ..layout })
    }
}
