//! Opens files: storage backends, limits, renames, and models in several files.

use std::fs;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::Instead;
use super::file::Shards;
use super::{File, FileTensor, checkpoint};
use crate::error::{Category, Error, ErrorKind, Result, WarningKind};
use crate::format::{FORMATS, Format, detect, has_magic, recognize, unknown};
use crate::limits::Limits;
use crate::model::{FileMetadata, FilePart, RenameRules};
use crate::read::{Index, Reader, ReaderStorage};
use crate::storage::{AccessPattern, FileReader, FileStorage, Listener, Progress, ProgressAnswer, explain_open};
use crate::storage::{FilePool, FileVersion, ReadRanges, open_regular, url_of};
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

    /// Sets the format. By default it is detected: by the first bytes of the file, for BTF, safetensors and zip
    /// archives by a look at its index, and by the extension of its path if the content decides nothing.
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

    /// Renames tensors by rules, as `--rename` of the program does: a file of other software, or of an older model,
    /// then loads into a struct without an attribute for each name. Metadata keys stay unchanged.
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

    /// Opens a file, or the directory of a checkpoint. A pipe or a device is read into memory, up to a
    /// [limit](Limits::held), and only if its first bytes are of a known format. [`read_in_order`](Self::read_in_order)
    /// reads one without holding it. A socket is an error. A path that is a URL is [opened](Self::open_url) as one.
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
        let path = path.as_ref();
        if let Some(url) = url_of(path) {
            return self.open_url(url);
        }
        self.open_path(path).and_then(|file| self.finish(file)).map_err(|error| error.in_file(path))
    }

    /// Returns the file with renamed tensors, unless it has a denied warning.
    pub(super) fn finish(&self, file: File) -> Result<File> {
        let mut file = self.check_warnings(file)?;
        if !self.renames.is_empty() {
            let renamed = self.renames.check(file.tensors().map(|tensor| tensor.name()));
            let renamed = renamed.and_then(|()| file.index.rename_by(&|i, name| self.renames.rename(i, name)));
            renamed.map_err(|error| file.place(error))?;
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

    pub(super) fn open_path(&self, path: &Path) -> Result<File> {
        let opened = match open_file(path) {
            Ok(opened) => opened,
            Err(error) => {
                return match checkpoint::instead_of(path, &error)?.ok_or(error)? {
                    Instead::File(found) => self.open_path(&found).map_err(|error| error.in_file(&found)),
                    #[cfg(feature = "safetensors")]
                    Instead::RankFiles(paths) => self.open_rank_files(path, paths),
                };
            }
        };
        let (storage, _metadata) = self.storage(opened, path)?;
        #[cfg(feature = "pytorch")]
        if checkpoint::is_metadata(&storage, path)? {
            return self.open_saved_folder(&storage, path, None);
        }
        #[cfg(not(feature = "pytorch"))]
        if path.file_name().is_some_and(|name| name == checkpoint::METADATA) {
            return Err(crate::format::saved_folder_off());
        }
        // The bytes read to find the format are not read again for the index.
        #[cfg_attr(not(feature = "safetensors"), expect(unused_mut, reason = "only an index of shards is read here"))]
        let mut reader = FileReader::with_index(&storage);
        #[cfg(feature = "safetensors")]
        if checkpoint::is_index(&mut reader, &storage, path, self.format.is_some())? {
            return self.open_shards(storage, FileVersion::new(Some(&_metadata)), path);
        }
        #[cfg(not(feature = "safetensors"))]
        if checkpoint::is_index_name(path) {
            return Err(crate::format::shards_off());
        }
        let contents = self.contents(reader, &storage, Some(path));
        let contents = contents.map_err(|error| checkpoint::only_in_folder(path).unwrap_or(error))?;
        self.with_other_parts(storage, path, contents)
    }

    /// Returns a file, joined with the remaining parts of its model if they are next to it.
    fn with_other_parts(&self, storage: FileStorage, path: &Path, contents: Contents) -> Result<File> {
        let file = self.file(storage, Some(path), contents);
        #[cfg(feature = "safetensors")]
        if let Some(part) = file.part
            && let Some(paths) = checkpoint::all_parts(path, &part)
        {
            return self.open_parts(file, &part, &paths, path);
        }
        Ok(file)
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

    /// Opens a regular file that is open already, from its first byte on. Its position does not matter, and stays.
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
        self.finish(self.read(self.regular(file, metadata.len())?, None)?)
    }

    /// Opens a file in a source of ranges: of any format, whatever keeps its bytes. Each tensor is read on demand. Nothing
    /// can be borrowed.
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
        Ok(self.regular(file, metadata.len())?)
    }

    /// Makes the storage of an open file with its metadata: the path may lead to a different file by now.
    fn storage(&self, (file, metadata): (fs::File, fs::Metadata), path: &Path) -> Result<(FileStorage, fs::Metadata)> {
        let storage = if metadata.is_file() { self.regular(file, metadata.len())? } else { self.hold(file, path)? };
        Ok((storage, metadata))
    }

    pub(super) fn regular(&self, mut file: fs::File, len: u64) -> io::Result<FileStorage> {
        if !(cfg!(unix) || cfg!(windows)) {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(FileStorage::Memory(Box::new(bytes)));
        }
        if cfg!(feature = "mmap") && self.backend == Backend::Mapped {
            return Ok(FileStorage::mapped(file, len));
        }
        Ok(FileStorage::positioned(file, len))
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
            // The call or the name says what the file should be, but it is something else.
            if matches!(error.category(), Category::File | Category::Limit) {
                if all.len() == 0 {
                    return unknown(&[]);
                }
                // The magic of a format of the caller may be that of other software too.
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
        if let Some(url) = url_of(path) {
            return self.tensor_at_url(url, name);
        }
        if self.needs_index() {
            return self.open(path)?.tensor(name);
        }
        self.tensor_in(path, name).map_err(|error| error.in_file(path))
    }

    fn tensor_in(&self, path: &Path, name: &str) -> Result<Tensor> {
        let opened = match open_file(path) {
            Ok(opened) => opened,
            Err(error) => {
                return match checkpoint::instead_of(path, &error)?.ok_or(error)? {
                    Instead::File(found) => self.tensor(&found, name),
                    #[cfg(feature = "safetensors")]
                    Instead::RankFiles(_) => self.open(path)?.tensor(name),
                };
            }
        };
        let (storage, _) = self.storage(opened, path)?;
        #[cfg(feature = "pytorch")]
        if checkpoint::is_metadata(&storage, path)? {
            // The whole folder says which names there are, and what is wrong.
            return match self.open_saved_folder(&storage, path, Some(name)).and_then(|file| file.tensor(name)) {
                Ok(tensor) => Ok(tensor),
                Err(_) => self.open(path)?.tensor(name),
            };
        }
        #[cfg_attr(not(feature = "safetensors"), expect(unused_mut, reason = "only an index of shards is read here"))]
        let mut reader = FileReader::with_index(&storage);
        #[cfg(feature = "safetensors")]
        if checkpoint::is_index(&mut reader, &storage, path, self.format.is_some())? {
            // A shard may be gone if the index is replaced in the meantime.
            return match self.tensor_in_shard(&storage, path, name) {
                Ok(Some(tensor)) => Ok(tensor),
                _ => self.open(path)?.tensor(name),
            };
        }
        #[cfg(not(feature = "safetensors"))]
        if checkpoint::is_index_name(path) {
            return self.open(path)?.tensor(name);
        }
        let Some(contents) = self.contents_of(reader, path, name)? else {
            let contents = self.contents(FileReader::with_index(&storage), &storage, Some(path))?;
            return self.with_other_parts(storage, path, contents)?.tensor(name);
        };
        // The system would read on past the tensor if more of the file were to follow.
        FileTensor::new(&self.file_at_random(storage, Some(path), contents), 0).read()
    }

    /// Returns whether the whole index is needed for one tensor.
    pub(super) fn needs_index(&self) -> bool {
        !self.denied.is_empty() || !self.renames.is_empty()
    }

    /// Reads the part of an index that leads to a tensor. Returns `None` if the format has no such part, or if something is
    /// wrong: the whole index says what.
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

    /// A file still read at random, as for its index.
    pub(super) fn file_at_random(&self, storage: FileStorage, path: Option<&Path>, contents: Contents) -> File {
        let Contents { format, index, metadata, part } = contents;
        let (location, limits) = (path.map(Path::to_owned), self.limits.clone());
        let (has_path, progress) = (true, self.progress.clone());
        File { location, has_path, format, storage, index, metadata, part, limits, progress, shards: Shards::default() }
    }
}

#[cfg(feature = "safetensors")]
impl OpenOptions {
    /// Opens the remaining numbered files of a model, and joins all of them.
    fn open_parts(&self, open: File, part: &FilePart, paths: &[PathBuf], path: &Path) -> Result<File> {
        let (mut files, mut open, pool) = (Vec::with_capacity(paths.len()), Some(open), Arc::default());
        for (number, path) in (0..).zip(paths) {
            let file = match open.take_if(|_| number == part.index) {
                Some(open) => open,
                None => self.open_in_pool(path, &pool)?,
            };
            let checked = checkpoint::check_part(&file, number, part.count);
            checked.map_err(|error| error.in_format(file.format.name).in_shard(path, 0))?;
            files.push(file);
        }
        let file = checkpoint::join_parts(files, path, &self.limits)?;
        Ok(File { progress: self.progress.clone(), ..file })
    }

    /// Opens a file that may be closed between reads.
    pub(super) fn open_in_pool(&self, path: &Path, pool: &Arc<FilePool>) -> Result<File> {
        let (file, metadata) =
            open_regular(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let storage = self.regular(file, metadata.len())?.pooled(pool, path, &metadata);
        self.read(storage, Some(path)).map_err(|error| error.in_shard(path, 0))
    }

    /// Opens the shards of an index as one file.
    ///
    /// If the index is replaced in the meantime, its shards may be gone, or others may have their names.
    fn open_shards(&self, mut storage: FileStorage, mut version: FileVersion, path: &Path) -> Result<File> {
        /// Enough even for a writer that saves continuously.
        const ATTEMPTS: u32 = 100;

        let mut attempt = 0;
        loop {
            // Until the end of the attempt, `storage` keeps the system from using the identity of the index again.
            let opened = self.open_shards_once(&storage, path);
            attempt += 1;
            let now = FileVersion::of(path);
            if now == version || attempt == ATTEMPTS {
                return opened;
            }
            let (again, metadata) = self.storage(open_file(path)?, path)?;
            (storage, version) = (again, FileVersion::new(Some(&metadata)));
        }
    }

    fn open_shards_once(&self, storage: &FileStorage, path: &Path) -> Result<File> {
        let index = checkpoint::read(storage, &self.limits)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let pool = Arc::default();
        let open = |(shard, tensors): (&str, Vec<&str>)| self.open_shard(&folder.join(shard), tensors[0], &pool);
        let files = index.shards().into_iter().map(open).collect::<Result<Vec<_>>>()?;
        let file = checkpoint::join(index, files, path, &self.limits)?;
        Ok(File { progress: self.progress.clone(), ..file })
    }

    fn open_shard(&self, path: &Path, tensor: &str, pool: &Arc<FilePool>) -> Result<File> {
        // A pipe named by an index must not block.
        let (file, metadata) = open_regular(path).map_err(|error| {
            if let io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory = error.kind() {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let what = format!("the index says that `{tensor}` is in `{name}`, which {error}");
                return Error::from(ErrorKind::Malformed { what });
            }
            let message = format!("{}: {error}; the index says that `{tensor}` is in it", path.display());
            io::Error::new(error.kind(), message).into()
        })?;
        let storage = self.regular(file, metadata.len())?.pooled(pool, path, &metadata);
        self.read(storage, Some(path)).map_err(|error| error.in_shard(path, 0))
    }

    fn tensor_in_shard(&self, index: &FileStorage, path: &Path, name: &str) -> Result<Option<Tensor>> {
        let index = checkpoint::read(index, &self.limits)?;
        let Some(shard) = index.shard_of(name) else { return Ok(None) };
        self.open_shard(&path.with_file_name(shard), name, &Arc::default())?.tensor(name).map(Some)
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

/// The parts of a file read for opening it.
pub(super) struct Contents {
    pub(super) format: &'static Format,
    pub(super) index: Index,
    pub(super) metadata: Option<FileMetadata>,
    pub(super) part: Option<FilePart>,
}
