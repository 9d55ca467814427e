//! The blocks of ggml. Each has its scales inside; NVFP4 may have one more beside it.
//!
//! Source: `ggml-quants.c` and `llama-model.cpp` of llama.cpp.

use super::candidate::{Candidate, Known, Recognized, module_of};
use crate::quant::recipe::{GgmlRecipe, Recipe};
use crate::quant::{Role, Scheme};
use crate::tensor::Dtype;

/// Returns whether a dtype is a block of ggml. Other packed dtypes have smaller blocks.
pub(super) fn is_block(dtype: Dtype) -> bool {
    const SMALLEST: usize = 32;

    dtype.block_elements() >= SMALLEST
}

pub(super) fn find(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let name = tensors.stem.to_owned();
    let codes = tensors.take_own(Role::Codes);
    let shape = codes.shape.dims();
    // ggml makes blocks of `q8_1` of activations, and never decodes them.
    let is_decoded = codes.dtype != Dtype::Q8_1;
    let recipe = if is_decoded { Recipe::Ggml(GgmlRecipe(codes.dtype)) } else { Recipe::Refused };
    let mut known = Ok(Known::new(Scheme::Ggml, codes.dtype.name(), shape, recipe));
    let scale = format!("{}scale", module_of(&name));
    if codes.dtype == Dtype::Nvfp4
        && let Some(info) = tensors.take(Role::SecondScale, &scale)
    {
        let experts = if let [experts, _, _] = shape { *experts } else { 1 };
        if info.dtype != Dtype::F32 || ![&[1][..], &[experts]].contains(&info.shape.dims()) {
            known = Err(format!("`{scale}` is {info}, but expected f32[{experts}]"));
        }
    }
    Some(Recognized { name, known })
}
