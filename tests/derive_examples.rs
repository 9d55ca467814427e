//! Tests the examples of the derive macro, whose own crate cannot use the crate `tensorfile`. That crate cannot test
//! them either: its package does not have the files of other crates.

#[cfg(all(doctest, feature = "ptd", feature = "safetensors"))]
#[doc = include_str!("../derive/src/examples.md")]
struct Examples;
