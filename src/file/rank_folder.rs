//! How a checkpoint is divided among the processes of a trainer.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::checkpoint;
use crate::error::Result;
use crate::storage::refuse_url;

/// The division of a checkpoint among the processes of a trainer, for [`SaveOptions::ranks`](super::SaveOptions::ranks).
///
/// Each tensor is cut along its first dim into chunks of `ceil(dim / ranks)` rows, one for each rank, as FSDP does. The
/// last chunks are shorter, or missing. Tensors of rank 0 and tensors without elements are not cut: the rank with the
/// fewest bytes has them. Trainers read any division; it only decides which process reads which file.
///
/// ```
/// use tensorfile::file::RankFolder;
///
/// // Tensors of less than 64 KiB stay whole, and embeddings are cut along their columns.
/// let ranks = RankFolder::new(8).replicate(64 << 10).shard_dim(|name| usize::from(name.ends_with("embed.weight")));
/// assert_eq!(ranks.count(), 8);
/// ```
#[derive(Clone)]
pub struct RankFolder {
    count: usize,
    pub(super) prefix: Option<String>,
    pub(super) whole_below: u64,
    shard_dim: Option<ShardDim>,
    /// The number of the job that saves some of the ranks, and the number of jobs.
    job: Option<(usize, usize)>,
}

/// Returns the dim to cut the tensor of a name along.
type ShardDim = Arc<dyn Fn(&str) -> usize + Send + Sync>;

impl RankFolder {
    /// Divides a checkpoint among `count` processes.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { count, prefix: None, whole_below: 0, shard_dim: None, job: None }
    }

    /// Returns the number of processes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Puts all tensors under a key of the state dict, such as `model`: `{"model": {"layers.0.weight": …}}`.
    #[must_use]
    pub fn prefix(mut self, key: impl Into<String>) -> Self {
        self.prefix = Some(key.into());
        self
    }

    /// Keeps tensors of fewer bytes whole, in the file of one rank. Default: 0.
    #[must_use]
    pub fn replicate(mut self, bytes: u64) -> Self {
        self.whole_below = bytes;
        self
    }

    /// Sets the dim to cut tensors along, by their names. Default: 0 for all.
    #[must_use]
    pub fn shard_dim(mut self, dim: impl Fn(&str) -> usize + Send + Sync + 'static) -> Self {
        self.shard_dim = Some(Arc::new(dim));
        self
    }

    /// Saves only the ranks of one of several jobs, which may run on several machines. Jobs are numbered from 1, and job 3 of
    /// 8 saves ranks 16 to 23 of 64. Each reads only the bytes of its ranks, as far as the dim to cut allows.
    ///
    /// All jobs save the same value to the same folder, with the same options. The folder opens once
    /// [`finish_ranks`](super::finish_ranks) has completed it. A job can be repeated until then.
    ///
    /// ```
    /// use tensorfile::file::{RankFolder, finish_ranks};
    /// use tensorfile::{File, SaveOptions, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("step-0");
    /// let map = TensorMap::from_iter([("weight", ndarray::array![[1.0_f32, 2.0], [3.0, 4.0]])]);
    /// SaveOptions::new().ranks(RankFolder::new(2).job(1, 2)).save(&path, &map)?;
    /// assert!(File::open(&path).is_err() && finish_ranks(&path).is_err());
    /// SaveOptions::new().ranks(RankFolder::new(2).job(2, 2)).save(&path, &map)?;
    /// finish_ranks(&path)?;
    /// assert_eq!(File::open(&path)?.load::<TensorMap>()?, map);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn job(mut self, number: usize, of: usize) -> Self {
        self.job = Some((number, of));
        self
    }

    /// Returns the number of the job and the number of all jobs, if there are several.
    pub(super) fn own_job(&self) -> Option<(usize, usize)> {
        self.job
    }

    /// Returns the ranks to save.
    pub(super) fn own_ranks(&self) -> Range<usize> {
        let Some((number, of)) = self.job else { return 0..self.count };
        // Numbers of jobs were checked, and the number of ranks is limited.
        (number - 1) * self.count / of..number * self.count / of
    }

    /// Returns the dim to cut a tensor along.
    pub(super) fn dim_of(&self, name: &str) -> usize {
        self.shard_dim.as_ref().map_or(0, |dim| dim(name))
    }
}

impl From<usize> for RankFolder {
    fn from(count: usize) -> Self {
        Self::new(count)
    }
}

impl fmt::Debug for RankFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, prefix, whole_below, job, .. } = self;
        f.debug_struct("RankFolder")
            .field("count", count)
            .field("prefix", prefix)
            .field("whole_below", whole_below)
            .field("job", job)
            .finish_non_exhaustive()
    }
}

/// Completes a folder whose [jobs](RankFolder::job) have all saved their ranks: it opens from then on. If it is complete already,
/// nothing happens. No file of a rank is read.
///
/// # Errors
///
/// - [`ErrorKind::Message`](crate::ErrorKind::Message): a job has not saved its ranks, or saved another value than the others, or
///   with other options.
/// - [`ErrorKind::Io`](crate::ErrorKind::Io): the folder cannot be read, or files in it cannot be renamed. After that, call it
///   again.
pub fn finish_ranks(folder: impl AsRef<Path>) -> Result<()> {
    refuse_url(folder.as_ref())?;
    checkpoint::finish_ranks(folder.as_ref())
}
