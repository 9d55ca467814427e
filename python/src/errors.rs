//! Errors as exceptions.

use std::path::Path;
use std::{fmt, io};

use pyo3::create_exception;
use pyo3::exceptions::{PyConnectionError, PyKeyError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use tensorfile::{Category, Error, ErrorKind};

create_exception!(tensorfile, FormatError, PyValueError, "A file is malformed, or of no known format.");
create_exception!(tensorfile, LimitError, PyValueError, "A file exceeds a limit, such as the most tensors.");
create_exception!(
    tensorfile,
    MismatchError,
    PyValueError,
    "A file does not hold what was asked for. `report` has all differences, if the file was compared as a whole."
);

/// Converts an error about the file at `path`; `None` if the path is not known.
pub fn to_exception(error: Error, path: Option<&Path>) -> PyErr {
    if let ErrorKind::Io(cause) = error.kind() {
        return from_io(cause, error.path().or(path), &error);
    }
    of_kind(error.kind(), error.category(), error.to_string())
}

/// Converts an error about a shard or a split.
pub fn shard_exception(error: &tensorfile_datasets::Error) -> PyErr {
    let inner = error.as_tensorfile();
    if let ErrorKind::Io(cause) = inner.kind() {
        return from_io(cause, inner.path().or(error.shard().map(Path::new)), error);
    }
    of_kind(inner.kind(), inner.category(), error.to_string())
}

fn of_kind(kind: &ErrorKind, category: Category, message: String) -> PyErr {
    const OWN_WORDS: &[(&str, &str)] = &[
        ("`view::CastView` casts", "`tensorfile.save(dtype=…)` casts floats"),
        ("`OpenOptions::dequantize` decodes", "`dequantize=True` decodes"),
        ("`CastView::as_stored` casts", "`as_stored=True` casts"),
    ];
    let message = OWN_WORDS.iter().fold(message, |message, (api, own)| message.replace(api, own));
    if matches!(kind, ErrorKind::Missing { .. } | ErrorKind::AmbiguousName { .. }) {
        return PyKeyError::new_err(message);
    }
    if matches!(kind, ErrorKind::Cancelled) {
        // Only signals end reading a tensor.
        return PyKeyboardInterrupt::new_err(());
    }
    match category {
        Category::File => FormatError::new_err(message),
        Category::Limit if matches!(kind, ErrorKind::OutOfMemory { .. }) => PyMemoryError::new_err(message),
        Category::Limit => LimitError::new_err(message),
        Category::Mismatch => MismatchError::new_err(message),
        _ => PyValueError::new_err(message),
    }
}

/// Converts an error of the system. An exception of a file object or of a callback passes through.
fn from_io(cause: &io::Error, path: Option<&Path>, error: &dyn fmt::Display) -> PyErr {
    if let Some(raised) = cause.get_ref().and_then(|inner| inner.downcast_ref::<PyErr>()) {
        return Python::attach(|py| raised.clone_ref(py));
    }
    let Some(number) = cause.raw_os_error().or_else(|| errno(cause.kind())).or_else(|| network_errno(cause.kind()))
    else {
        return PyOSError::new_err(error.to_string());
    };
    let mut message = cause.to_string();
    if let Some(path) = path {
        // Python adds the name.
        let named = format!("{}: ", path.display());
        message = message.strip_prefix(&named).map(str::to_owned).unwrap_or(message);
    }
    let message = message.split_once(" (os error ").map_or(message.as_str(), |(text, _)| text).to_owned();
    let path = path.map(|path| path.as_os_str().to_owned());
    // Python maps these error numbers to no class, but they are errors of connections.
    if matches!(cause.kind(), io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) {
        return match path {
            Some(path) => PyConnectionError::new_err((number, message, path)),
            None => PyConnectionError::new_err((number, message)),
        };
    }
    match path {
        Some(path) => PyOSError::new_err((number, message, path)),
        None => PyOSError::new_err((number, message)),
    }
}

/// Returns the number of a network error, by which Python finds its class, such as `ConnectionRefusedError`. The
/// numbers depend on the system.
fn network_errno(kind: io::ErrorKind) -> Option<i32> {
    let name = match kind {
        io::ErrorKind::ConnectionRefused => "ECONNREFUSED",
        io::ErrorKind::ConnectionReset => "ECONNRESET",
        io::ErrorKind::ConnectionAborted => "ECONNABORTED",
        io::ErrorKind::HostUnreachable => "EHOSTUNREACH",
        io::ErrorKind::NetworkUnreachable => "ENETUNREACH",
        io::ErrorKind::TimedOut => "ETIMEDOUT",
        _ => return None,
    };
    Python::attach(|py| py.import("errno").ok()?.getattr(name).ok()?.extract().ok())
}

/// Returns the number of an error that lost it when the library added the file's name. These are the same on all
/// systems.
fn errno(kind: io::ErrorKind) -> Option<i32> {
    Some(match kind {
        io::ErrorKind::NotFound => 2,
        io::ErrorKind::Interrupted => 4,
        io::ErrorKind::OutOfMemory => 12,
        io::ErrorKind::PermissionDenied => 13,
        io::ErrorKind::AlreadyExists => 17,
        io::ErrorKind::NotADirectory => 20,
        io::ErrorKind::IsADirectory => 21,
        io::ErrorKind::InvalidInput => 22,
        io::ErrorKind::FileTooLarge => 27,
        io::ErrorKind::StorageFull => 28,
        io::ErrorKind::ReadOnlyFilesystem => 30,
        io::ErrorKind::BrokenPipe => 32,
        _ => return None,
    })
}
