//! Scales as numbers, and the blocks that share them.

use std::ops::Range;

use half::{bf16, f16};
use tensorfile_quant::{Float as _, Float8};

use super::weight::{damaged, out_of_memory};
use crate::error::Result;
use crate::quant::recipe::ScaleCode;
use crate::tensor::Dtype;

/// Converts stored scales to f32, exactly.
pub(super) fn widen(code: ScaleCode, bytes: &[u8]) -> Result<Vec<f32>> {
    let elements = match code {
        ScaleCode::Float(dtype) => bytes.len() / dtype.block_bytes(),
        ScaleCode::E4m3 | ScaleCode::E8m0 => bytes.len(),
    };
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(elements).map_err(|_| out_of_memory(elements * size_of::<f32>()))?;
    numbers.resize(elements, 0.0);
    match code {
        ScaleCode::Float(Dtype::F32) => f32::widen_bytes(bytes, &mut numbers),
        ScaleCode::Float(Dtype::Bf16) => bf16::widen_bytes(bytes, &mut numbers),
        ScaleCode::Float(Dtype::F16) => f16::widen_bytes(bytes, &mut numbers),
        ScaleCode::Float(dtype) => float8(dtype)?.widen_bytes(bytes, &mut numbers),
        ScaleCode::E4m3 => Float8::E4m3Fn.widen_bytes(bytes, &mut numbers),
        ScaleCode::E8m0 => Float8::E8m0.widen_bytes(bytes, &mut numbers),
    }
    Ok(numbers)
}

/// Converts stored f32.
pub(super) fn widen_f32(bytes: &[u8]) -> Result<Vec<f32>> {
    widen(ScaleCode::Float(Dtype::F32), bytes)
}

pub(super) fn float8(dtype: Dtype) -> Result<Float8> {
    Ok(match dtype {
        Dtype::F8E4M3Fn => Float8::E4m3Fn,
        Dtype::F8E5M2 => Float8::E5m2,
        Dtype::F8E4M3Fnuz => Float8::E4m3Fnuz,
        Dtype::F8E5M2Fnuz => Float8::E5m2Fnuz,
        Dtype::F8E8M0 => Float8::E8m0,
        _ => return Err(damaged("the codes are no 8-bit floats")),
    })
}

/// Divides a run of codes, of which the first may be within a block, into runs that begin with the code of a scale: the rest of
/// the first block, and whole blocks. Returns the codes of each run, and the scales of their blocks.
///
/// Kernels count blocks from their first code.
pub(super) fn runs(first: usize, block: usize, codes: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let rest = match first % block {
        0 => 0,
        begun => (block - begun).min(codes),
    };
    let begun = usize::from(rest > 0);
    let all = begun + (codes - rest).div_ceil(block);
    [(0..rest, 0..begun), (rest..codes, begun..all)].into_iter().filter(|(codes, _)| !codes.is_empty())
}
