//! Reading of many ranges: which bytes are read together, and into which memory.

#[allow(dead_code, reason = "its users come next")]
mod merge;

#[allow(unused_imports, reason = "its users come next")]
pub(crate) use merge::{Merging, Span, merge, merge_and_cut};
