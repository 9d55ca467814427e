use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::replace::{Durability, ReplaceStep, Staged, creation_failed, in_path, look, make_like, named};
use super::temporary::{Folder, Temporary};
use crate::error::Result;

/// New files that become visible together, once their index is in place.
///
/// They are written to a temporary folder. Until the index is renamed, they are removed when this goes out of scope.
pub(crate) struct FileSet {
    /// The path given by the caller.
    path: PathBuf,
    folder: Folder,
    count: usize,
    durability: Durability,
}

impl FileSet {
    /// Creates an empty set in the folder of `path`, and removes leftovers of killed processes for the same path.
    pub(crate) fn new(path: &Path, durability: Durability) -> Result<Self> {
        let folder = Folder::create(path).map_err(|error| named(path, creation_failed(error)))?;
        Ok(Self { path: path.to_owned(), folder, count: 0, durability })
    }

    /// Writes the next file, and optionally flushes it to disk. It gets the permissions of the file `like`, if there is
    /// one.
    pub(crate) fn write(&mut self, like: Option<&Path>, fill: &mut dyn FnMut(&mut File) -> Result<()>) -> Result<()> {
        let old = like.and_then(|like| Some((fs::metadata(like).ok().filter(fs::Metadata::is_file)?, like)));
        let in_set = |error| named(&self.path, error);
        let mut file = self.folder.create_file(&self.count.to_string(), old.is_some()).map_err(in_set)?;
        if let Some((old, path)) = old {
            make_like(&file, &old, path).map_err(in_set)?;
        }
        fill(&mut file).map_err(|error| in_path(&self.path, error))?;
        self.durability.flush(&file).map_err(in_set)?;
        self.count += 1;
        Ok(())
    }

    /// Moves the files to `paths`, in the folder of `index`, and replaces the file `index` with `bytes`. Then removes
    /// the files `replaced`. Calls `before` before each step, which may fail in place of it.
    pub(crate) fn put(
        mut self,
        paths: &[PathBuf],
        replaced: Vec<PathBuf>,
        index: &Path,
        bytes: &[u8],
        before: &mut dyn FnMut(ReplaceStep) -> io::Result<()>,
    ) -> Result<()> {
        debug_assert_eq!(paths.len(), self.count);
        let staged = Staged::in_steps(index, self.durability, |file| Ok(file.write_all(bytes)?), before)?;
        for path in paths {
            look(path).map_err(|error| named(path, error))?;
        }
        self.folder.set_replaced(paths, replaced).map_err(|error| named(index, error))?;
        for (i, path) in paths.iter().enumerate() {
            before(ReplaceStep::Rename)?;
            self.folder.place(&i.to_string(), path).map_err(|error| named(path, error))?;
        }
        // The index must not reach the disk before the names of its files.
        before(ReplaceStep::SyncFolder)?;
        self.durability.flush_folder(index).map_err(|error| named(index, error))?;
        staged.put_in_steps(Some(self.folder), before)
    }
}

/// The right to change the files of a path, held by one process or thread at a time.
///
/// If files cannot be locked, nobody waits.
pub(crate) struct Turn {
    _file: Option<Temporary>,
}

impl Turn {
    /// Waits for the turn.
    pub(crate) fn wait(path: &Path) -> Result<Self> {
        let waited = Temporary::wait(&turn_path(path));
        Ok(Self { _file: waited.map_err(|error| named(path, creation_failed(error)))? })
    }
}

/// Returns the base path for the lock file of a [`Turn`].
pub(crate) fn turn_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".turn");
    path.with_file_name(name)
}
