//! The parts that formats share: reading an index, finding tensors in it, planning a file and writing it.
//!
//! A format implements [`IndexReader`] and [`Encode`], and puts both into a [`Format`].

mod alike;
mod candidates;
mod checked;
#[cfg(feature = "npy")]
mod codec;
mod cursor;
#[cfg(any(feature = "ptd", feature = "tensorbuffers"))]
mod flatbuffer;
pub(crate) mod foreign;
mod format;
mod index;
mod infos;
mod io_slices;
#[cfg(any(feature = "safetensors", feature = "shards"))]
mod json;
mod layout;
mod metadata;
pub(crate) mod name_lists;
pub(crate) mod names;
mod order;
mod payload;
mod plan;
mod planner;
mod reader;
mod repeats;
mod share;
mod single;
mod small;
mod sum;
mod tree_order;
mod write;
#[cfg(feature = "npz")]
mod zip;

use std::fmt;
use std::sync::Arc;

use crate::error::{ErrorKind, Result};
use crate::model::MetadataValue;
use crate::tensor::TensorInfo;

pub use cursor::Cursor;
#[cfg(feature = "safetensors")]
pub(crate) use cursor::payload_at;
pub use format::{Format, Magic, WriteOptions};
pub use index::Index;
pub use io_slices::IoSlices;
pub use layout::FileLayout;
pub(crate) use metadata::{COO_OF_TFRT, MetadataChanges, Rewritten, TypedEntry};
pub use metadata::{FileMetadata, FilePart};
pub use names::Names;
pub use plan::Plan;
pub(crate) use planner::{check_tensor, no_place_for_metadata};
pub use reader::IndexReader;
pub use share::Sharing;
#[doc(hidden)]
pub use small::{SmallFile, SmallFormat, SmallTensors};
pub use write::{FileWriter, Output, PlanWriter};

pub use crate::storage::ReadAt;

pub(crate) use alike::{LastHeaders, ReadHeader};
#[cfg(feature = "npy")]
pub(crate) use codec::{Codec, CodedPayload, PayloadDecoder, RangeReader};
#[cfg(feature = "pytorch")]
pub(crate) use codec::{Negation, Strided, check_crc32};
#[cfg(feature = "npz")]
pub(crate) use codec::{Zipped, not_deflated};
#[cfg(any(feature = "ptd", feature = "tensorbuffers"))]
pub(crate) use flatbuffer::{FlatbufferReader, FlatbufferWriter, Table, TableFields, Tables};
pub(crate) use format::{dtypes, put_dims, tags_of, trailing_bytes};
pub(crate) use index::{Entry, Labels, Unread};
pub(crate) use io_slices::to_io_slices;
#[cfg(any(feature = "safetensors", feature = "shards"))]
pub(crate) use json::json_message;
pub(crate) use payload::check_sum;
#[cfg(feature = "ptd")]
pub(crate) use plan::ends_too_far;
#[cfg(any(feature = "ptd", feature = "safetensors", feature = "tensorbuffers"))]
pub(crate) use plan::{Planned, PlannedTensors};
pub(crate) use reader::{ReadMetadata, Reader, ReaderStorage};
pub(crate) use single::{Message, ReadSingle, SingleTensor};
pub(crate) use write::{to_vec, to_vec_into, to_writer, write_slices};
#[cfg(feature = "npz")]
pub(crate) use zip::{
    OtherArchive, ZipContents, ZipFile, check_members, cut_off, open_zip, place_of, sure_kind, unsupported_member,
    zip_error,
};

/// The writing half of a format: the bytes around the payloads.
///
/// The [`Format`] lists the dtypes, ranks and names that can be stored, and is checked first.
pub trait Encode: fmt::Debug + Send + Sync {
    /// Returns the format.
    fn format(&self) -> &'static Format;

    /// Returns what happens to the tensors' names.
    fn names(&self) -> Names;

    /// Returns the length in bytes of a name as it is stored, which is not longer than it is here: a name of up to
    /// [`Format::max_name`] bytes is not asked about.
    fn name_bytes(&self, name: &str) -> usize {
        name.len()
    }

    /// Returns whether dense tensors are stored in the order of their memory. Otherwise they are written in row-major
    /// order.
    fn keeps_dim_order(&self) -> bool {
        false
    }

    /// Returns which tensors are stored once for several names.
    fn sharing(&self) -> Sharing {
        Sharing::Never
    }

    /// Refuses a tensor, whatever its name, for a reason that is not in the [`Format`], before anything is written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], made by [`cannot_store`].
    fn check(&self, _info: &TensorInfo) -> Result<(), ErrorKind> {
        Ok(())
    }

    /// Refuses the name of a tensor that passed [`check`](Self::check).
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    fn check_name(&self, _name: &str, _info: &TensorInfo) -> Result<(), ErrorKind> {
        Ok(())
    }

    /// Returns the same with more metadata, of fields with `#[tensor(metadata)]`. They replace entries of the options that
    /// have the same keys, and the format keeps all of their keys.
    ///
    /// By default it is an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnsupportedMetadata`]: the format has no place for one of them.
    fn with_metadata(&self, entries: &[(String, MetadataValue)]) -> Result<Arc<dyn Encode>> {
        let key = entries.first().map_or("", |(key, _)| key);
        Err(no_place_for_metadata(key, self.format()).into())
    }

    /// Returns the length of the longest name in bytes that is written, if there is one. It is not asked about shorter names
    /// than [`Format::max_name`].
    fn longest_name(&self) -> Option<usize> {
        self.format().max_name
    }

    /// Returns the length of the longest name in bytes that another option allows, if one does.
    fn longer_names(&self) -> Option<usize> {
        None
    }

    /// Returns the same for a file that states that it is one of several. `None` if files of the format state nothing.
    fn with_part(&self, _part: FilePart) -> Option<Arc<dyn Encode>> {
        None
    }

    /// Decides where everything goes, and makes all bytes that are not payload.
    ///
    /// # Errors
    ///
    /// If the file as a whole is more than the format can address.
    fn lay_out(&self, plan: &Plan) -> Result<FileLayout>;

    /// Returns the way in which files of a few small tensors are written without a layout. By default, there is none.
    #[doc(hidden)]
    fn small(&self) -> Option<&dyn SmallFormat> {
        None
    }

    /// Returns whether the format has a writer of its own. Formats whose bytes are all in the layout have none.
    #[doc(hidden)]
    fn has_writer(&self) -> bool {
        false
    }

    /// Returns the writer of the file.
    #[doc(hidden)]
    fn writer<'w>(&self, plan: &'w Plan, out: Output<'w>) -> Box<dyn FileWriter<'w> + 'w> {
        Box::new(write::LayoutWriter::new(plan, out))
    }
}

/// The error for a tensor that a format cannot store: `what` it is, and what could be done `instead`.
pub fn cannot_store(what: impl Into<String>, instead: impl Into<String>) -> ErrorKind {
    ErrorKind::Unsupported { what: format!("store {}", what.into()), instead: instead.into() }
}
