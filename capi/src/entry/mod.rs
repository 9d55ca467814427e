//! The functions of `tensorfile.h`.
//!
//! The lint about unsafe code counts the attribute that gives a function its name, so it is off here. There is no unsafe
//! block: pointers go on to `pointers.rs`, whose rules say what they have to be.

#![allow(unsafe_code, reason = "functions have their names of C")]

mod file;
mod library;
mod plan;
mod tensor;
mod writer;

pub use file::*;
pub use library::*;
pub use plan::*;
pub use tensor::*;
pub use writer::*;
