//! Arguments common to several commands.

mod cast;
mod complete;
mod dequantize;
mod filter;
mod glob;
mod input;
mod map;
mod opening;
mod patterns;
mod ranks;
mod rename;
mod slice;
mod split;
mod standard_input;
mod write;

pub use cast::Cast;
pub use complete::metadata_key;
pub use dequantize::Decoding;
pub use filter::Filter;
pub use glob::{Glob, InvalidGlob};
pub use input::{FileTable, Input, Inputs, NamedInputs, Printer, Unread, is_one_tensor};
pub use map::MapArgs;
pub use opening::{
    Warnings, display_name, file_at, format_names, is_named_shard, is_shard, location, open, open_in_order, refuse_url,
    set_config, set_map, set_max_memory, written_format_names, written_kind_names,
};
pub use patterns::{expand, expand_joined, has_extension, other_parts};
pub use ranks::RankArgs;
pub use rename::{NewNames, Rename, Unnamed};
pub use slice::{Axis, Slice};
pub use split::{SplitArgs, planning_failed};
pub use standard_input::{is_stdin, is_stream, read_lines};
pub use write::{Names, NoClobber, Target, WriteArgs, is_stdout, open_output_stream, parse_bytes};
