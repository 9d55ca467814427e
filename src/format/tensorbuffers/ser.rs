use std::collections::HashSet;
use std::io::Write;
use std::ops::Range;

use super::header;
use super::metadata::{self, Operation, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Layout, TensorInfo};
use crate::wire::{self, FileLayout, Names, Plan};

/// Writes tensors one after the other, and their metadata behind them.
#[derive(Debug, Clone)]
pub struct Encode {
    pub(super) alignment: u64,
    pub(super) model: Option<String>,
    pub(super) operations: Option<Vec<Operation>>,
    /// What the file already holds, where tensors are appended to one.
    pub(super) before: Option<Before>,
}

impl Default for Encode {
    fn default() -> Self {
        Self { alignment: 64, model: None, operations: None, before: None }
    }
}

/// A file that is appended to. What is laid out begins where its metadata did.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    pub(super) end: u64,
    pub(super) tensors: Vec<OldTensor>,
    pub(super) names: HashSet<Box<str>>,
}

/// A tensor that stays as it is.
#[derive(Debug, Clone)]
pub(super) struct OldTensor {
    pub(super) id: u64,
    pub(super) name: Box<str>,
    pub(super) info: TensorInfo,
    pub(super) range: Range<u64>,
}

impl wire::Encode for Encode {
    const FORMAT: &'static str = "tensorbuffers";

    type Frame<W: Write> = wire::Flat<W>;

    fn names(&self) -> Names {
        Names::Stored
    }

    fn check(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        if header::tag(info.dtype).is_none() {
            return Err(wire::cannot_store_dtype(Self::FORMAT, info.dtype, header::DTYPES));
        }
        match info.layout {
            Layout::Coo { .. } => {
                return Err(wire::cannot_store("a sparse tensor", "tensorbuffers stores dense tensors"));
            }
            Layout::Blob => return Err(wire::cannot_store("a blob", "tensorbuffers stores tensors")),
            Layout::RowMajor | Layout::DimOrder(_) => {}
        }
        if let Some(dim) = info.shape.iter().find(|dim| u32::try_from(**dim).is_err()) {
            return Err(wire::cannot_store(format!("a dim of {dim}"), "tensorbuffers stores dims below 2^32"));
        }
        if let Some(bytes) = info.payload_bytes().filter(|bytes| u32::try_from(*bytes).is_err()) {
            return Err(wire::cannot_store(format!("{bytes} bytes"), "tensorbuffers stores tensors below 4 GiB"));
        }
        if self.before.as_ref().is_some_and(|before| before.names.contains(name)) {
            return Err(ErrorKind::DuplicateName { name: name.to_owned() });
        }
        Ok(())
    }

    fn lay_out(&self, plan: &Plan<Self>) -> Result<FileLayout> {
        if !self.alignment.is_power_of_two() || u32::try_from(self.alignment).is_err() {
            let what = format!("align tensors to {} bytes", self.alignment);
            let instead = "an alignment is a power of two below 2^32".to_owned();
            return Err(ErrorKind::Unsupported { what, instead }.into());
        }
        let begin = if self.before.is_some() { Vec::new() } else { header::MAGIC.to_vec() };
        let start = self.before.as_ref().map_or(0, |before| before.end);
        // As an offset within what is written, the place of a tensor is a multiple of the alignment only once `start`
        // is added.
        let first = start.max(header::DATA).next_multiple_of(self.alignment) - start;
        let (payloads, end_offset) = plan.stack(first, self.alignment, |_| 0)?;
        let end = self.end(plan, start, &payloads)?;
        Ok(FileLayout { begin, payloads, end_offset, end })
    }
}

impl Encode {
    /// The metadata and what comes behind it.
    fn end(&self, plan: &Plan<Self>, start: u64, payloads: &[u64]) -> Result<Vec<u8>> {
        let old =
            self.before.iter().flat_map(|before| &before.tensors).map(|old| {
                Ok(Record { id: old.id, name: &old.name, info: old.info.clone(), range: old.range.clone() })
            });
        let new = payloads.iter().enumerate().map(|(at, payload)| {
            let (name, place) = (plan.name(at), start + payload);
            let range = place..place + plan.payload_bytes(at) as u64;
            match u32::try_from(range.end) {
                Ok(_) => Ok(Record { id: header::id(name), name, info: plan.info(at).clone(), range }),
                Err(_) => Err(Error::new(too_far(range)).in_tensor(name)),
            }
        });
        let records = old.chain(new).collect::<Result<Vec<_>>>()?;
        metadata::build(&records, self.model.as_deref(), self.operations.as_deref().unwrap_or_default())
    }
}

fn too_far(range: Range<u64>) -> ErrorKind {
    let what = format!("it at bytes {} to {}", range.start, range.end);
    wire::cannot_store(what, "tensorbuffers addresses bytes below 4 GiB; write several files")
}
