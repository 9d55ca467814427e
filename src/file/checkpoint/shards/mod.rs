//! Checkpoints of several files, with a JSON index that lists the file of each tensor.
//!
//! ```text
//! model-00001-of-00002.safetensors
//! model-00002-of-00002.safetensors
//! model.safetensors.index.json    {"metadata": {"total_size": 96}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
//! ```
//!
//! # Specification
//!
//! There is none. `transformers` and `huggingface_hub` write indexes of safetensors files. We read and write them for
//! every format with names.
//!
//! # Deviations
//!
//! - As other readers do, we omit tensors missing from the index, or listed in another shard, with a warning.
//! - Shards of GGUF also state their numbers, as llama.cpp expects. They are opened as one file without an index, too.
//! - Two entries of the same name are an error. In most JSON readers the later one wins.

mod index;
mod join;
mod open;
mod parts;
mod save;
mod upload;

pub(super) use index::is_file_name;
pub(in crate::file) use join::metadata;
pub(super) use open::is_index;
pub(super) use parts::part_names;
pub(in crate::file) use parts::part_warning;
pub(in crate::file) use save::{Files, Saving, Split, refuse_old, remove_left, save, split};
pub(in crate::file) use upload::upload;
