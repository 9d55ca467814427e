//! How a checkpoint is divided among the processes of a trainer.

use std::fmt;
use std::sync::Arc;

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
}

/// Returns the dim to cut the tensor of a name along.
type ShardDim = Arc<dyn Fn(&str) -> usize + Send + Sync>;

impl RankFolder {
    /// Divides a checkpoint among `count` processes.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { count, prefix: None, whole_below: 0, shard_dim: None }
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
        let Self { count, prefix, whole_below, .. } = self;
        f.debug_struct("RankFolder")
            .field("count", count)
            .field("prefix", prefix)
            .field("whole_below", whole_below)
            .finish_non_exhaustive()
    }
}
