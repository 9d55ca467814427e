//! Advisory locks of files, as `flock` takes them. The system releases them when their process ends, however it ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::Result;
use crate::storage::url::refuse_url;
#[cfg(unix)]
use crate::storage::version::id;

/// The answer to a request for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(unix), expect(dead_code, reason = "there are locks on Unix only"))]
pub(super) enum Lock {
    Taken,
    /// Another process or thread has it.
    Busy,
    /// The system or the file system has no locks.
    Unsupported,
}

/// Takes the exclusive lock of a file, if it is free. It lasts until all duplicates of `file` are closed.
// In the standard library since Rust 1.89.
pub(super) fn try_lock(file: &File) -> Lock {
    #[cfg(all(unix, not(target_os = "solaris")))]
    {
        match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Lock::Taken,
            Err(rustix::io::Errno::WOULDBLOCK) => Lock::Busy,
            Err(_) => Lock::Unsupported,
        }
    }
    #[cfg(not(all(unix, not(target_os = "solaris"))))]
    {
        let _ = file;
        Lock::Unsupported
    }
}

/// Takes the exclusive lock of a file, and waits for it. Returns `false` if the system or the file system has no locks.
pub(super) fn wait_for_lock(file: &File) -> bool {
    #[cfg(all(unix, not(target_os = "solaris")))]
    {
        rustix::io::retry_on_intr(|| rustix::fs::flock(file, rustix::fs::FlockOperation::LockExclusive)).is_ok()
    }
    #[cfg(not(all(unix, not(target_os = "solaris"))))]
    {
        let _ = file;
        false
    }
}

/// Returns whether the path leads to the open file, without following a link.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        are_same(file.metadata(), fs::symlink_metadata(path))
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

#[cfg(unix)]
fn are_same(one: io::Result<fs::Metadata>, other: io::Result<fs::Metadata>) -> bool {
    matches!((one, other), (Ok(one), Ok(other)) if id(&one) == id(&other))
}

/// The exclusive lock of a file, for reading and then replacing it, such as to append to it.
///
/// It is advisory: it only blocks programs that acquire it too, as `tensorbuffers::append` and the program `tensorfile
/// append` do. The lock is released on drop, and when the process ends. Only Unix has it, and not on every file system;
/// elsewhere this does nothing.
///
/// ```
/// use tensorfile::file::atomic::FileLock;
/// use tensorfile::{TensorMap, load, save};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("counts.ten");
/// # save(&path, &TensorMap::new())?;
/// // Two processes that do this at the same time both add their tensor.
/// let lock = FileLock::acquire(&path)?;
/// let mut map: TensorMap = load(&path)?;
/// map.insert("a", ndarray::array![1.0_f32]);
/// save(&path, &map)?;
/// drop(lock);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileLock {
    _file: Option<File>,
}

impl FileLock {
    /// Locks the file at `path`, which must exist. Waits while another process or thread holds the lock.
    ///
    /// If the file was replaced in the meantime, the new one is opened and locked instead, so the lock always belongs
    /// to the file at `path`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io): the file cannot be opened.
    pub fn acquire(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        refuse_url(path)?;
        let file = lock(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(Self { _file: file })
    }
}

/// Waits for the lock of a file; `None` if it cannot be locked.
fn lock(path: &Path) -> io::Result<Option<File>> {
    loop {
        // Opening a pipe would wait for its other end.
        if !fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        // NFS only locks files opened for writing. A pipe may have taken the place of the file in the meantime.
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, crate::storage::special::non_blocking());
        let file = options.clone().write(true).open(path).or_else(|_| options.open(path))?;
        #[cfg(all(unix, not(target_os = "solaris")))]
        {
            let locked =
                rustix::io::retry_on_intr(|| rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive));
            if locked.is_ok() && !are_same(file.metadata(), fs::metadata(path)) {
                continue;
            }
            return Ok(locked.is_ok().then_some(file));
        }
        #[cfg(not(all(unix, not(target_os = "solaris"))))]
        {
            drop(file);
            return Ok(None);
        }
    }
}
