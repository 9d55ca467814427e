//! 8-bit floats and integers with scales: one for all, one for each row or expert, or one for each block.
//!
//! Sources: `fp8_cast_bf16.py` of DeepSeek-V3, `finegrained_fp8` of transformers, `naive_quantized` of compressed-tensors,
//! `export/quant_utils.py` of ModelOpt, `convert_old_quants` of ComfyUI.

use std::borrow::Cow;

use super::candidate::{Candidate, FLOATS, Known, MARKER, Recognized, is_float8, module_of};
use super::{integers, microscaling, nvfp4, refused};
use crate::quant::recipe::{Code, Recipe, ScaleCode, ScaledRecipe};
use crate::quant::{Role, Scheme};
use crate::tensor::{Dtype, TensorInfo};

/// The block of a grid if no configuration states one.
const BLOCK: [usize; 2] = [128, 128];

/// `X_scale_inv`, beside `X`.
pub(super) fn scale_inv(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    scaled(tensors, tensors.stem, true)
}

/// `X_scale`, beside `X`. Many plain tensors are called so: `logit_scale`, `k_scale`.
pub(super) fn scale(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let codes = tensors.stem;
    if tensors.may_be_packed && tensors.look(&format!("{codes}_packed")).is_some() {
        return None;
    }
    scaled(tensors, codes, is_weight(codes))
}

/// `scale`, beside `weight`: DeepSeek-V4. In a GGUF, it belongs to the blocks of `weight`.
pub(super) fn scale_of_module(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let codes = format!("{}weight", tensors.stem);
    if tensors.look(&codes).is_some_and(|info| super::ggml::is_block(info.dtype)) {
        return None;
    }
    scaled(tensors, &codes, false)
}

/// `scale_weight`, beside `weight`: ComfyUI, with the marker `scaled_fp8`.
pub(super) fn scale_weight(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let module = tensors.stem;
    let starts = module.match_indices('.').map(|(at, _)| at + 1).chain([0]);
    let is_marked = starts.into_iter().any(|end| tensors.look(&format!("{}{MARKER}", &module[..end])).is_some());
    let mut found = scaled(tensors, &format!("{module}weight"), true)?;
    if !is_marked && found.known.is_ok() {
        found.known = Err(format!("there is no `{MARKER}`, which says what `scale_weight` is"));
    }
    Some(found)
}

/// 8-bit floats without a scale are numbers by themselves, unless the configuration says that they have one: a shard may be
/// opened alone.
pub(super) fn without_scale(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let name = tensors.stem;
    if !is_weight(name) || !tensors.config().is_stated() {
        return None;
    }
    let module = module_of(name);
    let scales = [format!("{name}_scale_inv"), format!("{name}_scale"), format!("{module}scale")];
    if scales.iter().any(|scale| tensors.look(scale).is_some())
        || tensors.look(&format!("{module}scale_weight")).is_some()
    {
        return None;
    }
    tensors.take_own(Role::Codes);
    let known = Err("the configuration states a quantization, and its scales are not in the file".to_owned());
    Some(Recognized { name: name.to_owned(), known })
}

/// Returns whether a name below its module is `weight`.
fn is_weight(name: &str) -> bool {
    name.strip_suffix("weight").is_some_and(|module| module.is_empty() || module.ends_with('.'))
}

/// Decides about codes and the scale that led here. `needs_codes` says that the scale means nothing without them.
fn scaled(tensors: &mut Candidate<'_>, codes: &str, needs_codes: bool) -> Option<Recognized> {
    let known = match tensors.observed.position(codes) {
        Some(position) => {
            let dtype = tensors.observed.tensor(position).1.dtype;
            // Others are numbers by themselves, with a scale that the model has learned.
            if !is_float8(dtype) && !matches!(dtype, Dtype::I8 | Dtype::U8) {
                return None;
            }
            let info = tensors.take_at(Role::Codes, position);
            let scale = tensors.take_own(Role::Scale);
            by_dtypes(tensors, codes, info, scale)
        }
        None if needs_codes => {
            tensors.take_own(Role::Scale);
            Err(format!("there is no `{codes}`, whose scales it has"))
        }
        None => return None,
    };
    Some(Recognized { name: codes.to_owned(), known })
}

fn by_dtypes(tensors: &mut Candidate<'_>, name: &str, codes: &TensorInfo, scale: &TensorInfo) -> Result<Known, String> {
    match (codes.dtype, scale.dtype) {
        (dtype, Dtype::U8) if is_float8(dtype) => microscaling::float8(codes, scale),
        (dtype, Dtype::F8E8M0) if is_float8(dtype) => {
            microscaling::float8(codes, scale).or_else(|_| float8(tensors, name, codes, scale))
        }
        (dtype, scale_dtype) if is_float8(dtype) && FLOATS.contains(&scale_dtype) => {
            float8(tensors, name, codes, scale)
        }
        (Dtype::I8, Dtype::F8E8M0) => microscaling::in_bytes(codes, scale),
        (Dtype::I8, scale_dtype) if FLOATS.contains(&scale_dtype) => integers::scaled(tensors, name, codes, scale),
        (Dtype::U8, scale_dtype) if is_float8(scale_dtype) => nvfp4::multiplied(tensors, name, codes, scale),
        (Dtype::U8, scale_dtype) if FLOATS.contains(&scale_dtype) => refused::bitnet(tensors, codes, scale),
        _ => Err(format!("`{name}` is {codes} with scales of {}, which is no known layout", scale.dtype)),
    }
}

/// 8-bit floats, with scales of any of the shapes that programs write.
fn float8(tensors: &Candidate<'_>, name: &str, codes: &TensorInfo, scale: &TensorInfo) -> Result<Known, String> {
    let (shape, found) = (codes.shape.dims(), scale.shape.dims());
    let scale_code = if scale.dtype == Dtype::F8E8M0 { ScaleCode::E8m0 } else { ScaleCode::Float(scale.dtype) };
    let known = |details: Cow<'static, str>, blocks: Vec<usize>| {
        let recipe = ScaledRecipe { code: Code::Float8(codes.dtype), scale: scale_code, blocks };
        Ok(Known::new(Scheme::Fp8, details, shape, Recipe::Scaled(recipe)))
    };
    let is_number = FLOATS.contains(&scale.dtype);
    let stated = tensors.config().block();
    let block = stated.unwrap_or(BLOCK);
    if is_grid(shape, block, found) {
        let mut blocks = vec![1; shape.len() - 2];
        blocks.extend(block);
        let details = match block {
            BLOCK => Cow::Borrowed("blocks of 128 x 128"),
            [rows, columns] => format!("blocks of {rows} x {columns}").into(),
        };
        return known(details, blocks);
    }
    match (shape, found) {
        (_, [] | [1]) if is_number => known("one scale".into(), shape.to_vec()),
        ([.., _, _], [1, 1]) if is_number && stated.is_none() => known("one scale".into(), shape.to_vec()),
        ([rows, columns], [scales] | [scales, 1]) if is_number && rows == scales => {
            known("a scale for each row".into(), vec![1, *columns])
        }
        ([experts, rows, columns], [scales, 1, 1]) if is_number && experts == scales => {
            known("a scale for each expert".into(), vec![1, *rows, *columns])
        }
        ([experts, rows, columns], [e, r, 1]) if is_number && (experts, rows) == (e, r) => {
            known("a scale for each row".into(), vec![1, 1, *columns])
        }
        ([experts, rows, columns], [e, 1, c]) if is_number && (experts, columns) == (e, c) => {
            known("a scale for each column".into(), vec![1, *rows, 1])
        }
        _ => Err(format!(
            "the scale of `{name}` is {scale}, which is neither one for each row of {codes} nor one for each block of {} x {}",
            block[0], block[1]
        )),
    }
}

/// Returns whether a shape is that of a grid of blocks over the last two dims.
fn is_grid(shape: &[usize], [rows, columns]: [usize; 2], found: &[usize]) -> bool {
    let ([lead @ .., r, c], [found_lead @ .., found_r, found_c]) = (shape, found) else { return false };
    rows > 0 && columns > 0 && lead == found_lead && r.div_ceil(rows) == *found_r && c.div_ceil(columns) == *found_c
}
