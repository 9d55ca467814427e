//! File objects of Python as readers and writers.

use std::io::{self, Read, Seek, SeekFrom, Write};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A file object opened for reading bytes, with `read` and `seek`.
pub struct PyReader(pub Py<PyAny>);

impl Read for PyReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = bytes.len();
        let read = Python::attach(|py| -> PyResult<usize> {
            let read = self.0.call_method1(py, "read", (len,))?;
            let read: &[u8] = read.extract(py)?;
            bytes[..read.len().min(len)].copy_from_slice(&read[..read.len().min(len)]);
            Ok(read.len())
        })?;
        if read > len {
            let message = format!("`read` returned {read} bytes, but {len} were asked for");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(read)
    }
}

impl Seek for PyReader {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let found = Python::attach(|py| {
            let seek = |offset: i64, whence: u8| self.0.call_method1(py, "seek", (offset, whence));
            match position {
                SeekFrom::Start(offset) => self.0.call_method1(py, "seek", (offset, 0)),
                SeekFrom::Current(offset) => seek(offset, 1),
                SeekFrom::End(offset) => seek(offset, 2),
            }?
            .extract(py)
        })?;
        Ok(found)
    }
}

/// A file object opened for writing bytes.
pub struct PyWriter(pub Py<PyAny>);

impl Write for PyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written: Option<usize> =
            Python::attach(|py| self.0.call_method1(py, "write", (PyBytes::new(py, bytes),))?.extract(py))?;
        // Some file objects return nothing, and write everything.
        Ok(written.unwrap_or(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
