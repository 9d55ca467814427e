//! Planning a file and writing it: what the formats share.

mod candidates;
mod digest_check;
mod encode;
mod file_writer;
#[cfg(any(feature = "ptd", feature = "tensorbuffers"))]
mod flatbuffer;
mod io_slices;
mod layout;
pub(crate) mod name_lists;
mod options;
mod plan;
mod planned;
mod planner;
mod repeats;
mod row_major;
mod sharing;
mod small;
mod small_format;
mod writer;
#[cfg(feature = "npz")]
pub(crate) mod zip;

pub use encode::{Encode, LentEncode, NamePolicy};
pub use file_writer::{FileWriter, Output};
pub use io_slices::IoSlices;
pub use layout::FileLayout;
pub use options::WriteOptions;
pub use plan::Plan;
pub use planned::{Planned, PlannedIter, PlannedTensors};
pub use sharing::Sharing;
pub use small_format::{SmallFile, SmallFormat, SmallTensors};
pub use writer::PlanWriter;

pub(crate) use file_writer::write_slices;
#[cfg(any(feature = "ptd", feature = "tensorbuffers"))]
pub(crate) use flatbuffer::{BuiltTable, slot};
pub(crate) use io_slices::to_io_slices;
pub(crate) use layout::put_dims;
pub(crate) use planned::ends_too_far;
pub(crate) use planned::is_position;
pub(crate) use planner::{check_stored_name, check_tensor};
pub(crate) use repeats::may_repeat;
pub(crate) use writer::{to_vec, to_vec_into, to_writer};
