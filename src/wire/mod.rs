//! What the formats share: reading an index, finding tensors in it, planning a file and writing it.

mod cursor;
mod encode;
mod face;
mod index;
pub(crate) mod names;
mod plan;
mod pour;
mod reader;
mod replace;
mod share;

pub use index::{Entry, Index};
pub use plan::Plan;

pub(crate) use cursor::Cursor;
pub(crate) use encode::{Encode, FileLayout, Names, Sharing, cannot_store, cannot_store_dtype};
pub(crate) use face::{
    from_reader, from_slice, index, plan, slice_deserializer, stream_deserializer, to_vec, to_writer,
};
pub(crate) use pour::Pour;
pub(crate) use reader::{Indexed, Reader, Walk};
pub(crate) use replace::replace;
