//! Decoded numbers with one more scale, such as the `.scale` of an NVFP4 tensor in GGUF.

use crate::{Float, groups};

/// Multiplies numbers by scales: `number * scale`. Each `group` numbers share a scale; the last group may be shorter.
///
/// ```
/// use half::bf16;
///
/// let mut weights = [bf16::ZERO; 2];
/// tensorfile_quant::float32::decode(&[1.0, 3.0], &[0.5], 2, &mut weights);
/// assert_eq!(weights, [0.5, 1.5].map(bf16::from_f32));
/// ```
///
/// # Panics
///
/// If the lengths of `numbers`, `scales` and `out` do not match.
pub fn decode<F: Float>(numbers: &[f32], scales: &[f32], group: usize, out: &mut [F]) {
    groups::decode_each(
        numbers,
        scales,
        group,
        out,
        #[inline(always)]
        |number, scale| number * scale,
    );
}
