//! Places of files: the bytes, and the files next to them, on disk or at a URL.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Backend;
use crate::error::Result;
use crate::remote::RemoteSource;
use crate::storage::{FilePool, FileStorage, FileVersion, open_regular};

/// A file to open, or a folder whose files are opened together.
pub(super) struct Place {
    /// The path, or the URL without secrets.
    pub(super) name: PathBuf,
    /// Whether the name is a path.
    pub(super) has_path: bool,
    /// The bytes of the file. A folder has none.
    pub(super) storage: FileStorage,
    /// The names of the files of all processes in a folder.
    pub(super) rank_files: Vec<String>,
    pub(super) siblings: Arc<dyn Siblings>,
    /// The version of a file on disk.
    pub(super) version: Option<FileVersion>,
    /// The object at a URL.
    pub(super) source: Option<Arc<RemoteSource>>,
}

/// The files next to a file, or in a folder.
pub(super) trait Siblings: Send + Sync {
    /// Opens a file by its name. Returns its bytes, and its path or URL.
    fn open(&self, name: &str) -> Result<(FileStorage, PathBuf)>;

    /// Returns whether a file with this name exists. `None` if finding out means opening it.
    fn has(&self, name: &str) -> Option<bool>;

    /// Returns a name as messages show it.
    fn shown(&self, name: &str) -> String;

    /// Returns the number of files to open at the same time.
    fn at_once(&self) -> usize;
}

impl Place {
    /// The place of an open file on disk.
    pub(super) fn of_file(path: &Path, storage: FileStorage, metadata: &fs::Metadata, backend: Backend) -> Self {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let place = Self::on_disk(path, DiskFolder::new(folder, backend));
        Self { storage, version: Some(FileVersion::new(Some(metadata))), ..place }
    }

    /// The place of a directory with the files of several processes.
    pub(super) fn of_rank_files(folder: &Path, names: Vec<String>, backend: Backend) -> Self {
        Self { rank_files: names, ..Self::on_disk(folder, DiskFolder::new(folder.to_owned(), backend)) }
    }

    fn on_disk(path: &Path, siblings: DiskFolder) -> Self {
        Self {
            name: path.to_owned(),
            has_path: true,
            storage: FileStorage::Memory(Box::new([])),
            rank_files: Vec::new(),
            siblings: Arc::new(siblings),
            version: None,
            source: None,
        }
    }

    /// Returns whether the file at the path was replaced in the meantime.
    pub(super) fn is_replaced(&self) -> bool {
        self.version.as_ref().is_some_and(|version| FileVersion::of(&self.name) != *version)
    }
}

/// A directory, whose files may be closed between reads.
struct DiskFolder {
    folder: PathBuf,
    backend: Backend,
    pool: Arc<FilePool>,
}

impl DiskFolder {
    fn new(folder: PathBuf, backend: Backend) -> Self {
        Self { folder, backend, pool: Arc::default() }
    }
}

impl Siblings for DiskFolder {
    fn open(&self, name: &str) -> Result<(FileStorage, PathBuf)> {
        let path = self.folder.join(name);
        // A pipe named by an index must not block.
        let (file, metadata) = open_regular(&path)?;
        let storage = self.backend.storage(file, metadata.len())?.pooled(&self.pool, &path, &metadata);
        Ok((storage, path))
    }

    fn has(&self, name: &str) -> Option<bool> {
        Some(self.folder.join(name).is_file())
    }

    fn shown(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn at_once(&self) -> usize {
        // Threads would take longer than opening the files.
        1
    }
}
