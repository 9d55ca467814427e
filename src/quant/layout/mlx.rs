//! The codes of MLX, in words of 32 bits: integers with scales and biases, or small floats.
//!
//! Sources: `affine_dequantize` and `fp_dequantize` in `mlx/ops.cpp`; mlx-lm writes the configuration.

use super::candidate::{Candidate, FLOATS, Known, Recognized, group_blocks, narrowed};
use crate::quant::recipe::{AffineRecipe, Code, Float4Order, Float4Recipe, Recipe, ScaleCode, ScaledRecipe, Second};
use crate::quant::{Role, Scheme};
use crate::tensor::{Dtype, TensorInfo};

/// `scales`, beside `weight`. GPTQ has `scales` beside other names.
pub(super) fn find(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let module = tensors.stem;
    let name = format!("{module}weight");
    if tensors.look(&name).is_none_or(|info| info.dtype != Dtype::U32) {
        return None;
    }
    let codes = tensors.take(Role::Codes, &name)?;
    let scales = tensors.take_own(Role::Scale);
    let biases = tensors.take(Role::Bias, &format!("{module}biases"));
    let known = known(tensors, module.trim_end_matches('.'), codes, scales, biases);
    Some(Recognized { name, known })
}

fn known(
    tensors: &Candidate<'_>,
    module: &str,
    codes: &TensorInfo,
    scales: &TensorInfo,
    biases: Option<&TensorInfo>,
) -> Result<Known, String> {
    let config = tensors.config();
    // A layer may have numbers of its own.
    let own = config.has_object(&[module]);
    let number = |key: &str| {
        let number = if own { config.number(&[module, key]) } else { config.number(&[key]) };
        number.and_then(|number| usize::try_from(number).ok()).filter(|number| *number > 0)
    };
    let mode = if own { config.text(&[module, "mode"]) } else { config.text(&["mode"]) };
    let mode = mode.unwrap_or("affine");
    let (Some(bits), Some(group)) = (number("bits"), number("group_size")) else {
        return Err(format!("its bits and groups are not known: {}", config.absence()));
    };
    match (mode, bits, group, biases) {
        ("affine", 2 | 3 | 4 | 5 | 6 | 8, _, Some(_)) => {}
        ("mxfp4", 4, 32, None) | ("mxfp8", 8, 32, None) | ("nvfp4", 4, 16, None) => {}
        ("affine", _, _, None) => return Err("there are no `biases`, and the configuration states no mode".to_owned()),
        _ => {
            let beside = if biases.is_some() { "with" } else { "without" };
            return Err(format!("{mode} of {bits} bits and groups of {group} {beside} `biases` is no known layout"));
        }
    }
    let mut shape = codes.shape.dims().to_vec();
    let words = shape.last_mut().ok_or("the codes have no dims")?;
    let columns = words.checked_mul(32).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits);
    *words = columns.ok_or_else(|| format!("the codes are {codes}, which is no multiple of {bits} bits"))?;
    let groups = narrowed(&shape, group);
    let are_scales = match mode {
        "affine" => FLOATS.contains(&scales.dtype) && biases.is_some_and(|biases| biases == scales),
        _ => scales.dtype == Dtype::U8,
    };
    if !are_scales || groups.as_deref() != Some(scales.shape.dims()) {
        let biases = biases.map(|biases| format!(" and the biases {biases}")).unwrap_or_default();
        return Err(format!(
            "the codes are {codes}, the scales {scales}{biases}, which do not fit {bits} bits and groups of {group}"
        ));
    }
    let float4 = |scale| {
        let (order, second) = (Float4Order::LowFirst, Second::None);
        Recipe::Float4(Float4Recipe { order, group, scale, second, in_tiles: false, is_transposed: false })
    };
    let recipe = match mode {
        "mxfp4" => float4(ScaleCode::E8m0),
        "nvfp4" => float4(ScaleCode::E4m3),
        "mxfp8" => Recipe::Scaled(ScaledRecipe {
            code: Code::Float8(Dtype::F8E4M3Fn),
            scale: ScaleCode::E8m0,
            blocks: group_blocks(&shape, group),
        }),
        _ => Recipe::Affine(AffineRecipe { bits: u32::try_from(bits).unwrap_or_default(), group }),
    };
    let mode_shown = if mode == "affine" { String::new() } else { format!("{mode}, ") };
    Ok(Known::new(Scheme::Mlx, format!("{mode_shown}{bits} bits, groups of {group}"), &shape, recipe))
}
