use std::io::Write;

use super::Plan;
use crate::error::{ErrorKind, Result};
use crate::tensor::{Dtype, TensorInfo};

/// How a format writes: what it can store, and the bytes around the payloads.
pub trait Encode: Sized {
    /// The format, in messages.
    const FORMAT: &'static str;

    /// How the parts of a file reach a writer; [`Flat`](super::Flat) where the layout tells all of them.
    type Frame<W: Write>: Frame<W, Self>;

    /// What becomes of the tensors' names.
    fn names(&self) -> Names;

    /// Whether a dense tensor is stored in the order of its memory. Where not, it is written in row-major order.
    fn keeps_dim_order(&self) -> bool {
        false
    }

    /// Which tensors are stored once for several names.
    fn sharing(&self) -> Sharing {
        Sharing::Never
    }

    /// Refuses a tensor that cannot be stored, before anything is written.
    fn check(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind>;

    /// Says where everything goes.
    ///
    /// # Errors
    ///
    /// Where the file as a whole passes what the format can address.
    fn lay_out(&self, plan: &Plan<Self>) -> Result<FileLayout>;

    /// Adds the bytes that stand right before a payload. The name is empty where it is not to be stored here.
    fn head(&self, _name: &str, _info: &TensorInfo, _out: &mut Vec<u8>) {}
}

/// What stands around the payloads of a file that is being written.
pub trait Frame<W, E>: Sized {
    fn new(writer: W) -> Self;

    /// Writes the tensor at `at`, which comes after those before: its head, and the payload that `pour` passes on.
    fn tensor(
        &mut self,
        plan: &Plan<E>,
        at: usize,
        name: &str,
        pour: impl FnOnce(Take<'_>) -> Result<()>,
    ) -> Result<()>;

    /// Writes what comes after the last payload.
    fn finish(self, plan: &Plan<E>) -> Result<W>;
}

/// What is done with a piece of a payload.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// What becomes of the names of a file's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// They are left out.
    Omitted,
    /// They are stored as the format stores names.
    Stored,
    /// They are stored in one more tensor; [`names`](super::names) says how.
    Embedded,
}

/// Which tensors are stored once for several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// None.
    Never,
    /// Those whose bytes are the same memory, and those that the type ties to another.
    SameMemory,
    /// All whose bytes are equal, and those that the type ties to another.
    EqualBytes,
}

/// Where everything in a file goes. Between one thing and the next there are zeros.
#[derive(Debug, Default)]
pub struct FileLayout {
    /// The bytes at the start.
    pub(crate) begin: Vec<u8>,
    /// Where each payload begins.
    pub(crate) payloads: Vec<u64>,
    /// Where the bytes at the end begin: after the last payload and its padding.
    pub(crate) end_offset: u64,
    /// The bytes at the end.
    pub(crate) end: Vec<u8>,
}

/// The error for a tensor that a format cannot store.
pub(crate) fn cannot_store(what: impl Into<String>, instead: impl Into<String>) -> ErrorKind {
    ErrorKind::Unsupported { what: format!("store {}", what.into()), instead: instead.into() }
}

/// The error for a dtype that a format cannot store.
pub(crate) fn cannot_store_dtype(format: &str, dtype: Dtype, dtypes: &[Dtype]) -> ErrorKind {
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    cannot_store(dtype.name(), format!("{format} stores {}", names.join(", ")))
}
