use super::header;
use crate::error::ErrorKind;
use crate::tensor::{Layout, TensorInfo};
use crate::wire::{self, Plan};

/// Writes tensors one after the other, as two chunks each.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) embed_names: bool,
}

impl wire::Encode for Encode {
    const FORMAT: &'static str = "ten";

    fn embeds_names(&self) -> bool {
        self.embed_names
    }

    fn stores_names(&self) -> bool {
        !self.embed_names
    }

    fn check(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        if header::dtype_name(info.dtype).is_none() {
            return Err(wire::cannot_store_dtype(Self::FORMAT, info.dtype, header::DTYPES));
        }
        if info.layout != Layout::RowMajor {
            return Err(wire::cannot_store(
                "a layout other than row-major",
                "ten stores dense tensors in row-major order",
            ));
        }
        if info.shape.rank() > header::MAX_RANK {
            let what = format!("rank {}", info.shape.rank());
            return Err(wire::cannot_store(what, format!("ten stores ranks up to {}", header::MAX_RANK)));
        }
        if let Some(dim) = info.shape.iter().find(|dim| i64::try_from(**dim).is_err()) {
            return Err(wire::cannot_store(format!("a dim of {dim}"), "ten stores dims below 2^63"));
        }
        if self.stores_names() { check_name(name) } else { Ok(()) }
    }

    fn record_bytes(&self, info: &TensorInfo) -> Option<u64> {
        let payload = info.payload_bytes()?.checked_next_multiple_of(header::ALIGNMENT)?;
        (header::bytes(info) as u64).checked_add(payload as u64)
    }

    fn begin_bytes(&self, _: usize) -> u64 {
        0
    }

    fn begin(&self, _: &Plan<Self>, _: &mut Vec<u8>) {}

    fn head(&self, name: &str, info: &TensorInfo, out: &mut Vec<u8>) {
        header::write(name, info, info.payload_bytes().expect("the plan was measured"), out);
    }

    fn padding(&self, payload: usize) -> usize {
        payload.next_multiple_of(header::ALIGNMENT) - payload
    }
}

pub(super) fn check_name(name: &str) -> Result<(), ErrorKind> {
    if name.len() > header::NAME {
        let what = format!("a name of {} bytes", name.len());
        let instead = "ten stores up to 8; `#[tensor(rename)]` shortens a name, `Options::embed_names` keeps it";
        return Err(wire::cannot_store(what, instead));
    }
    if name.starts_with('\0') || name.ends_with('\0') {
        return Err(wire::cannot_store("a name with NUL at its end", "readers of ten strip them"));
    }
    Ok(())
}
