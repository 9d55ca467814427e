//! `weight_packed` of compressed-tensors: integers in words, or 4-bit floats in bytes.
//!
//! Sources: `pack_quantized/base.py` and `helpers.py` of compressed-tensors.

use super::candidate::{Candidate, FLOATS, Known, Recognized, module_of};
use super::{microscaling, nvfp4};
use crate::quant::recipe::{PackedRecipe, Recipe};
use crate::quant::{Role, Scheme};
use crate::tensor::{Dtype, TensorInfo};

pub(super) fn find(tensors: &mut Candidate<'_>) -> Option<Recognized> {
    let name = tensors.stem.to_owned();
    let scale = format!("{name}_scale");
    let is_weight = &name[module_of(&name).len()..] == "weight";
    let info = tensors.observed.tensor(tensors.at).1;
    if info.dtype.is_float() || !is_weight && tensors.look(&scale).is_none() {
        return None;
    }
    let codes = tensors.take_own(Role::Codes);
    let known = match codes.dtype {
        Dtype::I32 => integers(tensors, &name, codes),
        Dtype::U8 => match tensors.look(&scale).map(|scale| scale.dtype) {
            Some(Dtype::F8E4M3Fn) => nvfp4::divided(tensors, &name, codes),
            Some(Dtype::U8) => microscaling::packed(tensors, &name, codes),
            Some(dtype) => {
                tensors.take(Role::Scale, &scale);
                Err(format!("`{scale}` has {dtype}, but expected f8_e4m3fn or u8"))
            }
            None => Err(format!("there is no `{scale}`")),
        },
        dtype => {
            tensors.take(Role::Scale, &scale);
            Err(format!("`{name}_packed` has {dtype}, but expected i32 or u8"))
        }
    };
    Some(Recognized { name, known })
}

fn integers(tensors: &mut Candidate<'_>, name: &str, codes: &TensorInfo) -> Result<Known, String> {
    let (scale_name, shape_name, zero) =
        (format!("{name}_scale"), format!("{name}_shape"), format!("{name}_zero_point"));
    // All are taken first, so that they belong together whatever is wrong with one.
    let scale = tensors.need(Role::Scale, &scale_name);
    let stated = tensors.need(Role::Shape, &shape_name);
    let zero_info = tensors.take(Role::Zero, &zero);
    let index = tensors.take(Role::Index, &format!("{name}_g_idx"));
    let (scale, stated) = (scale?, stated?);
    if stated.shape.dims() != [2] || !matches!(stated.dtype, Dtype::I64 | Dtype::I32) {
        return Err(format!("`{shape_name}` is {stated}, but expected i64[2]"));
    }
    let [rows, columns] = shape(&tensors.description(&shape_name)?, stated.dtype)
        .ok_or_else(|| format!("`{shape_name}` is not a shape"))?;
    let [found_rows, words] = codes.shape.dims() else {
        return Err(format!("`{name}_packed` is {codes}, but expected i32 of rank 2"));
    };
    if *found_rows != rows {
        return Err(format!("`{name}_packed` is {codes}, but `{shape_name}` says [{rows}, {columns}]"));
    }
    let stated_bits: Vec<usize> =
        tensors.config().groups().iter().filter_map(|group| bits_of(group.number(&["weights", "num_bits"]))).collect();
    // Codes that do not fill words leave bits unused before version 0.18, and cross words since.
    let lengths = |bits: usize| [(columns.div_ceil(32 / bits), false), ((columns * bits).div_ceil(32), true)];
    let is_stated = |bits: &usize| stated_bits.is_empty() || stated_bits.contains(bits);
    let mut fits: Vec<(usize, bool)> = (1..=8)
        .filter(is_stated)
        .flat_map(|bits| lengths(bits).map(|(length, is_dense)| (bits, is_dense, length)))
        .filter(|(_, _, length)| length == words)
        .map(|(bits, is_dense, _)| (bits, is_dense && !32_usize.is_multiple_of(bits)))
        .collect();
    fits.dedup();
    let [(bits, is_dense)] = fits[..] else {
        let absence = if stated_bits.is_empty() { format!("; {}", tensors.config().absence()) } else { String::new() };
        return Err(format!("{words} words for {columns} columns fit {} numbers of bits{absence}", fits.len()));
    };
    let [scale_rows, groups] = scale.shape.dims() else {
        return Err(format!("`{scale_name}` is {scale}, but expected rank 2"));
    };
    if !FLOATS.contains(&scale.dtype) || *scale_rows != rows || *groups == 0 {
        return Err(format!("`{scale_name}` is {scale}, but expected floats for {rows} rows"));
    }
    let Some(group) = (match columns.is_multiple_of(*groups) {
        true => Some(columns / groups),
        false => tensors
            .config()
            .groups()
            .iter()
            .filter_map(|group| usize::try_from(group.number(&["weights", "group_size"])?).ok())
            .find(|group| *group > 0 && columns.div_ceil(*group) == *groups),
    }) else {
        return Err(format!("`{scale_name}` is {scale}, whose groups do not fit {columns} columns"));
    };
    if let Some(found) = zero_info {
        let zero_rows = if is_dense { (rows * bits).div_ceil(32) } else { rows.div_ceil(32 / bits) };
        let expected = [zero_rows, *groups];
        if found.dtype != Dtype::I32 || found.shape.dims() != expected {
            return Err(format!("`{zero}` is {found}, but expected i32{expected:?}"));
        }
    }
    if let Some(index) = index
        && (index.dtype != Dtype::I32 || index.shape.dims() != [columns])
    {
        return Err(format!("`{name}_g_idx` is {index}, but expected i32[{columns}]"));
    }
    let recipe = Recipe::Packed(PackedRecipe { bits: u32::try_from(bits).unwrap_or_default(), is_dense, group });
    Ok(Known::new(Scheme::Packed, format!("{bits} bits, groups of {group}"), &[rows, columns], recipe))
}

fn bits_of(number: Option<i64>) -> Option<usize> {
    usize::try_from(number?).ok().filter(|bits| (1..=8).contains(bits))
}

/// Reads two dims.
fn shape(bytes: &[u8], dtype: Dtype) -> Option<[usize; 2]> {
    let dims: Vec<i64> = match dtype {
        Dtype::I64 => bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
        _ => bytes.as_chunks().0.iter().map(|bytes| i64::from(i32::from_le_bytes(*bytes))).collect(),
    };
    let [rows, columns] = dims[..] else { return None };
    let dims = [usize::try_from(rows).ok()?, usize::try_from(columns).ok()?];
    dims[0].checked_mul(dims[1])?.checked_mul(8).map(|_| dims)
}
