//! Writers and readers that fail. You get their error, and the bytes written so far are the beginning of the file.

use std::io::{self, Read, Write};

use tensorfile::file::Backend;
use tensorfile::{ErrorKind, FORMATS, File, OpenOptions, Result, TensorMap, WriteOptions};

use super::{packed_samples, samples};
use crate::support::{folder, written_formats};

fn options() -> WriteOptions {
    WriteOptions::new().embed_names(true).keep_dim_order(true)
}

/// A writer that takes a few bytes at a time, is interrupted before each of them, and fails after a number of bytes.
struct Full<'a> {
    written: &'a mut Vec<u8>,
    room: usize,
    fails_with: Fault,
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
    was_interrupted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    StorageFull,
    /// The writer takes no bytes, and returns `Ok(0)` instead of an error.
    Zero,
}

impl<'a> Full<'a> {
    fn new(written: &'a mut Vec<u8>, room: usize, fails_with: Fault, sizes: &'a [usize]) -> Self {
        Self { written, room, fails_with, sizes: sizes.iter().cycle(), was_interrupted: false }
    }
}

impl Write for Full<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.was_interrupted = !self.was_interrupted;
        if self.was_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let size = self.sizes.next().map_or(1, |size| *size);
        let now = bytes.len().min(size).min(self.room - self.written.len());
        if now == 0 && !bytes.is_empty() && self.fails_with == Fault::StorageFull {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.extend_from_slice(&bytes[..now]);
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_at_any_byte() {
    for format in written_formats() {
        for (map, _) in samples(format) {
            let whole = format.to_vec(&map, &options()).unwrap();
            for room in 0..=whole.len() {
                for (fault, kind) in
                    [(Fault::StorageFull, io::ErrorKind::StorageFull), (Fault::Zero, io::ErrorKind::WriteZero)]
                {
                    let what = format!("{}, {fault:?} after {room} of {} bytes", format.name, whole.len());
                    let mut written = Vec::new();
                    let result = format.to_writer(Full::new(&mut written, room, fault, &[3, 64, 1]), &map, &options());
                    assert_eq!(written, whole[..room], "{what}");
                    if room == whole.len() {
                        result.unwrap();
                        continue;
                    }
                    let error = result.unwrap_err();
                    assert!(error.to_string().starts_with(&format!("{}: ", format.name)), "{what}: {error}");
                    assert_eq!(io_kind(&error), Some(kind), "{what}: {error}");
                }
            }
        }
    }
}

/// Returns the kind of an I/O error.
fn io_kind(error: &tensorfile::Error) -> Option<io::ErrorKind> {
    match error.kind() {
        ErrorKind::Io(error) if error.kind() != io::ErrorKind::Interrupted => Some(error.kind()),
        _ => None,
    }
}

/// A reader that yields a few bytes at a time, is interrupted before each of them, and fails after the last.
struct Broken<'a> {
    bytes: &'a [u8],
    fails: bool,
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
    was_interrupted: bool,
}

impl<'a> Broken<'a> {
    fn new(bytes: &'a [u8], fails: bool, sizes: &'a [usize]) -> Self {
        Self { bytes, fails, sizes: sizes.iter().cycle(), was_interrupted: false }
    }
}

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.was_interrupted = !self.was_interrupted;
        if self.was_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.bytes.is_empty() && self.fails && !buffer.is_empty() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let now = self.sizes.next().map_or(1, |size| *size).min(buffer.len());
        self.bytes.read(&mut buffer[..now])
    }
}

#[test]
fn a_reader_that_fails_at_any_byte() {
    for format in FORMATS {
        for (map, file) in [samples(format), packed_samples(format)].concat() {
            for len in 0..=file.len() {
                let what = format!("{}, after {len} of {} bytes", format.name, file.len());
                for sizes in [&[1][..], &[5, 1, 64]] {
                    match format.from_reader(Broken::new(&file[..len], true, sizes)) {
                        // Some indexes say where the last payload ends, so that nothing is read after it.
                        Ok(read) => assert_eq!(read, map, "{what}"),
                        Err(error) => {
                            assert_eq!(io_kind(&error), Some(io::ErrorKind::ConnectionReset), "{what}: {error}");
                            assert!(error.to_string().starts_with(&format!("{}: ", format.name)), "{what}: {error}");
                            assert!(error.offset().is_none_or(|offset| offset <= len as u64), "{what}: {error}");
                        }
                    }
                }
            }
            let interrupted = Broken::new(&file, false, &[1, 2, 3]);
            assert_eq!(format.from_reader(interrupted).unwrap(), map, "{}", format.name);
        }
    }
}

/// Reads everything in an open file. A file that became shorter must not be read as another value.
fn contents(file: &File) -> Result<TensorMap> {
    for tensor in file.tensors() {
        tensor.read()?;
    }
    file.load()
}

#[test]
fn a_file_that_shrinks_to_any_length_is_an_error_when_it_is_read_at_positions() {
    let folder = folder(true);
    let path = folder.path().join("file");
    for format in FORMATS {
        let positioned = OpenOptions::new().format(format).backend(Backend::Positioned);
        for (map, bytes) in [samples(format), packed_samples(format)].concat() {
            let whole = format.to_vec(&map, &options()).unwrap();
            for len in 0..bytes.len() as u64 {
                std::fs::write(&path, &bytes).unwrap();
                let file = positioned.open(&path).unwrap();
                let end = file.tensors().filter(|tensor| tensor.payload_bytes() > 0).map(|tensor| tensor.range().end);
                let end = end.max().unwrap_or(0);
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
                let what = format!("{}, from {} to {len} bytes", format.name, bytes.len());
                match contents(&file) {
                    Ok(read) => assert!(len >= end && read == map, "{what}: {read:?}"),
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Truncated { .. }), "{what}: {error:?}");
                        assert!(len < end, "{what}: {error}");
                    }
                }
                if let Ok(written) = format.to_vec(&file, &options()) {
                    assert!(len >= end && written == whole, "{what}");
                }
            }
        }
    }
}
