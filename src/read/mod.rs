//! Reading the index of a file, and the payloads it names: what the formats share.

mod checksum;
mod codec;
mod cursor;
mod flatbuffer;
pub(crate) mod foreign;
mod header_cache;
mod index;
mod index_loader;
mod index_reader;
mod json;
#[cfg_attr(not(feature = "npz"), path = "no_member.rs")]
mod member;
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

pub(crate) use checksum::Sum;
pub(crate) use codec::{Codec, CodedPayload, Negation, PayloadDecoder, RangeReader, Strided};
pub(crate) use cursor::{payload_at, trailing_bytes};
pub(crate) use flatbuffer::{FlatbufferReader, Table, Tables};
pub(crate) use header_cache::{LastHeaders, ReadHeader};
pub(crate) use index::{Entry, Labels, Unread};
pub(crate) use index_loader::{ReadMetadata, ReaderStorage, Reading};
pub(crate) use json::json_message;
pub(crate) use member::Zipped;
pub(crate) use message::Message;
pub(crate) use payload::{CheckedIndices, ElementWriter, check_stored, check_sum, check_sum_after, check_value_count};
pub(crate) use reader::Reader;
pub(crate) use small::{ReadSmall, SmallIndex};
#[cfg(feature = "npz")]
pub(crate) use zip::{
    OtherArchive, ZipContents, ZipFile, check_crc32, check_members, cut_off, not_deflated, open_zip, place_of,
    sure_kind, unsupported_member, zip_error,
};
