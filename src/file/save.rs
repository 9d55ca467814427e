use std::io::BufWriter;
use std::path::Path;

use serde::Serialize;

use crate::error::Result;
use crate::format::{Format, WriteOptions, by_extension};
use crate::wire;

/// Saves a value to a file, in the format of the path's extension.
///
/// The file is whole and on the disk when this returns, or else what was there before is still there: it is written
/// beside the path, flushed to the disk, and renamed. An old file's permissions are kept, a new one gets those that new
/// files get; a symbolic link is followed. Who has the old file open, or mapped, keeps it as it was. A folder that lets
/// nobody create files in it, and what is not a regular file, cannot be saved to, and the error says so.
///
/// The value is a struct that derives [`TensorFile`](trait@crate::TensorFile), a [`TensorMap`](crate::TensorMap), an
/// opened [`File`](super::File), which that converts, or any other value that the format's `to_writer` takes.
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

    /// As [`save`](super::save()).
    ///
    /// # Errors
    ///
    /// As [`save`](super::save()).
    pub fn save<T: Serialize + ?Sized>(&self, path: impl AsRef<Path>, value: &T) -> Result<()> {
        let path = path.as_ref();
        let format = self.format.map_or_else(|| by_extension(path), Ok)?;
        // What cannot be stored is found before a file is made.
        format.file_bytes(value, &self.write)?;
        wire::replace(path, |new| format.to_writer(BufWriter::with_capacity(BUFFER, new), value, &self.write))
    }
}
