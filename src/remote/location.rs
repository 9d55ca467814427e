//! The file at a URL, once it is opened.

use std::path::PathBuf;
use std::sync::Arc;

use super::source::RemoteSource;
use crate::error::Result;
use crate::limits::Limits;
use crate::storage::ReadRanges;

/// The file at a URL.
pub(crate) enum Location {
    /// A file of a cache on disk.
    Path(PathBuf),
    /// A file to read by ranges.
    Ranges(RemoteFile),
}

/// A file to read by ranges, and the way to its shards.
pub(crate) struct RemoteFile {
    pub(crate) source: Arc<RemoteSource>,
    pub(crate) folder: Box<dyn RemoteFolder>,
}

/// Opens the files next to a remote file.
pub(crate) trait RemoteFolder: Send + Sync {
    /// Opens a file, given its name.
    fn open(&self, name: &str, limits: &Limits) -> Result<Arc<dyn ReadRanges>>;
}
