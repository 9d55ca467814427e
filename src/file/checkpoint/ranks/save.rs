//! Writes the files of all ranks in one pass over the tensors, and completes the folder.

use std::path::Path;

use super::divide::RankWriter;
use super::folder::NewFolder;
use super::plan::RankPlan;
use super::rank_files::RankFiles;
use crate::error::Result;
use crate::model::Tensors;
use crate::storage::{Durability, Listener, ProgressCount, Turn};

/// Saves tensors to a new folder. If that fails, nothing of it is left.
pub(in crate::file) fn save(
    folder: &Path,
    plan: &RankPlan,
    tensors: &dyn Tensors,
    durability: Durability,
    progress: Option<&Listener>,
) -> Result<()> {
    let mut new = NewFolder::new(folder, plan);
    new.create_parents()?;
    let turn = Turn::wait(folder)?;
    new.begin()?;
    // Other jobs write to other files.
    let _turn = Some(turn).filter(|_| plan.job().is_none());
    let mut count = progress.map(|listener| listener.count(plan.total_bytes()));
    let mut files = RankFiles::new(folder, plan, count.as_mut());
    plan.all.write_with(tensors, Box::new(RankWriter { plan, files: &mut files }))?;
    for (object, item) in plan.own_objects() {
        files.write_at(item.rank, item.offset, object)?;
    }
    files.finish(durability)?;
    count.map_or(Ok(()), ProgressCount::finish)?;
    Ok(new.finish(durability)?)
}
