use super::header;
use crate::error::{ErrorKind, Result};
use crate::record::{self, FileLayout, Format, Names, Plan, cannot_store};
use crate::tensor::TensorInfo;

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

    fn check(&self, name: &str, _: &TensorInfo) -> Result<(), ErrorKind> {
        if self.embed_names {
            return Ok(());
        }
        if name.is_empty() {
            let instead = "ten cannot tell it from no name; `Options::embed_names` keeps it";
            return Err(cannot_store("an empty name", instead));
        }
        let stored = header::bytes_of(name);
        if stored.starts_with(b"\0") || stored.ends_with(b"\0") {
            return Err(cannot_store("a name with NUL at its end", "readers of ten strip them"));
        }
        Ok(())
    }

    fn lay_out(&self, plan: &Plan) -> Result<FileLayout> {
        plan.stack(0, header::ALIGNMENT, &mut |at, out| {
            header::write(plan.stored_name(at), plan.info(at), plan.payload_bytes(at), out);
        })
    }
}
