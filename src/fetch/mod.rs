//! Reading of many ranges: which bytes are read together, and into which memory.

#[cfg(feature = "safetensors")]
mod chunks;
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "remote storages use the rest"))]
mod merge;
mod piece;
mod read;
mod slice;
#[cfg(feature = "safetensors")]
mod tiling;

#[cfg(feature = "safetensors")]
pub(crate) use chunks::{Chunks, TensorChunk};
#[cfg_attr(not(feature = "http"), allow(unused_imports, reason = "remote storages use the rest"))]
pub(crate) use merge::{Merging, Span, merge_and_cut};
pub(crate) use piece::ReadPiece;
pub(crate) use read::read_pieces;
pub(crate) use slice::TensorSlice;
#[cfg(feature = "safetensors")]
pub(crate) use tiling::check_tiling;
