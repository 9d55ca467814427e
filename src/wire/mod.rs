//! What the formats share: reading an index, finding tensors in it, planning a file and writing it.

#[cfg(feature = "npy")]
mod coding;
mod cursor;
mod encode;
mod face;
mod index;
pub(crate) mod names;
#[cfg(feature = "npy")]
pub(crate) mod numpy;
mod plan;
mod pour;
mod reader;
mod replace;
mod share;

pub use index::{Entry, Index};
pub use plan::Plan;

#[cfg(feature = "npy")]
pub(crate) use coding::{Coding, Decoder, RangeReader};
#[cfg(feature = "npz")]
pub(crate) use coding::{Deflated, inflate, not_deflated};
pub(crate) use cursor::Cursor;
pub(crate) use encode::{Encode, FileLayout, Frame, Names, Sharing, Take, cannot_store, cannot_store_dtype};
pub(crate) use face::{
    from_reader, from_slice, index, plan, pour, slice_deserializer, stream_deserializer, to_vec, to_writer,
};
pub(crate) use pour::{Flat, Pour};
pub(crate) use reader::{Indexed, Reader, Walk};
pub(crate) use replace::replace;
#[cfg(feature = "shards")]
pub(crate) use {face::outline, plan::Outline, replace::Staged};
