//! Points of 4 weights, with signs: IQ3_XXS and IQ3_S.

use super::iq2::{even_signs, signed};
use super::{field, grids, number, scale};
use crate::Float;

/// ```text
/// d: f16 | points: u8[64] | (signs: u7[4], scale: u4)[8]
/// ```
#[inline(always)]
pub(super) fn iq3_xxs<F: Float>(block: &[u8; 98], out: &mut [F; 256]) {
    let d = scale(block, 0);
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let points: &[u8; 8] = field(block, 2 + 8 * i);
        let signs_and_scale = u32::from_le_bytes(*field(block, 66 + 4 * i));
        let d = d * (0.5 + number(((signs_and_scale >> 28) & 0xf) as u8)) * 0.5;
        for (j, (&[first, second], out)) in points.as_chunks().0.iter().zip(out.as_chunks_mut().0).enumerate() {
            let signs = even_signs(signs_and_scale >> (7 * j));
            signed(&both(&grids::IQ3_XXS, usize::from(first), usize::from(second)), signs, d, out);
        }
    }
}

/// ```text
/// d: f16 | lower bits of points: u8[64] | highest bits of points: u1[64] | signs: u1[256] | scales: u4[8]
/// ```
#[inline(always)]
pub(super) fn iq3_s<F: Float>(block: &[u8; 110], out: &mut [F; 256]) {
    let d = scale(block, 0);
    let lower: &[u8; 64] = field(block, 2);
    let highest: &[u8; 8] = field(block, 66);
    let signs: &[u8; 32] = field(block, 74);
    let scales: &[u8; 4] = field(block, 106);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let d = d * (1.0 + 2.0 * number(scales[i / 8] >> (i % 8 / 4 * 4) & 0xf));
        let highest = usize::from(highest[i / 4]) >> (i % 4 * 2);
        let [first, second] = [0, 1].map(|j| usize::from(lower[2 * i + j]) | (highest >> j & 1) << 8);
        signed(&both(&grids::IQ3_S, first, second), signs[i], d, out);
    }
}

#[inline(always)]
fn both<const POINTS: usize>(grid: &[[i8; 4]; POINTS], first: usize, second: usize) -> [i8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (grid[first], grid[second]);
    [a, b, c, d, e, f, g, h]
}
