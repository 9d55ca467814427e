//! Scales as numbers, and the blocks that share them.

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

/// Decodes codes with the scales of their blocks. The first code begins a block, or the rest of one.
pub(super) type DecodeRun<'d> = dyn FnMut(&[u8], &[f32], &mut [f32]) -> Result<()> + 'd;

/// Decodes a run of codes of which the first may be within a block.
///
/// Kernels count blocks from their first code. The rest of a block that began before is therefore a call of its own.
pub(super) fn decode_from_within(
    first: usize,
    block: usize,
    (codes, scales): (&[u8], &[f32]),
    out: &mut [f32],
    decode: &mut DecodeRun<'_>,
) -> Result<()> {
    let rest = match first % block {
        0 => 0,
        begun => (block - begun).min(out.len()),
    };
    if rest == 0 {
        return decode(codes, scales, out);
    }
    decode(&codes[..rest], &scales[..1], &mut out[..rest])?;
    if rest == out.len() {
        return Ok(());
    }
    decode(&codes[rest..], &scales[1..], &mut out[rest..])
}
