//! Points of 8 weights, with signs: IQ2_XXS, IQ2_XS and IQ2_S.

use super::{field, grids, masks, scale};

/// ```text
/// d: f16 | (points: u8[4], signs: u7[4], scale: u4)[8]
/// ```
#[inline(always)]
pub(super) fn iq2_xxs(block: &[u8; 66], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    let d = scale(block, 0);
    for (i, (codes, scales)) in codes.as_chunks_mut::<32>().0.iter_mut().zip(scales.as_chunks_mut().0).enumerate() {
        let points: &[u8; 4] = field(block, 2 + 8 * i);
        let signs_and_scale = u32::from_le_bytes(*field(block, 6 + 8 * i));
        *scales = [quarter(d, ((signs_and_scale >> 28) & 0xf) as u8); 2];
        for (j, (&point, codes)) in points.iter().zip(codes.as_chunks_mut().0).enumerate() {
            let mask = even_mask(signs_and_scale >> (7 * j));
            *codes = signed(grids::IQ2_XXS[usize::from(point)], mask);
        }
    }
}

/// ```text
/// d: f16 | (point: u9, signs: u7)[32] | scales: u4[16]
/// ```
#[inline(always)]
pub(super) fn iq2_xs(block: &[u8; 74], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    small_scales(scale(block, 0), field(block, 66), scales);
    for (i, codes) in codes.as_chunks_mut().0.iter_mut().enumerate() {
        let point_and_signs = u16::from_le_bytes(*field(block, 2 + 2 * i));
        let mask = even_mask(u32::from(point_and_signs >> 9));
        *codes = signed(grids::IQ2_XS[usize::from(point_and_signs % 512)], mask);
    }
}

/// ```text
/// d: f16 | lower bits of points: u8[32] | signs: u8[32] | upper bits of points: u2[32] | scales: u4[16]
/// ```
#[inline(always)]
pub(super) fn iq2_s(block: &[u8; 82], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    small_scales(scale(block, 0), field(block, 74), scales);
    let lower: &[u8; 32] = field(block, 2);
    let signs: &[u8; 32] = field(block, 34);
    let upper: &[u8; 8] = field(block, 66);
    for (i, codes) in codes.as_chunks_mut().0.iter_mut().enumerate() {
        let point = usize::from(lower[i]) | usize::from(upper[i / 4] >> (i % 4 * 2) & 3) << 8;
        *codes = signed(grids::IQ2_S[point], masks::mask(signs[i]));
    }
}

#[inline(always)]
fn small_scales(d: f32, bytes: &[u8; 8], scales: &mut [f32; 16]) {
    for (&byte, scales) in bytes.iter().zip(scales.as_chunks_mut().0) {
        *scales = [quarter(d, byte & 0xf), quarter(d, byte >> 4)];
    }
}

#[inline(always)]
fn quarter(d: f32, scale: u8) -> f32 {
    d * (0.5 + f32::from(scale)) * 0.25
}

/// Returns the mask of 8 signs. The last one is not stored: the number of negative signs is even.
#[inline(always)]
pub(super) fn even_mask(signs: u32) -> u64 {
    static MASKS: [u64; 128] = {
        let mut masks = [0; 128];
        let mut signs = 0_usize;
        while signs < masks.len() {
            masks[signs] = masks::mask_of(signs | (signs.count_ones() as usize % 2) << 7);
            signs += 1;
        }
        masks
    };
    MASKS[(signs & 0x7f) as usize]
}

/// Negates the numbers of a point whose bytes of the mask are 0xff. Grids have no 0.
#[inline(always)]
pub(super) fn signed(point: [i8; 8], mask: u64) -> [i8; 8] {
    // Only the negation of 0 would carry into the next byte.
    masks::codes((masks::word(point) ^ mask) + (mask & masks::repeat(1)))
}
