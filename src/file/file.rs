//! An open tensor file.

use std::borrow::Cow;
use std::fmt;
use std::io::{Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashSet;
use indexmap::IndexMap;
use ndarray::{Array, Dimension};
use serde::{Deserialize, Serialize, Serializer};

#[cfg(feature = "safetensors")]
use super::checkpoint;
use super::quantized::Quantization;
use super::{FileTensor, OpenOptions};
use crate::error::{Error, ErrorKind, LoadReport, Result};
use crate::fetch::LoadWindow;
use crate::find::{Comparison, Deserializer, HasMetadata, MetadataSource, asked_weights, compare_like};
use crate::format::{CheckOthers, Format, misnamed_as};
use crate::limits::Limits;
use crate::map::Receipt;
use crate::model::{
    FieldAttrs, FileMetadata, FilePart, FromTensors, LoadFrom, Node, Schema, TensorFile, TensorRecord, TensorSink,
    Tensors, ValueTree, node_of, put,
};
use crate::quant::Quantized;
use crate::read::{Index, Reader, ReaderStorage, Unread};
use crate::storage::{FileReader, FileStorage, JoinedFiles, Listener, ProgressCount, Section};
use crate::tensor::{Element, Tensor, TensorView};

/// An open tensor file: its index is read, and its tensors can be read one by one.
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
/// A file implements [`Tensors`], so [`save`](super::save()) converts it.
pub struct File {
    /// The path, or the name of a source of ranges.
    pub(super) location: Option<PathBuf>,
    pub(super) has_path: bool,
    pub(super) format: &'static Format,
    /// Shared with files that decode the same bytes in other ways, as is the index.
    pub(super) storage: Arc<FileStorage>,
    pub(super) index: Arc<Index>,
    /// The metadata, if it was read with the index.
    pub(super) metadata: Option<FileMetadata>,
    /// The file's number in a model of several files, if the file states it and was opened alone.
    pub(super) part: Option<FilePart>,
    pub(super) limits: Limits,
    pub(super) progress: Option<Listener>,
    pub(super) shards: Shards,
    pub(super) quantization: Quantization,
    pub(super) receipt: Option<Arc<Receipt>>,
}

/// The files opened as one; empty for a single file.
#[derive(Debug, Default, Clone)]
pub(super) struct Shards {
    /// The paths of the parts of the storage.
    pub(super) paths: Vec<PathBuf>,
    /// The metadata of the index of shards.
    pub(super) metadata: FileMetadata,
    /// The metadata of each file, if it was read with the index.
    pub(super) own: Vec<Option<FileMetadata>>,
    /// The ranges of archives in the files, in order, unless the files are archives themselves.
    pub(super) archives: Vec<Range<u64>>,
}

impl File {
    /// Opens a file: finds its format and reads its index.
    ///
    /// The file is mapped into memory when a tensor is first borrowed, if the system supports it. Everything else is
    /// read at positions. See [`OpenOptions`] for more.
    ///
    /// A mapped file must not change while it is open. If another program truncates it, reading past the new end kills
    /// the process (`SIGBUS`). [`save`](super::save()) never truncates a file, because it replaces files. If other
    /// programs may, open the file with [`Backend::Positioned`](super::Backend::Positioned), so that reading returns an
    /// error instead.
    ///
    /// With the feature `safetensors`, the path may be the index of a checkpoint in several files, such as
    /// `model.safetensors.index.json`. Its shards must all have one format, and are opened as one file, in the order of
    /// their names. The index must list all of their tensors and no others. If a path does not exist, but the index
    /// next to it does, the index is opened: the path you saved to is the path you open.
    ///
    /// A directory is opened as a checkpoint. The first of these that exists is opened:
    ///
    /// 1. `model.safetensors`, or its index `model.safetensors.index.json`, as Hugging Face saves them.
    /// 2. `pytorch_model.bin`, or its index.
    /// 3. The `.metadata` of `torch.distributed.checkpoint`, which trainers save, with the files of all processes. This
    ///    needs the feature `pytorch`.
    /// 4. The files of its `HuggingFaceStorageWriter`. This needs the feature `safetensors`.
    ///
    /// Tensors of the last two are whole, even if their parts are in several files. [`path`](Self::path) returns the
    /// opened file, or the directory if no single file stands for the others.
    ///
    /// With the feature `http`, a path that begins with `https://`, `http://` or `hf://` is [a
    /// URL](OpenOptions::open_url).
    ///
    /// ```
    /// use tensorfile::{File, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// tensorfile::save(&path, &TensorMap::from_iter([("weight", ndarray::array![1.0_f32])]))?;
    /// let file = File::open(&path)?;
    /// assert_eq!((file.format().name, file.len()), ("ten", 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// By [`category`](Error::category): `File` if it has no known format or is malformed, `Limit` if it exceeds the
    /// default [`Limits`], `Io` if it cannot be read, `Call` if the Cargo feature of its format is off
    /// ([`ErrorKind::FeatureOff`]).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    /// Opens a file in memory: a `Vec<u8>`, an `Arc<[u8]>`, a `&'static [u8]` from `include_bytes!`, or any other byte
    /// container. Nothing is copied; tensors can be borrowed from the file.
    ///
    /// The bytes must stay the same while the file is open. Otherwise, reads give errors or wrong numbers.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tensorfile::{File, TensorMap, TensorView, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32, 2.0])]);
    /// let bytes: Arc<[u8]> = ten::to_vec(&map)?.into();
    /// let file = File::from_bytes(bytes)?;
    /// let a: TensorView<'_> = file.view("a")?;
    /// assert_eq!(a.to_array::<f32>()?, ndarray::array![1.0, 2.0].into_dyn());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_bytes(file: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Self> {
        OpenOptions::new().from_bytes(file)
    }

    /// Opens a file from a reader, from start to end. Each tensor is read on demand, by one thread at a time. Nothing
    /// can be borrowed.
    ///
    /// The reader need not be buffered. [`open`](Self::open) is faster for files on disk.
    ///
    /// ```
    /// use std::io::Cursor;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32, 2.0])]);
    /// let file = File::from_reader(Cursor::new(ten::to_vec(&map)?))?;
    /// assert_eq!(file.load::<TensorMap>()?, map);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_reader(reader: impl Read + Seek + Send + 'static) -> Result<Self> {
        OpenOptions::new().from_reader(reader)
    }

    /// Returns the paths of the shards; empty if a single file was opened.
    #[must_use]
    pub fn shards(&self) -> &[PathBuf] {
        &self.shards.paths
    }

    /// Returns the opened path. `None` for bytes in memory and for a [source of ranges](super::ReadRanges). For a
    /// directory, this is the path of the opened file in it, such as the index.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.location.as_deref().filter(|_| self.has_path)
    }

    /// Returns the location of the file for messages: its path, or the [name](super::ReadRanges::name) of its source.
    /// `None` for bytes in memory.
    #[must_use]
    pub fn location(&self) -> Option<Cow<'_, str>> {
        self.location.as_deref().map(Path::to_string_lossy)
    }

    /// Returns whether both files are known to have the same bytes, without reading them. Files on a server are known
    /// to be equal by the SHA-256 that the Hugging Face hub states, or by the same URL with the same strong entity tag.
    /// Files on disk never are.
    #[must_use]
    pub fn is_known_equal(&self, other: &Self) -> bool {
        let is_mapped = self.receipt.is_some() || other.receipt.is_some();
        !is_mapped && self.storage.identity().is_some_and(|identity| other.storage.identity() == Some(identity))
    }

    /// Returns whether the file comes from a server without [ranges](super::ReadRanges::is_sequential). Its bytes only
    /// pass in order. The first read backwards requests the file again, and holds it in memory up to a
    /// [limit](crate::Limits::held).
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        self.storage.is_sequential()
    }

    /// Returns the format.
    #[must_use]
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Returns the format of the file's extension, if it differs from the actual format. The content decides how a file
    /// is read; the extension only decides between several possible formats, or without a recognized one.
    #[must_use]
    pub fn misnamed_as(&self) -> Option<&'static Format> {
        misnamed_as(self.location.as_deref()?, self.format)
    }

    /// Returns the length of the file in bytes, or of all shards.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.storage.len()
    }

    /// Returns the metadata, and reads it if it was not read with the index. Its [warnings](Self::warnings) cover the
    /// whole file.
    ///
    /// The metadata of shards is the metadata of their index, with values other than strings as JSON, followed by the
    /// metadata of each shard. The entry `total_size` of the index is left out.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn metadata(&self) -> Result<FileMetadata> {
        let mut metadata = self.untyped_metadata().map_err(|error| self.place(error))?;
        metadata.warnings.extend(self.index_warnings());
        metadata.warnings.extend(self.quantization_warning()?);
        if let FileStorage::Joined(joined) = self.own_storage() {
            if let Some(read) = self.format.metadata.read_typed {
                let mut all = Vec::new();
                for (part, path) in joined.parts().iter().zip(self.shards()) {
                    let typed = read(&mut FileReader::new(part), &self.limits);
                    all.append(&mut typed.map_err(|error| self.place(error.in_shard(path, 0)))?);
                }
                metadata.typed = Some(Arc::new(all));
            }
            return Ok(metadata);
        }
        if let Some(read) = self.format.metadata.read_typed {
            let typed = read(&mut FileReader::new(self.own_storage()), &self.limits);
            metadata.typed = Some(Arc::new(typed.map_err(|error| self.place(error))?));
        }
        Ok(metadata)
    }

    /// Returns the whole value of a PyTorch checkpoint as the program saved it: containers, numbers and texts, with
    /// [positions](Self::nth) in place of tensors. `None` for other formats, and for a folder of several files.
    ///
    /// ```
    /// use tensorfile::File;
    /// use tensorfile::model::ValueNode;
    ///
    /// // What `torch.save({"lr": 0.5}, …)` writes in the older form.
    /// let file = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00.\
    ///     \x80\x02}q\x00X\x02\x00\x00\x00lrq\x01G?\xe0\x00\x00\x00\x00\x00\x00s.\x80\x02]q\x00.";
    /// let tree = File::from_bytes(file)?.value_tree()?.expect("it is a checkpoint");
    /// let [ValueNode::Text(key), ValueNode::Float(rate), ValueNode::Dict(..)] = tree.nodes() else { panic!() };
    /// assert_eq!((&key[..], *rate), (&b"lr"[..], 0.5));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn value_tree(&self) -> Result<Option<ValueTree>> {
        let Some(read) = self.format.value_tree.filter(|_| self.own_storage().part(0).is_none()) else {
            return Ok(None);
        };
        read(&mut FileReader::with_metadata(self.own_storage()), &self.limits)
            .map(Some)
            .map_err(|error| self.place(error))
    }

    /// Compares the checksums of all parts of the file not belonging to a single tensor, such as the pickle of a
    /// PyTorch checkpoint, or a storage with several tensors. Reading a tensor compares the checksum of its own part.
    ///
    /// Only `npz` and `pytorch` have checksums, and a file of PyTorch may have none. They find accidents, not intent.
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, npz};
    ///
    /// let file = File::from_bytes(npz::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?)?;
    /// file.check_other_checksums()?;
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] if a checksum differs, and [`ErrorKind::Io`] if reading fails.
    pub fn check_other_checksums(&self) -> Result<()> {
        let Some(check) = self.format.check_others else { return Ok(()) };
        let entries = (0..self.len()).map(|i| self.index.entry(i));
        let checked = entries.filter(|entry| entry.has_checksum() || entry.is_compressed());
        let checked: HashSet<u64> = checked.map(|entry| entry.needed_from()).collect();
        if !self.shards.archives.is_empty() {
            return self.check_archives(check, checked.into_iter().collect());
        }
        let check =
            |storage: &FileStorage, checked: &HashSet<u64>| check(&mut FileReader::new(storage), &self.limits, checked);
        if let FileStorage::Joined(joined) = self.own_storage() {
            for ((part, start), path) in joined.parts().iter().zip(joined.starts()).zip(&self.shards.paths) {
                let checked = checked.iter().filter_map(|offset| offset.checked_sub(*start)).collect();
                check(part, &checked).map_err(|error| self.place(error.in_shard(path, 0)))?;
            }
            return Ok(());
        }
        check(self.own_storage(), &checked).map_err(|error| self.place(error))
    }

    /// Compares the checksums of archives in the files. Skips the parts at the offsets `checked`, which are compared
    /// elsewhere.
    fn check_archives(&self, check: CheckOthers, mut checked: Vec<u64>) -> Result<()> {
        checked.sort_unstable();
        let mut file = FileReader::new(&self.storage);
        for archive in &self.shards.archives {
            let within = |offset: u64| checked.partition_point(|checked| *checked < offset);
            let own = &checked[within(archive.start)..within(archive.end)];
            let own = own.iter().map(|offset| offset - archive.start).collect();
            let compared = check(&mut Section::new(&mut file, archive.clone()), &self.limits, &own);
            compared.map_err(|error| self.place(error.moved_by(archive.start).at(archive.start)))?;
        }
        Ok(())
    }

    /// Returns the number of tensors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there are no tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the tensors in the order of the file. No payload is read.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = FileTensor<'_>> + Clone {
        (0..self.len()).map(|i| FileTensor::new(self, i))
    }

    /// Returns the tensor at a position in the file, from 0. No payload is read.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// assert_eq!(file.nth(1).map(|tensor| tensor.name()), Some("b"));
    /// assert!(file.nth(2).is_none());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn nth(&self, position: usize) -> Option<FileTensor<'_>> {
        (position < self.len()).then(|| FileTensor::new(self, position))
    }

    /// Returns the position of the tensor with a name. A tensor without a name is named by its position, such as `3`.
    /// If several tensors have the name, as in `.ten`, returns the first position.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// assert_eq!((file.position("b"), file.position("c")), (Some(1), None));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.index.position(name)
    }

    /// Returns the tensor with a name, or at a position: `#3`, and `3` for tensors without names.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// assert_eq!(file.get("b")?.info().to_string(), "f32[1]");
    /// assert_eq!(file.get("#1")?.name(), "b");
    /// let error = file.get("c").unwrap_err();
    /// assert_eq!(error.to_string(), "ten: missing tensor `c`; the file has `a`, `b`");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Missing`]: no tensor has the name or position.
    /// - [`ErrorKind::AmbiguousName`]: several tensors have the name, as in some streams.
    #[inline]
    pub fn get(&self, name: &str) -> Result<FileTensor<'_>> {
        Ok(FileTensor::new(self, self.find(name)?))
    }

    // Inlined: returning the result takes longer than inspecting it in place.
    #[inline(always)]
    pub(super) fn find(&self, name: &str) -> Result<usize> {
        if self.index.has_repeated_names() {
            self.index.check_unique_name(name).map_err(|error| self.place(error))?;
        }
        self.index.position(name).map_or_else(|| self.find_number(name), Ok)
    }

    #[cold]
    fn find_number(&self, name: &str) -> Result<usize> {
        let i = name.strip_prefix('#').and_then(|i| i.parse().ok()).filter(|i| *i < self.len());
        i.ok_or_else(|| self.missing(name))
    }

    /// Reads a tensor.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// assert_eq!(file.tensor("a")?, map["a"]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`FileTensor::read`].
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        self.get(name)?.read()
    }

    /// Borrows a tensor from the mapped file.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::{File, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// tensorfile::save(&path, &TensorMap::from_iter([("a", array![1.0_f32, 2.0])]))?;
    /// let file = File::open(&path)?;
    /// let a = file.view("a")?;
    /// assert_eq!(a.array::<f32>()?.sum(), 3.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`FileTensor::view`].
    pub fn view(&self, name: &str) -> Result<TensorView<'_>> {
        let tensor = FileTensor::new(self, self.find(name)?);
        tensor.plain_view().map_or_else(|| tensor.view(), Ok)
    }

    /// Reads a tensor into an array of its element type and rank.
    ///
    /// ```
    /// use ndarray::{Ix1, array};
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// assert_eq!(file.array::<f32, Ix1>("a")?, array![1.0, 2.0]);
    /// let error = file.array::<f64, Ix1>("a").unwrap_err();
    /// assert!(error.to_string().contains("the file has f32[2], but expected f64"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`FileTensor::load`].
    pub fn array<A: Element, D: Dimension>(&self, name: &str) -> Result<Array<A, D>> {
        self.get(name)?.array()
    }

    /// Reads a part of a tensor, given by a range for each of its dims; see [`FileTensor::slice`].
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let table = Array2::from_shape_fn((100, 4), |(row, column)| (10 * row + column) as f32);
    /// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("table", table)]))?)?;
    /// let part = file.slice("table", &[7..9, 0..2])?;
    /// assert_eq!(part.array::<f32>()?, array![[70.0, 71.0], [80.0, 81.0]].into_dyn());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`FileTensor::slice`].
    pub fn slice(&self, name: &str, ranges: &[Range<usize>]) -> Result<Tensor> {
        self.get(name)?.slice(ranges)
    }

    /// Loads the file into a type. `T` may borrow from a mapped file.
    ///
    /// The index is compared with `T` before any payload is read. Files with up to 16 MiB of payloads are an exception,
    /// because comparing takes as long as reading: they are compared only after the first mismatch. The exception does
    /// not apply to a [source of ranges](super::ReadRanges), or if progress is reported.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use ndarray::{Array1, array};
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let arrays: BTreeMap<String, Array1<f32>> = file.load()?;
    /// assert_eq!(arrays["b"], array![3.0]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Load`]: the file does not fit `T`. The error contains the [report](Self::report), with all
    ///   differences.
    /// - By [`category`](Error::category): `File` if a payload is malformed, `Mismatch` if `T` cannot hold its numbers
    ///   or borrow it, `Io` if one cannot be read.
    pub fn load<'f, T: FromTensors<'f>>(&'f self) -> Result<T> {
        let mut value = None;
        self.load_with(node_of::<T>, &mut |source| put(&mut value, source, &FieldAttrs::NONE))?;
        Ok(value.expect("the value was loaded"))
    }

    /// Loads the file into an existing value, and keeps the memory of its arrays. The value may be the same model
    /// again, or one with shapes from its settings. Loading into fresh memory takes several times as long, because the
    /// system clears each page first.
    ///
    /// The index is [compared](Self::report_like) with the value first, so a mismatch changes nothing. Row-major arrays
    /// keep their memory, in structs, `Option`s, `Vec`s, maps and unshared pointers, if the file stores their payloads
    /// unchanged: in the same dtype, not packed, and without a checksum. Other arrays are replaced.
    ///
    /// ```
    /// use ndarray::{Array1, Array2, array};
    /// use tensorfile::{File, TensorFile, ten};
    ///
    /// #[derive(TensorFile)]
    /// struct Linear {
    ///     weight: Array2<f32>,
    ///     bias: Option<Array1<f32>>,
    /// }
    ///
    /// let new = |inputs, outputs| Linear { weight: Array2::zeros((outputs, inputs)), bias: Some(Array1::zeros(outputs)) };
    /// let trained = Linear { weight: array![[1.0, 2.0]], bias: Some(array![0.5]) };
    /// let file = File::from_bytes(ten::to_vec(&trained)?)?;
    ///
    /// let mut model = new(2, 1);
    /// let address = model.weight.as_ptr();
    /// file.load_into(&mut model)?;
    /// assert_eq!((&model.weight, model.weight.as_ptr()), (&array![[1.0, 2.0]], address));
    ///
    /// let error = file.load_into(&mut new(3, 1)).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "ten: 1 wrong shape; 1 of 2 tensors fit\nwrong shape:\n  `weight`  f32[1, 2], but expected [1, 3]"
    /// );
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load). After an error of category `File`, `Io` or `Mismatch` other than [`ErrorKind::Load`],
    /// the value is partly old and partly new.
    pub fn load_into<'f, T: FromTensors<'f>>(&'f self, value: &mut T) -> Result<()> {
        let file = self.for_type(T::NODE)?;
        let loaded = file.check(&T::schema(), Some(&*value))?;
        file.load_index(Cow::Borrowed(&file.index), Some(&loaded), false, node_of::<T>, &mut |source| {
            value.reload(source, &FieldAttrs::NONE)
        })
    }

    /// Compares the index of the file with a type. No payload is read.
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
    /// let file = OpenOptions::new().from_bytes(ten::to_vec(&map)?)?;
    /// let report = file.report::<Linear>();
    /// assert_eq!(report.to_string(), "1 missing; 1 of 1 tensor fits\nmissing:\n  `bias`  f32[_]");
    /// assert!(file.load::<Linear>().is_err_and(|error| error.to_string() == format!("ten: {report}")));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn report<T: TensorFile>(&self) -> LoadReport {
        self.compare_for(&T::schema(), None).1.report
    }

    /// Compares the index of the file with a value: with its type, and with the tensors it would be saved as. Their
    /// shapes may be known only at run time. No payload is read.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use tensorfile::{File, TensorFile, ten};
    ///
    /// #[derive(TensorFile)]
    /// struct Model {
    ///     layers: Vec<Array1<f32>>,
    /// }
    ///
    /// let file = File::from_bytes(ten::to_vec(&Model { layers: vec![array![1.0, 2.0]] })?)?;
    /// let wider = Model { layers: vec![Array1::zeros(3), Array1::zeros(3)] };
    /// assert!(file.report::<Model>().is_ok());
    /// assert_eq!(
    ///     file.report_like(&wider).to_string(),
    ///     "1 missing, 1 wrong shape; 0 of 1 tensor fits\nmissing:\n  `layers.1`  f32[3]\n\
    ///      wrong shape:\n  `layers.0`  f32[2], but expected [3]"
    /// );
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn report_like<T: TensorFile>(&self, value: &T) -> LoadReport {
        self.compare_for(&T::schema(), Some(value)).1.report
    }

    /// Returns the tensors without a place in a type, in file order. Loading `T` skips them if it allows unknown
    /// tensors.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use tensorfile::{File, TensorFile, TensorMap, ten};
    ///
    /// #[derive(TensorFile)]
    /// #[tensor(allow_unknown)]
    /// struct Model {
    ///     a: Array1<f32>,
    /// }
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32]), ("b", array![2.0])]);
    /// let file = File::from_bytes(ten::to_vec(&map)?)?;
    /// let rest: Vec<&str> = file.rest::<Model>().iter().map(|tensor| tensor.name()).collect();
    /// assert_eq!(rest, ["b"]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn rest<T: TensorFile>(&self) -> Vec<FileTensor<'_>> {
        let (file, Comparison { taken, .. }) = self.compare_for(&T::schema(), None);
        file.tensors().filter(|tensor| !taken[tensor.position()]).collect()
    }

    /// Deserializes a value of any serde type. For types that derive [`TensorFile`](trait@crate::TensorFile), use
    /// [`load`](Self::load), which compiles faster.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use tensorfile::{File, TensorMap, ten};
    ///
    /// #[derive(Deserialize)]
    /// struct Settings {
    ///     rates: Vec<f32>,
    /// }
    ///
    /// let map = TensorMap::from_iter([("rates", ndarray::array![0.1_f32, 0.2])]);
    /// let settings: Settings = File::from_bytes(ten::to_vec(&map)?)?.deserialize()?;
    /// assert_eq!(settings.rates, [0.1, 0.2]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn deserialize<'f, T: Deserialize<'f>>(&'f self) -> Result<T> {
        let mut value = None;
        let all: Vec<usize> = (0..self.len()).collect();
        self.read(Cow::Borrowed(&self.index), Some(&all), false, &mut |deserializer| {
            deserializer.read_whole(&mut |deserializer| {
                value = Some(T::deserialize(deserializer)?);
                Ok(())
            })
        })?;
        Ok(value.expect("the value was deserialized"))
    }

    /// Calls `read` to load a value from the tensors of an index of this file. `loaded` are the positions of the
    /// tensors that it reads, in that order, if they are known. They are counted and announced, so that many are read
    /// together. For a file on disk, this happens only if the value takes over memory of their own.
    fn read<'f>(
        &'f self,
        index: Cow<'f, Index>,
        loaded: Option<&[usize]>,
        takes_over: bool,
        read: &mut dyn FnMut(&mut Deserializer<'f>) -> Result<()>,
    ) -> Result<()> {
        let mut file = LoadWindow::new(&self.storage);
        match loaded {
            Some(loaded) => loaded.iter().for_each(|i| file.announce(&self.index.entry(*i), takes_over)),
            // The value may skip tensors, so reading ahead pays only if requests are slow.
            None if !self.has_sources() => {}
            None => (0..index.len()).for_each(|i| file.announce(&index.entry(i), false)),
        }
        let reader = Reader::with_index(ReaderStorage::Boxed(Box::new(file)), index, self.limits.clone());
        let reader = reader.counting(loaded.and_then(|loaded| self.count(loaded)));
        let mut deserializer = Deserializer::over(reader, self.format.name, MetadataSource::OfFile(self, None));
        let ended = read(&mut deserializer).and_then(|()| deserializer.end());
        ended.map_err(|error| self.place(error))
    }

    /// Loads a value of type `node`. Mismatches are found by comparing the index with the type, before payloads are
    /// read.
    pub(super) fn load_with<'f>(&'f self, node: fn() -> Node, load: LoadFrom<'_, 'f>) -> Result<()> {
        self.for_type(node())?.load_decoded(node, load)
    }

    /// Returns the file with the weights decoded that a type asks for: those at fields with the attribute `dequantize`.
    fn for_type(&self, node: Node) -> Result<&Self> {
        if !node.dequantizes() {
            return Ok(self);
        }
        let asked = asked_weights(&Schema::new(node), &self.index, self.quantized()?);
        match &asked.map_err(|error| self.place(error))?[..] {
            [] => Ok(self),
            #[cfg(feature = "quant")]
            weights => self.with_decoded(weights),
            #[cfg(not(feature = "quant"))]
            [(weight, _), ..] => {
                let (what, instead) = (format!("dequantize {weight}"), "enable the Cargo feature `quant`".to_owned());
                let error = Error::from(ErrorKind::Unsupported { what, instead });
                Err(self.place(error.in_tensor(weight.name())))
            }
        }
    }

    fn load_decoded<'f>(&'f self, node: fn() -> Node, load: LoadFrom<'_, 'f>) -> Result<()> {
        if self.progress.is_none() && !self.has_sources() && self.is_small() {
            // Comparing takes as long as reading small payloads, and is only needed to report a mismatch.
            return match self.load_index(Cow::Borrowed(&self.index), None, false, node, load) {
                Ok(()) => Ok(()),
                Err(error) => Err(self.check(&Schema::new(node()), None).err().unwrap_or(error)),
            };
        }
        let loaded = self.check(&Schema::new(node()), None)?;
        self.load_index(Cow::Borrowed(&self.index), Some(&loaded), true, node, load)
    }

    /// Returns whether payloads are read from a source of ranges, such as a server, where each request takes long.
    pub(super) fn has_sources(&self) -> bool {
        self.index.len() > 0 && self.storage.takes_requests(self.index.entry(0).start())
    }

    /// Begins to count the payload bytes of the tensors at these positions, if there is a progress callback.
    pub(super) fn count(&self, loaded: &[usize]) -> Option<ProgressCount<'_>> {
        let ranges = || loaded.iter().map(|i| self.index.entry(*i).range());
        let bytes = || ranges().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        self.progress.as_ref().map(|listener| listener.count(bytes()))
    }

    /// Loads a value from the tensors of an index of this file.
    pub(super) fn load_index<'f>(
        &'f self,
        index: Cow<'f, Index>,
        loaded: Option<&[usize]>,
        takes_over: bool,
        node: fn() -> Node,
        load: LoadFrom<'_, 'f>,
    ) -> Result<()> {
        self.read(index, loaded, takes_over, &mut |deserializer| deserializer.load_with(node, load))
    }

    /// Returns whether the payloads are small enough to be read before the comparison with a type.
    pub(super) fn is_small(&self) -> bool {
        const SMALL: usize = 16 << 20;

        let bytes = |i| self.index.entry(i).info().payload_bytes().unwrap_or(usize::MAX);
        (0..self.len()).map(bytes).fold(0, usize::saturating_add) <= SMALL
    }

    pub(super) fn metadata_in(&self, storage: &FileStorage, known: Option<&FileMetadata>) -> Result<FileMetadata> {
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let metadata = (self.format.reading.metadata)(&mut FileReader::with_metadata(storage), &self.limits);
        metadata.map_err(|error| error.in_format(self.format.name))
    }

    /// Returns the metadata, without the types of its entries.
    pub(super) fn untyped_metadata(&self) -> Result<FileMetadata> {
        match self.own_storage() {
            #[cfg(feature = "safetensors")]
            FileStorage::Joined(joined) => checkpoint::metadata(self, joined.parts()),
            #[cfg(feature = "safetensors")]
            storage => {
                let mut metadata = self.metadata_in(storage, self.metadata.as_ref())?;
                // A part with a stated number has its own warning.
                let path = self.path().filter(|_| self.part.is_none());
                metadata.warnings.extend(path.and_then(checkpoint::part_warning));
                Ok(metadata)
            }
            #[cfg(not(feature = "safetensors"))]
            storage => self.metadata_in(storage, self.metadata.as_ref()),
        }
    }

    /// Makes a file from several files that were opened as one.
    pub(super) fn of_shards(
        format: &'static Format,
        location: &Path,
        (storage, index): (FileStorage, Index),
        shards: Shards,
        limits: &Limits,
    ) -> Self {
        let (location, limits) = (Some(location.to_owned()), limits.clone());
        let (has_path, metadata, part, progress) = (true, None, None, None);
        let (storage, index) = (Arc::new(storage), Arc::new(index));
        let (quantization, receipt) = (Quantization::default(), None);
        Self {
            location,
            has_path,
            format,
            storage,
            index,
            metadata,
            part,
            limits,
            progress,
            shards,
            quantization,
            receipt,
        }
    }

    /// Returns a file with the same bytes and other tensors, some of which are gathered in `storage`. `recognized` are its
    /// quantized weights, if they are known.
    pub(super) fn with_tensors(&self, storage: JoinedFiles, index: Index, recognized: Option<Quantized>) -> Self {
        let wraps_file = !matches!(*self.storage, FileStorage::Joined(_));
        Self {
            location: self.location.clone(),
            has_path: self.has_path,
            format: self.format,
            storage: Arc::new(FileStorage::Joined(storage)),
            index: Arc::new(index),
            metadata: self.metadata.clone(),
            part: self.part,
            limits: self.limits.clone(),
            progress: self.progress.clone(),
            shards: self.shards.clone(),
            quantization: self.quantization.of_other_tensors(recognized, wraps_file),
            receipt: self.receipt.clone(),
        }
    }

    /// Adds the format, the path, and the shard of an error.
    pub(super) fn place(&self, error: Error) -> Error {
        let error = match error.offset().and_then(|offset| self.shard(offset)) {
            Some((path, start)) => error.in_shard(path, start),
            // A tensor in several chunks has no single offset in a file.
            None if error.offset().is_some_and(|offset| self.storage.gathered(offset).is_some()) => {
                error.without_offset()
            }
            None => error,
        };
        let error = error.in_format(self.format.name);
        match &self.location {
            Some(location) => error.in_file(location),
            None => error,
        }
    }

    /// Returns the shard at an offset of the storage, and its start.
    pub(super) fn shard(&self, offset: u64) -> Option<(&Path, u64)> {
        let (i, start) = self.storage.part(offset)?;
        Some((self.shards.paths.get(i)?, start))
    }

    /// Compares a type with the file that it is loaded from, and returns both.
    fn compare_for(&self, schema: &Schema, value: Option<&dyn Tensors>) -> (&Self, Comparison) {
        match self.for_type(schema.node()) {
            Ok(file) => (file, file.compare_like(schema, value)),
            Err(error) => {
                let mut comparison = self.compare_like(schema, value);
                comparison.report.refused.get_or_insert_with(|| error.to_string());
                (self, comparison)
            }
        }
    }

    fn compare_like(&self, schema: &Schema, value: Option<&dyn Tensors>) -> Comparison {
        compare_like(schema, &self.index, MetadataSource::OfFile(self, None), value)
    }

    /// Compares the index with a schema, and with a value. Returns the positions of the tensors to read, in the order
    /// of reading.
    pub(super) fn check(&self, schema: &Schema, value: Option<&dyn Tensors>) -> Result<Vec<usize>> {
        let Comparison { report, loaded, .. } = self.compare_like(schema, value);
        if report.is_ok() {
            return Ok(loaded);
        }
        Err(self.place(ErrorKind::Load(Box::new(report)).into()))
    }

    pub(super) fn missing(&self, name: &str) -> Error {
        let found = Unread::new(&self.index).labels(&self.index);
        self.place(ErrorKind::missing(name, found.names, found.others).into())
    }
}

impl fmt::Debug for File {
    /// Shows the path, the format and the counts, but not the tensors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut file = f.debug_struct("File");
        file.field("location", &self.location()).field("format", &self.format.name);
        file.field("tensors", &self.len()).field("file_bytes", &self.file_bytes()).finish_non_exhaustive()
    }
}

impl HasMetadata for File {
    fn entries(&self) -> Result<IndexMap<String, String>> {
        Ok(self.untyped_metadata()?.entries)
    }

    fn quantized(&self) -> Result<&Quantized> {
        self.quantized()
    }
}

impl Tensors for File {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        for tensor in self.tensors() {
            sink.tensor(&TensorRecord { name: tensor.name(), info: tensor.info(), data: &tensor, tied: None })?;
        }
        Ok(())
    }
}

impl Serialize for File {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self as &dyn Tensors).serialize(serializer)
    }
}
