//! Codes of 4 bits that are looked up in a map: NF4 and FP4 of bitsandbytes.
//!
//! Two codes share a byte, the high bits first. The value is `map[code] * absmax`, with an `absmax` for each block of
//! the flat tensor. Rows may begin inside of a block.
//!
//! # Specification
//!
//! bitsandbytes: `functional.py` (`dequantize_4bit`, `QuantState`) and `backends/default/ops.py`.

use std::cell::LazyCell;

use crate::float::PIECE;
use crate::vectors::look_up;
use crate::{Float, groups};

/// Decodes weights: `map[code] * absmax`. Each `block` codes share an `absmax`; the last block may be shorter.
///
/// ```
/// let map = std::array::from_fn(|code| code as f32 / 10.0);
/// let mut weights = [0.0_f32; 3];
/// tensorfile_quant::codebook::decode(&[0x12, 0x50], &map, &[10.0], 64, &mut weights);
/// assert_eq!(weights, [1.0, 2.0, 5.0]);
/// ```
///
/// # Panics
///
/// If the lengths of `codes`, `absmax` and `out` do not match.
pub fn decode<F: Float>(codes: &[u8], map: &[f32; 16], absmax: &[f32], block: usize, out: &mut [F]) {
    decode_halves(codes, map, [4, 0], absmax, block, out);
}

/// Decodes a nested `absmax`: `map[code] * absmax + offset`, rounded twice.
///
/// ```
/// let map = std::array::from_fn(|code| code as f32);
/// let mut absmax = [0.0; 2];
/// tensorfile_quant::codebook::decode_absmax(&[3, 255], &map, &[2.0], 256, 0.5, &mut absmax);
/// assert_eq!(absmax, [6.5, 510.5]);
/// ```
///
/// # Panics
///
/// If the lengths of `codes`, `absmax` and `out` do not match.
pub fn decode_absmax(codes: &[u8], map: &[f32; 256], absmax: &[f32], block: usize, offset: f32, out: &mut [f32]) {
    groups::decode_each(
        codes,
        absmax,
        block,
        out,
        #[inline(always)]
        |code, absmax| map[usize::from(code)] * absmax + offset,
    );
}

/// Decodes weights: `map[code] * scale`. Shifted by `shifts`, the lowest bits of a byte are its first and second code.
pub(crate) fn decode_halves<F: Float>(
    codes: &[u8],
    map: &[f32; 16],
    shifts: [u32; 2],
    scales: &[f32],
    group: usize,
    out: &mut [F],
) {
    let count = 2 * codes.len();
    assert!(count == out.len() || count == out.len() + 1, "{count} codes are not {} weights", out.len());
    groups::check(out.len(), group, scales.len());
    // The numbers of both codes of each byte: without vectors, one look-up is faster than two.
    let pairs: LazyCell<[[f32; 2]; 256], _> =
        LazyCell::new(|| std::array::from_fn(|byte| shifts.map(|shift| map[byte >> shift & 0xf])));
    F::collect(out, &mut [0.0; PIECE], &mut |first, out| {
        let codes = &codes[first / 2..][..out.len().div_ceil(2)];
        let done = look_up(codes, map, shifts, first, scales, group, out);
        if done < out.len() {
            multiply_pairs(&codes[done / 2..], &pairs, first + done, scales, group, &mut out[done..]);
        }
    });
}

/// The same for pairs of numbers, on any processor and in any groups. `first` is the index of the first code.
fn multiply_pairs(codes: &[u8], pairs: &[[f32; 2]; 256], first: usize, scales: &[f32], group: usize, out: &mut [f32]) {
    let (numbers, last) = out.as_chunks_mut();
    for (&byte, numbers) in codes.iter().zip(numbers) {
        *numbers = pairs[usize::from(byte)];
    }
    if let ([.., byte], [number]) = (codes, last) {
        *number = pairs[usize::from(*byte)][0];
    }
    groups::for_each(first, out.len(), group, |index, run| {
        let scale = scales[index];
        out[run].iter_mut().for_each(|number| *number *= scale);
    });
}
