//! Files exchanged with other software, which `support/interop.rs` finds. If it is not installed, these tests print
//! that they are skipped.

#[cfg(feature = "cloud")]
mod cloud;
#[cfg(feature = "pytorch")]
mod dcp;
#[cfg(feature = "digest")]
mod digest;
#[cfg(feature = "gguf")]
mod gguf;
#[cfg(feature = "safetensors")]
mod maps;
#[cfg(feature = "npz")]
mod npy;
#[cfg(feature = "ptd")]
mod ptd;
#[cfg(feature = "pytorch")]
mod pytorch;
#[cfg(feature = "quant")]
mod quantized;
#[cfg(feature = "safetensors")]
mod safetensors;
mod ten;
#[cfg(feature = "tensorbuffers")]
mod tensorbuffers;
#[cfg(feature = "pytorch")]
mod transformers;
