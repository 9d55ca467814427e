use std::fs::File;
use std::io;

/// Takes the space for a new file of `bytes` bytes, whose length it then is.
///
/// The system finds the blocks at once instead of write by write, and a full disk is noticed before the first byte. Where
/// the system or the file system cannot do so, nothing happens.
#[cfg_attr(not(target_os = "linux"), expect(clippy::unnecessary_wraps, reason = "it can fail on Linux"))]
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        /// Smaller files are not worth a call.
        const LEAST: u64 = 1 << 20;

        if bytes >= LEAST
            && let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) =
                fallocate(file, FallocateFlags::empty(), 0, bytes)
        {
            return Err(error.into());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes);
    Ok(())
}
