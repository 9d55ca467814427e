//! Opens the files of a model, which are next to each other.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::error::{Error, ErrorKind, Result};
use crate::file::place::Siblings;
use crate::file::{File, OpenOptions};
use crate::storage::FileStorage;
use crate::threads::at_once;

impl dyn Siblings + '_ {
    /// Returns the error for a file that cannot be opened.
    pub(super) fn cannot_open(&self, name: &str, error: &io::Error) -> Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.shown(name))).into()
    }

    /// Opens files, several at once on servers. `open` gets the bytes of each file, and its path or URL. If a file
    /// cannot be opened, `explain` makes the error from its position in `names` and the system's error.
    pub(super) fn open_each<T: Send + Sync>(
        &self,
        names: &[&str],
        explain: &(dyn Fn(usize, &io::Error) -> Error + Sync),
        open: &(dyn Fn(FileStorage, PathBuf) -> Result<T> + Sync),
    ) -> Result<Vec<T>> {
        let files: Vec<OnceLock<T>> = names.iter().map(|_| OnceLock::new()).collect();
        at_once(names.len(), self.at_once(), &|i| {
            let (storage, path) = self.open(names[i]).map_err(|error| match error.kind() {
                ErrorKind::Io(io) => explain(i, io),
                _ => error,
            })?;
            files[i].set(open(storage, path)?).map_err(|_| ()).expect("each file is opened once");
            Ok::<(), Error>(())
        })?;
        Ok(files.into_iter().filter_map(OnceLock::into_inner).collect())
    }
}

impl OpenOptions {
    /// Opens files of one model, each with its index. `explain` makes the error for a file that cannot be opened.
    pub(super) fn open_files(
        &self,
        siblings: &dyn Siblings,
        names: &[&str],
        explain: &(dyn Fn(usize, &io::Error) -> Error + Sync),
    ) -> Result<Vec<File>> {
        siblings.open_each(names, explain, &|storage, path| {
            self.read(storage, Some(&path)).map_err(|error| error.in_shard(&path, 0))
        })
    }
}
