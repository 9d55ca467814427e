//! Planning a file and writing it: what the formats share.

mod candidates;
mod digest_check;
mod encode;
#[cfg(any(feature = "ptd", feature = "tensorbuffers"))]
mod flatbuffer;
mod io_slices;
mod layout;
pub(crate) mod name_lists;
mod options;
mod plan;
mod planner;
mod repeats;
mod row_major;
mod sharing;
mod small;
mod writer;

pub use encode::{Encode, NamePolicy};
pub use io_slices::IoSlices;
pub use layout::FileLayout;
pub use options::WriteOptions;
pub use plan::Plan;
pub use sharing::Sharing;
#[doc(hidden)]
pub use small::{SmallFile, SmallFormat, SmallTensors};
pub use writer::{FileWriter, Output, PlanWriter};

#[cfg(any(feature = "ptd", feature = "tensorbuffers"))]
pub(crate) use flatbuffer::{FlatbufferWriter, TableFields};
pub(crate) use io_slices::to_io_slices;
pub(crate) use layout::put_dims;
#[cfg(feature = "ptd")]
pub(crate) use plan::ends_too_far;
#[cfg(any(feature = "ptd", feature = "safetensors", feature = "tensorbuffers"))]
pub(crate) use plan::{Planned, PlannedTensors};
pub(crate) use planner::{check_stored_name, check_tensor, no_place_for_metadata};
pub(crate) use writer::{to_vec, to_vec_into, to_writer, write_slices};
