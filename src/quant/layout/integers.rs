//! 8-bit integers with a scale for each row.
//!
//! Sources: `naive_quantized` of compressed-tensors, `functional.py` of bitsandbytes.

use super::candidate::{Candidate, Known, Recognized, module_of};
use super::refused;
use crate::quant::recipe::{Code, Recipe, ScaleCode, ScaledRecipe};
use crate::quant::{Role, Scheme};
use crate::tensor::{Dtype, TensorInfo};

/// `weight` and `weight_scale`. ComfyUI has a description beside them; else the configuration says what they are.
pub(super) fn scaled(
    tensors: &mut Candidate<'_>,
    name: &str,
    codes: &TensorInfo,
    scale: &TensorInfo,
) -> Result<Known, String> {
    let description = format!("{}comfy_quant", module_of(name));
    if tensors.take(Role::Other, &description).is_some() {
        return refused::convrot(tensors, &description, codes);
    }
    if tensors.config().method().as_deref() != Some("compressed-tensors") {
        let absence = tensors.config().absence();
        return Err(format!("`{name}` is {codes} with scales, whose layout is not known: {absence}"));
    }
    let zero = format!("{name}_zero_point");
    let details = match (codes.shape.dims(), scale.shape.dims()) {
        (_, [] | [1]) => "one scale",
        ([rows, _], [scales, 1]) if rows == scales => "a scale for each row",
        _ => return Err(format!("the scale of `{name}` is {scale}, which is not one for each row of {codes}")),
    };
    if tensors.look(&zero).is_some() {
        tensors.need_shape(Role::Zero, &zero, &[Dtype::I8], scale.shape.dims())?;
    }
    let shape = codes.shape.dims();
    let (scale_code, blocks) = (ScaleCode::Float(scale.dtype), row_blocks(shape, scale));
    let recipe = Recipe::Scaled(ScaledRecipe { code: Code::I8, scale: scale_code, blocks });
    Ok(Known::new(Scheme::Int8, details, shape, recipe))
}

/// Returns the blocks of scales for each row, or of one for all.
fn row_blocks(shape: &[usize], scale: &TensorInfo) -> Vec<usize> {
    match shape {
        [_, columns] if scale.shape.elements() != Some(1) => vec![1, *columns],
        _ => shape.to_vec(),
    }
}

/// `SCB`, beside `weight`: LLM.int8 of bitsandbytes.
pub(super) fn scb(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let name = format!("{}weight", tensors.stem);
    // Plain floats, whose scales were kept by mistake.
    if tensors.look(&name).is_some_and(|info| info.dtype.is_float()) {
        return None;
    }
    let known = llm_int8(tensors, &name);
    Some(Recognized { name, known })
}

fn llm_int8(tensors: &mut Candidate<'_>, name: &str) -> Result<Known, String> {
    let scale = tensors.take_own(Role::Scale);
    let codes = tensors.need(Role::Codes, name)?;
    let shape = codes.shape.dims();
    let format = format!("{}weight_format", module_of(name));
    if tensors.take(Role::Other, &format).is_some() {
        // Rows, one after the other. Other numbers are the orders of GPUs.
        if let Ok(bytes) = tensors.description(&format)
            && bytes.iter().any(|byte| *byte != 0)
        {
            return Err(format!("`{format}` says that the codes are in the order of a GPU"));
        }
    }
    match (codes.dtype, shape, scale.dtype, scale.shape.dims()) {
        (Dtype::I8, [rows, _], Dtype::F32, [scales]) if rows == scales => {
            let (code, scale_code) = (Code::LlmInt8, ScaleCode::Float(Dtype::F32));
            let recipe = ScaledRecipe { code, scale: scale_code, blocks: row_blocks(shape, scale) };
            Ok(Known::new(Scheme::LlmInt8, "a scale for each row", shape, Recipe::Scaled(recipe)))
        }
        _ => Err(format!("`{name}` is {codes} and its `SCB` {scale}, but expected i8 and a f32 for each row")),
    }
}
