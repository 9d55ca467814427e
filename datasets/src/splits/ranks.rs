//! The parts of a trainer's folder that several jobs write.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tensorfile::digest::Digest;
use tensorfile::file::finish_ranks;

use super::part::digest_of;
use super::refused;
use crate::error::{Error, Result};

/// The files that a [job](tensorfile::file::RankFolder::job) has written, to be passed to [`commit_ranks`]. As JSON, it is a line
/// of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RankPart {
    /// The number of the job, from 1 on.
    pub job: usize,
    /// The number of all jobs.
    pub of: usize,
    /// The files of its ranks.
    pub files: Vec<RankFile>,
}

/// The file of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RankFile {
    /// The name, before the folder is complete: `__3_0.distcp`.
    pub name: String,
    /// The length in bytes.
    pub bytes: u64,
    /// The BLAKE3 digest of the bytes.
    pub digest: Digest,
}

impl RankPart {
    /// Reads the files that a job has written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](tensorfile::ErrorKind::Io) if a file cannot be read.
    pub fn of(job: usize, of: usize, files: &[PathBuf]) -> Result<Self> {
        let file = |path: &PathBuf| {
            let bytes = fs::metadata(path).map_err(|error| Error::with_path(error.into(), path))?.len();
            let digest = digest_of(path, bytes)?.ok_or_else(|| refused(format!("{} changes", path.display())))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(RankFile { name, bytes, digest })
        };
        Ok(Self { job, of, files: files.iter().map(file).collect::<Result<_>>()? })
    }
}

/// Checks that every job has its part and that no file was changed since, and completes the folder, as
/// [`finish_ranks`] does. With `reads_files`, digests are compared, and else only lengths.
///
/// The order of `parts` does not matter, and you may pass a part twice. You can call it again with the same result.
///
/// ```
/// use tensorfile::file::RankFolder;
/// use tensorfile::{File, SaveOptions, TensorMap};
/// use tensorfile_datasets::splits::{RankPart, commit_ranks};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("step-0");
/// let map = TensorMap::from_iter([("weight", ndarray::array![[1.0_f32, 2.0], [3.0, 4.0]])]);
/// let work = |job| -> Result<RankPart, Box<dyn std::error::Error>> {
///     let plan = SaveOptions::new().ranks(RankFolder::new(4).job(job, 2)).plan(&path, &map)?;
///     plan.save(&map)?;
///     Ok(RankPart::of(job, 2, &plan.rank_files())?)
/// };
/// let parts = [work(2)?, work(1)?];
/// assert!(commit_ranks(&path, &parts[..1], true).is_err());
/// commit_ranks(&path, &parts, true)?;
/// assert_eq!(File::open(&path)?.load::<TensorMap>()?, map);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Message`](tensorfile::ErrorKind::Message), and nothing is changed: the part of a job is missing, there are two
/// that differ, or a file is missing or was changed. As [`finish_ranks`].
pub fn commit_ranks(folder: impl AsRef<Path>, parts: &[RankPart], reads_files: bool) -> Result<()> {
    let folder = folder.as_ref();
    let checked = check(folder, parts, reads_files).map_err(|error| error.in_shard(&folder.to_string_lossy()));
    checked.and_then(|()| finish_ranks(folder).map_err(Error::from))
}

fn check(folder: &Path, parts: &[RankPart], reads_files: bool) -> Result<()> {
    let Some(first) = parts.first() else { return Err(refused("there are no parts".to_owned())) };
    let mut by_job: BTreeMap<usize, &RankPart> = BTreeMap::new();
    for part in parts {
        let RankPart { job, of, .. } = part;
        if *of != first.of {
            return Err(refused(format!("job {} is one of {}, and job {job} one of {of}", first.job, first.of)));
        }
        if *job == 0 || job > of {
            return Err(refused(format!("there is no job {job} of {of}")));
        }
        if by_job.insert(*job, part).is_some_and(|known| known != part) {
            return Err(refused(format!("job {job} of {of} was done twice, with different files")));
        }
    }
    let gap = by_job.keys().zip(1..).find(|(job, number)| *job != number).map(|(_, number)| number);
    if let Some(missing) = gap.or(Some(by_job.len() + 1).filter(|number| *number <= first.of)) {
        return Err(refused(format!("the part of job {missing} of {} is missing", first.of)));
    }
    for part in by_job.into_values() {
        part.files.iter().try_for_each(|file| check_file(folder, part, file, reads_files))?;
    }
    Ok(())
}

fn check_file(folder: &Path, part: &RankPart, file: &RankFile, reads_files: bool) -> Result<()> {
    let RankFile { name, bytes, digest } = file;
    let in_job = format!("the file `{}` of job {}", name.escape_debug(), part.job);
    // A name leads out of the folder only if somebody changed the line.
    if name.contains(['/', '\\']) {
        return Err(refused(format!("{in_job} is not in the folder")));
    }
    // The folder may be complete already.
    let complete = name.strip_suffix(".tmp").unwrap_or(name);
    let path = [name.as_str(), complete].map(|name| folder.join(name)).into_iter().find(|path| path.exists());
    let Some(path) = path else { return Err(refused(format!("{in_job} is missing"))) };
    let found = fs::metadata(&path)?.len();
    let changed = |what: &str| refused(format!("{in_job} changed after it was written: {what}; do the job again"));
    if found != *bytes {
        return Err(changed(&format!("it has {found} bytes instead of {bytes}")));
    }
    if reads_files && digest_of(&path, *bytes)? != Some(*digest) {
        return Err(changed("it has other bytes"));
    }
    Ok(())
}
