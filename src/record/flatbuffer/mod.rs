//! FlatBuffers: a reader that needs no verifier before it, and a writer that knows the size of everything.
//!
//! # Specification
//!
//! The [FlatBuffers internals](https://flatbuffers.dev/internals/).

mod read;
mod write;

pub(crate) use read::{FlatbufferReader, Table, Tables};
pub(crate) use write::{FlatbufferWriter, TableFields};
