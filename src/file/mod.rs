//! Files on disk: opened lazily, loaded into types, and saved whole.

pub mod atomic;
mod byte_map;
mod checkpoint;
mod container;
#[cfg(feature = "digest")]
mod digest;
mod edit;
#[expect(clippy::module_inception, reason = "the room is named after the type")]
mod file;
mod folder;
mod in_order;
mod load;
mod open;
mod read_plan;
#[cfg(feature = "remote")]
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
pub use edit::MetadataEdit;
pub use file::File;
pub use folder::FolderFiles;
pub use load::{load, load_tensor};
pub use open::{Backend, OpenOptions};
pub use read_plan::{PlanPiece, ReadPlan, ReadPlanBuilder, Slabs};
pub use save::{SaveOptions, SavePlan, save};
pub use stores::{ListedObject, list_objects, remove_object};
pub use tensor::FileTensor;
pub use url::{is_saved_to, shown_url};
