//! Foreign readers and writers, whose counts are not trusted: the standard library panics if one returns more bytes
//! than it was given.

use std::io::{self, Read, Write};

/// Writes all bytes, as [`Write::write_all`] does.
pub(crate) fn write_all(out: &mut (impl Write + ?Sized), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(written) if written == bytes.len() => return Ok(()),
            Ok(0) => return Err(io::Error::new(io::ErrorKind::WriteZero, "failed to write whole buffer")),
            Ok(written) => bytes = &bytes[check_written(written, bytes.len())?..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the number of bytes reported by a writer, if it is at most the number given.
#[inline]
pub(crate) fn check_written(written: usize, given: usize) -> io::Result<usize> {
    if written <= given { Ok(written) } else { Err(impossible("writer", "wrote", written, given)) }
}

/// Returns the number of bytes reported by a reader, if there was room for them.
#[inline]
pub(crate) fn check_read(read: usize, room: usize) -> io::Result<usize> {
    if read <= room { Ok(read) } else { Err(impossible("reader", "read", read, room)) }
}

#[cold]
fn impossible(who: &str, did: &str, found: usize, most: usize) -> io::Error {
    io::Error::other(format!("the {who} returned that it {did} {found} bytes of {most}"))
}

/// A reader with checked counts.
pub(crate) struct CheckedReader<R>(pub(crate) R);

impl<R: Read> Read for CheckedReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        check_read(self.0.read(bytes)?, bytes.len())
    }
}
