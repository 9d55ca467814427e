//! The fuzz targets, as plain functions of bytes. `fuzz/` runs them with libFuzzer, and `tests/replay.rs` on all kept
//! inputs.
//!
//! A target panics on a wrong result, and if it takes more memory or time than its input justifies.

#![allow(clippy::unwrap_used, reason = "a panic is how a target reports a finding")]
#![allow(clippy::cast_possible_truncation, reason = "inputs are small")]

mod append;
mod backends;
mod budget;
pub mod c_calls;
mod codegen;
mod convert;
#[path = "../../../tests/it/support/dcp_writer.rs"]
mod dcp_writer;
mod diff;
mod filter;
mod folder;
mod index;
mod input;
mod json;
mod large;
mod map;
// Also registers the allocator that counts, in every program with this library.
#[path = "../../../tests/it/support/memory.rs"]
#[allow(dead_code, reason = "only tests measure what is held")]
mod memory;
mod model;
mod one_tensor;
mod program;
mod quantized;
mod read;
mod rename;
mod round_trip;
mod rows;
mod samples;
mod server;
mod shards;
mod slice;
mod stats;
mod stream;
mod tar;
#[path = "../../../tests/it/support/verifier.rs"]
mod verifier;

/// A named function of an input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the target, and of the folder with its inputs.
    pub name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "read", run: read::run, seeds: samples::files },
    Target { name: "one_tensor", run: one_tensor::run, seeds: one_tensor::seeds },
    Target { name: "stream", run: stream::run, seeds: stream::seeds },
    Target { name: "index", run: index::run, seeds: index::seeds },
    Target { name: "large", run: large::run, seeds: large::seeds },
    Target { name: "round_trip", run: round_trip::run, seeds: round_trip::seeds },
    Target { name: "convert", run: convert::run, seeds: samples::all_files },
    Target { name: "append", run: append::run, seeds: append::seeds },
    Target { name: "shards", run: shards::run, seeds: shards::seeds },
    Target { name: "tar", run: tar::run, seeds: tar::seeds },
    Target { name: "folder", run: folder::run, seeds: folder::seeds },
    Target { name: "server", run: server::run, seeds: server::seeds },
    Target { name: "quantized", run: quantized::run, seeds: quantized::seeds },
    Target { name: "map", run: map::run, seeds: map::seeds },
    Target { name: "json", run: json::run, seeds: json::seeds },
    Target { name: "slice", run: slice::run, seeds: slice::seeds },
    Target { name: "filter", run: filter::run, seeds: filter::seeds },
    Target { name: "rename", run: rename::run, seeds: rename::seeds },
    Target { name: "codegen", run: codegen::run, seeds: codegen::seeds },
    Target { name: "stats", run: stats::run, seeds: stats::seeds },
    Target { name: "diff", run: diff::run, seeds: diff::seeds },
    Target { name: "c_calls", run: c_calls::run, seeds: c_calls::seeds },
    Target { name: "program", run: program::run, seeds: program::seeds },
];

impl Target {
    /// Returns the target of that name.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn named(name: &str) -> Self {
        *TARGETS.iter().find(|target| target.name == name).expect("no target has this name")
    }

    /// Calls the target, and ends the process if it takes too long.
    pub fn run(&self, input: &[u8]) {
        budget::in_time(self.name, || (self.run)(input));
    }

    /// Returns the seeds.
    #[must_use]
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }
}
