//! NVFP4: 4-bit floats, two to a byte, with an 8-bit scale for 16 and one scale for all.
//!
//! Sources: `nvfp4/base.py` of compressed-tensors, `nvfp4_tensor.py` of ModelOpt, `nvfp4.py` of ComfyUI.

use super::candidate::{Candidate, Known, module_of, narrowed, said, widened};
use crate::quant::recipe::{Float4Order, Float4Recipe, Recipe, ScaleCode, Second};
use crate::quant::{Role, Scheme};
use crate::tensor::{Dtype, TensorInfo};

/// The scales of cuBLAS lie in tiles of this many rows and columns.
const TILE: [usize; 2] = [128, 4];

/// `weight_packed`, `weight_scale` and `weight_global_scale`, by which the scales are divided.
pub(super) fn divided(tensors: &mut Candidate<'_>, name: &str, codes: &TensorInfo) -> Result<Known, String> {
    let shape = widened(codes.shape.dims(), 2)?;
    let groups = groups(name, &shape)?;
    tensors.need_shape(Role::Scale, &format!("{name}_scale"), &[Dtype::F8E4M3Fn], &groups)?;
    second(tensors, &format!("{name}_global_scale"))?;
    let recipe = recipe(Float4Order::LowFirst, Second::Divides, false);
    Ok(Known::new(Scheme::Nvfp4, "groups of 16, scales divided", &shape, recipe))
}

/// `weight`, `weight_scale` and `weight_scale_2`, by which the scales are multiplied.
pub(super) fn multiplied(
    tensors: &mut Candidate<'_>,
    name: &str,
    codes: &TensorInfo,
    scale: &TensorInfo,
) -> Result<Known, String> {
    let shape = widened(codes.shape.dims(), 2)?;
    let groups = groups(name, &shape)?;
    second(tensors, &format!("{name}_scale_2"))?;
    if scale.dtype != Dtype::F8E4M3Fn {
        return Err(format!("the scale of `{name}` is {scale}, but expected f8_e4m3fn"));
    }
    let description = format!("{}comfy_quant", module_of(name));
    if tensors.take(Role::Other, &description).is_some() {
        let format = tensors.json(&description)?;
        let format = format.text(&["format"]);
        let ([rows, columns], [groups, scales]) = (&groups[..], scale.shape.dims()) else {
            return Err(format!("the scale of `{name}` is {scale}, but expected tiles of a matrix"));
        };
        let expected = [rows.next_multiple_of(TILE[0]), columns.next_multiple_of(TILE[1])];
        return match format {
            Some("nvfp4") if expected == [*groups, *scales] => {
                let recipe = recipe(Float4Order::HighFirst, Second::Multiplies, true);
                Ok(Known::new(Scheme::Nvfp4, "groups of 16, scales in tiles of 128 x 4", &shape, recipe))
            }
            Some("nvfp4") => Err(format!("the scale of `{name}` is {scale}, but expected f8_e4m3fn{expected:?}")),
            format => Err(format!("`{description}` says {}, which is no known layout", said(format))),
        };
    }
    if scale.shape.dims() != groups {
        return Err(format!("the scale of `{name}` is {scale}, but expected f8_e4m3fn{groups:?}"));
    }
    let recipe = recipe(Float4Order::ModelOpt, Second::Multiplies, false);
    Ok(Known::new(Scheme::Nvfp4, "groups of 16", &shape, recipe))
}

fn recipe(order: Float4Order, second: Second, in_tiles: bool) -> Recipe {
    Recipe::Float4(Float4Recipe { order, group: 16, scale: ScaleCode::E4m3, second, in_tiles, is_transposed: false })
}

fn groups(name: &str, shape: &[usize]) -> Result<Vec<usize>, String> {
    narrowed(shape, 16).ok_or_else(|| format!("`{name}` stands for {shape:?}, whose rows are not in groups of 16"))
}

/// Takes the scale of all scales.
fn second(tensors: &mut Candidate<'_>, name: &str) -> Result<(), String> {
    let info = tensors.need(Role::SecondScale, name)?;
    match info.shape.elements() {
        Some(1) if info.dtype == Dtype::F32 => Ok(()),
        _ => Err(format!("`{name}` is {info}, but expected one f32")),
    }
}
