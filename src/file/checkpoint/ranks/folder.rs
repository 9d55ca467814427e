//! A folder under construction.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hashbrown::HashSet;

use super::finish::complete;
use super::kind::{UNFINISHED, job_metadata, job_of};
use super::plan::RankPlan;
use crate::error::Result;
use crate::file::checkpoint::directory::{UNFINISHED_METADATA, file_names};
use crate::storage::Durability;

/// A folder under construction. Dropping it before it is finished removes what was made.
pub(super) struct NewFolder<'a> {
    folder: &'a Path,
    plan: &'a RankPlan,
    /// The folders that were made, the outermost first.
    created: Vec<PathBuf>,
    is_begun: bool,
    is_finished: bool,
}

impl<'a> NewFolder<'a> {
    pub(super) fn new(folder: &'a Path, plan: &'a RankPlan) -> Self {
        Self { folder, plan, created: Vec::new(), is_begun: false, is_finished: false }
    }

    pub(super) fn create_parents(&mut self) -> io::Result<()> {
        let parents = self.folder.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty());
        let missing: Vec<&Path> = parents.take_while(|parent| !parent.exists()).collect();
        missing.into_iter().rev().try_for_each(|parent| self.create(parent).map(drop))
    }

    /// Creates a folder. Returns whether it is new.
    fn create(&mut self, folder: &Path) -> io::Result<bool> {
        match fs::create_dir(folder) {
            Ok(()) => {
                self.created.push(folder.to_owned());
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates the folder, or takes one that is empty, that a killed process left with the same metadata, or that other
    /// jobs write to.
    pub(super) fn begin(&mut self) -> Result<()> {
        if !self.create(self.folder)? {
            check_left(self.folder, self.plan)?;
        }
        self.is_begun = true;
        match self.plan.job() {
            // A job has no metadata until all of its files are there.
            Some(_) => remove(&self.metadata())?,
            None => fs::write(self.metadata(), &self.plan.metadata)?,
        }
        Ok(())
    }

    /// Returns the path of the metadata while the folder is not complete.
    fn metadata(&self) -> PathBuf {
        let job = self.plan.job().map(|(number, of)| job_metadata(number, of));
        self.folder.join(job.as_deref().unwrap_or(UNFINISHED_METADATA))
    }

    /// Completes the folder, or the part of a job.
    pub(super) fn finish(&mut self, durability: Durability) -> io::Result<()> {
        let metadata = self.metadata();
        if self.plan.job().is_some() {
            let written = metadata.with_extension("part");
            fs::write(&written, &self.plan.metadata)?;
            durability.flush(&fs::OpenOptions::new().write(true).open(&written)?)?;
            // The metadata must not reach the disk before the names of the files.
            durability.flush_folder(&metadata)?;
            fs::rename(written, &metadata)?;
            self.is_finished = true;
            return durability.flush_folder(&metadata);
        }
        durability.flush(&fs::OpenOptions::new().write(true).open(&metadata)?)?;
        let files = self.plan.own_files().map(|rank| self.plan.kind.unfinished_file(rank).into());
        complete(self.folder, self.plan.kind, &[metadata], files, durability)?;
        self.is_finished = true;
        durability.flush_folder(self.folder)
    }
}

impl Drop for NewFolder<'_> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // The error of saving matters more than one of these.
        if self.is_begun {
            for rank in self.plan.own_files() {
                let kind = self.plan.kind;
                // A killed process may have given some files their names, and without metadata they would be a checkpoint.
                for name in [kind.unfinished_file(rank), kind.file(rank)] {
                    let _ = fs::remove_file(self.folder.join(name));
                }
            }
            let metadata = self.metadata();
            let _ = fs::remove_file(metadata.with_extension("part"));
            let _ = fs::remove_file(metadata);
        }
        self.created.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Refuses a folder that is neither empty nor left by a killed process that was to write the same, nor written to by other
/// jobs of this one.
fn check_left(folder: &Path, plan: &RankPlan) -> Result<()> {
    let refuse = |name: &Path, why: &str| -> Result<()> {
        let message = format!("is a folder with `{}`{why}; save to a new folder, or empty it", name.display());
        Err(io::Error::new(io::ErrorKind::AlreadyExists, message).into())
    };
    let names = file_names(folder)?;
    let Some(first) = names.first() else { return Ok(()) };
    let unfinished = Path::new(UNFINISHED_METADATA);
    let jobs = plan.job().map(|(_, of)| of);
    if jobs.is_none() && names.iter().all(|name| name != unfinished) {
        return refuse(first, "");
    }
    let ranks = 0..plan.file_bytes.len();
    let files: HashSet<PathBuf> = ranks.map(|rank| plan.kind.unfinished_file(rank).into()).collect();
    // Of a folder that was killed while its files got their names.
    let is_renamed = |name: &Path| files.contains(Path::new(&format!("{}{UNFINISHED}", name.display())));
    let is_own = |name: &&PathBuf| match jobs {
        None => **name == *unfinished || files.contains(*name) || is_renamed(name),
        Some(jobs) => files.contains(*name) || job_of(&name.with_extension("tmp")).is_some_and(|(_, of)| of == jobs),
    };
    if let Some(other) = names.iter().find(|name| !is_own(name)) {
        return refuse(other, "");
    }
    // It may have been killed while it wrote the metadata.
    if jobs.is_none() && !plan.metadata.starts_with(&fs::read(folder.join(unfinished))?) {
        return refuse(unfinished, ", which a save with other arguments left");
    }
    Ok(())
}
