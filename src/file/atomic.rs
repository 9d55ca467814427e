//! Parts of [`save`](crate::save()) for programs, and for files without tensors.

use std::io::Write;
use std::path::Path;

use crate::error::Result;
use crate::storage::replace;

pub use crate::storage::FileLock;

/// Writes a file as [`std::fs::write`] does, but whole and durable, or the old file stays, as [`save`](crate::save())
/// does.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("report.txt");
/// tensorfile::file::atomic::write(&path, b"2 tensors")?;
/// assert_eq!(std::fs::read(&path)?, b"2 tensors");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Io`](crate::ErrorKind::Io): the file could not be written or renamed.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    replace(path.as_ref(), |file| Ok(file.write_all(bytes)?))
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
