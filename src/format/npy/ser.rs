use std::io::Write;

use super::header;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::TensorInfo;
use crate::wire::{self, FileLayout, Names, Plan};

/// Writes one array behind its head.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) keep_dim_order: bool,
    pub(super) refuse_names: bool,
}

impl wire::Encode for Encode {
    const FORMAT: &'static str = "npy";

    type Frame<W: Write> = wire::Flat<W>;

    fn names(&self) -> Names {
        Names::Omitted
    }

    fn keeps_dim_order(&self) -> bool {
        self.keep_dim_order
    }

    fn check(&self, _: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        header::check(Self::FORMAT, info)
    }

    fn lay_out(&self, plan: &Plan<Self>) -> Result<FileLayout> {
        if plan.len() != 1 {
            let what = format!("{} tensors", plan.len());
            return Err(wire::cannot_store(what, "npy stores exactly one; npz stores several").into());
        }
        if self.refuse_names && !plan.implies_name(0) {
            let name = plan.name(0);
            let refused = wire::cannot_store(format!("the name `{name}`"), "npy stores no names; npz does");
            return Err(Error::new(refused).in_tensor(name));
        }
        let mut head = Vec::new();
        header::write(plan.info(0), &mut head);
        let (payloads, end_offset) = plan.stack(0, 1, |_| head.len() as u64)?;
        Ok(FileLayout { payloads, end_offset, ..FileLayout::default() })
    }

    fn head(&self, _: &str, info: &TensorInfo, out: &mut Vec<u8>) {
        header::write(info, out);
    }
}
