//! Advisory locks of files, as `flock` takes them. The system releases them when their process ends, however it ends.

use std::fs::File;

/// The answer to a request for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(unix), expect(dead_code, reason = "there are locks on Unix only"))]
pub(super) enum Lock {
    Taken,
    /// Somebody else has it.
    Busy,
    /// The system or the file system has no locks.
    Unsupported,
}

/// Takes the exclusive lock of a file, if nobody has it. It lasts until all duplicates of `file` are closed.
// The standard library has this since Rust 1.89.
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

/// Returns whether the path leads to the open file, without following a link.
pub(super) fn is_at(file: &File, path: &std::path::Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;

        let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let (open, named) = (file.metadata().map(id), std::fs::symlink_metadata(path).map(id));
        matches!((open, named), (Ok(open), Ok(named)) if open == named)
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}
