//! Saves a folder as a trainer of several processes does: a file for each rank, and the metadata last.

mod plan;
mod save;

pub(in crate::file) use plan::RankPlan;
pub(in crate::file) use save::save;
