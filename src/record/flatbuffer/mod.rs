//! FlatBuffers, beyond what the crate `flatbuffers` does: a check that its verifier leaves out, and a writer that knows the
//! size of everything.

mod check;
mod write;

pub(crate) use check::check_table;
pub(crate) use write::FlatbufferWriter;
