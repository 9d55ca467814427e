//! Saves values by path: plans the file, writes it next to the path, and renames it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "pytorch")]
use super::RankFolder;
#[cfg(feature = "safetensors")]
use super::checkpoint;
#[cfg(feature = "pytorch")]
use super::checkpoint::{FolderKind, RankPlan};
use crate::error::{ErrorKind, Result};
#[cfg(feature = "pytorch")]
use crate::format::pytorch;
use crate::format::{Format, Options, WritesFormat, by_extension};
#[cfg(feature = "pytorch")]
use crate::model::SavedValues;
use crate::model::{TensorSink, Tensors};
use crate::remote;
use crate::storage::{
    Durability, Listener, Progress, ProgressAnswer, ProgressCount, refuse_existing, refuse_url, replace_with,
    shown_url, url_of,
};
use crate::write::{Encode, Plan, WriteOptions};

/// Saves a value to a file, in the format of the path's extension.
///
/// On success the file is complete and on disk. On failure the old file is unchanged. The new file is written next to
/// the path, flushed to disk and renamed. It gets the permissions of the old file, if there is one, and on Linux and
/// macOS also its access control list (Linux) and its user's extended attributes, as far as they can be set. A symbolic
/// link is followed. Programs with the old file open or mapped keep the old content. It is an error if the folder does
/// not allow new files, if the old file is read-only for all, or if the path is not a regular file.
///
/// A killed process leaves its unfinished file, `.NAME.N.tmp`. On Unix, the next save to the same path removes it, if
/// the file system has locks: a writer holds the lock of its file while it lives.
///
/// An index of shards with the same name stays, and so do its shards, because they may be the only copy of their
/// tensors. From then on, the path opens the new file.
///
/// With the Cargo feature `cloud`, the path may be `s3://BUCKET/KEY`, `gs://BUCKET/KEY` or `az://CONTAINER/KEY`. The
/// object is uploaded, in parts if it is long, and becomes visible once it is complete.
///
/// The value is a struct that derives [`TensorFile`](trait@crate::TensorFile), a [`TensorMap`](crate::TensorMap), an
/// open [`File`](super::File) to convert, or any other [`Tensors`]; a plain serde value is passed in a
/// [`SerdeValue`](crate::SerdeValue). Tensors, the names supported by the format, and fields with `#[tensor(metadata)]`
/// are saved, but not the metadata of a [`File`](super::File): [`WriteOptions::keep_metadata`] keeps it. Unsupported
/// names are embedded in an extra tensor; see [`WriteOptions::embed_names`].
///
/// ```
/// use tensorfile::{File, Tensor, TensorMap};
///
/// # let folder = tempfile::tempdir()?;
/// # let (ptd, tbs) = (folder.path().join("model.ptd"), folder.path().join("model.tbs"));
/// let map: TensorMap = [("weight", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
/// tensorfile::save(&ptd, &map)?;
/// tensorfile::save(&tbs, &File::open(&ptd)?)?;
/// assert_eq!(tensorfile::load::<TensorMap>(&tbs)?, map);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): no format has the extension, or the format cannot store
///   the value. Nothing has been written then.
/// - [`ErrorKind::Io`](crate::ErrorKind::Io): the file could not be written or renamed.
/// - As the `to_writer` of the format's module.
pub fn save<T: Tensors + ?Sized>(path: impl AsRef<Path>, value: &T) -> Result<()> {
    SaveOptions::new().save(path, value)
}

/// Options for saving a file.
///
/// ```
/// use tensorfile::{SaveOptions, Tensor, TensorMap};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.btf");
/// let map: TensorMap = [("weight", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
/// SaveOptions::new().no_replace(true).save(&path, &map)?;
/// assert_eq!(tensorfile::load::<TensorMap>(&path)?, map);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct SaveOptions {
    format: Option<&'static Format>,
    /// The writer of the format, if options of the format were given.
    encode: Option<Arc<dyn Encode>>,
    write: WriteOptions,
    progress: Option<Listener>,
    no_replace: bool,
    durability: Durability,
    max_shard_bytes: Option<u64>,
    keep_single: bool,
    #[cfg(feature = "pytorch")]
    ranks: Option<RankFolder>,
}

impl SaveOptions {
    /// The defaults: the format of the extension, with its default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the format. By default the extension of the path decides.
    ///
    /// ```
    /// use tensorfile::{File, Format, SaveOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("weights.bin");
    /// let ten = Format::named("ten").expect("it is always there");
    /// SaveOptions::new().format(ten).save(&path, &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// assert_eq!(File::open(&path)?.format().name, "ten");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn format(mut self, format: &'static Format) -> Self {
        self.format = Some(format);
        self.encode = None;
        self
    }

    /// Sets the format, with options of its own.
    ///
    /// They also decide on names: BTF and `.ten` embed them only with their `embed_names`.
    ///
    /// ```
    /// use ndarray::Array1;
    /// use tensorfile::{SaveOptions, TensorMap, npz, ptd};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let (arrays, model) = (folder.path().join("arrays.npz"), folder.path().join("model.ptd"));
    /// let zeros = Array1::<f32>::zeros(1000);
    /// let map = TensorMap::from_iter([("a", zeros.clone()), ("b", zeros)]);
    /// SaveOptions::new().with(npz::Options::new().compress(true)).save(&arrays, &map)?;
    /// SaveOptions::new().with(ptd::Options::new().dedup(true)).save(&model, &map)?;
    /// assert!(std::fs::metadata(&arrays)?.len() < 1000 && std::fs::metadata(&model)?.len() < 5000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with<E: WritesFormat>(mut self, options: Options<E>) -> Self {
        self.format = Some(E::format());
        self.encode = Some(options.shared_encode());
        self
    }

    /// Sets options for a format chosen at run time.
    ///
    /// ```
    /// use tensorfile::{SaveOptions, TensorMap, WriteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// let map = TensorMap::from_iter([("encoder.weight", ndarray::array![1.0_f32])]);
    /// SaveOptions::new().save(&path, &map)?;          // embeds the name, which is longer than 8 bytes
    /// let bare = SaveOptions::new().write(WriteOptions::new().embed_names(false));
    /// assert!(bare.save(&path, &map).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn write(mut self, options: WriteOptions) -> Self {
        self.write = options;
        self.encode = None;
        self
    }

    /// Calls a function while files are written: at least for every 8 MiB, and after the last byte. The files are still
    /// to be flushed to disk and renamed then. A compressed file may end before its `total`.
    ///
    /// The function returns nothing, or [`ControlFlow`](std::ops::ControlFlow): `Break` ends the save with
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled), and no file is changed or left.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use tensorfile::{ErrorKind, SaveOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// let stop = Arc::new(AtomicBool::new(true));
    /// let options = SaveOptions::new().progress({
    ///     let stop = Arc::clone(&stop);
    ///     move |_| if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    /// });
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32])]);
    /// assert!(matches!(options.save(&path, &map).unwrap_err().kind(), ErrorKind::Cancelled));
    /// assert!(!path.exists());
    /// stop.store(false, Ordering::Relaxed);
    /// options.save(&path, &map)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn progress<A: ProgressAnswer>(mut self, listener: impl Fn(Progress) -> A + Send + Sync + 'static) -> Self {
        self.progress = Some(Listener::new(listener));
        self
    }

    /// Returns an error if a file to write exists, instead of replacing it. For a value in shards, the files are the
    /// shards and their index.
    ///
    /// ```
    /// use tensorfile::{SaveOptions, Tensor, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// let map: TensorMap = [("weight", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
    /// let save = SaveOptions::new().no_replace(true);
    /// save.save(&path, &map)?;
    /// assert!(save.save(&path, &map).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The check runs before anything is written, and once more at the end. The second check does not cover shards:
    /// shards created during the save are replaced.
    #[must_use]
    pub fn no_replace(mut self, no_replace: bool) -> Self {
        self.no_replace = no_replace;
        self
    }

    /// Sets whether files are flushed to disk before they are renamed, which is the default.
    ///
    /// Without flushing, saving takes less time, because the system writes the files to disk later. A killed process
    /// still leaves the old file or the new one, but after a power failure the file may be truncated or lost.
    ///
    /// ```
    /// use tensorfile::{SaveOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("cached.ten");
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32])]);
    /// SaveOptions::new().durable(false).save(&path, &map)?;   // it can be made again
    /// assert_eq!(tensorfile::load::<TensorMap>(&path)?, map);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.durability = if durable { Durability::Flushed } else { Durability::Cached };
        self
    }

    /// Sets the maximum size of a file's tensors in bytes. Larger values are saved in shards.
    ///
    /// The shards of `model.safetensors` are `model-00001-of-00003.safetensors` and so on. Next to them is the index,
    /// `model.safetensors.index.json`, which lists the shard of each tensor and is opened instead of a single file. The
    /// tensors keep their order: a shard ends before the tensor that would exceed the maximum. A tensor larger than the
    /// maximum gets a shard of its own. Tensors with shared bytes are in the same shard. A value that fits into one
    /// file is saved as one file, without an index.
    ///
    /// ```
    /// use tensorfile::{File, SaveOptions, Tensor, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// let tensor = Tensor::from_slice(&[1.0_f32, 2.0], [2])?;
    /// let map: TensorMap = [("a", tensor.clone()), ("b", tensor.clone()), ("c", tensor)].into_iter().collect();
    /// SaveOptions::new().max_shard_bytes(16).save(&path, &map)?;
    /// assert!(path.with_file_name("model-00002-of-00002.ten").exists());
    /// let file = File::open(path.with_file_name("model.ten.index.json"))?;
    /// assert_eq!(file.load::<TensorMap>()?, map);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Replacing files
    ///
    /// All shards are written to a temporary folder first, and flushed to disk. Then they are moved out of it, and the
    /// index is replaced last. Shards in the old index are never replaced: if the names would be equal, the new shards
    /// are `model-00001-of-00003-2.safetensors` and so on, and the next save takes the first names again. The old
    /// shards are removed once the new index is in place. So the index names one complete set at any time. After a
    /// failure, the old index and shards are still there, and no new ones.
    ///
    /// A killed process can leave its temporary folder, `.model.safetensors.N.tmp`; the next save to the same path
    /// removes it, as [`save`](super::save()) does. If the process is killed while the shards and the index are
    /// renamed, it leaves shards missing from any index. The folder lists them, and the next save to the path removes
    /// them too. A folder of the same name made by anything else stays.
    ///
    /// Only shards in the old index with names of the form above are removed, and a single file `model.safetensors`,
    /// which programs prefer to the index; [`keep_single`](Self::keep_single) keeps it. If the value now fits into one
    /// file, the old index and its shards stay.
    ///
    /// Shards of GGUF state their numbers in `split.no`, `split.count` and `split.tensors.count`, and only the first
    /// one has the metadata, so llama.cpp opens them by the first shard. If the names would equal the names of old
    /// shards, they are `model.2-00001-of-00003.gguf` and so on.
    ///
    /// Concurrent saves to one path take turns to rename their files, if the file system has locks, so the last one
    /// stays, complete. [`File::open`](super::File::open) starts again if the index is replaced before all of its
    /// shards are open.
    ///
    /// # In a store
    ///
    /// With the Cargo feature `cloud`, the path may be the URL of an object in a store. The shards are uploaded one by
    /// one, and the index last, so it names one complete set at any time here too. A failed save removes the shards
    /// that it uploaded. A killed save leaves them, and the next save overwrites those with the same names. Concurrent
    /// saves to one URL do not take turns.
    #[cfg(feature = "safetensors")]
    #[must_use]
    pub fn max_shard_bytes(mut self, bytes: u64) -> Self {
        self.max_shard_bytes = Some(bytes);
        self
    }

    /// Sets whether a single file at the path stays when shards are saved. It hides the shards from anyone who opens
    /// the path, so it is only right for a file with the same tensors. Default: `false`, and it is removed when the
    /// index is in place.
    ///
    /// ```
    /// use tensorfile::{File, SaveOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32, 2.0]), ("b", ndarray::array![3.0])]);
    /// tensorfile::save(&path, &map)?;
    /// SaveOptions::new().max_shard_bytes(8).keep_single(true).save(&path, &map)?;
    /// assert!(path.exists() && path.with_file_name("model.ten.index.json").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "safetensors")]
    #[must_use]
    pub fn keep_single(mut self, keep: bool) -> Self {
        self.keep_single = keep;
        self
    }

    /// Saves a folder instead of a file: as `torch.distributed.checkpoint` saves one for a trainer of so many
    /// processes. Trainers read it into any number of processes, and so does [`File::open`](super::File::open).
    ///
    /// Each process has a file, `__R_0.distcp`, with its chunks of the tensors; `.metadata` says what is where. Pass a
    /// number of processes, or [`RankFolder`]. Tensors with the same bytes are stored several times. Values of another
    /// folder that are not tensors, such as the settings of an optimizer, are kept by
    /// [`WriteOptions::keep_metadata`].
    ///
    /// With the [format](Self::format) safetensors, it is a folder as `HuggingFaceStorageWriter` saves it, without a pickle: the
    /// file of a process is `shard-00001-model-00001-of-00001.safetensors`, and its metadata says where its chunks belong.
    ///
    /// ```
    /// use tensorfile::{File, SaveOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("step-0");
    /// let map = TensorMap::from_iter([("weight", ndarray::array![[1.0_f32, 2.0], [3.0, 4.0]])]);
    /// SaveOptions::new().ranks(2).save(&path, &map)?;
    /// assert!(path.join("__1_0.distcp").exists() && path.join(".metadata").exists());
    /// assert_eq!(File::open(&path)?.load::<TensorMap>()?, map);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The folder must be new or empty. `.metadata` gets its name last, or the files of safetensors get theirs, so a folder that
    /// opens is complete. A failed save removes what it made. A killed process leaves a folder with `.metadata.tmp`, which the
    /// next save of the same tensors takes over.
    #[cfg(feature = "pytorch")]
    #[must_use]
    pub fn ranks(mut self, ranks: impl Into<RankFolder>) -> Self {
        self.ranks = Some(ranks.into());
        self
    }

    /// As [`save`](super::save()).
    ///
    /// ```
    /// use tensorfile::{SaveOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// let options = SaveOptions::new();
    /// options.save(&path, &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// assert!(path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`save`](super::save()), and for shards [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the
    /// format would store no names.
    pub fn save<T: Tensors + ?Sized>(&self, path: impl AsRef<Path>, value: &T) -> Result<()> {
        self.save_tensors(path.as_ref(), &ByRef(value))
    }

    /// Checks that a value can be saved, and lays out its file, or its shards. Nothing is written yet.
    ///
    /// ```
    /// use tensorfile::{SaveOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.ten");
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32])]);
    /// let plan = SaveOptions::new().plan(&path, &map)?;
    /// plan.save(&map)?;
    /// assert_eq!(std::fs::metadata(&path)?.len(), plan.file_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`save`](Self::save), except errors of the file system.
    pub fn plan<T: Tensors + ?Sized>(&self, path: impl AsRef<Path>, value: &T) -> Result<SavePlan> {
        self.plan_tensors(path.as_ref(), &ByRef(value))
    }

    // These are not generic, so that the crates of users do not compile them.
    fn save_tensors(&self, path: &Path, tensors: &dyn Tensors) -> Result<()> {
        self.planned(path, tensors)?.save(path, tensors, self)
    }

    fn plan_tensors(&self, path: &Path, tensors: &dyn Tensors) -> Result<SavePlan> {
        let planned = self.planned(path, tensors)?;
        Ok(SavePlan { path: path.to_owned(), options: self.clone(), planned })
    }

    fn encode_for(&self, format: &Format, tensors: &dyn Tensors) -> Result<Arc<dyn Encode>> {
        match &self.encode {
            Some(encode) => Ok(Arc::clone(encode)),
            None if self.write.embed_names.is_none() && format.needs_embedded_names(tensors)? => {
                (format.encode)(&self.write.clone().embed_names(true))
            }
            None => (format.encode)(&self.write),
        }
    }

    // Unsupported tensors are found before a file is created.
    fn planned(&self, path: &Path, tensors: &dyn Tensors) -> Result<PlannedFiles> {
        if !super::is_saved_to(path) {
            refuse_url(path)?;
        }
        #[cfg(feature = "pytorch")]
        if let Some(ranks) = &self.ranks {
            refuse_url(path)?;
            let format = self.format.unwrap_or(&pytorch::FORMAT);
            return self.plan_ranks(format, ranks, tensors).map_err(|error| error.in_format(format.name));
        }
        let format = self.format.map_or_else(|| by_extension(path), Ok)?;
        let mut plan = Plan::empty(self.encode_for(format, tensors)?);
        #[cfg(feature = "safetensors")]
        if let Some(bytes) = self.max_shard_bytes {
            let files = checkpoint::split(plan, tensors, bytes).map_err(|error| error.in_format(format.name))?;
            return Ok(match files {
                checkpoint::Files::One(plan) => PlannedFiles::File(plan),
                checkpoint::Files::Shards(split) => PlannedFiles::Shards(split),
            });
        }
        plan.fill(tensors)?;
        Ok(PlannedFiles::File(plan))
    }
}

#[cfg(feature = "pytorch")]
impl SaveOptions {
    fn plan_ranks(&self, format: &Format, ranks: &RankFolder, tensors: &dyn Tensors) -> Result<PlannedFiles> {
        let refuse = |what: String, instead: &str| -> Result<PlannedFiles> {
            Err(ErrorKind::Unsupported { what, instead: instead.to_owned() }.into())
        };
        let Some(kind) = FolderKind::of(format) else {
            let what = format!("save {} for several ranks", format.name);
            return refuse(what, "such a folder is one of pytorch or safetensors");
        };
        if self.max_shard_bytes.is_some() {
            return refuse("limit the size of shards".to_owned(), "the files of ranks have the size of their chunks");
        }
        let encode = match kind {
            FolderKind::Dcp => pytorch::encode_copies(&self.write)?,
            FolderKind::Shards => self.encode_for(format, tensors)?,
        };
        let mut all = Plan::empty(encode);
        all.add_all(tensors)?;
        let mut saved = SavedValues::default();
        for SavedValues { paths, objects } in self.write.saved.iter().map(|saved| &**saved) {
            saved.paths.extend(paths.clone());
            saved.objects.extend(objects.clone());
        }
        all.iter().for_each(|tensor| _ = saved.objects.shift_remove(tensor.name));
        RankPlan::new(kind, all, ranks.clone(), saved).map(|plan| PlannedFiles::Ranks(Box::new(plan)))
    }
}

/// A value checked by [`SaveOptions::plan`]: the size of its files is known, and nothing is written yet.
///
/// ```
/// use ndarray::Array1;
/// use tensorfile::{SaveOptions, TensorMap};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.ten");
/// let map = TensorMap::from_iter([("bias", Array1::<f32>::zeros(1000))]);
/// let plan = SaveOptions::new().plan(&path, &map)?;
/// assert!(plan.files() == 1 && plan.file_bytes() > 4000);
/// assert_eq!(plan.path(), path);
/// assert!(!path.exists());                        // there is time to ask, or to make room
///
/// let longer = TensorMap::from_iter([("bias", Array1::<f32>::zeros(1001))]);
/// assert!(plan.save(&longer).is_err());           // not the value that was planned
/// assert!(!path.exists());
///
/// plan.save(&map)?;
/// assert_eq!(std::fs::metadata(&path)?.len(), plan.file_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SavePlan {
    path: PathBuf,
    options: SaveOptions,
    planned: PlannedFiles,
}

impl SavePlan {
    /// Returns the path of the file, or of the index of shards.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.planned {
            PlannedFiles::File(_) => self.path.clone(),
            #[cfg(feature = "safetensors")]
            PlannedFiles::Shards(_) => checkpoint::index_of(&self.path),
            #[cfg(feature = "pytorch")]
            PlannedFiles::Ranks(_) => self.path.clone(),
        }
    }

    /// Returns the size of the file in bytes, or the sum of all shards without their index.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.planned.file_bytes()
    }

    /// Returns the number of files, without an index: 1, or the number of shards.
    #[must_use]
    pub fn files(&self) -> usize {
        match &self.planned {
            PlannedFiles::File(_) => 1,
            #[cfg(feature = "safetensors")]
            PlannedFiles::Shards(split) => split.len(),
            #[cfg(feature = "pytorch")]
            PlannedFiles::Ranks(plan) => plan.files(),
        }
    }

    /// Returns the paths of the files that are written for [ranks](SaveOptions::ranks), as they are named until the folder is
    /// complete. With a [job](super::RankFolder::job), these are the files of its ranks.
    #[cfg(feature = "pytorch")]
    #[must_use]
    pub fn rank_files(&self) -> Vec<PathBuf> {
        match &self.planned {
            PlannedFiles::Ranks(plan) => plan.own_paths(&self.path),
            _ => Vec::new(),
        }
    }

    /// Saves the value, as [`SaveOptions::save`] does. It must be the planned one.
    ///
    /// # Errors
    ///
    /// As [`save`](super::save()), and [`ErrorKind::Changed`](crate::ErrorKind::Changed) if the value is not the
    /// planned one.
    pub fn save<T: Tensors + ?Sized>(&self, value: &T) -> Result<()> {
        self.planned.save(&self.path, &ByRef(value), &self.options)
    }

    /// Writes the value to a writer instead of the path. It must be the planned one.
    ///
    /// ```
    /// use tensorfile::{SaveOptions, TensorMap, ten};
    ///
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32])]);
    /// let mut file = Vec::new();
    /// SaveOptions::new().plan("model.ten", &map)?.to_writer(&mut file, &map)?;
    /// assert_eq!(file, ten::to_vec(&map)?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the value is split into shards.
    /// - [`ErrorKind::Io`](crate::ErrorKind::Io): writing failed.
    /// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the value is not the planned one.
    pub fn to_writer<T: Tensors + ?Sized>(&self, mut writer: impl Write, value: &T) -> Result<()> {
        self.planned.write(&ByRef(value), &mut writer, self.options.progress.as_ref())
    }
}

/// The layout of one file, or of all shards.
#[derive(Debug)]
enum PlannedFiles {
    File(Plan),
    #[cfg(feature = "safetensors")]
    Shards(checkpoint::Split),
    #[cfg(feature = "pytorch")]
    Ranks(Box<RankPlan>),
}

impl PlannedFiles {
    fn file_bytes(&self) -> u64 {
        match self {
            Self::File(plan) => plan.file_bytes(),
            #[cfg(feature = "safetensors")]
            Self::Shards(split) => split.file_bytes(),
            #[cfg(feature = "pytorch")]
            Self::Ranks(plan) => plan.total_bytes(),
        }
    }

    fn write(&self, tensors: &dyn Tensors, writer: &mut dyn Write, progress: Option<&Listener>) -> Result<()> {
        match self {
            Self::File(plan) => {
                let mut count = progress.map(|listener| listener.count(plan.file_bytes()));
                plan.write_stream(tensors, writer, count.as_mut())?;
                count.map_or(Ok(()), ProgressCount::finish)
            }
            #[cfg(feature = "safetensors")]
            Self::Shards(_) => {
                let (what, instead) = ("write shards to one writer", "save them to files");
                Err(ErrorKind::Unsupported { what: what.to_owned(), instead: instead.to_owned() }.into())
            }
            #[cfg(feature = "pytorch")]
            Self::Ranks(_) => {
                let (what, instead) = ("write a folder to one writer", "save it");
                Err(ErrorKind::Unsupported { what: what.to_owned(), instead: instead.to_owned() }.into())
            }
        }
    }

    fn save(&self, path: &Path, tensors: &dyn Tensors, options: &SaveOptions) -> Result<()> {
        let plan = match self {
            Self::File(plan) => plan,
            #[cfg(feature = "safetensors")]
            Self::Shards(split) => {
                let (durability, progress) = (options.durability, options.progress.as_ref());
                let saving = checkpoint::Saving { durability, progress, keeps_single: options.keep_single };
                if let Some(url) = url_of(path) {
                    let uploaded = checkpoint::upload(url, split, tensors, saving, options.no_replace);
                    return uploaded.map_err(|error| error.in_file(Path::new(&shown_url(url))));
                }
                if options.no_replace {
                    checkpoint::refuse_old(path, split, saving)?;
                }
                return checkpoint::save(path, split, tensors, saving);
            }
            #[cfg(feature = "pytorch")]
            Self::Ranks(plan) => {
                let saved = checkpoint::save_ranks(path, plan, tensors, options.durability, options.progress.as_ref());
                return saved.map_err(|error| error.in_file(path));
            }
        };
        let mut count = options.progress.as_ref().map(|listener| listener.count(plan.file_bytes()));
        if let Some(url) = url_of(path) {
            let saved = remote::save(url, plan.file_bytes(), options.no_replace, &mut |object| {
                plan.write_stream(tensors, object, count.as_mut())?;
                count.take().map_or(Ok(()), ProgressCount::finish)
            });
            return saved.map_err(|error| error.in_file(Path::new(&shown_url(url))));
        }
        if options.no_replace {
            refuse_existing(path)?;
        }
        #[cfg(feature = "safetensors")]
        checkpoint::remove_left(path)?;
        replace_with(path, options.durability, options.no_replace, |file| {
            plan.write_file(tensors, file, options.durability, count.as_mut())?;
            count.take().map_or(Ok(()), ProgressCount::finish)
        })
    }
}

/// Wraps a reference, so that tensors of an unsized type become a `dyn Tensors`.
struct ByRef<'a, T: ?Sized>(&'a T);

impl<T: Tensors + ?Sized> Tensors for ByRef<'_, T> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.0.send(sink)
    }
}
