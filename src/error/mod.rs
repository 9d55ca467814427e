//! The error of all operations: an [`ErrorKind`] and a location.

mod counted;
mod invalid_cast;
mod kind;
mod report;
mod short;
mod warning;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::{fmt, io};

pub(crate) use counted::{Grouped, counted};
pub use invalid_cast::InvalidCast;
pub(crate) use kind::HELD;
pub use kind::{Category, ErrorKind, cannot_store};
pub(crate) use kind::{MEMORY, NameList, PAYLOADS};
pub use report::{Gap, InvalidMetadata, LoadReport, Misfit, MissingMetadata, MissingTensor, UnexpectedTensor};

pub(crate) use report::{fill, pattern};
pub(crate) use short::Short;
pub use warning::{UnknownWarningKind, Warning, WarningKind};

use crate::tensor::InvalidTensor;

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error for reading or writing a tensor file.
///
/// It has a [`kind`](Self::kind), a broader [`category`](Self::category), and as far as they are known the
/// [`tensor`](Self::tensor) and the [`offset`](Self::offset) in the file.
///
/// ```
/// use tensorfile::{ErrorKind, TensorMap, ten};
///
/// let error = ten::from_slice::<TensorMap>(b"~TenBin~ and so on").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Truncated { .. }));
/// assert_eq!(error.to_string(), "ten: tensor `#0`: needs 8 more bytes, but the file has 2 left (at byte 16)");
/// ```
///
/// `{:?}` prints the same message, for `unwrap` and for a `main` that returns the error: several lines for
/// [`ErrorKind::Load`]. `{:#?}` prints the fields.
///
/// ```
/// # use tensorfile::{TensorMap, ten};
/// # let error = ten::from_slice::<TensorMap>(b"~TenBin~ and so on").unwrap_err();
/// assert_eq!(format!("{error:?}"), error.to_string());
/// assert!(format!("{error:#?}").contains("needed: 8"));
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: Opaque,
    format: Option<&'static str>,
    tensor: Option<String>,
    offset: Option<u64>,
    shard: Option<PathBuf>,
    path: Option<PathBuf>,
    /// A way out that depends on the call, and not on the kind.
    advice: Option<&'static str>,
}

/// An [`ErrorKind`] behind `Any`, so that the crates of users do not compile its drop code.
struct Opaque(Box<dyn Any + Send + Sync>);

impl Opaque {
    const EXPECT: &str = "nothing else is put here";

    fn new(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }

    fn get(&self) -> &ErrorKind {
        self.0.downcast_ref().expect(Self::EXPECT)
    }

    fn get_mut(&mut self) -> &mut ErrorKind {
        self.0.downcast_mut().expect(Self::EXPECT)
    }

    fn into_inner(self) -> ErrorKind {
        *self.0.downcast().expect(Self::EXPECT)
    }
}

impl Error {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        self.0.kind.get()
    }

    /// Returns the category: the file, a mismatch, the call, a limit, or I/O.
    #[must_use]
    pub fn category(&self) -> Category {
        self.kind().category()
    }

    /// Returns whether a file does not exist: the opened one, or one named in it. A missing tensor is
    /// [`ErrorKind::Missing`].
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind(), ErrorKind::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether what was opened is a folder without a checkpoint. Its files can still be opened one by one.
    ///
    /// ```
    /// let folder = tempfile::tempdir()?;
    /// assert!(tensorfile::File::open(&folder).is_err_and(|error| error.is_without_checkpoint()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_without_checkpoint(&self) -> bool {
        matches!(self.kind(), ErrorKind::Io(error) if error.kind() == io::ErrorKind::IsADirectory)
    }

    /// Returns the name of the tensor; `#3` for the one at position 3 of a file without names.
    #[must_use]
    pub fn tensor(&self) -> Option<&str> {
        self.0.tensor.as_deref()
    }

    /// Returns the offset in bytes from the start of the file.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the path of the shard at [`offset`](Self::offset), if several files were opened as one.
    #[must_use]
    pub fn shard(&self) -> Option<&Path> {
        self.0.shard.as_deref()
    }

    /// Returns the path of the file, if it was opened by its path.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the message without the path, for programs with their own way of printing it.
    pub fn without_path(&self) -> impl fmt::Display {
        WithoutPath(&self.0)
    }

    /// Returns the format read or written, such as `btf`.
    #[must_use]
    pub fn format(&self) -> Option<&'static str> {
        self.0.format
    }

    /// Returns the error with its offset, if it has one, moved by the start of the file in another file.
    ///
    /// ```
    /// use tensorfile::{TensorMap, ten};
    ///
    /// // In an archive, the file follows a header of 512 bytes.
    /// let error = ten::from_slice::<TensorMap>(b"~TenBin~ and so on").unwrap_err().nested_at(512);
    /// assert_eq!(error.offset(), Some(16 + 512));
    /// ```
    #[must_use]
    pub fn nested_at(mut self, start: u64) -> Self {
        self.0.offset = self.0.offset.map(|offset| offset.saturating_add(start));
        self
    }

    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner {
            kind: Opaque::new(kind),
            format: None,
            tensor: None,
            offset: None,
            shard: None,
            path: None,
            advice: None,
        }))
    }

    /// Returns the I/O error, if it has no location.
    pub(crate) fn into_io(self) -> Result<io::Error, Self> {
        if !matches!(self.kind(), ErrorKind::Io(_)) || self.0.tensor.is_some() || self.0.offset.is_some() {
            return Err(self);
        }
        match self.0.kind.into_inner() {
            ErrorKind::Io(error) => Ok(error),
            kind => Err(Self::new(kind)),
        }
    }

    /// Removes the first bytes of a file that was not recognized. They may belong to a server's page, or to a file to
    /// which a link leads, and may be secret.
    pub(crate) fn without_beginning(mut self) -> Self {
        if let ErrorKind::NotTensors { found, .. }
        | ErrorKind::UnknownFormat { found, .. }
        | ErrorKind::BadMagic { found, .. } = self.0.kind.get_mut()
        {
            found.clear();
        }
        self
    }

    /// Adds the format, unless it is known.
    pub(crate) fn in_format(mut self, format: &'static str) -> Self {
        self.0.format.get_or_insert(format);
        self
    }

    /// Adds the tensor's name, unless it is known or in the message.
    pub(crate) fn in_tensor(mut self, name: impl Into<String>) -> Self {
        if self.0.tensor.is_none() && self.kind().is_about_one_tensor() {
            self.0.tensor = Some(name.into());
        }
        self
    }

    /// Adds the offset in the file, unless it is known.
    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Makes an offset from the start of a file one from `start`, where the file begins.
    pub(crate) fn moved_by(mut self, start: u64) -> Self {
        self.0.offset = self.0.offset.map(|offset| offset.saturating_add(start));
        self
    }

    /// Removes the offset, for tensors outside of files.
    pub(crate) fn without_offset(mut self) -> Self {
        self.0.offset = None;
        self
    }

    /// Adds the path of the file, unless it is known.
    pub(crate) fn in_file(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// Sets the path of the file in messages.
    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_owned());
        self
    }

    /// Adds the shard, unless it is known. An offset from the start of all shards becomes one from `start`, where this
    /// shard begins.
    pub(crate) fn in_shard(mut self, path: &Path, start: u64) -> Self {
        if self.0.shard.is_none() {
            self.0.shard = Some(path.to_owned());
            self.0.offset = self.0.offset.map(|offset| offset.saturating_sub(start));
        }
        self
    }

    /// Adds `prefix` to the name of a missing or unexpected tensor, because serde only knows the last segment.
    pub(crate) fn complete_name(mut self, prefix: Option<&str>) -> Self {
        if let ErrorKind::Missing { name, complete, .. } | ErrorKind::Unexpected { name, complete, .. } =
            self.0.kind.get_mut()
            && !std::mem::replace(complete, true)
            && let Some(prefix) = prefix
        {
            *name = if name.is_empty() { prefix.to_owned() } else { format!("{prefix}.{name}") };
        }
        self
    }

    /// Adds a way out to the message.
    pub(crate) fn advise(mut self, advice: &'static str) -> Self {
        self.0.advice = Some(advice);
        self
    }

    /// Adds names in the file to the error for a missing tensor, unless it has some.
    pub(crate) fn with_found_names(mut self, names: impl FnOnce() -> (Vec<String>, usize)) -> Self {
        if let ErrorKind::Missing { found, others, .. } = self.0.kind.get_mut()
            && found.is_empty()
        {
            (*found, *others) = names();
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
    /// [`InvalidTensor::OutOfMemory`] becomes [`ErrorKind::OutOfMemory`], as the tensor may be valid.
    fn from(invalid: InvalidTensor) -> Self {
        Self::new(match invalid {
            InvalidTensor::OutOfMemory { bytes } => ErrorKind::OutOfMemory { bytes },
            invalid => ErrorKind::InvalidTensor(invalid),
        })
    }
}

impl From<InvalidCast> for Error {
    fn from(invalid: InvalidCast) -> Self {
        Self::new(ErrorKind::Cast(invalid))
    }
}

impl From<io::Error> for Error {
    /// Unwraps an [`Error`] inside of an [`io::Error`]. Anything else becomes [`ErrorKind::Io`].
    ///
    /// ```
    /// use std::io;
    /// use tensorfile::{Error, TensorMap, ten};
    ///
    /// let error = ten::from_slice::<TensorMap>(b"~TenBin~ and so on").unwrap_err();
    /// let message = error.to_string();
    /// let error = Error::from(io::Error::from(error));
    /// assert_eq!((error.to_string(), error.offset()), (message, Some(16)));
    /// ```
    fn from(error: io::Error) -> Self {
        error.downcast().unwrap_or_else(|error| Self::new(ErrorKind::Io(error)))
    }
}

impl From<Error> for io::Error {
    /// Wraps the error. If it is an I/O error, the wrapper has the same [`io::ErrorKind`].
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
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", path.display())?;
        }
        WithoutPath(&self.0).fmt(f)
    }
}

struct WithoutPath<'a>(&'a Inner);

impl fmt::Display for WithoutPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        if let Some(format) = error.format {
            write!(f, "{format}: ")?;
        }
        if let Some(tensor) = &error.tensor {
            write!(f, "tensor `{}`: ", Short(tensor))?;
        }
        error.kind.get().fmt(f)?;
        if let Some(advice) = error.advice {
            write!(f, "; {advice}")?;
        }
        let shard = error.shard.as_ref().map(|shard| shard.display());
        match (error.offset, shard) {
            (Some(offset), Some(shard)) => write!(f, " (at byte {offset} of {shard})"),
            (Some(offset), None) => write!(f, " (at byte {offset})"),
            (None, Some(shard)) => write!(f, " (in {shard})"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    /// Prints the message, because `unwrap`, and a `main` that returns the error, print `{:?}`. All fields are in
    /// `{:#?}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        f.debug_struct("Error")
            .field("kind", self.kind())
            .field("format", &self.0.format)
            .field("tensor", &self.0.tensor)
            .field("offset", &self.0.offset)
            .field("shard", &self.0.shard)
            .field("path", &self.0.path)
            .field("advice", &self.0.advice)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The message of the I/O error is in the message of this one.
        match self.kind() {
            ErrorKind::Io(error) => error.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_a_trip_as_an_io_error() {
        let error = Error::new(ErrorKind::Truncated { needed: 8, left: 2 })
            .in_format("ten")
            .in_tensor("bias")
            .at(16)
            .in_shard(Path::new("shard"), 6);
        let before = format!("{error:#?}");
        let error = io::Error::from(error);
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(format!("{:#?}", Error::from(error)), before);
    }

    #[test]
    fn debug_is_the_message_and_alternate_debug_the_fields() {
        let error = Error::new(ErrorKind::Truncated { needed: 8, left: 2 }).in_format("ten").in_tensor("bias").at(16);
        assert_eq!(format!("{error:?}"), error.to_string());
        let shown = format!("{error:#?}");
        for field in ["kind: Truncated {", "needed: 8", "format: Some(", "tensor: Some(", "offset: Some(", "path: None"]
        {
            assert!(shown.contains(field), "{field}: {shown}");
        }
    }

    #[test]
    fn an_io_error_with_a_place_survives_the_trip_too() {
        let error = Error::from(io::Error::from(io::ErrorKind::NotFound)).in_tensor("bias");
        let error = io::Error::from(error);
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let error = Error::from(error);
        assert_eq!(error.tensor(), Some("bias"));
        assert!(matches!(error.kind(), ErrorKind::Io(error) if error.kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn other_io_errors_are_kept() {
        let error = Error::from(io::Error::other("disk on fire"));
        assert!(matches!(error.kind(), ErrorKind::Io(_)));
        assert_eq!(error.to_string(), "disk on fire");
    }
}
