//! Opens files: storage backends, limits, renames, and models in several files.

use std::fs;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::Instead;
use super::file::Shards;
use super::place::Place;
use super::quantized::Quantization;
use super::{File, checkpoint};
use crate::error::{Category, Error, ErrorKind, Result, WarningKind};
use crate::format::{FORMATS, Format, detect, has_magic, recognize, unknown};
use crate::limits::Limits;
use crate::map::LayoutMap;
use crate::model::{FileMetadata, FilePart, RenameRules};
use crate::read::{Index, Reader, ReaderStorage};
use crate::storage::{AccessPattern, FileReader, FileStorage, Listener, Progress, ProgressAnswer, ReadRanges};
use crate::storage::{explain_open, open_regular, shown_url, url_of};
use crate::tensor::Tensor;

/// A way to access the bytes of an open file.
///
/// ```
/// use tensorfile::file::Backend;
/// use tensorfile::{OpenOptions, TensorMap};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.ten");
/// tensorfile::save(&path, &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
/// let file = OpenOptions::new().backend(Backend::Positioned).open(&path)?;
/// assert!(file.tensor("a").is_ok() && file.view("a").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Backend {
    /// The file is mapped into memory when a tensor is first borrowed from it. If mapping fails, or without the feature
    /// `mmap`, it is read at positions. This is the default.
    ///
    /// A mapped file must not change while it is open: borrowed tensors would change with it, and access past the new
    /// end of a truncated file kills the process (`SIGBUS`). [`save`](super::save()) never changes a file; it replaces
    /// it. If other programs may change the file, use `Positioned`. `bool`s are copied and checked, never borrowed from
    /// a mapping, because a byte other than 0 and 1 would be undefined behavior.
    #[default]
    Mapped,
    /// Each tensor is read from the file on demand. Nothing can be borrowed. If the file changes, reads give errors or
    /// wrong numbers.
    Positioned,
}

impl Backend {
    /// Makes the storage of a regular file.
    pub(super) fn storage(self, mut file: fs::File, len: u64) -> io::Result<FileStorage> {
        if !(cfg!(unix) || cfg!(windows)) {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(FileStorage::Memory(Box::new(bytes)));
        }
        if cfg!(feature = "mmap") && self == Self::Mapped {
            return Ok(FileStorage::mapped(file, len));
        }
        Ok(FileStorage::positioned(file, len))
    }
}

/// Options for opening a file.
///
/// ```
/// use tensorfile::file::Backend;
/// use tensorfile::{Format, OpenOptions};
///
/// let ten = Format::named("ten").expect("it is always there");
/// let file = OpenOptions::new().backend(Backend::Positioned).format(ten).from_bytes(Vec::new())?;
/// assert!(file.is_empty());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    backend: Backend,
    pub(super) format: Option<&'static Format>,
    pub(super) limits: Limits,
    pub(super) progress: Option<Listener>,
    denied: Vec<WarningKind>,
    pub(super) renames: RenameRules,
    /// The path of the configuration, if it is not beside the file.
    pub(super) config: Option<PathBuf>,
    pub(super) map: Option<LayoutMap>,
    #[cfg(feature = "quant")]
    dequantize: Option<super::Dequantize>,
}

impl OpenOptions {
    /// The defaults: mapped, with a detected format and the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the way to access the bytes.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Sets the format. By default it is detected from the first bytes of the file. For BTF, safetensors and zip
    /// archives, the index is checked too. The extension of the path decides only if the content does not.
    ///
    /// ```
    /// use tensorfile::{Format, OpenOptions, TensorMap, npz};
    ///
    /// // Bytes have no extension, but a format can be named.
    /// let file = npz::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// let npz = Format::named("npz").expect("the feature is on");
    /// assert_eq!(OpenOptions::new().format(npz).from_bytes(file)?.len(), 1);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn format(mut self, format: &'static Format) -> Self {
        self.format = Some(format);
        self
    }

    /// Sets the limits for reading.
    ///
    /// ```
    /// use tensorfile::{Category, Limits, OpenOptions, TensorMap, ten};
    ///
    /// let file = ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// let none = OpenOptions::new().limits(Limits::new().tensors(0));
    /// assert_eq!(none.from_bytes(file).unwrap_err().category(), Category::Limit);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Calls a function while a file is loaded whole: after each tensor, and at the end. The bytes are payload bytes as
    /// stored; borrowed ones count as read. [`File::deserialize`] cannot foresee which tensors its type skips, and
    /// counts them at the end.
    ///
    /// The function returns nothing, or [`ControlFlow`](std::ops::ControlFlow): `Break` ends the call with
    /// [`ErrorKind::Cancelled`], as in [`SaveOptions::progress`](super::SaveOptions::progress).
    ///
    /// ```
    /// use tensorfile::{OpenOptions, TensorMap, ten};
    ///
    /// let file = ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// let options = OpenOptions::new().progress(|progress| eprintln!("{} of {}", progress.bytes, progress.total));
    /// let map: TensorMap = options.from_bytes(file)?.load()?;
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn progress<A: ProgressAnswer>(mut self, listener: impl Fn(Progress) -> A + Send + Sync + 'static) -> Self {
        self.progress = Some(Listener::new(listener));
        self
    }

    /// Turns [warnings](File::warnings) of these kinds into errors when a file is opened. By default, none is denied.
    ///
    /// ```
    /// use tensorfile::report::WarningKind;
    /// use tensorfile::{ErrorKind, File, OpenOptions, TensorMap, btf};
    ///
    /// let mut file = btf::to_vec(&TensorMap::from_iter([("0", ndarray::array![1.0_f32, 2.0])]))?;
    /// file.push(0);
    /// assert!(File::from_bytes(file.clone()).is_ok());
    /// let error = OpenOptions::new().deny_warnings(WarningKind::ALL).from_bytes(file).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::Warning { warning, .. } if warning.kind == WarningKind::TrailingBytes));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn deny_warnings(mut self, kinds: &[WarningKind]) -> Self {
        kinds.clone_into(&mut self.denied);
        self
    }

    /// Renames tensors by rules, as the program's `--rename` does. A file of other software, or of an older model, then
    /// loads into a struct without an attribute for each name. Metadata keys stay unchanged.
    ///
    /// Opening fails if a rule renames no tensor, or if two tensors get the same name.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use tensorfile::view::RenameRules;
    /// use tensorfile::{OpenOptions, TensorFile, TensorMap, safetensors};
    ///
    /// #[derive(TensorFile)]
    /// struct Layer {
    ///     scale: Array1<f32>,
    /// }
    ///
    /// #[derive(TensorFile)]
    /// struct Model {
    ///     layers: Vec<Layer>,
    /// }
    ///
    /// let map = TensorMap::from_iter([("blk.0.norm.weight", array![1.0_f32]), ("blk.1.norm.weight", array![2.0])]);
    /// let rules = RenameRules::parse(["blk.*.norm.weight=layers.*.scale"])?;
    /// let file = OpenOptions::new().rename(rules).from_bytes(safetensors::to_vec(&map)?)?;
    /// assert_eq!(file.load::<Model>()?.layers[1].scale, array![2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rename(mut self, rules: RenameRules) -> Self {
        self.renames = rules;
        self
    }

    /// Sets the path of the model's configuration, which says how quantized weights are stored: bits, groups and versions. By
    /// default, `config.json` and its like are looked for beside the file, if the names of its tensors ask for them.
    ///
    /// ```
    /// use tensorfile::{OpenOptions, TensorMap, safetensors};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let config = folder.path().join("config.json");
    /// std::fs::write(&config, r#"{"quantization": {"bits": 4, "group_size": 32}}"#)?;
    /// let mut map = TensorMap::from_iter([("up.weight", ndarray::array![[0x7654_3210_u32, 0, 0, 0]])]);
    /// map.insert("up.scales", ndarray::array![[0.5_f32]]);
    /// map.insert("up.biases", ndarray::array![[-4.0_f32]]);
    /// let bytes = safetensors::to_vec(&map)?;
    /// let file = OpenOptions::new().config(&config).from_bytes(bytes)?;
    /// assert_eq!(file.quantized()?.tensors()[0].to_string(), "mlx, 4 bits, groups of 32");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn config(mut self, path: impl AsRef<Path>) -> Self {
        self.config = Some(path.as_ref().to_owned());
        self
    }

    /// Reads files in another layout, as the equations of a [map](LayoutMap) say. The tensors of the file are those of the
    /// other layout. They are put together when they are read, and a slice reads only its elements; nothing is read before but
    /// headers, and `config.json` beside the file (or the [named one](Self::config)) if the map takes numbers from it.
    ///
    /// The tensors come in the order of their first sources. [`rename`](Self::rename) renames them after the map, and
    /// [`dequantize`](Self::dequantize) decodes weights before it. [`File::receipt`] says what became of each element.
    ///
    /// Opening fails if the map does not fit ([`ErrorKind::Unmapped`]): if a tensor is missing, not used by any line, or made
    /// twice. Compressed, big-endian and sparse tensors can be kept and renamed, but their elements are not moved. Blocks,
    /// such as those of GGUF, keep their last dim.
    ///
    /// ```
    /// use ndarray::{Array1, Array3, array};
    /// use tensorfile::{LayoutMap, OpenOptions, TensorFile, TensorMap, safetensors};
    ///
    /// #[derive(TensorFile)]
    /// struct Experts {
    ///     gate_up_proj: Array3<f32>,
    ///     norm: Array1<f32>,
    /// }
    ///
    /// let names = ["0.gate", "0.up", "1.gate", "1.up"].map(|name| format!("experts.{name}.weight"));
    /// let mut one_by_one: TensorMap = (0_u8..).zip(names).map(|(i, name)| (name, array![[f32::from(i), 0.5]])).collect();
    /// one_by_one.insert("norm", array![7.0_f32]);
    ///
    /// let map = LayoutMap::parse("experts.{e}.{p:gate|up}.weight [i h] = gate_up_proj [e (p i) h]\nkeep norm")?;
    /// let file = OpenOptions::new().map(&map).from_bytes(safetensors::to_vec(&one_by_one)?)?;
    /// let experts: Experts = file.load()?;
    /// assert_eq!(experts.gate_up_proj, array![[[0.0, 0.5], [1.0, 0.5]], [[2.0, 0.5], [3.0, 0.5]]]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn map(mut self, map: &LayoutMap) -> Self {
        self.map = Some(map.clone());
        self
    }

    /// Opens files with quantized weights decoded: each is a tensor of floats in the place of its codes, and its other parts
    /// are gone. Everything reads such a tensor as any other, and decodes what it needs. It cannot be borrowed.
    ///
    /// A slice reads the codes of its groups, and their scales. Two layouts store other runs than rows: GPTQ and AWQ keep
    /// columns, so that a slice of a few inputs of all outputs is what they read at once.
    ///
    /// Weights that are not recognized for certain stay as they are stored; [`File::quantized`] lists them.
    /// [`Dequantize`](super::Dequantize) has an example.
    ///
    /// Opening fails if a chosen weight has a scheme that is recognized, but not decoded.
    #[cfg(feature = "quant")]
    #[must_use]
    pub fn dequantize(mut self, dequantize: super::Dequantize) -> Self {
        self.dequantize = Some(dequantize);
        self
    }

    /// Opens a file, or the directory of a checkpoint. A path that is a URL is passed to [`open_url`](Self::open_url).
    /// A pipe or a device is read into memory, up to a [limit](Limits::held), and only if its first bytes belong to a
    /// known format. [`read_in_order`](Self::read_in_order) reads a pipe without holding it. A socket is an error.
    ///
    /// ```
    /// use tensorfile::file::Backend;
    /// use tensorfile::{OpenOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// tensorfile::save(&path, &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// let file = OpenOptions::new().backend(Backend::Positioned).open(&path)?;
    /// assert_eq!(file.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`File::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_only(path.as_ref(), None)
    }

    /// Opens a file. With `only`, the returned file may have just the tensor with this name or position.
    fn open_only(&self, path: &Path, only: Option<&str>) -> Result<File> {
        let opened = self.find(path).and_then(|place| self.open_place(place, only));
        opened.and_then(|file| self.finish(file)).map_err(|error| at_path(error, path))
    }

    /// Finds the place of a path or a URL.
    pub(super) fn find(&self, path: &Path) -> Result<Place> {
        match url_of(path) {
            Some(url) => self.find_url(url),
            None => self.find_path(path),
        }
    }

    /// Finds the place of a path. For a directory or a missing file, returns the place of the file to open instead.
    pub(super) fn find_path(&self, path: &Path) -> Result<Place> {
        match open_file(path) {
            Ok((file, metadata)) => {
                // The metadata belongs to the open file: the path may lead to a different one by now.
                let storage = match metadata.is_file() {
                    true => self.backend.storage(file, metadata.len())?,
                    false => self.hold(file, path)?,
                };
                Ok(Place::of_file(path, storage, &metadata, self.backend))
            }
            Err(error) => match checkpoint::instead_of(path, &error)?.ok_or(error)? {
                Instead::File(found) => self.find_path(&found).map_err(|error| error.in_file(&found)),
                #[cfg(feature = "safetensors")]
                Instead::RankFiles(names) => Ok(Place::of_rank_files(path, names, self.backend)),
            },
        }
    }

    /// Returns the file with renamed tensors, unless it has a denied warning.
    pub(super) fn finish(&self, file: File) -> Result<File> {
        let mut file = self.check_warnings(file)?;
        if let Some(map) = &self.map {
            #[cfg(feature = "quant")]
            if let Some(dequantize) = &self.dequantize {
                file = file.dequantized(dequantize)?;
            }
            file = file.mapped(map)?;
        }
        if !self.renames.is_empty() {
            // The names say what the tensors are, before they are changed.
            file.recognize_by_own_names()?;
            let renamed = self.renames.check(file.tensors().map(|tensor| tensor.name()));
            let index = Arc::get_mut(&mut file.index).expect("the file was just opened");
            let renamed = renamed.and_then(|()| index.rename_by(&|i, name| self.renames.rename(i, name)));
            renamed.map_err(|error| file.place(error))?;
            file.rename_quantized(&self.renames);
        }
        #[cfg(feature = "quant")]
        if let Some(dequantize) = self.dequantize.as_ref().filter(|_| self.map.is_none()) {
            return file.dequantized(dequantize);
        }
        Ok(file)
    }

    fn check_warnings(&self, file: File) -> Result<File> {
        if self.denied.is_empty() {
            return Ok(file);
        }
        let mut denied = file.warnings()?.into_iter().filter(|warning| self.denied.contains(&warning.kind));
        let Some(warning) = denied.next() else { return Ok(file) };
        let tensor = warning.tensor.clone();
        let error = Error::from(ErrorKind::Warning { warning, others: denied.count() });
        Err(file.place(match tensor {
            Some(tensor) => error.in_tensor(tensor),
            None => error,
        }))
    }

    /// Opens a file in memory, as [`File::from_bytes`] does.
    ///
    /// ```
    /// use tensorfile::{Limits, OpenOptions, TensorMap, ten};
    ///
    /// let file = ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// let file = OpenOptions::new().limits(Limits::new().tensors(10)).from_bytes(file)?;
    /// assert_eq!(file.len(), 1);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`File::open`].
    pub fn from_bytes(&self, file: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<File> {
        self.finish(self.read(FileStorage::Memory(Box::new(file)), None)?)
    }

    /// Opens a file from a reader, as [`File::from_reader`] does.
    ///
    /// ```
    /// use std::io::Cursor;
    /// use tensorfile::{Limits, OpenOptions, TensorMap, ten};
    ///
    /// let file = Cursor::new(ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?);
    /// let file = OpenOptions::new().limits(Limits::new().tensors(10)).from_reader(file)?;
    /// assert_eq!(file.len(), 1);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`File::open`].
    pub fn from_reader(&self, reader: impl Read + Seek + Send + 'static) -> Result<File> {
        self.finish(self.read(FileStorage::reader(Box::new(reader))?, None)?)
    }

    /// Opens a regular file from an open handle, starting at its first byte. The handle's position is neither used nor
    /// changed.
    ///
    /// ```
    /// use std::fs;
    /// use tensorfile::{OpenOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// tensorfile::save(&path, &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// let file = OpenOptions::new().from_file(fs::File::open(&path)?)?;
    /// assert_eq!(file.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`File::open`], and [`io::ErrorKind::InvalidInput`] if it is a pipe, a device or a directory.
    pub fn from_file(&self, file: fs::File) -> Result<File> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a regular file").into());
        }
        self.finish(self.read(self.backend.storage(file, metadata.len())?, None)?)
    }

    /// Opens a file of any format from a source of ranges. Each tensor is read on demand. Nothing can be borrowed.
    ///
    /// [`ReadRanges`] has an example.
    ///
    /// # Errors
    ///
    /// As [`File::open`], and the errors of the source.
    pub fn open_ranges(&self, source: Arc<dyn ReadRanges>) -> Result<File> {
        let name = PathBuf::from(&*source.name());
        if name.as_os_str().is_empty() {
            return self.finish(self.read(FileStorage::ranges(source)?, None)?);
        }
        let open = || {
            let file = self.read(FileStorage::ranges(source)?, Some(&name))?;
            self.finish(File { has_path: false, ..file })
        };
        open().map_err(|error| error.in_file(&name))
    }

    /// Opens the bytes of a regular file.
    pub(super) fn open_storage(&self, path: &Path) -> Result<FileStorage> {
        let (file, metadata) = open_regular(path)?;
        Ok(self.backend.storage(file, metadata.len())?)
    }

    pub(super) fn read(&self, storage: FileStorage, path: Option<&Path>) -> Result<File> {
        let contents = self.contents(FileReader::with_index(&storage), &storage, path)?;
        Ok(self.file(storage, path, contents))
    }

    /// Finds the format of a file, and reads its index.
    pub(super) fn contents(
        &self,
        mut file: FileReader<'_>,
        all: &FileStorage,
        path: Option<&Path>,
    ) -> Result<Contents> {
        let format = self.format.map_or_else(|| detect(&mut file, path), Ok)?;
        let storage = ReaderStorage::Boxed(Box::new(file));
        let reader = Reader::new(storage, &format.reading, self.limits.clone());
        let (index, metadata, part) = reader.into_index().map_err(|error| {
            // The caller or the extension names this format, but the content may be of another one.
            if matches!(error.category(), Category::File | Category::Limit) {
                if all.len() == 0 {
                    return unknown(&[]);
                }
                // Other software may use the same magic as a format that the caller defined.
                let is_own = !FORMATS.iter().any(|known| std::ptr::eq(*known, format));
                if !(is_own && has_magic(format, &mut FileReader::with_index(all)))
                    && let Some(other) = recognize(&mut FileReader::with_index(all))
                {
                    return other;
                }
            }
            error.in_format(format.name)
        })?;
        Ok(Contents { format, index, metadata, part })
    }

    /// Reads a tensor, and only the part of the index that leads to it, if the format allows.
    pub(super) fn tensor(&self, path: &Path, name: &str) -> Result<Tensor> {
        let only = Some(name).filter(|_| !self.needs_index());
        self.open_only(path, only)?.tensor(name).map_err(|error| at_path(error, path))
    }

    /// Returns whether the whole index is needed for one tensor.
    fn needs_index(&self) -> bool {
        !self.denied.is_empty() || !self.renames.is_empty() || self.map.is_some()
    }

    /// Reads the part of an index that leads to a tensor. Returns `None` if the format has no such part. Also returns
    /// `None` after an error, because reading the whole index gives a better message.
    pub(super) fn contents_of(&self, mut file: FileReader<'_>, path: &Path, name: &str) -> Result<Option<Contents>> {
        let format = self.format.map_or_else(|| detect(&mut file, Some(path)), Ok)?;
        let storage = ReaderStorage::Boxed(Box::new(file));
        let index = Reader::new(storage, &format.reading, self.limits.clone()).loader.into_index_of(name);
        Ok(index.ok().flatten().map(|index| Contents { format, index, metadata: None, part: None }))
    }

    pub(super) fn file(&self, storage: FileStorage, path: Option<&Path>, contents: Contents) -> File {
        storage.will_be_read(AccessPattern::InOrder);
        self.file_at_random(storage, path, contents)
    }

    /// Makes a file without the hint that reading in order follows. The storage still expects scattered reads, as for
    /// an index.
    pub(super) fn file_at_random(
        &self,
        storage: impl Into<Arc<FileStorage>>,
        path: Option<&Path>,
        contents: Contents,
    ) -> File {
        let Contents { format, index, metadata, part } = contents;
        let (storage, index) = (storage.into(), Arc::new(index));
        let (location, limits) = (path.map(Path::to_owned), self.limits.clone());
        let (has_path, progress) = (true, self.progress.clone());
        let (shards, quantization) = (Shards::default(), Quantization::alone(self.config.clone()));
        let receipt = None;
        File {
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
}

/// Adds the path to an error that has none. For a URL, removes the first bytes of the file from the error, because a
/// server may have sent anything.
pub(super) fn at_path(error: Error, path: &Path) -> Error {
    match url_of(path) {
        Some(url) => error.without_beginning().in_file(Path::new(&shown_url(url))),
        None => error.in_file(path),
    }
}

/// Opens a file of any kind except a directory. The metadata belongs to the opened file.
fn open_file(path: &Path) -> io::Result<(fs::File, fs::Metadata)> {
    let file = fs::File::open(path).map_err(|error| explain_open(path, error))?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((file, metadata))
}

/// The format, the index and the metadata of a file, as read when it is opened.
pub(super) struct Contents {
    pub(super) format: &'static Format,
    pub(super) index: Index,
    pub(super) metadata: Option<FileMetadata>,
    pub(super) part: Option<FilePart>,
}
