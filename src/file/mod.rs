//! Files on disk: opened lazily, loaded into types, and saved whole.

mod load;
mod open;
mod save;
#[cfg(feature = "shards")]
mod shards;
mod slice;
mod tensor;

use std::fmt;
use std::path::{Path, PathBuf};

use ndarray::{Array, Dimension};
use serde::{Deserialize, Serialize, Serializer};

use crate::error::{Error, ErrorKind, LoadReport, Result};
use crate::format::{FileMetadata, Format};
use crate::limits::Limits;
use crate::model::{Collection, Deserializer, FromTensors, TensorFile};
use crate::report::{Comparison, compare};
use crate::source::{Ranges, Storage};
use crate::tensor::{Element, Tensor, TensorInfo, TensorView};
use crate::wire::{Index, Indexed, Reader};

pub use load::load;
use load::load_value;
pub use open::{Backend, OpenOptions};
pub use save::{SaveOptions, save};
pub use tensor::FileTensor;

/// The deserializer of an opened file.
type Opened<'f> = Deserializer<Reader<'f, Ranges<'f>, Indexed>>;

/// A tensor file that is open: its index is read, its tensors are there to be read one by one.
///
/// ```
/// use ndarray::{Ix2, array};
/// use tensorfile::{File, TensorFile, save};
///
/// #[derive(TensorFile)]
/// struct Linear {
///     weight: ndarray::Array2<f32>,
///     bias: ndarray::Array1<f32>,
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("linear.tbs");
/// save(&path, &Linear { weight: array![[1.0, 2.0], [3.0, 4.0]], bias: array![0.5, 0.25] })?;
///
/// let file = File::open(&path)?;
/// for tensor in file.tensors() {
///     println!("{} {}", tensor.name(), tensor.info());
/// }
/// assert_eq!(file.array::<f32, Ix2>("weight")?, array![[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(file.slice("weight", &[1..2, 0..2])?.as_view().array::<f32>()?, array![[3.0, 4.0]].into_dyn());
/// let linear: Linear = file.load()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A file is a [`Collection`] and serializes itself as one, so that [`save`] takes it: that converts it.
pub struct File {
    path: Option<PathBuf>,
    format: &'static Format,
    storage: Storage,
    index: Index,
    limits: Limits,
    shards: Shards,
}

/// The files that were opened as one; of one file, nothing.
#[derive(Debug, Default)]
struct Shards {
    /// The paths of the parts of the storage.
    paths: Vec<PathBuf>,
    /// What the index of them says.
    #[cfg(feature = "shards")]
    metadata: FileMetadata,
}

impl File {
    /// Opens a file: finds its format and reads its index.
    ///
    /// The file is mapped into memory, where the system can do that; see [`Backend::Mapped`] for what that asks of you.
    /// Otherwise it is read at positions. [`OpenOptions`] is for all else.
    ///
    /// With the feature `shards`, the index of a checkpoint in several files, such as `model.safetensors.index.json`,
    /// opens them as one file: the shards in the order of their names, all of one format. The index must list all of
    /// their tensors and no others.
    ///
    /// # Errors
    ///
    /// By [`category`](Error::category): `File` where it is of no known format or malformed, `Limit` where it passes
    /// the default [`Limits`], `Io` where it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    /// The paths of the files that the index of shards names; none where one file was opened.
    #[must_use]
    pub fn shards(&self) -> &[PathBuf] {
        &self.shards.paths
    }

    /// The path that was opened; none for bytes in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The length of the file in bytes, or of all shards.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.storage.len()
    }

    /// Reads what the file says besides its tensors. Opening passes that over.
    ///
    /// Of shards, it is what their index says, values that are no text as JSON, and then what each of them says. The sum
    /// `total_size` of the index is left out.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn metadata(&self) -> Result<FileMetadata> {
        match &self.storage {
            #[cfg(feature = "shards")]
            Storage::Joined(joined) => shards::metadata(self, joined.parts()),
            storage => self.metadata_in(storage),
        }
    }

    /// The number of tensors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no tensor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensors in the order of the file. None of their bytes is read.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = FileTensor<'_>> {
        (0..self.len()).map(|at| FileTensor::new(self, at))
    }

    /// The tensor of a name, or at a position: `#3`, and for tensors without names `3` too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Missing`] where there is none.
    pub fn get(&self, name: &str) -> Result<FileTensor<'_>> {
        let numbered = || name.strip_prefix('#')?.parse().ok().filter(|at| *at < self.len());
        let at = self.index.position(name).or_else(numbered).ok_or_else(|| self.missing(name))?;
        Ok(FileTensor::new(self, at))
    }

    /// Reads a tensor.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`FileTensor::read`].
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        self.get(name)?.read()
    }

    /// Borrows a tensor from the mapped file.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`FileTensor::view`].
    pub fn view(&self, name: &str) -> Result<TensorView<'_>> {
        self.get(name)?.view()
    }

    /// Reads a tensor into an array of its element type and rank.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`FileTensor::load`].
    pub fn array<A: Element, D: Dimension>(&self, name: &str) -> Result<Array<A, D>> {
        self.get(name)?.array()
    }

    /// Reads a part of a tensor, which has a range for each of its dims; see [`FileTensor::slice`].
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`FileTensor::slice`].
    pub fn slice(&self, name: &str, ranges: &[std::ops::Range<usize>]) -> Result<Tensor> {
        self.get(name)?.slice(ranges)
    }

    /// Loads the file into a type: `T` may borrow from it where it is mapped.
    ///
    /// Whether it holds what `T` wants is found out from the index, before any payload is read.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Load`]: the file does not hold what `T` wants; the [report](Self::report) in it tells all of it.
    /// - By [`category`](Error::category): `File` where a payload is malformed, `Mismatch` where its numbers or its place
    ///   are not what `T` wants, `Io` where one cannot be read.
    pub fn load<'f, T: FromTensors<'f>>(&'f self) -> Result<T> {
        let report = self.report::<T>();
        if !report.is_ok() {
            return Err(Error::from(ErrorKind::Load(Box::new(report))).in_format(self.format.name));
        }
        self.read_index(self.index.clone(), load_value)
    }

    /// What the file and a type have in common, told from the index alone.
    ///
    /// ```
    /// use tensorfile::{File, OpenOptions, Tensor, TensorFile, TensorMap, ten};
    ///
    /// #[derive(TensorFile)]
    /// struct Linear {
    ///     weight: ndarray::Array2<f32>,
    ///     bias: ndarray::Array1<f32>,
    /// }
    ///
    /// let map: TensorMap = [("weight", Tensor::from_slice(&[1.0_f32, 2.0], [1, 2])?)].into_iter().collect();
    /// let file = OpenOptions::new().from_vec(ten::to_vec(&map)?)?;
    /// let report = file.report::<Linear>();
    /// assert_eq!(report.to_string(), "1 missing; 1 of 1 tensor fits\nmissing:\n  `bias`  f32[_]");
    /// assert!(file.load::<Linear>().is_err_and(|error| error.to_string() == format!("ten: {report}")));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn report<T: TensorFile>(&self) -> LoadReport {
        self.compare::<T>().report
    }

    /// The tensors that a type has no place for, in the order of the file: what is left of it when `T`, which then has
    /// to allow unknown tensors, is loaded.
    #[must_use]
    pub fn rest<T: TensorFile>(&self) -> Vec<FileTensor<'_>> {
        let taken = self.compare::<T>().taken;
        self.tensors().filter(|tensor| !taken[tensor.position()]).collect()
    }

    /// Deserializes any type of serde from the file. Prefer [`load`](Self::load) for types that derive
    /// [`TensorFile`](trait@crate::TensorFile): it knows them better.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn deserialize<'f, T: Deserialize<'f>>(&'f self) -> Result<T> {
        self.read_index(self.index.clone(), |deserializer| T::deserialize(deserializer))
    }

    /// Reads a value from the tensors of an index of this file.
    fn read_index<'f, T>(&'f self, index: Index, read: impl FnOnce(&mut Opened<'f>) -> Result<T>) -> Result<T> {
        let reader = Reader::over(Ranges::new(&self.storage), Indexed, self.limits.clone(), index);
        let mut deserializer = Deserializer::over(reader);
        let value = read(&mut deserializer);
        let ended = value.and_then(|value| deserializer.end().map(|()| value));
        ended.map_err(|error| self.place(error).in_format(self.format.name))
    }

    fn metadata_in(&self, storage: &Storage) -> Result<FileMetadata> {
        let metadata = (self.format.functions.metadata)(storage, &self.limits);
        metadata.map_err(|error| error.in_format(self.format.name))
    }

    /// Says in which shard an error is.
    fn place(&self, error: Error) -> Error {
        match error.offset().and_then(|offset| self.shard(offset)) {
            Some((path, start)) => error.in_shard(path, start),
            None => error,
        }
    }

    /// The shard that an offset in the storage is in, and where that begins.
    fn shard(&self, offset: u64) -> Option<(&Path, u64)> {
        let (at, start) = self.storage.part(offset)?;
        Some((self.shards.paths.get(at)?, start))
    }

    fn compare<T: TensorFile>(&self) -> Comparison {
        let tensors = self.tensors().map(|tensor| (tensor.has_name().then(|| tensor.name()), tensor.info()));
        compare(&T::schema(), tensors, self.index.has_embedded_names())
    }

    fn storage(&self) -> &Storage {
        &self.storage
    }

    fn missing(&self, name: &str) -> Error {
        /// The longest name that is compared.
        const LONGEST: usize = 256;
        let mut found = self.index.names_to_show();
        found.sort_by_cached_key(|other| match name.len().max(other.len()) {
            ..=LONGEST => strsim::osa_distance(name, other),
            long => long,
        });
        Error::new(ErrorKind::Missing { name: name.to_owned(), found, complete: true }).in_format(self.format.name)
    }
}

impl fmt::Debug for File {
    /// What it is, not what it holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut file = f.debug_struct("File");
        file.field("path", &self.path).field("format", &self.format.name);
        file.field("tensors", &self.len()).field("file_bytes", &self.file_bytes()).finish_non_exhaustive()
    }
}

impl Collection for File {
    fn len(&self) -> usize {
        self.len()
    }

    fn name(&self, at: usize) -> &str {
        self.index.name(at)
    }

    fn info(&self, at: usize) -> &TensorInfo {
        self.index.entry(at).info()
    }

    fn pour(&self, at: usize, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        FileTensor::new(self, at).pour(take)
    }

    fn bytes(&self, at: usize) -> Option<&[u8]> {
        FileTensor::new(self, at).bytes()?.ok()
    }

    fn place(&self, at: usize) -> Option<u64> {
        Some(self.index.entry(at).range().start)
    }
}

impl Serialize for File {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self as &dyn Collection).serialize(serializer)
    }
}
