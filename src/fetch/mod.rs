//! Reading of many ranges: which bytes are read together, and into which memory.

#[allow(dead_code, reason = "remote storages use all of it")]
mod merge;
mod piece;
mod read;
mod slice;

#[allow(unused_imports, reason = "remote storages use all of it")]
pub(crate) use merge::{Merging, Span, merge_and_cut};
pub(crate) use piece::ReadPiece;
pub(crate) use read::read_pieces;
pub(crate) use slice::TensorSlice;
