//! Progress and Ctrl-C: the two ways in which Python interrupts Rust while it reads or writes.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tensorfile::file::shown_url;
use tensorfile::{Error, ErrorKind, File, Progress};

use crate::errors::to_exception;

/// A Python function to call with progress, if any, and the exception that ends the call.
#[derive(Clone, Default)]
pub struct Callback {
    function: Option<Arc<Py<PyAny>>>,
    raised: Arc<Mutex<Option<PyErr>>>,
    /// Whether Ctrl-C ended the call while a thread still works for it.
    is_left: Arc<AtomicBool>,
}

impl Callback {
    pub fn new(function: Option<Py<PyAny>>) -> Self {
        Self { function: function.map(Arc::new), ..Self::default() }
    }

    /// Calls the function and looks for signals. Returns `Break` if either raised an exception.
    pub fn tell(&self, progress: Progress) -> ControlFlow<()> {
        if self.is_left.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let told = Python::attach(|py| {
            py.check_signals()?;
            match &self.function {
                Some(function) => function.call1(py, (progress.bytes, progress.total)).map(drop),
                None => Ok(()),
            }
        });
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Does work that reports progress to this callback, without the interpreter. If it waits for a server, Ctrl-C ends
    /// the call at once. The work itself ends when it next reports progress.
    pub fn detach<T: Send + 'static>(
        &self,
        py: Python<'_>,
        waits: bool,
        path: Option<&Path>,
        work: impl FnOnce() -> tensorfile::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let done = if waits {
            in_thread(py, work).inspect_err(|_| self.is_left.store(true, Ordering::Relaxed))?
        } else {
            py.detach(work)
        };
        done.map_err(|error| self.to_exception(error, path))
    }

    /// Converts the error of a call that reported progress to this callback.
    pub fn to_exception(&self, error: Error, path: Option<&Path>) -> PyErr {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (error.kind(), raised) {
            (ErrorKind::Cancelled, Some(raised)) => raised,
            _ => to_exception(error, path),
        }
    }
}

/// Does work that reads a file, without the interpreter.
pub fn detach<T: Send + 'static>(
    py: Python<'_>,
    file: &Arc<File>,
    work: impl FnOnce(&File) -> tensorfile::Result<T> + Send + 'static,
) -> PyResult<T> {
    let file = Arc::clone(file);
    Callback::default().detach(py, is_remote(&file), None, move || work(&file))
}

/// Returns whether opening a path may wait: for a server, or for the writer of a pipe.
pub fn waits(path: &Path) -> bool {
    shown_url(path).is_some() || std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Returns whether a file is on a server, for whose answer we may wait long.
pub fn is_remote(file: &File) -> bool {
    file.path().is_none() && file.location().is_some()
}

/// The time between two looks for signals.
pub const POLL: Duration = Duration::from_millis(50);

/// Does work in a thread of its own, without the interpreter, and waits until it is done.
///
/// Ctrl-C ends the call at once. The thread goes on alone then, and owns everything it uses.
pub fn in_thread<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (send, receive) = mpsc::channel();
    // One thread at a time waits without the interpreter.
    let receive = Mutex::new(receive);
    // Nobody receives the result after Ctrl-C.
    thread::spawn(move || drop(send.send(work())));
    loop {
        match py.detach(|| receive.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(POLL)) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the call panicked")),
        }
    }
}
