//! Files on disk and at URLs: opened lazily, loaded into types, and saved whole.
//!
//! `File::open` and `load` are one road, and `load_tensor` is the same road with the name of a tensor. Apart from the
//! readers of formats, a file and the bytes of a tensor pass through:
//!
//! 1. `OpenOptions::open` (`file/open.rs`), for a path or a URL, and `OpenOptions::open_only` (`file/open.rs`), which
//!    may open just one tensor.
//! 2. `OpenOptions::find` (`file/open.rs`): the `Place`, with its bytes, its name and the files next to it. On disk,
//!    `OpenOptions::find_path` (`file/open.rs`) finds it.
//! 3. `OpenOptions::open_place` (`file/checkpoint/open.rs`). It calls
//!    `OpenOptions::recognize` (`file/checkpoint/open.rs`), which distinguishes a file, an index of shards, and a
//!    folder that a trainer saved.
//! 4. `OpenOptions::contents` (`file/open.rs`): the format, and the index.
//! 5. `FileTensor::write_to` (`file/tensor.rs`), or another method that reads.

pub mod atomic;
mod byte_map;
mod checkpoint;
mod container;
#[cfg(feature = "quant")]
mod dequantize;
#[cfg(feature = "quant")]
mod dequantized;
#[cfg(feature = "digest")]
mod digest;
mod edit;
#[expect(clippy::module_inception, reason = "the room is named after the type")]
mod file;
mod folder;
mod in_order;
mod load;
mod mapped;
mod open;
mod place;
mod quantized;
#[cfg(feature = "pytorch")]
mod rank_folder;
mod read_plan;
mod remote;
mod save;
mod stores;
mod tensor;
mod url;
mod warnings;
#[cfg(feature = "remote")]
pub use crate::remote::{Traffic, traffic};
pub use crate::storage::{AccessPattern, LentBytes, ReadCost, ReadRanges};
pub use byte_map::{ByteMap, is_aligned};
pub use container::{Container, Embedded};
#[cfg(feature = "quant")]
pub use dequantize::Dequantize;
#[cfg(feature = "quant")]
pub use dequantized::Dequantized;
pub use edit::MetadataEdit;
pub use file::File;
pub use folder::FolderFiles;
pub use load::{load, load_tensor};
pub use open::{Backend, OpenOptions};
#[cfg(feature = "pytorch")]
pub use rank_folder::{RankFolder, finish_ranks};
pub use read_plan::{PlanPiece, ReadPlan, ReadPlanBuilder, Slabs};
pub use save::{SaveOptions, SavePlan, save};
pub use stores::{ListedObject, list_objects, remove_object};
pub use tensor::FileTensor;
pub use url::{is_saved_to, shown_url};
