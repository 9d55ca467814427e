//! What is at a URL, once it is opened.

use std::path::PathBuf;
use std::sync::Arc;

use super::source::RemoteSource;
use crate::error::{Error, Result};
use crate::limits::Limits;

/// What is at a URL.
pub(crate) enum Location {
    /// A file of a cache on disk.
    Path(PathBuf),
    /// A file to read by ranges.
    Ranges(RemoteFile),
    /// A folder whose files are listed.
    Folder(ListedFolder),
}

/// A file to read by ranges, and its folder.
pub(crate) struct RemoteFile {
    pub(crate) source: Arc<RemoteSource>,
    pub(crate) folder: Box<dyn RemoteFolder>,
}

/// A folder whose files are listed.
pub(crate) struct ListedFolder {
    /// The URL.
    pub(crate) name: String,
    pub(crate) folder: Box<dyn RemoteFolder>,
    /// The names of the files, in order.
    pub(crate) names: Vec<String>,
    /// The error if there is no checkpoint among them, if more is known than their names.
    pub(crate) error: Option<Error>,
}

/// Opens files of a remote folder.
pub(crate) trait RemoteFolder: Send + Sync {
    /// Opens a file, given its name.
    fn open(&self, name: &str, limits: &Limits) -> Result<Arc<RemoteSource>>;
}
