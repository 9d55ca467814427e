//! The kinds of folders, and the names of their files.

use std::path::Path;

use crate::format::pytorch::write_dcp::rank_file;
use crate::format::{Format, pytorch, safetensors};

/// What the files of a folder are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::file) enum FolderKind {
    /// Archives of chunks, and a file with the metadata: `torch.distributed.checkpoint`.
    Dcp,
    /// Files of safetensors, each with the metadata of its chunks: `HuggingFaceStorageWriter`.
    Shards,
}

impl FolderKind {
    /// Returns the kind with files of a format.
    pub(in crate::file) fn of(format: &Format) -> Option<Self> {
        match format.name {
            name if name == pytorch::FORMAT.name => Some(Self::Dcp),
            name if name == safetensors::FORMAT.name => Some(Self::Shards),
            _ => None,
        }
    }

    /// Returns the name of the file of a rank.
    pub(super) fn file(self, rank: usize) -> String {
        match self {
            Self::Dcp => rank_file(rank),
            Self::Shards => format!("shard-{:05}-model-00001-of-00001.safetensors", rank + 1),
        }
    }

    /// Returns its name while the folder is not complete. Nobody can read archives without their metadata.
    pub(super) fn unfinished_file(self, rank: usize) -> String {
        match self {
            Self::Dcp => self.file(rank),
            Self::Shards => self.file(rank) + UNFINISHED,
        }
    }
}

/// The end of a name that a file loses when the folder is complete.
pub(super) const UNFINISHED: &str = ".tmp";

/// Returns the name of the metadata of a folder that is not complete, as one job of several has saved it.
pub(super) fn job_metadata(number: usize, of: usize) -> String {
    format!(".metadata.{number}-of-{of}.tmp")
}

/// Returns the number of a job, and of all jobs, for the name of its metadata.
pub(super) fn job_of(name: &Path) -> Option<(usize, usize)> {
    let numbers = name.to_str()?.strip_prefix(".metadata.")?.strip_suffix(UNFINISHED)?;
    let (number, of) = numbers.split_once("-of-")?;
    let job = (number.parse().ok()?, of.parse().ok()?);
    ((1..=job.1).contains(&job.0) && name == Path::new(&job_metadata(job.0, job.1))).then_some(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_known_by_the_names_of_their_metadata() {
        assert_eq!(job_of(Path::new(".metadata.3-of-8.tmp")), Some((3, 8)));
        for other in [
            ".metadata.tmp",
            ".metadata.03-of-8.tmp",
            ".metadata.3-of-8",
            "metadata.3-of-8.tmp",
            ".metadata.9-of-8.tmp",
        ] {
            assert_eq!(job_of(Path::new(other)), None, "{other}");
        }
    }
}
