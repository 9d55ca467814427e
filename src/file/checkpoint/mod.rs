//! Checkpoints of several files: shards, numbered parts, the folders of trainers, and the directory of a checkpoint.

mod absent;
mod chunked;
#[cfg(feature = "pytorch")]
mod dcp;
mod directory;
#[cfg(feature = "safetensors")]
mod rank_files;
#[cfg(feature = "safetensors")]
mod shards;
mod trainers;

pub(super) use absent::{instead_of, only_in_folder};
#[cfg(feature = "pytorch")]
pub(super) use dcp::{absent, is_metadata};
pub(super) use directory::{
    INDEX_EXTENSION, Instead, METADATA, begins_as_pickle, file_names, index_of, is_index_name, own_checkpoint,
};
#[cfg(feature = "safetensors")]
pub(super) use rank_files::is_one as is_rank_file;
#[cfg(feature = "safetensors")]
pub(super) use shards::{
    Files, Saving, Split, all_parts, check_part, is_index, join, join_parts, metadata, part_names, part_warning, read,
    refuse_old, remove_left, save, split,
};
pub(super) use trainers::find_model;
