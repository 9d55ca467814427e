//! Points of 4 weights, with signs: IQ3_XXS and IQ3_S.

use half::bf16;

use super::iq2::{SIGNS, even_signs, scaled};
use super::{field, grids, scale};

/// ```text
/// d: f16 | points: u8[64] | (signs: u7[4], scale: u4)[8]
/// ```
#[inline(always)]
pub(super) fn iq3_xxs(block: &[u8; 98], out: &mut [f32; 256]) {
    let d = scale(block, 0);
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let points: &[u8; 8] = field(block, 2 + 8 * i);
        let signs_and_scale = u32::from_le_bytes(*field(block, 66 + 4 * i));
        let scale = d * (0.5 + f32::from(((signs_and_scale >> 28) & 0xf) as u8)) * 0.5;
        for (j, (&[first, second], out)) in points.as_chunks().0.iter().zip(out.as_chunks_mut().0).enumerate() {
            let point = both(&grids::IQ3_XXS, usize::from(first), usize::from(second));
            *out = scaled(&point, even_signs(signs_and_scale >> (7 * j)), scale);
        }
    }
}

/// ```text
/// d: f16 | lower bits of points: u8[64] | highest bits of points: u1[64] | signs: u1[256] | scales: u4[8]
/// ```
#[inline(always)]
pub(super) fn iq3_s(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = scale(block, 0);
    let lower: &[u8; 64] = field(block, 2);
    let highest: &[u8; 8] = field(block, 66);
    let signs: &[u8; 32] = field(block, 74);
    let scales: &[u8; 4] = field(block, 106);
    let scales: [f32; 8] = std::array::from_fn(|i| d * (1.0 + 2.0 * f32::from(scales[i / 2] >> (i % 2 * 4) & 0xf)));
    for (i, (out, scale)) in out.as_chunks_mut::<32>().0.iter_mut().zip(scales).enumerate() {
        for (j, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            let highest = usize::from(highest[i]) >> (2 * j);
            let first = usize::from(lower[8 * i + 2 * j]) | (highest & 1) << 8;
            let second = usize::from(lower[8 * i + 2 * j + 1]) | (highest & 2) << 7;
            *out = scaled(&both(&grids::IQ3_S, first, second), &SIGNS[usize::from(signs[4 * i + j])], scale);
        }
    }
}

#[inline(always)]
fn both<const POINTS: usize>(grid: &[[bf16; 4]; POINTS], first: usize, second: usize) -> [bf16; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (grid[first], grid[second]);
    [a, b, c, d, e, f, g, h]
}
