//! The identity of the file at a path, to notice when another file replaces it.

use std::fs;
use std::path::Path;

/// Distinguishes the file at a path from its replacement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileVersion {
    modified: Option<std::time::SystemTime>,
    /// The device and the number of the file.
    #[cfg(unix)]
    id: Option<(u64, u64)>,
}

impl FileVersion {
    /// Returns the version of the file now at `path`. All missing files are equal.
    pub(crate) fn of(path: &Path) -> Self {
        Self::new(fs::metadata(path).ok().as_ref())
    }

    /// Returns the version of a file from its metadata.
    pub(crate) fn new(metadata: Option<&fs::Metadata>) -> Self {
        Self {
            modified: metadata.and_then(|metadata| metadata.modified().ok()),
            #[cfg(unix)]
            id: metadata.map(id),
        }
    }
}

/// Returns the device and the number of a file.
#[cfg(unix)]
pub(super) fn id(metadata: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;

    (metadata.dev(), metadata.ino())
}
