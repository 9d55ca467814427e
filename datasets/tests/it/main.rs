//! Shards of samples: read, written, shuffled and broken.

mod adapters;
mod broken;
mod names;
mod reading;
mod support;
mod writing;
