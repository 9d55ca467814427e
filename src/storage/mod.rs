//! The bytes of a file: in memory, in a mapping, on disk, or in a stream. New files are saved atomically.
//!
//! Storage knows ranges of bytes. It does not know formats, dtypes or serde.

mod progress;
mod read;
mod save;
mod special;
mod url;
mod version;

pub(crate) use progress::{Listener, ProgressCount, ProgressWriter};
pub use progress::{Progress, ProgressAnswer};
pub use read::{
    AccessPattern, FileReader, FileStorage, GatherBytes, JoinedFiles, LentBytes, ReadAt, ReadCost, ReadRanges,
    ReadSeek, Slice, Storage, Stream, Wanted,
};
pub(crate) use read::{FilePool, FileStart, HeaderStream, Section, append_range};
pub use save::FileLock;
pub(crate) use save::Temporary;
#[cfg(test)]
pub(crate) use save::failpoint;
pub(crate) use save::{
    Durability, FileSet, Journal, ReplaceStep, StagedFile, Turn, WriteBehind, allocate, exit_without_saving,
    finish_left_sets, has_left_sets, look, refuse_existing, remove_left_for, replace, replace_with, turn_path,
};
pub(crate) use special::{explain_open, open_regular};
pub(crate) use url::{refuse_url, refused_scheme, scheme_of, shown_url, unknown_scheme, url_of};
pub(crate) use version::FileVersion;
