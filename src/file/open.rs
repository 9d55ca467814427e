use std::fs;
use std::io::{self, Read};
use std::path::Path;

#[cfg(feature = "shards")]
use super::shards;
use super::{File, Shards};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Format, detect};
use crate::limits::Limits;
use crate::source::Storage;

/// How the bytes of an opened file are had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Backend {
    /// The file is mapped into memory, so that tensors can be borrowed from it. Where that fails, or without the feature
    /// `mmap`, it is read at positions. The default.
    ///
    /// While a mapped file is open, nobody may change it: what is borrowed from it would change too, and where it
    /// becomes shorter, looking at what is gone kills the process (`SIGBUS`). [`save`](super::save()) never does that
    /// to a file; it replaces it by another. Where others may, use `Positioned`.
    #[default]
    Mapped,
    /// The file is read at positions, each tensor when it is asked for. Nothing can be borrowed from it, and no change
    /// of the file does more than give an error or other numbers.
    Positioned,
}

/// How a file is opened.
///
/// ```
/// use tensorfile::{Backend, Format, OpenOptions};
///
/// let ten = Format::named("ten").expect("it is always there");
/// let file = OpenOptions::new().backend(Backend::Positioned).format(ten).from_vec(Vec::new())?;
/// assert!(file.is_empty());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    backend: Backend,
    pub(super) format: Option<&'static Format>,
    pub(super) limits: Limits,
}

impl OpenOptions {
    /// The defaults: mapped, of whatever format the file is, with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How the bytes are had.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// The format, where it is known. Otherwise the file's first bytes tell it, or else the extension of its path, or
    /// else, of a BTF file, a look at its offset table.
    #[must_use]
    pub fn format(mut self, format: &'static Format) -> Self {
        self.format = Some(format);
        self
    }

    /// How much the file may ask for.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Opens a file. What cannot be read at positions, such as a pipe, is read into memory.
    ///
    /// # Errors
    ///
    /// As [`File::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let storage = self.storage(path).map_err(|error| named(path, error))?;
        #[cfg(feature = "shards")]
        if shards::is_index(self, &storage, path)? {
            return shards::open(self, &storage, path);
        }
        self.read(storage, Some(path))
    }

    /// Opens the bytes of a file.
    ///
    /// # Errors
    ///
    /// As [`File::open`].
    pub fn from_vec(&self, file: Vec<u8>) -> Result<File> {
        self.read(Storage::Memory(file), None)
    }

    pub(super) fn storage(&self, path: &Path) -> io::Result<Storage> {
        let mut file = fs::File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() || !(cfg!(unix) || cfg!(windows)) {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Storage::Memory(bytes));
        }
        #[cfg(feature = "mmap")]
        if self.backend == Backend::Mapped
            && let Ok(mapped) = Storage::map(&file)
        {
            return Ok(mapped);
        }
        Ok(Storage::positioned(file, metadata.len()))
    }

    pub(super) fn read(&self, storage: Storage, path: Option<&Path>) -> Result<File> {
        let format = self.format.map_or_else(|| detect(&storage, path), Ok)?;
        let index = (format.functions.index)(&storage, &self.limits)?;
        let (path, limits) = (path.map(Path::to_owned), self.limits.clone());
        Ok(File { path, format, storage, index, limits, shards: Shards::default() })
    }
}

/// The error with the path in its message.
pub(super) fn named(path: &Path, error: io::Error) -> Error {
    ErrorKind::Io(io::Error::new(error.kind(), format!("{}: {error}", path.display()))).into()
}
