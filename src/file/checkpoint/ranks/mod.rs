//! Saves a folder as a trainer of several processes does: a file for each rank, and what makes the folder one last.

mod divide;
mod finish;
mod folder;
mod kind;
mod plan;
mod rank_files;
mod save;
mod shards;

pub(in crate::file) use finish::finish_ranks;
pub(in crate::file) use kind::FolderKind;
pub(in crate::file) use plan::RankPlan;
pub(in crate::file) use save::save;
