//! New files: complete and durable, or the old file stays.

mod lock;
mod new_file;
mod replace;
mod set;
mod temporary;

pub use lock::FileLock;
pub(crate) use new_file::{WriteBehind, allocate};
pub(crate) use replace::{Durability, ReplaceStep, StagedFile, look, refuse_existing, replace, replace_with};
pub(crate) use set::{FileSet, Turn, turn_path};
pub(crate) use temporary::Temporary;
#[cfg(test)]
pub(crate) use temporary::failpoint;
pub(crate) use temporary::{Journal, exit_without_saving, finish_left_sets, has_left_sets, remove_left_for};
