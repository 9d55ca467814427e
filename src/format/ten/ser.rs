use std::io::Write;

use super::header;
use crate::error::{ErrorKind, Result};
use crate::tensor::{Layout, TensorInfo};
use crate::wire::{self, FileLayout, Names, Plan};

/// Writes tensors one after the other, as two chunks each.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) embed_names: bool,
}

impl wire::Encode for Encode {
    const FORMAT: &'static str = "ten";

    type Frame<W: Write> = wire::Flat<W>;

    fn names(&self) -> Names {
        if self.embed_names { Names::Embedded } else { Names::Stored }
    }

    fn check(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        if header::dtype_name(info.dtype).is_none() {
            return Err(wire::cannot_store_dtype(Self::FORMAT, info.dtype, header::DTYPES));
        }
        match info.layout {
            Layout::Coo { .. } => return Err(wire::cannot_store("a sparse tensor", "ten stores dense tensors")),
            Layout::Blob => return Err(wire::cannot_store("a blob", "ten stores tensors")),
            Layout::RowMajor | Layout::DimOrder(_) => {}
        }
        if info.shape.rank() > header::MAX_RANK {
            let what = format!("rank {}", info.shape.rank());
            return Err(wire::cannot_store(what, format!("ten stores ranks up to {}", header::MAX_RANK)));
        }
        if let Some(dim) = info.shape.iter().find(|dim| i64::try_from(**dim).is_err()) {
            return Err(wire::cannot_store(format!("a dim of {dim}"), "ten stores dims below 2^63"));
        }
        if self.embed_names { Ok(()) } else { check_name(name) }
    }

    fn lay_out(&self, plan: &Plan<Self>) -> Result<FileLayout> {
        let (payloads, end_offset) = plan.stack(0, header::ALIGNMENT, header::bytes)?;
        Ok(FileLayout { payloads, end_offset, ..FileLayout::default() })
    }

    fn head(&self, name: &str, info: &TensorInfo, out: &mut Vec<u8>) {
        header::write(name, info, info.payload_bytes().expect("the plan was measured"), out);
    }
}

fn check_name(name: &str) -> Result<(), ErrorKind> {
    if name.len() > header::NAME {
        let what = format!("a name of {} bytes", name.len());
        let instead = "ten stores up to 8; `#[tensor(rename)]` shortens a name, `Options::embed_names` keeps it";
        return Err(wire::cannot_store(what, instead));
    }
    if name.is_empty() {
        return Err(wire::cannot_store(
            "an empty name",
            "ten has no name where that is empty; `Options::embed_names` keeps it",
        ));
    }
    if name.starts_with('\0') || name.ends_with('\0') {
        return Err(wire::cannot_store("a name with NUL at its end", "readers of ten strip them"));
    }
    Ok(())
}
