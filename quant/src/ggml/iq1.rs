//! Points of 8 ternary weights, shifted by an eighth: IQ1_S and IQ1_M. The value is `d * (point ± 0.125)`.

use super::{field, grids, number, scale};
use crate::Float;

/// ```text
/// d: f16 | lower bits of points: u8[32] | (upper bits of points: u3[4], scale: u3, shift: u1)[8]
/// ```
#[inline(always)]
pub(super) fn iq1_s<F: Float>(block: &[u8; 50], out: &mut [F; 256]) {
    let d = scale(block, 0);
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let lower: &[u8; 4] = field(block, 2 + 4 * i);
        let upper = u16::from_le_bytes(*field(block, 34 + 2 * i));
        let d = odd(d, upper >> 12);
        for (j, (&lower, out)) in lower.iter().zip(out.as_chunks_mut().0).enumerate() {
            shifted(lower, upper >> (3 * j), upper >> 15 == 1, d, out);
        }
    }
}

/// ```text
/// lower bits of points: u8[32] | (upper bits of points: u3, shift: u1)[32] | (scales: u3[4], d: u4)[4]
/// ```
///
/// The scale is an `f16` in four parts, the lowest bits first.
#[inline(always)]
pub(super) fn iq1_m<F: Float>(block: &[u8; 56], out: &mut [F; 256]) {
    let scales: [u16; 4] = std::array::from_fn(|i| u16::from_le_bytes(*field(block, 48 + 2 * i)));
    let [a, b, c, d] = scales.map(|scales| scales >> 12);
    let d = half::f16::from_bits(a | b << 4 | c << 8 | d << 12).widen();
    let lower: &[u8; 32] = field(block, 0);
    let upper: &[u8; 16] = field(block, 32);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let upper = upper[i / 2] >> (i % 2 * 4);
        let d = odd(d, scales[i / 8] >> (i % 8 / 2 * 3));
        shifted(lower[i], upper.into(), upper & 8 != 0, d, out);
    }
}

#[inline(always)]
fn odd(d: f32, scale: u16) -> f32 {
    d * (2.0 * number((scale & 7) as u8) + 1.0)
}

#[inline(always)]
fn shifted<F: Float>(lower: u8, upper: u16, is_negative: bool, d: f32, out: &mut [F; 8]) {
    let point = &grids::IQ1[usize::from(lower) | usize::from(upper & 7) << 8];
    let shift = if is_negative { -0.125 } else { 0.125 };
    *out = point.map(|number| F::nearest(d * (f32::from(number) + shift)));
}
