//! Files that hold tensor files, such as archives.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use super::open::Contents;
use super::{File, OpenOptions};
use crate::error::Error;
use crate::error::Result;
use crate::find::{Deserializer, MetadataSource};
use crate::format::{EmbeddedName, Format};
use crate::limits::Limits;
use crate::model::{FieldAttrs, FileMetadata, FromTensors, LoadFrom, Node, node_of, put};
use crate::read::{Index, Reader, ReaderStorage};
use crate::remote::{self, Location};
use crate::storage::{FileReader, FileStorage, shown_url, url_of};
use crate::tensor::TensorInfo;

/// The bytes of a file that holds tensor files, such as an archive: mapped, in memory, or at a URL. Clones share them.
///
/// [`Embedded`] loads tensors of it.
///
/// ```
/// use tensorfile::file::Container;
///
/// let container = Container::from_bytes(vec![1, 2, 3]);
/// assert_eq!(container.as_bytes(), Some(&[1, 2, 3][..]));
/// ```
#[derive(Clone)]
pub struct Container {
    storage: Arc<FileStorage>,
}

impl Container {
    /// Opens a regular file by its path, or a file at a URL, as [`File::open`](super::File::open) does.
    ///
    /// ```
    /// use tensorfile::file::Container;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("archive");
    /// std::fs::write(&path, "a tensor file, and another")?;
    /// let container = Container::open(&path)?;
    /// let mut bytes = [0; 6];
    /// container.read_at(2, &mut bytes)?;
    /// assert_eq!(&bytes, b"tensor");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file cannot be opened, or is not a regular one.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let open = || match url_of(path) {
            Some(url) => Self::open_url(url),
            None => OpenOptions::new().open_storage(path),
        };
        let name = || url_of(path).map_or_else(|| path.to_owned(), |url| PathBuf::from(shown_url(url)));
        let storage = open().map_err(|error| error.in_file(&name()))?;
        Ok(Self { storage: Arc::new(storage) })
    }

    fn open_url(url: &str) -> Result<FileStorage> {
        match remote::open(url, &Limits::default())? {
            Location::Path(path) => OpenOptions::new().open_storage(&path),
            Location::Ranges(file) => FileStorage::ranges(file.source).map_err(Error::from),
            Location::Folder(_) => Err(std::io::Error::from(std::io::ErrorKind::IsADirectory).into()),
        }
    }

    /// A container in memory.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self { storage: Arc::new(FileStorage::Memory(Box::new(bytes))) }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.storage.len()
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all bytes, if they are in memory or mapped.
    ///
    /// A mapped file can change while it is open, if another program writes to it: see
    /// [`Backend::Mapped`](super::Backend::Mapped). So copy bytes before you check them.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.storage.in_memory(&(0..self.len()))
    }

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Truncated`](crate::ErrorKind::Truncated) if the file ends before, and
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if reading fails.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.storage.read_at(offset, bytes)
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Tensor files in a [`Container`], read as one file. You choose the names of the tensors.
///
/// ```
/// use ndarray::{Array1, ArrayView1, array};
/// use tensorfile::file::{Container, Embedded};
/// use tensorfile::{Limits, TensorFile, TensorMap, ten};
///
/// #[derive(TensorFile)]
/// struct Sample<'a> {
///     image: ArrayView1<'a, f32>,
///     label: i64,
///     #[tensor(metadata)]
///     caption: String,
/// }
///
/// let file = ten::to_vec(&TensorMap::from_iter([("0", array![0.5_f32])]))?;
/// let (end, caption) = (file.len() as u64, "a cat".to_owned());
/// let container = Container::from_bytes([&file[..], b"207"].concat());
///
/// let mut embedded = Embedded::new(&container, Limits::new());
/// embedded.add_file(&ten::FORMAT, 0..end, &mut |_, _, _| "image".to_owned())?;
/// embedded.add_number("label", end..end + 3)?;
/// embedded.add_metadata("caption", caption);
/// let sample: Sample = embedded.load()?;
/// assert_eq!((sample.image[0], sample.label, &*sample.caption), (0.5, 207, "a cat"));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug)]
pub struct Embedded<'c> {
    container: &'c Container,
    limits: Limits,
    index: Index,
    metadata: IndexMap<String, String>,
}

impl<'c> Embedded<'c> {
    /// No tensors yet.
    #[must_use]
    pub fn new(container: &'c Container, limits: Limits) -> Self {
        Self { container, limits, index: Index::default(), metadata: IndexMap::new() }
    }

    /// Adds the tensors of a file in a range of the container. For each tensor, `name` is called with the number of
    /// tensors in the file, the tensor's position, and its name in the file.
    ///
    /// # Errors
    ///
    /// As [`File::open`](super::File::open).
    pub fn add_file(&mut self, format: &Format, range: Range<u64>, name: EmbeddedName<'_>) -> Result<()> {
        let mut reader = FileReader::with_part(&self.container.storage);
        let added = self.index.push_file(format, &mut reader, range, &self.limits, name);
        if self.container.storage.is_remote() {
            return added.map_err(Error::without_beginning);
        }
        added
    }

    /// Adds bytes that are not tensors, for a field of type [`Blob`](crate::Blob).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if there are too many bytes.
    pub fn add_blob(&mut self, name: &str, range: Range<u64>) -> Result<()> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        self.index.push(Some(name), TensorInfo::blob(len), range)
    }

    /// Adds an i64 without dims, whose decimal text is in a range of the container. It is parsed when it is read.
    ///
    /// # Errors
    ///
    /// As [`add_blob`](Self::add_blob).
    pub fn add_number(&mut self, name: &str, text: Range<u64>) -> Result<()> {
        self.index.push_number(name, text)
    }

    /// Adds an entry of metadata, for a field with `#[tensor(metadata)]`.
    pub fn add_metadata(&mut self, key: impl Into<String>, text: impl Into<String>) {
        self.metadata.insert(key.into(), text.into());
    }

    /// Loads all tensors into a type. Views borrow from the container.
    ///
    /// # Errors
    ///
    /// As [`File::load`](super::File::load), and [`ErrorKind::DuplicateName`](crate::ErrorKind::DuplicateName) if two
    /// tensors have the same name. Offsets count from the start of the container.
    pub fn load<T: FromTensors<'c>>(self) -> Result<T> {
        let mut value = None;
        self.load_with(node_of::<T>, &mut |source| put(&mut value, source, &FieldAttrs::NONE))?;
        Ok(value.expect("the value was loaded"))
    }

    /// Returns all tensors as an open file. Messages call it a file of `format`. It shares the container.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), except for mismatches.
    pub fn into_file(mut self, format: &'static Format) -> Result<File> {
        self.complete()?;
        let storage = Arc::clone(&self.container.storage);
        let metadata = FileMetadata { entries: self.metadata, ..FileMetadata::default() };
        let contents = Contents { format, index: self.index, metadata: Some(metadata), part: None };
        Ok(OpenOptions::new().limits(self.limits).file_at_random(storage, None, contents))
    }

    fn complete(&mut self) -> Result<()> {
        self.index.complete()?;
        self.index.check_ends(0, Some(self.container.len()))
    }

    fn load_with(mut self, node: fn() -> Node, load: LoadFrom<'_, 'c>) -> Result<()> {
        self.complete()?;
        let storage = ReaderStorage::Boxed(Box::new(FileReader::with_part(&self.container.storage)));
        let reader = Reader::with_index(storage, Cow::Owned(self.index), self.limits);
        let mut deserializer = Deserializer::over(reader, "", MetadataSource::Read(Box::new(self.metadata)));
        deserializer.read_whole(&mut |deserializer| deserializer.load_with(node, load))
    }
}
