//! Where the bytes of an open file live, and how they are read.

mod disk_file;
mod file;
mod file_reader;
mod headers;
mod mapping;
mod once;
mod pool;
mod ranges;
mod read_at;
mod rest;
mod section;
mod seekable;
mod slice;
mod source_stream;
mod stream;

pub use file::{FileStorage, GatherBytes, JoinedFiles, Wanted};
pub use file_reader::FileReader;
pub(crate) use headers::{FileStart, HeaderStream};
pub use mapping::LentBytes;
pub(crate) use pool::FilePool;
pub use ranges::{AccessPattern, ReadCost, ReadRanges};
pub(crate) use read_at::append_range;
pub use read_at::{ReadAt, Storage};
pub(crate) use section::Section;
pub use seekable::ReadSeek;
pub use slice::Slice;
pub use stream::Stream;
