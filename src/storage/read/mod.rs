//! Where the bytes of an open file live, and how they are read.

mod ahead;
mod disk_file;
mod file;
mod file_reader;
mod headers;
mod joined;
mod mapping;
mod once;
mod pool;
mod ranges;
mod read_at;
mod rest;
mod section;
mod slice;
mod source_stream;
mod stream;

pub(crate) use file::AccessPattern;
pub use file::{FileStorage, ReadSeek};
pub use file_reader::FileReader;
pub(crate) use headers::{FileStart, HeaderStream};
pub use joined::{GatherBytes, JoinedFiles, Wanted};
pub use mapping::LentBytes;
pub(crate) use pool::FilePool;
pub use ranges::ReadRanges;
use read_at::append_chunk;
pub(crate) use read_at::append_range;
pub use read_at::{ReadAt, Storage};
pub(crate) use section::Section;
pub use slice::Slice;
pub use stream::Stream;
