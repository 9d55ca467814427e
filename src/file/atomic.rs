//! Parts of [`save`](crate::save()) for programs, and for files without tensors.

use std::fmt;
use std::io::Seek;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::is_saved_to;
use crate::error::Result;
use crate::remote;
use crate::storage::{StagedFile, refuse_url, replace};
use crate::storage::{Temporary, shown_url, url_of};

pub use crate::storage::FileLock;

/// A new file that is written bit by bit. [`put`](Self::put) gives it its name when it is complete; dropping it removes
/// it.
///
/// For a path, the file is created next to it, as [`save`](crate::save()) does. For an object in a store, it is created
/// in the folder for temporary files, and uploaded from there. It is not buffered: each write is a system call.
///
/// ```
/// use std::io::Write;
/// use tensorfile::file::atomic::NewFile;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("report.txt");
/// let mut file = NewFile::create(&path)?;
/// file.write_all(b"2 ")?;
/// file.write_all(b"tensors")?;
/// assert!(!path.exists());
/// file.put(true)?;
/// assert_eq!(std::fs::read(&path)?, b"2 tensors");
///
/// // Another one is not put in its place.
/// assert!(NewFile::create(&path)?.put(true).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NewFile {
    path: PathBuf,
    staging: Staging,
}

enum Staging {
    Disk(StagedFile),
    Store(std::fs::File, Temporary),
}

impl NewFile {
    /// Creates an empty file for a path, or for the URL of an object in a store. Temporary files that killed processes
    /// left for the same path are removed.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Io`](crate::ErrorKind::Io): the file cannot be created.
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the path is a URL that cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        fn create(path: &Path) -> Result<NewFile> {
            let staging = if is_saved_to(path) { store()? } else { disk(path)? };
            Ok(NewFile { path: path.to_owned(), staging })
        }
        fn disk(path: &Path) -> Result<Staging> {
            refuse_url(path)?;
            StagedFile::create(path).map(Staging::Disk)
        }
        fn store() -> Result<Staging> {
            let folder = std::env::temp_dir();
            let created = Temporary::create(&folder.join("tensorfile-upload"), true);
            let (file, temporary) = created.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot create a file in {}: {error}", folder.display()))
            })?;
            Ok(Staging::Store(file, temporary))
        }
        create(path.as_ref())
    }

    /// Flushes the file to disk and renames it, or uploads it. With `no_replace`, an existing file is an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io): the file exists, or it cannot be written or renamed.
    pub fn put(self, no_replace: bool) -> Result<()> {
        match self.staging {
            Staging::Disk(staged) => staged.put(no_replace),
            Staging::Store(mut file, _temporary) => {
                let url = url_of(&self.path).unwrap_or_default();
                let len = file.stream_position()?;
                let saved = remote::save(url, len, no_replace, &mut |object| {
                    file.rewind()?;
                    io::copy(&mut file, object)?;
                    Ok(())
                });
                saved.map_err(|error| error.in_file(Path::new(&shown_url(url))))
            }
        }
    }

    fn file(&mut self) -> &mut std::fs::File {
        match &mut self.staging {
            Staging::Disk(staged) => staged.file(),
            Staging::Store(file, _) => file,
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl fmt::Debug for NewFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Writes a file as [`std::fs::write`] does, but atomically, as [`save`](crate::save()) does: the new file is complete
/// and on disk, or the old file stays.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("report.txt");
/// tensorfile::file::atomic::write(&path, b"2 tensors")?;
/// assert_eq!(std::fs::read(&path)?, b"2 tensors");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The path may be the URL of an object in a store.
///
/// # Errors
///
/// [`ErrorKind::Io`](crate::ErrorKind::Io): the file could not be written or renamed.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    if is_saved_to(path) {
        let mut file = NewFile::create(path)?;
        file.write_all(bytes)?;
        return file.put(false);
    }
    replace(path, |file| Ok(file.write_all(bytes)?))
}

/// Writes a file as [`write()`] does, with a function that takes a writer. If it fails, the old file stays. The writer
/// is not buffered: each write is a system call.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("report.txt");
/// tensorfile::file::atomic::write_with(&path, &mut |out| Ok(write!(out, "{} tensors", 2)?))?;
/// assert_eq!(std::fs::read(&path)?, b"2 tensors");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Errors of the function, and of [`write()`].
pub fn write_with(path: impl AsRef<Path>, write: &mut dyn FnMut(&mut dyn Write) -> Result<()>) -> Result<()> {
    replace(path.as_ref(), |file| write(file))
}

/// Ends the process as [`std::process::exit`] does, after removing the temporary files of unfinished saves.
///
/// The old files stay unchanged. Call it from the thread that handles SIGINT and SIGTERM: saves in progress in other
/// threads are stopped. It takes a lock, so it must not be called from a signal handler itself.
///
/// ```no_run
/// # fn wait_for_sigint() {}
/// std::thread::spawn(|| {
///     wait_for_sigint(); // such as with the crate `signal-hook`
///     tensorfile::file::atomic::exit_without_saving(130);
/// });
/// ```
pub fn exit_without_saving(code: i32) -> ! {
    crate::storage::exit_without_saving(code)
}
