//! Integers of 1 to 8 bits with a scale and a bias: the affine mode of MLX.
//!
//! Codes follow each other without unused bits, the lowest bits first, and may cross bytes and words. The value is
//! `code * scale + bias`, rounded twice.
//!
//! # Specification
//!
//! MLX: `mlx/ops.cpp` (`affine_dequantize`) and `mlx/backend/cpu/quantized.cpp` (`extract_bits`).
//!
//! # Deviations
//!
//! MLX computes in the dtype of the scales. We compute in `f32`, and round the result once.

use crate::vectors::widest;
use crate::{Float, bits as codes, groups};

/// Decodes weights: `code * scale + bias`. Each `group` codes share a scale and a bias; the last group may be shorter.
///
/// ```
/// let mut weights = [0.0_f32; 8];
/// tensorfile_quant::affine::decode(&[0x10, 0x32, 0x54, 0xf6], 4, &[0.5], &[-1.0], 32, &mut weights);
/// assert_eq!(weights, [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 6.5]);
/// ```
///
/// # Panics
///
/// If `bits` is not 1 to 8, or the lengths of `words`, `scales`, `biases` and `out` do not match.
pub fn decode<F: Float>(words: &[u8], bits: u32, scales: &[f32], biases: &[f32], group: usize, out: &mut [F]) {
    codes::check_stream(words, bits, out.len());
    groups::check(out.len(), group, scales.len());
    groups::check(out.len(), group, biases.len());
    let unpack = |first: usize, codes: &mut [u8]| {
        widest(
            #[inline(always)]
            |words: &[u8], codes: &mut [u8], ()| codes::unpack_stream(words, bits, codes),
            &words[first / 8 * bits as usize..],
            codes,
            (),
        );
    };
    codes::decode(
        group,
        out,
        unpack,
        #[inline(always)]
        |index| (scales[index], biases[index]),
        #[inline(always)]
        |code, (scale, bias)| f32::from(code) * scale + bias,
    );
}
