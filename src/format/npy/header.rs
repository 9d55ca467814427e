//! The head of the array is all that a file has beside its elements; `npz` has it too.

pub(super) use crate::wire::numpy::{MAX_RANK, check, read, write};

/// The dtypes that the format can store.
pub const DTYPES: &[crate::Dtype] = crate::wire::numpy::DTYPES;
