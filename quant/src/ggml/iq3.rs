//! Points of 4 weights, with signs: IQ3_XXS and IQ3_S.

use super::iq2::{even_mask, signed};
use super::{field, grids, masks, scale};

/// ```text
/// d: f16 | points: u8[64] | (signs: u7[4], scale: u4)[8]
/// ```
#[inline(always)]
pub(super) fn iq3_xxs(block: &[u8; 98], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    let d = scale(block, 0);
    for (i, (codes, scales)) in codes.as_chunks_mut::<32>().0.iter_mut().zip(scales.as_chunks_mut().0).enumerate() {
        let points: &[u8; 8] = field(block, 2 + 8 * i);
        let signs_and_scale = u32::from_le_bytes(*field(block, 66 + 4 * i));
        *scales = [d * (0.5 + f32::from(((signs_and_scale >> 28) & 0xf) as u8)) * 0.5; 2];
        for (j, (&[first, second], codes)) in points.as_chunks().0.iter().zip(codes.as_chunks_mut().0).enumerate() {
            let mask = even_mask(signs_and_scale >> (7 * j));
            *codes = signed(both(&grids::IQ3_XXS, usize::from(first), usize::from(second)), mask);
        }
    }
}

/// ```text
/// d: f16 | lower bits of points: u8[64] | highest bits of points: u1[64] | signs: u1[256] | scales: u4[8]
/// ```
#[inline(always)]
pub(super) fn iq3_s(block: &[u8; 110], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    let d = scale(block, 0);
    for (&byte, scales) in field::<4>(block, 106).iter().zip(scales.as_chunks_mut::<4>().0) {
        let [first, second] = [byte & 0xf, byte >> 4].map(|scale| d * (1.0 + 2.0 * f32::from(scale)));
        *scales = [first, first, second, second];
    }
    let lower: &[u8; 64] = field(block, 2);
    let highest: &[u8; 8] = field(block, 66);
    let signs: &[u8; 32] = field(block, 74);
    for (i, codes) in codes.as_chunks_mut().0.iter_mut().enumerate() {
        let highest = usize::from(highest[i / 4]) >> (i % 4 * 2);
        let first = usize::from(lower[2 * i]) | (highest & 1) << 8;
        let second = usize::from(lower[2 * i + 1]) | (highest & 2) << 7;
        *codes = signed(both(&grids::IQ3_S, first, second), masks::mask(signs[i]));
    }
}

#[inline(always)]
fn both<const POINTS: usize>(grid: &[[i8; 4]; POINTS], first: usize, second: usize) -> [i8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (grid[first], grid[second]);
    [a, b, c, d, e, f, g, h]
}
