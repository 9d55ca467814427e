//! AWQ: integers in rows of words, in the order 0 2 4 6 1 3 5 7.
//!
//! Source: `packing_utils.py` of AutoAWQ.

use super::candidate::{Candidate, Known, said};
use super::columns::{ColumnParts, group};
use crate::quant::Scheme;
use crate::quant::recipe::{ColumnsKind, ColumnsRecipe, Recipe};
use crate::tensor::{Dtype, TensorInfo};

/// The codes in a word.
const IN_WORD: usize = 8;

pub(super) fn known(tensors: &Candidate<'_>, codes: &TensorInfo, parts: &ColumnParts<'_>) -> Result<Known, String> {
    let config = tensors.config();
    match config.text(&["version"]).map(str::to_lowercase).as_deref() {
        Some("gemm") => {}
        version => return Err(format!("the configuration says {}, but expected the version `gemm`", said(version))),
    }
    match config.number(&["bits"]) {
        Some(4) => {}
        bits => return Err(format!("the configuration says {} for bits, but expected 4", said(bits))),
    }
    let [rows, words] = codes.shape.dims() else {
        return Err(format!("`qweight` is {codes}, but expected rank 2"));
    };
    let columns = words.checked_mul(IN_WORD).ok_or("the shape exceeds memory")?;
    let group = group(config.number(&["group_size"]), *rows)?;
    let groups = rows.div_ceil(group);
    if parts.scales.shape.dims() != [groups, columns] {
        return Err(format!("`scales` is {}, but expected [{groups}, {columns}]", parts.scales));
    }
    if parts.zeros.dtype != Dtype::I32 || parts.zeros.shape.dims() != [groups, *words] {
        return Err(format!("`qzeros` is {}, but expected i32[{groups}, {words}]", parts.zeros));
    }
    let recipe = Recipe::Columns(ColumnsRecipe { bits: 4, kind: ColumnsKind::Awq, group });
    Ok(Known::new(Scheme::Awq, format!("4 bits, groups of {group}"), &[columns, *rows], recipe))
}
