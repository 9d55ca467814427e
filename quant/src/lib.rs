//! Kernels that decode quantized weights to floats.
//!
//! A quantized weight is stored as codes and scales, and often zeros or biases. You give the bytes of the codes and get `f32`,
//! [`half::bf16`] or [`half::f16`]. The crate knows no files, names or shapes.
//!
//! ```
//! use half::bf16;
//! use tensorfile_quant::{Float, Float4, Float8};
//!
//! // Two rows of NVFP4 as compressed-tensors stores them: 32 codes, and a scale for each 16.
//! let (codes, scales, global) = ([0x21; 32], [0x38, 0x40, 0x30, 0x38], 4.0);
//! let mut widened = [0.0; 4];
//! Float8::E4m3Fn.widen_bytes(&scales, &mut widened);
//! let scales = widened.map(|scale| scale / global);
//!
//! let mut weights = [bf16::ZERO; 64];
//! Float4::Ocp.decode(&codes, &scales, 16, &mut weights);
//! assert_eq!(weights[..2], [0.125, 0.25].map(bf16::nearest));
//!
//! // The second row alone.
//! let mut row = [0.0_f32; 32];
//! Float4::Ocp.decode(&codes[16..], &scales[2..], 16, &mut row);
//! assert_eq!(row[..2], [0.0625, 0.125]);
//! ```
//!
//! # Layouts
//!
//! | layout | function | value |
//! |---|---|---|
//! | GGUF: 26 block types of ggml | [`Block::decode`] | as ggml's `dequantize_row_*` |
//! | GGUF: NVFP4 with `.scale` | `Block::decode`, [`float32::decode`] | `weight * scale` |
//! | FP8: per tensor, channel or block | [`Float8::decode`] | `code * scale` |
//! | MXFP8 | `Float8::decode`, groups of 32 | `code * scale` |
//! | NVFP4: compressed-tensors | [`Float4::decode`], groups of 16 | `code * (scale / global)` |
//! | NVFP4: ModelOpt | `Float4::decode`, groups of 16 | `code * (scale * scale_2)` |
//! | NVFP4: ComfyUI | the same, with [`float4::tile_index`] | `code * (scale * scale_2)` |
//! | MXFP4 | `Float4::decode`, groups of 32 | `code * scale` |
//! | MXFP4: gpt-oss | the same, with [`transpose`] | `code * scale` |
//! | int8: compressed-tensors | [`int8::decode`] | `code * scale` |
//! | int8 with zeros: compressed-tensors | [`int8::decode_with_zeros`] | `(code - zero) * scale` |
//! | LLM.int8: bitsandbytes | [`int8::decode_llm`] | `(code * SCB) * (1 / 127)` |
//! | NF4, FP4: bitsandbytes | [`codebook::decode`] | `map[code] * absmax` |
//! | nested absmax: bitsandbytes | [`codebook::decode_absmax`] | `map[code] * absmax + offset` |
//! | packed integers of 1 to 8 bits: compressed-tensors | [`packed::decode`] | `(code - zero) * scale` |
//! | the same, with groups in any order | [`packed::decode_by_index`] | `(code - zero) * scale` |
//! | GPTQ of 2, 3, 4 or 8 bits | [`gptq::decode`] | `(code - zero) * scale` |
//! | AWQ | [`awq::decode`] | `(code - zero) * scale` |
//! | MLX: affine of 1 to 8 bits | [`affine::decode`] | `code * scale + bias` |
//! | MLX: `mxfp4`, `nvfp4`, `mxfp8` | `Float4::decode`, `Float8::decode` | `code * scale` |
//!
//! Codes are the bytes of a file, little-endian. Scales are `f32`: [`Float::widen_bytes`] and [`Float8::widen_bytes`] convert those
//! of a file. Each `group` codes share a scale, and the last group of a call may be shorter. Pass a group of all codes for one
//! scale.
//!
//! Decode any part of a tensor by whole groups or blocks. GPTQ and AWQ store \[in, out\]: any tile of [`Columns`] becomes rows of
//! \[out, in\].
//!
//! # Arithmetic
//!
//! Codes and scales become `f32` exactly. The value is computed in `f32` in the order of the table. Each operation is rounded, and
//! none is a fused multiply-add. `bf16` and `f16` are rounded once more: to the nearest, ties to even. NaN stays NaN. Results are the
//! same on all processors.
//!
//! # Panics
//!
//! Functions check lengths first, as [`copy_from_slice`](slice::copy_from_slice) does, and panic if they do not match. No code or
//! scale makes them panic.
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
mod transpose;
mod vectors;

pub use columns::Columns;
pub use float::Float;
pub use float4::Float4;
pub use float8::Float8;
pub use ggml::Block;
pub use transpose::transpose;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
