//! What the numbers of quantized weights mean: which tensors of a file are the codes and scales of one weight.
//!
//! A quantized model stores a weight as *codes*, which are small numbers, and *scales*, by which they are multiplied. The
//! codes are not the weights, though many have a dtype of numbers: `weight` may be f8, and its scales may be in another
//! shard. [`File::quantized`](crate::File::quantized) finds them. A [`LogicalTensor`] is a weight as the model's own loader
//! has it in memory, with its [parts](Part), and an [`UnknownCodes`] is what looks like one but does not fit.
//!
//! A cast never treats codes or scales as weights: it is [an error](crate::ErrorKind::Codes) before anything is written,
//! unless you ask for the codes [as stored](crate::view::CastView::as_stored). Unknown codes are treated in the same way.
//!
//! Nothing is guessed. A block size is not taken from the shape of a grid that two sizes fit, a number of bits not from a
//! length that two numbers fit, and a version not without the configuration that states it.
//!
//! # Layouts
//!
//! | Scheme | Recognized by |
//! | --- | --- |
//! | `fp8` | f8 with `weight_scale_inv`, `scale` of DeepSeek-V4, `weight_scale`, or `scale_weight` of ComfyUI: one for all, for each row, for each expert, or for each block |
//! | `int8` | i8 with `weight_scale` for each row, of compressed-tensors |
//! | `llm-int8` | i8 with `SCB` for each row, of bitsandbytes |
//! | `nvfp4` | `weight_packed` with `weight_global_scale`, of compressed-tensors; u8 with f8 scales for 16 and `weight_scale_2`, of ModelOpt and ComfyUI |
//! | `mxfp4`, `mxfp8` | `_blocks` and `_scales` of gpt-oss; `weight_packed` with exponents for 32; i8 or f8 with exponents for 32 |
//! | `gptq` | `qweight`, `qzeros` and `scales`; bits, groups and version are in the configuration |
//! | `awq` | `qweight`, `qzeros` and `scales`, with `version: gemm` in the configuration |
//! | `packed` | `weight_packed` of i32, `weight_shape` and `weight_scale`, of compressed-tensors: 1 to 8 bits |
//! | `nf4`, `fp4` | u8 with `quant_state.bitsandbytes__nf4` or `__fp4`, of bitsandbytes |
//! | `mlx` | u32 with `scales`, and `biases` or a mode; bits and groups are in the configuration |
//! | `ggml` | the blocks of GGUF, which are one part; `nvfp4` may have a `.scale` |
//! | `hqq`, `torchao`, `quanto`, `bitnet`, `eetq`, `convrot` | recognized by their names, so that nothing takes their codes for numbers |
//!
//! Sources: the loaders of the programs named there. `compatibility.md` lists them.

mod config;
#[cfg(feature = "quant")]
mod decode;
mod layout;
mod logical;
mod observed;
mod recipe;
mod recognize;

pub(crate) use config::{CONFIG, Config, Json, MAX_BYTES as MAX_CONFIG_BYTES};
#[cfg(feature = "quant")]
pub(crate) use decode::DecodedTensor;
pub use logical::{LogicalTensor, Part, Quantized, Role, Scheme, UnknownCodes, Verdict};
pub(crate) use observed::{Observed, TensorHeaders};
pub(crate) use recognize::{may_be_quantized, recognize};
