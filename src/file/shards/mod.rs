//! Checkpoints in several files, with an index of JSON that tells which tensor is in which.
//!
//! ```text
//! model-00001-of-00002.safetensors
//! model-00002-of-00002.safetensors
//! model.safetensors.index.json    {"metadata": {"total_size": 96}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
//! ```
//!
//! # Specification
//!
//! There is none; it is what `transformers` and `huggingface_hub` write, and others read, of safetensors. We write and
//! read it of every format that stores names.
//!
//! # Deviations
//!
//! - Whoever else reads such an index looks for the tensors that it lists, and never sees another one. We refuse a shard
//!   that has more: it belongs to another index.
//! - A name twice, which readers of JSON mostly let the later one win, is an error.

mod index;
mod open;
mod save;

pub(super) use open::{is_index, join, metadata, read};
pub(super) use save::{save, split};
