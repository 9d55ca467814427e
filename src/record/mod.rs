//! The parts that formats share: reading an index, finding tensors in it, planning a file and writing it.
//!
//! A format implements [`IndexReader`] and [`Encode`], and puts both into a [`Format`].

#[cfg(feature = "npy")]
mod codec;
mod cursor;
mod encode;
mod format;
mod index;
pub(crate) mod names;
mod options;
mod plan;
mod reader;
mod share;
mod write;

pub use cursor::Cursor;
pub use encode::{Encode, FileLayout, Names, Sharing, cannot_store};
pub use format::{FileMetadata, Format, Magic};
pub use index::Entry;
pub use options::WriteOptions;
pub use plan::Plan;
pub use reader::IndexReader;
pub use write::{FileWriter, Output, PlanWriter};

pub use crate::storage::ReadAt;

#[cfg(feature = "npy")]
pub(crate) use codec::{Codec, Decoder, RangeReader};
#[cfg(feature = "npz")]
pub(crate) use codec::{Deflated, inflate, not_deflated};
pub(crate) use format::dtypes;
pub(crate) use index::{Index, Unread};
pub(crate) use reader::{Pieces, Reader};
pub(crate) use write::{plan, to_vec, to_writer};
