//! Tensors in memory: dtype, shape, layout and bytes. Knows no files, serde, ndarray or formats.

mod blob;
mod buffer;
pub(crate) mod checked_io;
mod coo;
mod coordinates;
mod dtype;
mod element;
mod header_table;
mod info;
mod map;
mod owned;
mod row_major;
mod shape;
pub(crate) mod sorted;
mod view;

pub use blob::Blob;
pub use buffer::Buffer;
pub use coo::CooTensor;
pub use dtype::{
    Bits16, Dtype, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0, QInt8, QInt32, QUint2x4, QUint4x2, QUint8,
    UnknownDtypeName,
};
pub use element::Element;
pub use info::{DimOrder, InvalidTensor, Layout, TensorInfo, UnknownDtype};
pub use map::TensorMap;
pub use owned::Tensor;
pub use shape::Shape;
pub use view::TensorView;

pub(crate) use buffer::{grow, le_to_host, try_reserve, try_zeros};
pub(crate) use coordinates::{
    check as check_payload, check_indices as check_coo_indices, index_bytes as coo_index_bytes, split as coo_parts,
};
pub(crate) use dtype::{dtypes, for_each_dtype, tags_of};
pub(crate) use element::{are_bools, check_bools, to_bools};
pub(crate) use header_table::HeaderTable;
pub(crate) use row_major::write_row_major;
