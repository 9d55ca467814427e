//! Output: standard output, messages, tables, numbers and charts.

pub mod json;
mod messages;
pub mod numbers;
mod pixels;
pub mod plot;
mod stdout;
mod table;
pub mod tensors;
mod text;
pub mod warnings;

pub use messages::{Progress, be_quiet, detail, error, escape, escape_bytes, note};
pub use stdout::{Each, FAINT, HEADER, JsonList, Stdout, Wide};
pub use table::{Column, Columns, Table, shorten, wrap};
