//! Microscaling formats: 4- and 8-bit floats with a power of two for each 32.
//!
//! Sources: OCP Microscaling Formats 1.0, `mxfp4.py` of transformers, `mxfp4/base.py` of compressed-tensors.

use super::candidate::{Candidate, Known, Recognized, group_blocks, narrowed, widened};
use crate::quant::recipe::{Code, Float4Order, Float4Recipe, Recipe, ScaleCode, ScaledRecipe, Second};
use crate::quant::{Role, Scheme};
use crate::tensor::{Dtype, TensorInfo};

/// `X_blocks` and `X_scales`: the experts of gpt-oss. Transformers loads them as [expert, in, out].
pub(super) fn blocks(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let name = tensors.stem.to_owned();
    let info = tensors.observed.tensor(tensors.at).1;
    let scales = format!("{name}_scales");
    // Other blocks are plain tensors.
    let are_codes = info.dtype == Dtype::U8 && matches!(info.shape.dims(), [.., _, 16]);
    let have_scales = tensors.look(&scales).is_some_and(|scales| scales.dtype == Dtype::U8);
    if info.dtype.is_float() || !are_codes && !have_scales {
        return None;
    }
    let codes = tensors.take_own(Role::Codes);
    let known = match codes.shape.dims() {
        [experts, rows, groups, 16] if codes.dtype == Dtype::U8 => {
            let columns = groups.checked_mul(32).ok_or("the shape exceeds memory".to_owned());
            columns.and_then(|columns| {
                tensors.need_shape(Role::Scale, &scales, &[Dtype::U8], &[*experts, *rows, *groups])?;
                Ok(Known::new(
                    Scheme::Mxfp4,
                    "groups of 32, [expert, in, out]",
                    &[*experts, columns, *rows],
                    float4(true),
                ))
            })
        }
        _ => {
            tensors.take(Role::Scale, &scales);
            Err(format!("`{name}_blocks` is {codes}, but expected u8[experts, rows, groups, 16]"))
        }
    };
    Some(Recognized { name, known })
}

fn float4(is_transposed: bool) -> Recipe {
    let (order, second) = (Float4Order::LowFirst, Second::None);
    Recipe::Float4(Float4Recipe { order, group: 32, scale: ScaleCode::E8m0, second, in_tiles: false, is_transposed })
}

/// `weight_packed` and `weight_scale`, both u8.
pub(super) fn packed(tensors: &mut Candidate<'_>, name: &str, codes: &TensorInfo) -> Result<Known, String> {
    let shape = widened(codes.shape.dims(), 2)?;
    let Some(groups) = narrowed(&shape, 32) else {
        return Err(format!("`{name}_packed` stands for {shape:?}, whose rows are not in groups of 32"));
    };
    tensors.need_shape(Role::Scale, &format!("{name}_scale"), &[Dtype::U8], &groups)?;
    Ok(Known::new(Scheme::Mxfp4, "groups of 32", &shape, float4(false)))
}

/// Two 4-bit floats in each i8.
pub(super) fn in_bytes(codes: &TensorInfo, scale: &TensorInfo) -> Result<Known, String> {
    let shape = widened(codes.shape.dims(), 2)?;
    match narrowed(&shape, 32) {
        Some(groups) if groups == scale.shape.dims() => {
            Ok(Known::new(Scheme::Mxfp4, "groups of 32", &shape, float4(false)))
        }
        _ => Err(format!("the codes are {codes} and the scales {scale}, but expected a scale for each 16 bytes")),
    }
}

/// 8-bit floats.
pub(super) fn float8(codes: &TensorInfo, scale: &TensorInfo) -> Result<Known, String> {
    match narrowed(codes.shape.dims(), 32) {
        Some(groups) if groups == scale.shape.dims() => {
            let (code, shape) = (Code::Float8(codes.dtype), codes.shape.dims());
            let recipe = ScaledRecipe { code, scale: ScaleCode::E8m0, blocks: group_blocks(shape, 32) };
            Ok(Known::new(Scheme::Mxfp8, "groups of 32", shape, Recipe::Scaled(recipe)))
        }
        _ => Err(format!("the codes are {codes} and the scales {scale}, but expected a scale for each 32 codes")),
    }
}
