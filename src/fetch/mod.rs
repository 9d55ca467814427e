//! Reads many ranges: decides which bytes are read together, and into which memory.

mod blocks;
mod merge;
mod moves;
mod piece;
mod read;
mod send;
mod slice;
mod tiling;
mod window;

pub(crate) use blocks::SharedBlocks;
pub(crate) use merge::{Merging, Span, merge_and_cut};
pub(crate) use moves::{MoveAxis, MoveCheck, MoveCheckKind, Moves, TensorMove, boxes, fill_boxes};
pub(crate) use piece::ReadPiece;
pub(crate) use read::read_pieces;
pub(crate) use slice::TensorSlice;
pub(crate) use tiling::check_tiling;
pub(crate) use window::LoadWindow;
