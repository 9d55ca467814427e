//! Parts of [`save`](crate::save()) for programs, and for files that are not of tensors.

pub use crate::storage::FileLock;

/// Ends the process as [`std::process::exit`] does, after removing the temporary files of saves that have not ended.
///
/// The files that they were to replace stay as they are. Call it from the thread that handles SIGINT and SIGTERM: other
/// threads may be saving, and are stopped. It must not be called from a signal handler itself, because it takes a lock.
///
/// ```no_run
/// # fn wait_for_sigint() {}
/// std::thread::spawn(|| {
///     wait_for_sigint(); // such as with the crate `signal-hook`
///     tensorfile::atomic::exit_without_saving(130);
/// });
/// ```
pub fn exit_without_saving(code: i32) -> ! {
    crate::storage::exit_without_saving(code)
}
