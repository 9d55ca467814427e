//! What a tensor is: no I/O, no serde, no formats.

mod blob;
mod buffer;
mod cast;
mod coo;
mod dtype;
mod element;
mod float8;
mod info;
mod invalid;
mod layout;
mod map;
mod nearest;
mod number;
mod order;
mod owned;
mod pieces;
mod shape;
mod small_float;
mod view;

pub use blob::Blob;
pub use cast::InvalidCast;
pub use coo::CooTensor;
pub use dtype::{Dtype, UnknownDtypeName};
pub use element::{
    Bits16, Element, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, QInt8, QInt32, QUint2x4, QUint4x2, QUint8,
};
pub use info::TensorInfo;
pub use invalid::InvalidTensor;
pub use layout::{DimOrder, Layout};
pub use map::TensorMap;
pub use number::Number;
pub use owned::Tensor;
pub use shape::Shape;
pub use view::TensorView;

pub(crate) use buffer::{Buffer, grow};
pub(crate) use cast::{can_cast, cast, number};
pub(crate) use coo::check as check_coo;
#[cfg(feature = "digest")]
pub(crate) use coo::split as coo_parts;
pub(crate) use element::{from_le_bytes, le_to_host, to_le_bytes, view_le_bytes};
pub(crate) use nearest::nearest;
pub(crate) use order::{bytes_in_row_major, in_row_major};
pub(crate) use pieces::{CHUNK, Pieces, in_chunks};
pub(crate) use small_float::SmallFloat;
