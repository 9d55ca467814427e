//! Paths of special files: pipes, devices and sockets.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a regular file for reading. Other files are an error at once, without waiting for the other end of a pipe or
/// touching a device.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    check_regular(&path.metadata()?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // A pipe may have taken the place of the file in the meantime. With this flag, opening it does not block.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, non_blocking());
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    check_regular(&metadata)?;
    Ok((file, metadata))
}

/// Returns flags for opening a pipe or a terminal without side effects. Regular files ignore them.
#[cfg(unix)]
pub(super) fn non_blocking() -> i32 {
    use rustix::fs::OFlags;

    (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()
}

/// Fails if a file is not a regular file.
fn check_regular(metadata: &Metadata) -> io::Result<()> {
    match metadata {
        metadata if metadata.is_file() => Ok(()),
        metadata if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        metadata => Err(not_regular(metadata.file_type())),
    }
}

/// The error for a path that should lead to a regular file.
fn not_regular(found: FileType) -> io::Error {
    let message = format!("is {}, not a regular file", special_name(found));
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Explains an error of opening a path: for a socket, the system reports "no such device".
pub(crate) fn explain_open(path: &Path, error: io::Error) -> io::Error {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;

        if let Ok(metadata) = path.metadata()
            && metadata.file_type().is_socket()
        {
            return not_regular(metadata.file_type());
        }
    }
    let _ = path;
    error
}

fn special_name(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;

        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    let _ = kind;
    "a special file"
}
