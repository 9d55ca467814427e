use std::fmt;
use std::path::Path;

use tensorfile::{Category, ErrorKind};

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error for reading or writing shards: an error of `tensorfile`, and its place in a shard.
///
/// ```
/// use tensorfile_datasets::Shards;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.tar");
/// std::fs::write(&path, "not a tar file")?;
/// let error = Shards::new(path.to_str().expect("it is text"))?.next().expect("one error").unwrap_err();
/// assert!(error.to_string().ends_with("a.tar: the archive ends inside a header (at byte 0)"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    shard: Option<String>,
    key: Option<String>,
    offset: Option<u64>,
    source: tensorfile::Error,
}

impl Error {
    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        self.0.source.kind()
    }

    /// Returns the category: the file, a mismatch, the call, a limit, or I/O.
    #[must_use]
    pub fn category(&self) -> Category {
        self.0.source.category()
    }

    /// Returns the path or URL of the shard, or of another file.
    #[must_use]
    pub fn shard(&self) -> Option<&str> {
        self.0.shard.as_deref().or_else(|| self.0.source.path()?.to_str())
    }

    /// Returns the key of the sample.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Returns the offset of the problem in the uncompressed shard, in bytes. If it is not known, returns the offset of
    /// the sample's first header.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.source.offset().or(self.0.offset)
    }

    /// Returns the error of `tensorfile`. Its offset counts from the start of the shard.
    #[must_use]
    pub fn as_tensorfile(&self) -> &tensorfile::Error {
        &self.0.source
    }

    /// Returns the message without the shard, for programs with their own way of printing it.
    pub fn without_shard(&self) -> impl fmt::Display {
        WithoutShard(&self.0)
    }

    /// Converts the error into one of `tensorfile`. The place in the shard becomes part of the message.
    pub(crate) fn into_tensorfile(self) -> tensorfile::Error {
        match self.kind() {
            ErrorKind::Malformed { .. } if self.0.offset.is_some() => {
                ErrorKind::Malformed { what: self.without_shard().to_string() }.into()
            }
            _ => self.0.source,
        }
    }

    /// Returns an error about the file at a path or URL. The message may begin with it already.
    pub(crate) fn with_path(error: tensorfile::Error, path: &Path) -> Self {
        let path = path.to_string_lossy();
        let bare = match error.kind() {
            ErrorKind::Io(io) => {
                let message = io.to_string();
                let message = message.strip_prefix(&format!("{path}: ")).unwrap_or(&message).to_owned();
                std::io::Error::new(io.kind(), message).into()
            }
            _ => Self::from(error),
        };
        bare.in_shard(&path)
    }

    /// Returns whether the reason is an existing file that must not be replaced.
    pub(crate) fn is_existing(&self) -> bool {
        matches!(self.kind(), ErrorKind::Io(io) if io.kind() == std::io::ErrorKind::AlreadyExists)
    }

    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        ErrorKind::Malformed { what: what.into() }.into()
    }

    /// Adds the offset in the shard, unless it is known.
    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Adds the key of the sample, unless it is known.
    pub(crate) fn in_sample(mut self, key: &str) -> Self {
        self.0.key.get_or_insert_with(|| key.to_owned());
        self
    }

    /// Adds the shard, unless it is known.
    pub(crate) fn in_shard(mut self, shard: &str) -> Self {
        self.0.shard.get_or_insert_with(|| shard.to_owned());
        self
    }
}

impl From<tensorfile::Error> for Error {
    fn from(source: tensorfile::Error) -> Self {
        Self(Box::new(Inner { shard: None, key: None, offset: None, source }))
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        tensorfile::Error::from(kind).into()
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        error.downcast().unwrap_or_else(|error| tensorfile::Error::from(error).into())
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Io(error) => error.kind(),
            _ => std::io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shard) = self.shard() {
            write!(f, "{shard}: ")?;
        }
        WithoutShard(&self.0).fmt(f)
    }
}

struct WithoutShard<'a>(&'a Inner);

impl fmt::Display for WithoutShard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { key, offset, source, .. } = self.0;
        let source = source.without_path();
        match (key, offset) {
            (Some(key), Some(offset)) => write!(f, "sample `{key}` at byte {offset}: {source}"),
            (Some(key), None) => write!(f, "sample `{key}`: {source}"),
            (None, Some(offset)) => write!(f, "{source} (at byte {offset})"),
            (None, None) => source.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    /// Prints the message, because `{:?}` is what users see of `unwrap` and of a `main` that returns the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Our message contains the inner error's, so the source is the inner error's source.
        std::error::Error::source(&self.0.source)
    }
}
