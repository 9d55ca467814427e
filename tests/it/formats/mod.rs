//! Bytes and messages, format by format.
//!
//! Files are written out by hand, from the specifications, because our writer is no evidence for our reader, and our
//! reader none for our writer.

mod btf;
mod changed;
mod errors;
#[cfg(all(feature = "npz", feature = "ptd", feature = "safetensors"))]
mod executorch;
#[cfg(all(feature = "ptd", feature = "tensorbuffers"))]
mod flatbuffer;
#[cfg(feature = "gguf")]
mod gguf;
mod hostile;
mod layouts;
mod lists_of_names;
#[cfg(feature = "npy")]
mod npy;
#[cfg(feature = "npz")]
mod npz;
mod others;
#[cfg(feature = "ptd")]
mod ptd;
#[cfg(feature = "pytorch")]
pub mod pytorch;
#[cfg(feature = "pytorch")]
mod pytorch_writing;
#[cfg(feature = "safetensors")]
mod safetensors;
mod ten;
#[cfg(feature = "tensorbuffers")]
mod tensorbuffers;
mod tfrt;
mod unknown;
