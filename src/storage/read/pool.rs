//! Files on disk, with a limited number open at a time.
//!
//! A process may open about a thousand files, and 256 on macOS. Few models have more shards, but a program may open
//! several models.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crate::storage::FileVersion;

/// A set of files, of which only the most recently used are open.
#[derive(Debug, Default)]
pub(crate) struct FilePool {
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    /// The open files and their numbers, the most recently used last.
    open: VecDeque<(usize, Arc<File>)>,
    /// The number of files added.
    added: usize,
}

impl FilePool {
    /// The maximum number of open files. A smaller set stays open as a whole, and is read to its end even if it is
    /// replaced.
    const OPEN: usize = 128;

    /// Adds an open file to the pool.
    pub(super) fn add(self: &Arc<Self>, file: File, path: &Path, metadata: &fs::Metadata) -> PooledFile {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let number = state.added;
        state.added += 1;
        state.keep(number, Arc::new(file));
        // The path must stay valid if the process changes its directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        PooledFile { pool: Arc::clone(self), number, path, version: FileVersion::new(Some(metadata)) }
    }
}

impl PoolState {
    fn keep(&mut self, number: usize, file: Arc<File>) {
        if self.open.len() == FilePool::OPEN {
            self.open.pop_front();
        }
        self.open.push_back((number, file));
    }
}

/// A file that is reopened for reading after it was closed.
#[derive(Debug)]
pub(super) struct PooledFile {
    pool: Arc<FilePool>,
    number: usize,
    path: PathBuf,
    version: FileVersion,
}

impl PooledFile {
    /// Returns the open file.
    ///
    /// # Errors
    ///
    /// If it was closed, and its path now leads to nothing or to another file.
    pub(super) fn open(&self) -> io::Result<Arc<File>> {
        let mut state = match self.pool.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // We do not wait for the lock: after a fork, the thread that holds it may not exist in this process.
            Err(TryLockError::WouldBlock) => return self.open_again().map(Arc::new),
        };
        if let Some(index) = state.open.iter().position(|(number, _)| *number == self.number) {
            let (number, file) = state.open.remove(index).expect("it was just found");
            state.open.push_back((number, Arc::clone(&file)));
            return Ok(file);
        }
        let file = Arc::new(self.open_again()?);
        state.keep(self.number, Arc::clone(&file));
        Ok(file)
    }

    fn open_again(&self) -> io::Result<File> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display()));
        // Opening a pipe would wait for its other end.
        if FileVersion::of(&self.path) != self.version {
            return Err(named(io::Error::other("the file was replaced or changed since it was opened")));
        }
        File::open(&self.path).map_err(named)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn few_files_are_open_and_all_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Arc::new(FilePool::default());
        let path = |number: usize| folder.path().join(number.to_string());
        let files: Vec<PooledFile> = (0..3 * FilePool::OPEN)
            .map(|number| {
                fs::write(path(number), number.to_string()).unwrap();
                let file = File::open(path(number)).unwrap();
                let metadata = file.metadata().unwrap();
                pool.add(file, &path(number), &metadata)
            })
            .collect();
        for (number, file) in files.iter().enumerate().chain(files.iter().enumerate().rev()) {
            let mut text = String::new();
            // Each file that is still open was read to its end.
            let file = file.open().unwrap();
            let mut file = &*file;
            io::Seek::rewind(&mut file).unwrap();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, number.to_string());
            assert_eq!(pool.state.lock().unwrap().open.len(), FilePool::OPEN);
        }
        // The first files are open now, and the last ones are closed.
        let last = files.len() - 1;
        fs::remove_file(path(last)).unwrap();
        fs::write(path(last), "other").unwrap();
        let error = files[last].open().unwrap_err().to_string();
        let shown = std::path::absolute(path(last)).unwrap();
        assert_eq!(error, format!("{}: the file was replaced or changed since it was opened", shown.display()));
    }
}
