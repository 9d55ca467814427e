//! One error for everything: what is wrong ([`ErrorKind`]) and where.

mod kind;
mod report;

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use kind::{Category, ErrorKind};
pub use report::{Gap, LoadReport, Misfit, MissingTensor, UnexpectedTensor};

pub(crate) use report::{fill, pattern};

use crate::tensor::{InvalidCast, InvalidTensor};

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a tensor file could not be read or written.
///
/// [`kind`](Self::kind) says what is wrong, [`category`](Self::category) whose fault it is, [`tensor`](Self::tensor)
/// and [`offset`](Self::offset) where.
///
/// ```
/// use tensorfile::{ErrorKind, TensorMap, ten};
///
/// let error = ten::from_slice::<TensorMap>(b"~TenBin~ and so on").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Truncated { .. }));
/// assert_eq!(error.to_string(), "ten: tensor `#0`: needs 8 more bytes, but the file has 2 left (at byte 16)");
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    format: Option<&'static str>,
    tensor: Option<String>,
    offset: Option<u64>,
    shard: Option<PathBuf>,
}

impl Error {
    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Whose fault it is: the file's, the caller's, a limit's, or the device's.
    #[must_use]
    pub fn category(&self) -> Category {
        self.0.kind.category()
    }

    /// The name of the tensor at fault; `#3` for the one at position 3 of a file without names.
    #[must_use]
    pub fn tensor(&self) -> Option<&str> {
        self.0.tensor.as_deref()
    }

    /// Where in the file, in bytes from its start.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The path of the file that [`offset`](Self::offset) is in, where it is a shard: one of several files that were
    /// opened as one.
    #[must_use]
    pub fn shard(&self) -> Option<&Path> {
        self.0.shard.as_deref()
    }

    /// The format that was read or written, such as `btf`.
    #[must_use]
    pub fn format(&self) -> Option<&'static str> {
        self.0.format
    }

    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, format: None, tensor: None, offset: None, shard: None }))
    }

    /// The error of the device, if it is one that nothing more is known of.
    pub(crate) fn into_io(self) -> Result<io::Error, Self> {
        let is_bare = self.0.tensor.is_none() && self.0.offset.is_none();
        match self.0.kind {
            ErrorKind::Io(error) if is_bare => Ok(error),
            _ => Err(self),
        }
    }

    /// Names the format, unless someone closer to the fault already has.
    pub(crate) fn in_format(mut self, format: &'static str) -> Self {
        self.0.format.get_or_insert(format);
        self
    }

    /// Names the tensor, unless someone closer to the fault already has.
    pub(crate) fn in_tensor(mut self, name: impl Into<String>) -> Self {
        if self.0.tensor.is_none() && self.0.kind.is_about_one_tensor() {
            self.0.tensor = Some(name.into());
        }
        self
    }

    /// Tells the place in the file, unless someone closer to the fault already has.
    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Names the shard, unless someone closer to the fault already has, in which case the offset is within that one.
    /// An offset from the start of all shards counts from `start` of this one.
    pub(crate) fn in_shard(mut self, path: &Path, start: u64) -> Self {
        if self.0.shard.is_none() {
            self.0.shard = Some(path.to_owned());
            self.0.offset = self.0.offset.map(|offset| offset.saturating_sub(start));
        }
        self
    }

    /// Puts `prefix` before the name of a missing or unexpected tensor, which serde knows by its last part only.
    pub(crate) fn complete_name(mut self, prefix: Option<&str>) -> Self {
        if let ErrorKind::Missing { name, complete, .. } | ErrorKind::Unexpected { name, complete, .. } =
            &mut self.0.kind
            && !std::mem::replace(complete, true)
            && let Some(prefix) = prefix
        {
            *name = if name.is_empty() { prefix.to_owned() } else { format!("{prefix}.{name}") };
        }
        self
    }

    /// Lists what the file has instead, once its names are known.
    pub(crate) fn with_found_names(mut self, names: impl FnOnce() -> Vec<String>) -> Self {
        if let ErrorKind::Missing { found, .. } = &mut self.0.kind
            && found.is_empty()
        {
            *found = names();
        }
        self
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

impl From<InvalidTensor> for Error {
    fn from(invalid: InvalidTensor) -> Self {
        Self::new(ErrorKind::InvalidTensor(invalid))
    }
}

impl From<InvalidCast> for Error {
    fn from(invalid: InvalidCast) -> Self {
        Self::new(ErrorKind::Cast(invalid))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::new(ErrorKind::Io(error))
    }
}

impl From<Error> for io::Error {
    /// The error as one of I/O, of the same kind where it was one.
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Io(error) => error.kind(),
            ErrorKind::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            _ if error.category() == Category::Call => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(format) = self.0.format {
            write!(f, "{format}: ")?;
        }
        if let Some(tensor) = &self.0.tensor {
            write!(f, "tensor `{tensor}`: ")?;
        }
        self.0.kind.fmt(f)?;
        let shard = self.0.shard.as_ref().map(|shard| shard.display());
        match (self.0.offset, shard) {
            (Some(offset), Some(shard)) => write!(f, " (at byte {offset} of {shard})"),
            (Some(offset), None) => write!(f, " (at byte {offset})"),
            (None, Some(shard)) => write!(f, " (in {shard})"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("format", &self.0.format)
            .field("tensor", &self.0.tensor)
            .field("offset", &self.0.offset)
            .field("shard", &self.0.shard)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // What the message already tells is not told again.
        match &self.0.kind {
            ErrorKind::Io(error) => error.source(),
            _ => None,
        }
    }
}

thread_local! {
    static HANDED_OVER: Cell<Option<Error>> = const { Cell::new(None) };
}

/// Our error as the error of any serde format: whole where that is ours too, as its message elsewhere.
///
/// serde makes errors from messages only. Where `E` is [`Error`], the error waits in a slot of the thread for the one
/// statement that it takes `E::custom` to pick it up.
pub(crate) fn raise<E: serde::de::Error>(error: impl Into<Error>) -> E {
    let error = error.into();
    if !is_ours::<E>() {
        return E::custom(error);
    }
    HANDED_OVER.set(Some(error));
    E::custom("")
}

/// As [`raise`], while serializing.
pub(crate) fn raise_ser<E: serde::ser::Error>(error: impl Into<Error>) -> E {
    let error = error.into();
    if !is_ours::<E>() {
        return E::custom(error);
    }
    HANDED_OVER.set(Some(error));
    E::custom("")
}

/// Whether `E` is our error type, and so the serializer or deserializer one of ours, or a wrapper around one.
pub(crate) fn is_ours<E>() -> bool {
    typeid::of::<E>() == typeid::of::<Error>()
}

impl serde::ser::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        HANDED_OVER.take().unwrap_or_else(|| Self::new(ErrorKind::Message(message.to_string())))
    }
}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        HANDED_OVER.take().unwrap_or_else(|| Self::new(ErrorKind::Message(message.to_string())))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(ErrorKind::Missing { name: field.to_owned(), found: Vec::new(), complete: false })
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let expected = expected.iter().map(|&name| name.to_owned()).collect();
        Self::new(ErrorKind::Unexpected { name: field.to_owned(), expected, complete: false })
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(ErrorKind::DuplicateName { name: field.to_owned() })
    }
}
