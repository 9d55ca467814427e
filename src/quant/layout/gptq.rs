//! GPTQ: integers in columns of words, with zeros in rows of words.
//!
//! Sources: `qlinear/__init__.py` and `utils/model.py` of GPTQModel. AutoAWQ has the same names.

use super::awq;
use super::candidate::{Candidate, FLOATS, Known, Recognized, said};
use super::columns::{ColumnParts, group};
use crate::quant::recipe::{ColumnsKind, ColumnsRecipe, Recipe};
use crate::quant::{Role, Scheme};
use crate::tensor::{Dtype, TensorInfo};

pub(super) fn find(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let name = format!("{}weight", tensors.stem);
    let module = tensors.stem;
    if tensors.observed.tensor(tensors.at).1.dtype.is_float() {
        return None;
    }
    let codes = tensors.take_own(Role::Codes);
    let zeros = tensors.need(Role::Zero, &format!("{module}qzeros"));
    let scales = tensors.need(Role::Scale, &format!("{module}scales"));
    let index = tensors.take(Role::Index, &format!("{module}g_idx"));
    let known = zeros.and_then(|zeros| {
        let parts = ColumnParts { zeros, scales: scales? };
        if codes.dtype != Dtype::I32 {
            return Err(format!("`{module}qweight` is {codes}, but expected i32"));
        }
        if !FLOATS.contains(&parts.scales.dtype) {
            return Err(format!("`{module}scales` is {}, but expected floats", parts.scales));
        }
        match tensors.config().method().as_deref() {
            Some("awq") => awq::known(tensors, codes, &parts),
            Some("gptq") => known(tensors, codes, &parts, index),
            // `quantize_config.json` of older programs states no method.
            None if tensors.config().number(&["bits"]).is_some() && index.is_some() => {
                known(tensors, codes, &parts, index)
            }
            Some(method) => Err(format!("the configuration says `{method}`, which has no `qweight`")),
            None => Err(format!("its bits and version are not known: {}", tensors.config().absence())),
        }
    });
    Some(Recognized { name, known })
}

/// `qzeros` without `qweight`.
pub(super) fn zeros(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let module = tensors.stem;
    let name = format!("{module}qweight");
    if tensors.look(&name).is_some() {
        return None;
    }
    tensors.take_own(Role::Zero);
    tensors.take(Role::Scale, &format!("{module}scales"));
    Some(Recognized { name: format!("{module}weight"), known: Err(format!("there is no `{name}`")) })
}

fn known(
    tensors: &Candidate<'_>,
    codes: &TensorInfo,
    parts: &ColumnParts<'_>,
    index: Option<&TensorInfo>,
) -> Result<Known, String> {
    let config = tensors.config();
    let version = match config.text(&["checkpoint_format"]) {
        _ if config.flag(&["is_marlin_format"]) == Some(true) => {
            return Err("the configuration says that the codes are in the order of a GPU".to_owned());
        }
        None | Some("gptq") => 1,
        Some("gptq_v2") => 2,
        Some(other) => return Err(format!("the configuration says `{other}`, which is no known version")),
    };
    let bits = match config.number(&["bits"]) {
        Some(2) => 2,
        Some(3) => 3,
        Some(4) => 4,
        Some(8) => 8,
        bits => return Err(format!("the configuration says {} for bits, but expected 2, 3, 4 or 8", said(bits))),
    };
    let [words, columns] = codes.shape.dims() else {
        return Err(format!("`qweight` is {codes}, but expected rank 2"));
    };
    let rows = words.checked_mul(32).filter(|bits_in_all| bits_in_all.is_multiple_of(bits));
    let rows = rows.ok_or_else(|| format!("`qweight` is {codes}, which is no multiple of {bits} bits"))? / bits;
    let group = group(config.number(&["group_size"]), rows)?;
    let groups = rows.div_ceil(group);
    let scales = [groups, *columns];
    if parts.scales.shape.dims() != scales {
        return Err(format!(
            "`scales` is {}, but expected {scales:?} for {bits} bits and groups of {group}",
            parts.scales
        ));
    }
    let zeros = [groups, columns.saturating_mul(bits).div_ceil(32)];
    if parts.zeros.dtype != Dtype::I32 || parts.zeros.shape.dims() != zeros {
        return Err(format!("`qzeros` is {}, but expected i32{zeros:?} for {bits} bits", parts.zeros));
    }
    match index {
        Some(index) if index.dtype != Dtype::I32 || index.shape.dims() != [rows] => {
            return Err(format!("`g_idx` is {index}, but expected i32[{rows}]"));
        }
        None if config.flag(&["desc_act"]) == Some(true) => {
            return Err("the configuration says `desc_act`, but there is no `g_idx`".to_owned());
        }
        _ => {}
    }
    let details = format!("version {version}, {bits} bits, groups of {group}");
    let kind = ColumnsKind::Gptq { less_1: version == 1 };
    let recipe = ColumnsRecipe { bits: u32::try_from(bits).unwrap_or_default(), kind, group };
    Ok(Known::new(Scheme::Gptq, details, &[*columns, rows], Recipe::Columns(recipe)))
}
