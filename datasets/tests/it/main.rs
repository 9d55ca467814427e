//! Shards of samples: read, written, shuffled and broken.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the numbers of tests are small")]

mod adapters;
mod broken;
mod fields;
mod interop;
mod names;
mod reading;
mod splits;
mod support;
mod writers;
mod writing;
