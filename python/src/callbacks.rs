//! Progress, and Ctrl-C: both come from Python while Rust reads or writes.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use tensorfile::{Error, ErrorKind, Progress};

use crate::errors::to_exception;

/// A function of Python to be told of progress, if there is one, and the exception that ends the call.
#[derive(Clone, Default)]
pub struct Callback {
    function: Option<Arc<Py<PyAny>>>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Callback {
    pub fn new(function: Option<Py<PyAny>>) -> Self {
        Self { function: function.map(Arc::new), raised: Arc::default() }
    }

    /// Tells the function, and looks for signals. `Break` if either raised an exception.
    pub fn tell(&self, progress: Progress) -> ControlFlow<()> {
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

    /// Converts the error of a call that told this callback.
    pub fn to_exception(&self, error: Error, path: Option<&Path>) -> PyErr {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (error.kind(), raised) {
            (ErrorKind::Cancelled, Some(raised)) => raised,
            _ => to_exception(error, path),
        }
    }
}
