//! Tensors in files, through serde.

extern crate self as tensorfile;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod array;
mod error;
mod format;
mod limits;
mod model;
mod source;
mod tensor;
mod wire;

#[cfg(feature = "derive")]
pub use tensorfile_derive::TensorFile;

pub use array::Arrays;
pub use error::{Category, Error, ErrorKind, Result};
#[cfg(feature = "tensorbuffers")]
pub use format::tensorbuffers;
pub use format::{FORMATS, Format, btf, ten};
pub use limits::Limits;
pub use model::{FromTensors, Schema, SchemaEntry, Slot, TensorFile};
pub use tensor::{
    Bits16, Blob, CooTensor, DimOrder, Dtype, Element, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, InvalidCast,
    InvalidTensor, Layout, QInt8, QInt32, QUint2x4, QUint4x2, QUint8, Shape, Tensor, TensorInfo, TensorMap, TensorView,
    UnknownDtypeName,
};
