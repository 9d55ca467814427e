//! Reading the index of a file, and the payloads it names: what the formats share.

mod checksum;
#[cfg(feature = "npy")]
mod codec;
mod cursor;
#[cfg(any(feature = "ptd", feature = "tensorbuffers"))]
mod flatbuffer;
pub(crate) mod foreign;
mod header_cache;
mod index;
mod index_loader;
mod index_reader;
#[cfg(any(feature = "safetensors", feature = "shards"))]
mod json;
mod message;
mod payload;
mod reader;
mod small;
pub(crate) mod tree_order;
#[cfg(feature = "npz")]
mod zip;

pub use cursor::Cursor;
pub use index::Index;
pub use index_reader::IndexReader;

#[cfg(feature = "npy")]
pub(crate) use codec::{Codec, CodedPayload, PayloadDecoder, RangeReader};
#[cfg(feature = "pytorch")]
pub(crate) use codec::{Negation, Strided, check_crc32};
#[cfg(feature = "npz")]
pub(crate) use codec::{Zipped, not_deflated};
#[cfg(feature = "safetensors")]
pub(crate) use cursor::payload_at;
pub(crate) use cursor::trailing_bytes;
#[cfg(any(feature = "ptd", feature = "tensorbuffers"))]
pub(crate) use flatbuffer::{FlatbufferReader, Table, Tables};
pub(crate) use header_cache::{LastHeaders, ReadHeader};
pub(crate) use index::{Entry, Labels, Unread};
pub(crate) use index_loader::{ReadMetadata, ReaderStorage, Reading};
#[cfg(any(feature = "safetensors", feature = "shards"))]
pub(crate) use json::json_message;
pub(crate) use message::Message;
pub(crate) use payload::check_sum;
pub(crate) use reader::Reader;
pub(crate) use small::{ReadSmall, SmallIndex};
#[cfg(feature = "npz")]
pub(crate) use zip::{
    OtherArchive, ZipContents, ZipFile, check_members, cut_off, open_zip, place_of, sure_kind, unsupported_member,
    zip_error,
};
