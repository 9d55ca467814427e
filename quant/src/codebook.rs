//! Codes of 4 bits that are looked up in a map: NF4 and FP4 of bitsandbytes.
//!
//! Two codes share a byte, the high bits first. The value is `map[code] * absmax`, with an `absmax` for each block of
//! the flat tensor. Rows may begin inside of a block.
//!
//! # Specification
//!
//! bitsandbytes: `functional.py` (`dequantize_4bit`, `QuantState`) and `backends/default/ops.py`.

use crate::pairs::{self, pairs};
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
    pairs::decode(codes, &pairs(map, true), absmax, block, out);
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
