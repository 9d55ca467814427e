//! Arguments common to several commands.

mod cast;
mod complete;
mod filter;
mod glob;
mod input;
mod rename;
mod slice;
mod split;
mod write;

pub use cast::Cast;
pub use complete::metadata_key;
pub use filter::Filter;
pub use glob::{Glob, InvalidGlob};
pub use input::{
    FileTable, Input, Inputs, NamedInputs, Printer, Unread, Warnings, display_name, expand, expand_joined, file_at,
    format_names, has_extension, is_named_shard, is_one_tensor, is_shard, is_stdin, is_stream, location, open,
    open_in_order, other_parts, read_lines, refuse_url, set_max_memory, written_format_names,
};
pub use rename::{NewNames, Rename, Unnamed};
pub use slice::{Axis, Slice};
pub use split::{SplitArgs, planning_failed};
pub use write::{Names, NoClobber, Target, WriteArgs, is_stdout, open_output_stream, parse_bytes};
