//! Points of 8 weights, with signs: IQ2_XXS, IQ2_XS and IQ2_S.

use super::{field, grids, number, scale};
use crate::Float;

/// ```text
/// d: f16 | (points: u8[4], signs: u7[4], scale: u4)[8]
/// ```
#[inline(always)]
pub(super) fn iq2_xxs<F: Float>(block: &[u8; 66], out: &mut [F; 256]) {
    let d = scale(block, 0);
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let points: &[u8; 4] = field(block, 2 + 8 * i);
        let signs_and_scale = u32::from_le_bytes(*field(block, 6 + 8 * i));
        let d = quarter(d, ((signs_and_scale >> 28) & 0xf) as u8);
        for (j, (&point, out)) in points.iter().zip(out.as_chunks_mut().0).enumerate() {
            let signs = even_signs(signs_and_scale >> (7 * j));
            signed(&grids::IQ2_XXS[usize::from(point)], signs, d, out);
        }
    }
}

/// ```text
/// d: f16 | (point: u9, signs: u7)[32] | scales: u4[16]
/// ```
#[inline(always)]
pub(super) fn iq2_xs<F: Float>(block: &[u8; 74], out: &mut [F; 256]) {
    let d = scale(block, 0);
    let scales: &[u8; 8] = field(block, 66);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let point_and_signs = u16::from_le_bytes(*field(block, 2 + 2 * i));
        let d = quarter(d, scales[i / 4] >> (i % 4 / 2 * 4) & 0xf);
        let signs = even_signs(u32::from(point_and_signs >> 9));
        signed(&grids::IQ2_XS[usize::from(point_and_signs % 512)], signs, d, out);
    }
}

/// ```text
/// d: f16 | lower bits of points: u8[32] | signs: u8[32] | upper bits of points: u2[32] | scales: u4[16]
/// ```
#[inline(always)]
pub(super) fn iq2_s<F: Float>(block: &[u8; 82], out: &mut [F; 256]) {
    let d = scale(block, 0);
    let lower: &[u8; 32] = field(block, 2);
    let signs: &[u8; 32] = field(block, 34);
    let upper: &[u8; 8] = field(block, 66);
    let scales: &[u8; 8] = field(block, 74);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let point = usize::from(lower[i]) | usize::from(upper[i / 4] >> (i % 4 * 2) & 3) << 8;
        let d = quarter(d, scales[i / 4] >> (i % 4 / 2 * 4) & 0xf);
        signed(&grids::IQ2_S[point], signs[i], d, out);
    }
}

#[inline(always)]
fn quarter(d: f32, scale: u8) -> f32 {
    d * (0.5 + number(scale)) * 0.25
}

/// Returns 8 signs, of which 7 are stored: the number of negative ones is even.
#[inline(always)]
pub(super) fn even_signs(signs: u32) -> u8 {
    let signs = signs & 0x7f;
    ((signs | signs.count_ones() << 7) & 0xff) as u8
}

#[inline(always)]
pub(super) fn signed<const N: usize, F: Float>(point: &[i8; N], signs: u8, d: f32, out: &mut [F; N]) {
    *out = std::array::from_fn(|i| {
        let sign = u32::from(signs) << (31 - i) & 1 << 31;
        F::nearest(f32::from_bits((d * f32::from(point[i])).to_bits() ^ sign))
    });
}
