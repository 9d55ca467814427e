//! Integers of 8 bits, one to a byte: `int-quantized` of compressed-tensors, and LLM.int8 of bitsandbytes.

use crate::float::PIECE;
use crate::vectors::widest;
use crate::{Float, groups};

/// Decodes weights: `code * scale`. Each `group` codes share a scale; the last group may be shorter.
///
/// ```
/// let mut weights = [0.0_f32; 3];
/// tensorfile_quant::int8::decode(&[1, 0xff, 0x80], &[0.5], 3, &mut weights);
/// assert_eq!(weights, [0.5, -0.5, -64.0]);
/// ```
///
/// # Panics
///
/// If the lengths of `codes`, `scales` and `out` do not match.
pub fn decode<F: Float>(codes: &[u8], scales: &[f32], group: usize, out: &mut [F]) {
    groups::decode_each(
        codes,
        scales,
        group,
        out,
        #[inline(always)]
        |code, scale| f32::from(code.cast_signed()) * scale,
    );
}

/// Decodes weights: `(code - zero) * scale`. Each `group` codes share a zero and a scale; the last group may be shorter.
///
/// ```
/// let mut weights = [0.0_f32; 3];
/// tensorfile_quant::int8::decode_with_zeros(&[1, 0xff, 0x80], &[0xff], &[0.5], 3, &mut weights);
/// assert_eq!(weights, [1.0, 0.0, -63.5]);
/// ```
///
/// # Panics
///
/// If the lengths of `codes`, `zeros`, `scales` and `out` do not match.
pub fn decode_with_zeros<F: Float>(codes: &[u8], zeros: &[u8], scales: &[f32], group: usize, out: &mut [F]) {
    assert!(codes.len() == out.len(), "{} codes are not {} weights", codes.len(), out.len());
    groups::check(codes.len(), group, scales.len());
    groups::check(codes.len(), group, zeros.len());
    F::collect(out, &mut [0.0; PIECE], &mut |first, out| {
        widest(
            #[inline(always)]
            |codes: &[u8], (zeros, scales): (&[u8], &[f32]), out: &mut [f32]| {
                groups::for_each(first, out.len(), group, |index, run| {
                    // The difference is exact.
                    let (zero, scale) = (f32::from(zeros[index].cast_signed()), scales[index]);
                    for (&code, out) in codes[run.clone()].iter().zip(&mut out[run]) {
                        *out = (f32::from(code.cast_signed()) - zero) * scale;
                    }
                });
            },
            &codes[first..][..out.len()],
            (zeros, scales),
            out,
        );
    });
}

/// Decodes weights of LLM.int8: `(code * scale) * (1 / 127)`, where the scales are the rows' `SCB`.
///
/// ```
/// let mut weights = [0.0_f32; 2];
/// tensorfile_quant::int8::decode_llm(&[127, 0], &[2.0], 2, &mut weights);
/// assert_eq!(weights, [2.0, 0.0]);
/// ```
///
/// # Panics
///
/// If the lengths of `codes`, `scales` and `out` do not match.
pub fn decode_llm<F: Float>(codes: &[u8], scales: &[f32], group: usize, out: &mut [F]) {
    /// 1 / 127 as bitsandbytes writes it.
    const STEP: f32 = 0.007_874_016;
    groups::decode_each(
        codes,
        scales,
        group,
        out,
        #[inline(always)]
        |code, scale| f32::from(code.cast_signed()) * scale * STEP,
    );
}
