#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod affine;
pub mod awq;
mod bits;
pub mod codebook;
mod columns;
mod float;
pub mod float32;
pub mod float4;
pub mod float8;
mod ggml;
pub mod gptq;
mod groups;
pub mod int8;
pub mod packed;
mod pairs;
mod transpose;
mod vectors;

pub use columns::Columns;
pub use float::Float;
pub use float4::Float4;
pub use float8::Float8;
pub use ggml::Block;
pub use transpose::transpose;
