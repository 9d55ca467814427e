use std::collections::BTreeMap;
use std::io::Write;

use super::header::{self, METADATA, Member, Record};
use crate::error::{ErrorKind, Result};
use crate::tensor::{Layout, TensorInfo};
use crate::wire::{self, FileLayout, Names, Plan};

/// Writes the header, then the tensors one right behind the other.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) metadata: BTreeMap<String, String>,
}

impl wire::Encode for Encode {
    const FORMAT: &'static str = "safetensors";

    type Frame<W: Write> = wire::Flat<W>;

    fn names(&self) -> Names {
        Names::Stored
    }

    fn check(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        let Some(tag) = header::tag(info.dtype) else {
            return Err(wire::cannot_store_dtype(Self::FORMAT, info.dtype, header::DTYPES));
        };
        match info.layout {
            Layout::Coo { .. } => {
                return Err(wire::cannot_store("a sparse tensor", "safetensors stores dense tensors"));
            }
            Layout::Blob => return Err(wire::cannot_store("a blob", "safetensors stores tensors")),
            Layout::RowMajor | Layout::DimOrder(_) => {}
        }
        if name == METADATA {
            let instead = "safetensors keeps this name for what a file says of itself";
            return Err(wire::cannot_store(format!("a tensor named `{METADATA}`"), instead));
        }
        // A zero dim does not save the others from being multiplied.
        match info.shape.iter().try_fold(tag.bitsize(), |bits, dim| bits.checked_mul(*dim)) {
            Some(_) => Ok(()),
            None => {
                Err(wire::cannot_store(info.to_string(), "readers of safetensors count its bits, which are too many"))
            }
        }
    }

    fn lay_out(&self, plan: &Plan<Self>) -> Result<FileLayout> {
        let (offsets, _) = plan.stack(0, 1, |_| 0)?;
        let tensors = offsets.into_iter().enumerate().map(|(at, offset)| {
            let (info, bytes) = (plan.info(at), plan.payload_bytes(at));
            let end = usize::try_from(offset + bytes as u64).map_err(|_| beyond())?;
            let dtype = header::tag(info.dtype).expect("the plan was checked");
            let record = Record { dtype, shape: info.shape.to_vec(), data_offsets: (end - bytes, end) };
            Ok((plan.name(at), Member::Tensor(record)))
        });
        let metadata = (!self.metadata.is_empty()).then_some((METADATA, Member::Metadata(&self.metadata)));
        let members = metadata.into_iter().map(Ok).chain(tensors).collect::<Result<Vec<_>>>()?;
        let begin = header::write(members.into_iter())?;
        // Once more, now that the length of the header shows.
        let (payloads, end_offset) = plan.stack(begin.len() as u64, 1, |_| 0)?;
        Ok(FileLayout { begin, payloads, end_offset, end: Vec::new() })
    }
}

fn beyond() -> ErrorKind {
    wire::cannot_store("so much data", "its offsets are numbers of this machine's size")
}
