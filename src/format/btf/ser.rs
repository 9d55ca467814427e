use std::io::Write;

use super::header;
use crate::error::{ErrorKind, Result};
use crate::tensor::{Layout, TensorInfo};
use crate::wire::{self, FileLayout, Names, Plan};

/// Writes records in order and adjacent, each padded.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) embed_names: bool,
    pub(super) tfrt_coo: bool,
}

impl wire::Encode for Encode {
    const FORMAT: &'static str = "btf";

    type Frame<W: Write> = wire::Flat<W>;

    fn names(&self) -> Names {
        if self.embed_names { Names::Embedded } else { Names::Omitted }
    }

    fn check(&self, _: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        if header::tag(info.dtype).is_none() {
            return Err(wire::cannot_store_dtype(Self::FORMAT, info.dtype, header::DTYPES));
        }
        if info.layout == Layout::Blob {
            return Err(wire::cannot_store("a blob", "btf stores tensors"));
        }
        match info.shape.iter().find(|dim| **dim as u64 > header::MAX_DIM) {
            Some(dim) => Err(wire::cannot_store(format!("a dim of {dim}"), "btf stores dims below 2^63")),
            None => Ok(()),
        }
    }

    fn lay_out(&self, plan: &Plan<Self>) -> Result<FileLayout> {
        let table = header::table_bytes(plan.len() as u64);
        let (payloads, end_offset) = plan.stack(table, header::ALIGNMENT, header::bytes)?;
        let mut begin = Vec::with_capacity(8 * (plan.len() + 1));
        begin.extend_from_slice(&(plan.len() as u64).to_le_bytes());
        for (at, payload) in payloads.iter().enumerate() {
            begin.extend_from_slice(&(payload - header::bytes(plan.info(at))).to_le_bytes());
        }
        Ok(FileLayout { begin, payloads, end_offset, end: Vec::new() })
    }

    fn head(&self, _: &str, info: &TensorInfo, out: &mut Vec<u8>) {
        header::write(info, self.tfrt_coo, out);
    }
}
