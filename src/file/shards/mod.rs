//! Checkpoints in several files, with a JSON index that lists the file of each tensor.
//!
//! ```text
//! model-00001-of-00002.safetensors
//! model-00002-of-00002.safetensors
//! model.safetensors.index.json    {"metadata": {"total_size": 96}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
//! ```
//!
//! # Specification
//!
//! There is none. `transformers` and `huggingface_hub` write such indexes of safetensors files. We read and write them for
//! every format that stores names.
//!
//! # Deviations
//!
//! - Other readers ignore tensors that the index does not list. We refuse a shard with such a tensor: it belongs to another
//!   index.
//! - Two entries of the same name are an error. In most JSON readers the later one wins.

mod index;
mod open;
mod save;

pub(super) use open::{is_index, join, metadata, read};
pub(super) use save::{Files, Split, refuse_old, remove_left, save, split};
