//! Codes of 4 bits that are looked up in a map: NF4 and FP4 of bitsandbytes.
//!
//! Two codes share a byte, the high bits first. The value is `map[code] * absmax`, with an `absmax` for each block of
//! the flat tensor. Rows may begin inside of a block.
//!
//! # Specification
//!
//! bitsandbytes: `functional.py` (`dequantize_4bit`, `QuantState`) and `backends/default/ops.py`.

use crate::float::PIECE;
use crate::vectors::widest;
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
    let count = 2 * codes.len();
    assert!(count == out.len() || count == out.len() + 1, "{count} codes are not {} weights", out.len());
    groups::check(out.len(), block, absmax.len());
    let pairs = pairs(map);
    F::collect(out, &mut [0.0; PIECE], &mut |first, out| {
        look_up(&codes[first / 2..][..out.len().div_ceil(2)], &pairs, out);
        multiply(first, absmax, block, out);
    });
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

/// The numbers of both codes of each byte. One look-up is faster than two.
type Pairs = [[f32; 2]; 256];

fn pairs(map: &[f32; 16]) -> Pairs {
    std::array::from_fn(|byte| [map[byte >> 4], map[byte & 0xf]])
}

/// Writes the numbers of codes.
fn look_up(bytes: &[u8], pairs: &Pairs, out: &mut [f32]) {
    widest(
        #[inline(always)]
        |bytes: &[u8], pairs: &Pairs, out: &mut [f32]| {
            let (out, last) = out.as_chunks_mut();
            for (&byte, out) in bytes.iter().zip(&mut *out) {
                *out = pairs[usize::from(byte)];
            }
            if let (Some(&byte), [out]) = (bytes.last(), last) {
                *out = pairs[usize::from(byte)][0];
            }
        },
        bytes,
        pairs,
        out,
    );
}

/// Multiplies numbers by the `absmax` of their blocks. `first` is the index of the first number.
fn multiply(first: usize, absmax: &[f32], block: usize, numbers: &mut [f32]) {
    /// Numbers multiplied at once. Loops of known length are faster.
    const LANES: usize = 16;
    widest(
        #[inline(always)]
        |absmax: &[f32], numbers: &mut [f32], ()| {
            groups::for_each(first, numbers.len(), block, |index, run| {
                let absmax = absmax[index];
                let (lanes, rest) = numbers[run].as_chunks_mut::<LANES>();
                for lanes in lanes {
                    lanes.iter_mut().for_each(|number| *number *= absmax);
                }
                rest.iter_mut().for_each(|number| *number *= absmax);
            });
        },
        absmax,
        numbers,
        (),
    );
}
