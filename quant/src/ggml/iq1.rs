//! Points of 8 ternary weights, shifted by an eighth: IQ1_S and IQ1_M.
//!
//! The value is `d * (point ± 0.125)`. Codes are eight times the sum and scales an eighth of `d`, which is exact.

use super::{field, grids, scale};

/// ```text
/// d: f16 | lower bits of points: u8[32] | (upper bits of points: u3[4], scale: u3, shift: u1)[8]
/// ```
#[inline(always)]
pub(super) fn iq1_s(block: &[u8; 50], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    let d = scale(block, 0);
    for (i, (codes, scales)) in codes.as_chunks_mut::<32>().0.iter_mut().zip(scales.as_chunks_mut().0).enumerate() {
        let lower: &[u8; 4] = field(block, 2 + 4 * i);
        let upper = u16::from_le_bytes(*field(block, 34 + 2 * i));
        *scales = [odd_eighths(d, upper >> 12); 2];
        for (j, (&lower, codes)) in lower.iter().zip(codes.as_chunks_mut().0).enumerate() {
            *codes = shifted(lower, upper >> (3 * j), upper >> 15 == 1);
        }
    }
}

/// ```text
/// lower bits of points: u8[32] | (upper bits of points: u3, shift: u1)[32] | (scales: u3[4], d: u4)[4]
/// ```
///
/// `d` is an `f16` in four parts, the lowest bits first.
#[inline(always)]
pub(super) fn iq1_m(block: &[u8; 56], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    let words: [u16; 4] = std::array::from_fn(|i| u16::from_le_bytes(*field(block, 48 + 2 * i)));
    let [a, b, c, d] = words.map(|word| word >> 12);
    let d = half::f16::from_bits(a | b << 4 | c << 8 | d << 12);
    let d = crate::Float::widen(d);
    for (i, scale) in scales.iter_mut().enumerate() {
        *scale = odd_eighths(d, words[i / 4] >> (i % 4 * 3));
    }
    let lower: &[u8; 32] = field(block, 0);
    let upper: &[u8; 16] = field(block, 32);
    for (i, codes) in codes.as_chunks_mut().0.iter_mut().enumerate() {
        let upper = upper[i / 2] >> (i % 2 * 4);
        *codes = shifted(lower[i], upper.into(), upper & 8 != 0);
    }
}

#[inline(always)]
fn odd_eighths(d: f32, scale: u16) -> f32 {
    d * (2.0 * f32::from((scale & 7) as u8) + 1.0) * 0.125
}

/// Returns eight times a shifted point.
#[inline(always)]
fn shifted(lower: u8, upper: u16, is_negative: bool) -> [i8; 8] {
    /// The points, each shifted up and down.
    static SHIFTED: [[[i8; 8]; 2]; 2048] = {
        let mut shifted = [[[0; 8]; 2]; 2048];
        let mut i = 0;
        while i < shifted.len() {
            let mut j = 0;
            while j < 8 {
                shifted[i][0][j] = 8 * grids::IQ1[i][j] + 1;
                shifted[i][1][j] = 8 * grids::IQ1[i][j] - 1;
                j += 1;
            }
            i += 1;
        }
        shifted
    };
    SHIFTED[usize::from(lower) | usize::from(upper & 7) << 8][usize::from(is_negative)]
}
