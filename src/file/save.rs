use std::fs;
use std::io::BufWriter;
use std::path::Path;

use serde::Serialize;

#[cfg(feature = "shards")]
use super::shards;
use crate::error::Result;
use crate::format::{Format, WriteOptions, by_extension};
#[cfg(feature = "shards")]
use crate::model::Part;
use crate::wire;

/// Saves a value to a file, in the format of the path's extension.
///
/// The file is whole and on the disk when this returns, or else what was there before is still there: it is written
/// beside the path, flushed to the disk, and renamed. An old file's permissions are kept, a new one gets those that new
/// files get; a symbolic link is followed. Who has the old file open, or mapped, keeps it as it was. A folder that lets
/// nobody create files in it, and what is not a regular file, cannot be saved to, and the error says so.
///
/// The value is a struct that derives [`TensorFile`](trait@crate::TensorFile), a [`TensorMap`](crate::TensorMap), an
/// opened [`File`](super::File), which that converts, or any other value that the format's `to_writer` takes. Only tensors
/// and the names that the format stores are saved: of a file, what else it says goes along by
/// `WriteOptions::new().metadata(file.metadata()?.entries)`, and names can be embedded; see [`WriteOptions`].
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
pub fn save<T: Serialize + ?Sized>(path: impl AsRef<Path>, value: &T) -> Result<()> {
    SaveOptions::new().save(path, value)
}

/// How a file is saved.
///
/// ```
/// use tensorfile::{SaveOptions, Tensor, TensorMap, WriteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.btf");
/// let map: TensorMap = [("weight", Tensor::from_slice(&[1.0_f32, 2.0], [2])?)].into_iter().collect();
/// SaveOptions::new().write(WriteOptions::new().embed_names(true)).save(&path, &map)?;
/// assert_eq!(tensorfile::load::<TensorMap>(&path)?, map);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct SaveOptions {
    format: Option<&'static Format>,
    write: WriteOptions,
    #[cfg(feature = "shards")]
    max_shard_bytes: Option<u64>,
}

/// The most that small writes are gathered to.
const BUFFER: usize = 64 * 1024;

impl SaveOptions {
    /// The defaults: the format of the extension, and how it writes by itself.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The format, whatever the extension.
    #[must_use]
    pub fn format(mut self, format: &'static Format) -> Self {
        self.format = Some(format);
        self
    }

    /// How the format writes.
    #[must_use]
    pub fn write(mut self, options: WriteOptions) -> Self {
        self.write = options;
        self
    }

    /// The most bytes that the tensors of one file may take: what has more is saved in shards.
    ///
    /// The shards of `model.safetensors` are `model-00001-of-00003.safetensors` and so on, and beside them is
    /// `model.safetensors.index.json`, which tells what tensor is where and is opened in place of the one file. The
    /// tensors keep their order: a shard ends where the next tensor would be too much. A tensor that is too much by itself
    /// has a shard of its own, and tensors that share their bytes in the format are all in the shard of the first. What
    /// fits one file is saved as that, without an index.
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
    /// # What is replaced when
    ///
    /// All files are written beside their places first, and what was there stays as it is until each is whole and on the
    /// disk. Then the shards get their names, and the index the last of all. A set of another number of shards has other
    /// names, so its index leads to it until the new index takes its place. Where the names are the same, the old index is
    /// removed before the first shard is replaced: a crash or a failure in between leaves shards of both sets and no index,
    /// never an index that leads to a mixture.
    ///
    /// Files of an older set are left alone, if they have other names: its shards, the file without shards,
    /// `model.safetensors`, which programs may prefer to the index, and, where what is saved now fits one file, the index,
    /// which still leads to the old shards.
    #[cfg(feature = "shards")]
    #[must_use]
    pub fn max_shard_bytes(mut self, bytes: u64) -> Self {
        self.max_shard_bytes = Some(bytes);
        self
    }

    /// As [`save`](super::save()).
    ///
    /// # Errors
    ///
    /// As [`save`](super::save()); in shards also [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the
    /// format would store no names.
    pub fn save<T: Serialize + ?Sized>(&self, path: impl AsRef<Path>, value: &T) -> Result<()> {
        let path = path.as_ref();
        let format = self.format.map_or_else(|| by_extension(path), Ok)?;
        #[cfg(feature = "shards")]
        if let Some(bytes) = self.max_shard_bytes
            && let Some(parts) = shards::split(format, value, &self.write, bytes)?
        {
            let check = |part: &Part<'_, T>| format.file_bytes(part, &self.write).map(drop);
            return shards::save(path, &parts, check, |file, part| self.fill(file, format, part), value);
        }
        // What cannot be stored is found before a file is made.
        format.file_bytes(value, &self.write)?;
        wire::replace(path, |new| self.fill(new, format, value))
    }

    fn fill<T: Serialize + ?Sized>(&self, file: &mut fs::File, format: &Format, value: &T) -> Result<()> {
        format.to_writer(BufWriter::with_capacity(BUFFER, file), value, &self.write)
    }
}
