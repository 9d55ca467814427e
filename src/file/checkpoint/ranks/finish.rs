//! Gives the files of a folder the names by which it opens.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::kind::{FolderKind, UNFINISHED, job_of};
use crate::error::{Error, ErrorKind, Result};
use crate::file::checkpoint::directory::{METADATA, PICKLE, file_names, own_checkpoint};
use crate::file::checkpoint::is_rank_file;
use crate::storage::Durability;

/// Completes a folder whose files are there. The first metadata becomes that of the folder; the others are removed.
pub(super) fn complete(
    folder: &Path,
    kind: FolderKind,
    metadata: &[PathBuf],
    files: impl Iterator<Item = PathBuf>,
    durability: Durability,
) -> io::Result<()> {
    let metadata_path = folder.join(METADATA);
    // The metadata must not reach the disk before the names of the files.
    durability.flush_folder(&metadata_path)?;
    let left = match kind {
        FolderKind::Dcp => {
            let (first, others) = metadata.split_first().expect("a folder has metadata");
            fs::rename(first, &metadata_path)?;
            others
        }
        FolderKind::Shards => {
            for file in files {
                let name = without_end(&file).expect("only such files are left");
                fs::rename(folder.join(file), folder.join(name))?;
            }
            durability.flush_folder(&metadata_path)?;
            metadata
        }
    };
    left.iter().try_for_each(fs::remove_file)?;
    durability.flush_folder(&metadata_path)
}

/// Returns the name of a file when the folder is complete, if it has another one before.
fn without_end(file: &Path) -> Option<PathBuf> {
    file.to_str()?.strip_suffix(UNFINISHED).map(PathBuf::from)
}

/// Completes a folder whose jobs have all saved their ranks. If it is complete already, nothing happens.
pub(in crate::file) fn finish_ranks(folder: &Path) -> Result<()> {
    let names = file_names(folder).map_err(|error| Error::from(error).in_file(folder))?;
    finish_jobs(folder, &names).map_err(|error| error.in_file(folder))
}

fn finish_jobs(folder: &Path, names: &[PathBuf]) -> Result<()> {
    let refuse = |message: String| -> Result<()> { Err(ErrorKind::Message(message).into()) };
    let mut jobs: Vec<(usize, usize, &PathBuf)> =
        names.iter().filter_map(|name| job_of(name).map(|(number, of)| (number, of, name))).collect();
    jobs.sort_unstable();
    let Some(&(first_number, of, first)) = jobs.first() else {
        let is_complete = own_checkpoint(folder)?.is_some();
        return if is_complete { Ok(()) } else { refuse("no job has saved its ranks here".to_owned()) };
    };
    if let Some((_, other, name)) = jobs.iter().find(|(_, other, _)| *other != of) {
        return refuse(format!("`{}` is of {of} jobs, and `{}` of {other}", first.display(), name.display()));
    }
    let is_left = |name: &&PathBuf| without_end(name).is_some_and(|name| is_rank_file(&name));
    // It may have been killed while it was completed: when all files had their names, and some metadata was removed.
    let has_names = |name: &PathBuf| name == Path::new(METADATA) || is_rank_file(name);
    let was_completed = names.iter().any(has_names) && !names.iter().any(|name| is_left(&name));
    let gap = jobs.iter().zip(1..).find(|((found, ..), number)| found != number);
    let missing = gap.map(|(_, number)| number).or(Some(jobs.len() + 1).filter(|number| *number <= of));
    if let Some(missing) = missing.filter(|_| !was_completed) {
        return refuse(format!("job {missing} of {of} has not saved its ranks"));
    }
    let expected = fs::read(folder.join(first))?;
    for (number, of, name) in &jobs {
        if fs::read(folder.join(name))? != expected {
            return refuse(format!(
                "job {number} of {of} saved another value than job {first_number}, or in another way"
            ));
        }
    }
    let kind = if expected.first() == Some(&PICKLE) { FolderKind::Dcp } else { FolderKind::Shards };
    let metadata: Vec<PathBuf> = jobs.iter().map(|(.., name)| folder.join(name)).collect();
    let left = names.iter().filter(is_left).cloned();
    Ok(complete(folder, kind, &metadata, left, Durability::Flushed)?)
}
