//! Tests of the C interface from Rust. `../c`, `../cpp` and `../../go` have the programs in other languages, which
//! `../../test.sh` builds and runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod header;
mod symbols;

use std::path::PathBuf;

/// The folder of the package.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
