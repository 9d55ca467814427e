use super::header;
use crate::error::{Error, ErrorKind, Result, Short, cannot_store};
use crate::model::FormatSpec;
use crate::tensor::TensorInfo;
use crate::write;
use crate::write::{FileLayout, NamePolicy, PlannedTensors};

/// Writes one array after its header.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) keep_dim_order: bool,
    /// Refuse a tensor with a name, which would be lost.
    pub(super) refuse_names: bool,
}

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        &super::FORMAT
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Omitted
    }

    fn keeps_dim_order(&self, info: &TensorInfo) -> bool {
        self.keep_dim_order && header::has_fortran_order(info)
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        header::check(info)
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        if plan.len() != 1 {
            let what = format!("{} tensors", plan.len());
            return Err(cannot_store(what, "npy stores exactly one; npz stores several").into());
        }
        if self.refuse_names && !plan.implies_name(0) {
            let name = plan.name(0);
            let refused = cannot_store(format!("the name `{}`", Short(name)), "npy stores no names; npz does");
            return Err(Error::new(refused).in_tensor(name));
        }
        plan.stack(0, 1, &mut |_, info, out| header::write(info, out))
    }
}
