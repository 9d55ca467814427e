//! Checkpoints of several files: shards, numbered parts, the folders of trainers, and the directory of a checkpoint.

mod absent;
mod chunked;
#[cfg(feature = "pytorch")]
mod dcp;
mod directory;
mod open;
#[cfg(feature = "safetensors")]
mod rank_files;
#[cfg(feature = "pytorch")]
mod ranks;
#[cfg(feature = "safetensors")]
mod shards;
#[cfg(feature = "safetensors")]
mod siblings;
mod trainers;

pub(super) use absent::{instead_of, no_checkpoint_among};
pub(super) use directory::{
    INDEX_EXTENSION, Instead, METADATA, NAMES, PICKLE, begins_as_pickle, file_names, index_of, is_index_name,
    own_checkpoint,
};
#[cfg(feature = "safetensors")]
pub(super) use rank_files::is_one as is_rank_file;
#[cfg(feature = "pytorch")]
pub(super) use ranks::{FolderKind, RankPlan, finish_ranks, save as save_ranks};
#[cfg(feature = "safetensors")]
pub(super) use shards::{Files, Saving, Split, metadata, part_warning, refuse_old, remove_left, save, split, upload};
pub(super) use trainers::find_model;
