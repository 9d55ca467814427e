//! The C interface of `tensorfile`: `tensorfile.h`.
//!
//! Every type and function has the name that it has in C, and its documentation is the header's: the header is made
//! from this source by `cbindgen`, which is run by hand, and a test compares the two.
//!
//! C passes pointers, so the types of Rust cannot prove what they point to. All `unsafe` blocks are in `pointers.rs`,
//! with the rules for them. The functions in [`entry`] take pointers and pass them on.

#![expect(non_camel_case_types, reason = "types have their names of C")]

mod callbacks;
mod dtype;
pub mod entry;
mod error;
mod file;
mod options;
mod plan;
mod pointers;
mod read;
mod report;
mod types;
mod writer;

pub use dtype::tf_dtype;
pub use error::{tf_error, tf_status};
pub use file::{tf_file, tf_tensor};
pub use plan::tf_plan;
pub use report::tf_report;
pub use types::*;
pub use writer::tf_writer;

use error::{Failure, Result};
