//! Tests the examples of the derive macro. The macro's own crate cannot test them: it cannot depend on the crate
//! `tensorfile`, and `tensorfile`'s package does not have the files of the macro's crate.

#[cfg(all(doctest, feature = "ptd", feature = "safetensors"))]
#[doc = include_str!("../derive/src/examples.md")]
struct Examples;

#[cfg(all(doctest, feature = "ptd", feature = "safetensors"))]
#[doc = include_str!("../derive/README.md")]
struct Readme;
