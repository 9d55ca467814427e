//! Python's file objects as readers and writers.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensorfile::file::ReadRanges;

/// The best way to the bytes of a file object.
pub enum Source<'py> {
    /// The bytes are in memory.
    Bytes(Bound<'py, PyAny>),
    /// The bytes are a file on disk. It is read at positions, because forked processes share the descriptor's position.
    File(File),
    /// The bytes come from the object's methods only.
    Object(Arc<PyRanges>),
}

/// Returns the source behind a file object with `read` and `seek`.
pub fn source<'py>(object: &Bound<'py, PyAny>) -> PyResult<Source<'py>> {
    let files = object.py().import("tensorfile._open")?;
    if let Some(bytes) = files.call_method1("in_memory", (object,))?.extract::<Option<Bound<'py, PyAny>>>()? {
        return Ok(Source::Bytes(bytes));
    }
    #[cfg(unix)]
    if let Some(descriptor) = files.call_method1("descriptor", (object,))?.extract::<Option<i32>>()? {
        let file = crate::memory::duplicate(descriptor)?;
        if file.metadata()?.is_file() {
            return Ok(Source::File(file));
        }
    }
    let object = object.clone().unbind();
    Ok(Source::Object(Arc::new(PyRanges { object, process: std::process::id(), turn: Mutex::new(()) })))
}

/// A file object that is opened for reading bytes, with `read` and `seek`.
pub struct PyRanges {
    object: Py<PyAny>,
    /// The process that opened it.
    process: u32,
    /// Held by the thread that moves the object to a position and reads there.
    turn: Mutex<()>,
}

impl PyRanges {
    fn read_all(&self, py: Python<'_>, offset: u64, bytes: &mut [u8]) -> PyResult<()> {
        self.object.call_method1(py, "seek", (offset, 0))?;
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            let read = self.object.call_method1(py, "read", (rest.len(),))?;
            let read: &[u8] = read.extract(py)?;
            let Some(place) = rest.get_mut(..read.len()) else {
                let message = format!("`read` returned {} bytes, but {} were asked for", read.len(), rest.len());
                return Err(io::Error::new(io::ErrorKind::InvalidData, message).into());
            };
            if read.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            place.copy_from_slice(read);
            filled += read.len();
        }
        Ok(())
    }
}

impl ReadRanges for PyRanges {
    fn len(&self) -> io::Result<u64> {
        Ok(Python::attach(|py| self.object.call_method1(py, "seek", (0, 2))?.extract(py))?)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        // Checked before the lock, which a thread of the parent process may have held when it forked.
        if self.process != std::process::id() {
            let message = "the file object was opened before a fork, so its position belongs to two processes; open it again \
                           in this one, or open a path";
            return Err(PyRuntimeError::new_err(message).into());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Python::attach(|py| self.read_all(py, offset, bytes))?)
    }

    fn name(&self) -> Cow<'_, str> {
        "".into()
    }
}

/// A file object opened for writing bytes.
pub struct PyWriter(pub Py<PyAny>);

impl Write for PyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written: Option<usize> =
            Python::attach(|py| self.0.call_method1(py, "write", (PyBytes::new(py, bytes),))?.extract(py))?;
        // Some file objects return `None` and write everything.
        Ok(written.unwrap_or(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
