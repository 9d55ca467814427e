use super::Plan;
use crate::error::{ErrorKind, Result};
use crate::tensor::{Dtype, TensorInfo};

/// How a format writes: what it can store, and the bytes around the payloads.
pub trait Encode {
    /// The format, in messages.
    const FORMAT: &'static str;

    /// Whether names are written as one more tensor; [`names`](super::names) says how.
    fn embeds_names(&self) -> bool;

    /// Whether each tensor's name is written with it.
    fn stores_names(&self) -> bool;

    /// Refuses a tensor that cannot be stored, before anything is written.
    fn check(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind>;

    /// The bytes of a tensor's head, payload and padding. `None` where they pass `u64`.
    fn record_bytes(&self, info: &TensorInfo) -> Option<u64>;

    /// The bytes before the first tensor.
    fn begin(&self, plan: &Plan<Self>, out: &mut Vec<u8>)
    where
        Self: Sized;

    /// The bytes of what [`begin`](Self::begin) writes for so many tensors.
    fn begin_bytes(&self, tensors: usize) -> u64;

    /// The bytes before a payload. The name is the one to store, which is empty where the name is implied or embedded.
    fn head(&self, name: &str, info: &TensorInfo, out: &mut Vec<u8>);

    /// How many zero bytes follow a payload.
    fn padding(&self, payload: usize) -> usize;
}

/// The error for a tensor that a format cannot store.
pub(crate) fn cannot_store(what: impl Into<String>, instead: impl Into<String>) -> ErrorKind {
    ErrorKind::Unsupported { what: what.into(), instead: instead.into() }
}

/// The error for a dtype that a format cannot store.
pub(crate) fn cannot_store_dtype(format: &str, dtype: Dtype, dtypes: &[Dtype]) -> ErrorKind {
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    cannot_store(dtype.name(), format!("{format} stores {}", names.join(", ")))
}
