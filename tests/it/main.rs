//! All integration tests, in one program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::cast_possible_truncation, reason = "the numbers of tests are small")]

mod support;

mod allocation;
mod architecture;
#[cfg(all(feature = "npz", feature = "npy"))]
mod bools;
mod call_path;
mod cast;
#[cfg(feature = "pytorch")]
mod checkpoint;
#[cfg(all(feature = "gguf", feature = "ptd", feature = "pytorch", feature = "tensorbuffers"))]
#[cfg(not(target_env = "msvc"))]
mod compile_once;
mod containers;
#[cfg(feature = "pytorch")]
mod dcp;
#[cfg(feature = "pytorch")]
mod dcp_writing;
mod derive;
mod derive_by_position;
mod derive_combinations;
pub mod derive_pass;
#[cfg(feature = "digest")]
mod digest;
#[cfg(all(feature = "ptd", feature = "pytorch", feature = "tensorbuffers"))]
mod documentation;
mod every_format;
mod file;
mod first_day;
#[cfg(target_os = "linux")]
mod fork;
mod formats;
#[cfg(all(feature = "npz", feature = "ptd", feature = "safetensors", feature = "tensorbuffers"))]
mod guide;
mod hostile_traits;
#[cfg(target_os = "linux")]
mod huge;
mod interop;
#[cfg(target_os = "linux")]
mod limits;
mod loading;
#[cfg(all(feature = "gguf", feature = "npz", feature = "safetensors"))]
mod map;
mod memory_safety;
mod metadata;
mod not_tensors;
mod packages;
mod plans;
mod print;
mod progress;
#[cfg(all(feature = "gguf", feature = "safetensors"))]
mod quant;
mod ranges;
#[cfg(feature = "pytorch")]
mod rank_folders;
#[cfg(all(feature = "ptd", feature = "pytorch", feature = "tensorbuffers"))]
mod readme;
mod release;
#[cfg(all(
    feature = "gguf",
    feature = "http",
    feature = "npz",
    feature = "ptd",
    feature = "pytorch",
    feature = "safetensors",
    feature = "tensorbuffers"
))]
mod remote;
#[cfg(feature = "ptd")]
mod report;
mod serde;
#[cfg(feature = "safetensors")]
mod shards;
#[cfg(unix)]
mod special_files;
mod stats;
mod views;
mod warnings;
