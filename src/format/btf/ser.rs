use super::header;
use crate::error::ErrorKind;
use crate::tensor::{Layout, TensorInfo};
use crate::wire::{self, Plan};

/// Writes records in order and adjacent, each padded.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) embed_names: bool,
    pub(super) tfrt_coo: bool,
}

impl wire::Encode for Encode {
    const FORMAT: &'static str = "btf";

    fn embeds_names(&self) -> bool {
        self.embed_names
    }

    fn stores_names(&self) -> bool {
        false
    }

    fn check(&self, _: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        if header::tag(info.dtype).is_none() {
            return Err(wire::cannot_store_dtype(Self::FORMAT, info.dtype, header::DTYPES));
        }
        if let Layout::DimOrder(_) = info.layout {
            return Err(wire::cannot_store("a dim order", "btf stores row-major and COO layout"));
        }
        match info.shape.iter().find(|dim| **dim as u64 > header::MAX_DIM) {
            Some(dim) => Err(wire::cannot_store(format!("a dim of {dim}"), "btf stores dims below 2^63")),
            None => Ok(()),
        }
    }

    fn record_bytes(&self, info: &TensorInfo) -> Option<u64> {
        let payload = info.payload_bytes()? as u64;
        header::bytes(info).checked_add(payload)?.checked_next_multiple_of(header::ALIGNMENT as u64)
    }

    fn begin_bytes(&self, tensors: usize) -> u64 {
        header::table_bytes(tensors as u64)
    }

    fn begin(&self, plan: &Plan<Self>, out: &mut Vec<u8>) {
        let mut offset = self.begin_bytes(plan.len());
        out.extend_from_slice(&(plan.len() as u64).to_le_bytes());
        for info in plan.infos() {
            out.extend_from_slice(&offset.to_le_bytes());
            offset += self.record_bytes(info).expect("the plan was measured");
        }
    }

    fn head(&self, _: &str, info: &TensorInfo, out: &mut Vec<u8>) {
        header::write(info, self.tfrt_coo, out);
    }

    fn padding(&self, payload: usize) -> usize {
        payload.next_multiple_of(header::ALIGNMENT) - payload
    }
}
