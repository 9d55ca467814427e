//! Points of 8 weights, with signs: IQ2_XXS, IQ2_XS and IQ2_S.

use half::bf16;

use super::{field, grids, scale};
use crate::Float;

/// ```text
/// d: f16 | (points: u8[4], signs: u7[4], scale: u4)[8]
/// ```
#[inline(always)]
pub(super) fn iq2_xxs(block: &[u8; 66], out: &mut [f32; 256]) {
    let d = scale(block, 0);
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let points: &[u8; 4] = field(block, 2 + 8 * i);
        let signs_and_scale = u32::from_le_bytes(*field(block, 6 + 8 * i));
        let scale = quarter(d, ((signs_and_scale >> 28) & 0xf) as u8);
        for (j, (&point, out)) in points.iter().zip(out.as_chunks_mut().0).enumerate() {
            *out = scaled(&grids::IQ2_XXS[usize::from(point)], even_signs(signs_and_scale >> (7 * j)), scale);
        }
    }
}

/// ```text
/// d: f16 | (point: u9, signs: u7)[32] | scales: u4[16]
/// ```
#[inline(always)]
pub(super) fn iq2_xs(block: &[u8; 74], out: &mut [f32; 256]) {
    let scales = small_scales(scale(block, 0), field(block, 66));
    for (i, (out, scale)) in out.as_chunks_mut::<16>().0.iter_mut().zip(scales).enumerate() {
        let points: &[u8; 4] = field(block, 2 + 4 * i);
        for (out, &bytes) in out.as_chunks_mut().0.iter_mut().zip(points.as_chunks().0) {
            let point_and_signs = u16::from_le_bytes(bytes);
            let point = &grids::IQ2_XS[usize::from(point_and_signs % 512)];
            *out = scaled(point, even_signs(u32::from(point_and_signs >> 9)), scale);
        }
    }
}

/// ```text
/// d: f16 | lower bits of points: u8[32] | signs: u8[32] | upper bits of points: u2[32] | scales: u4[16]
/// ```
#[inline(always)]
pub(super) fn iq2_s(block: &[u8; 82], out: &mut [f32; 256]) {
    let scales = small_scales(scale(block, 0), field(block, 74));
    let lower: &[u8; 32] = field(block, 2);
    let signs: &[u8; 32] = field(block, 34);
    let upper: &[u8; 8] = field(block, 66);
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (j, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            let point = usize::from(lower[4 * i + j]) | usize::from(upper[i] >> (2 * j) & 3) << 8;
            *out = scaled(&grids::IQ2_S[point], &SIGNS[usize::from(signs[4 * i + j])], scales[2 * i + j / 2]);
        }
    }
}

#[inline(always)]
fn small_scales(d: f32, bytes: &[u8; 8]) -> [f32; 16] {
    std::array::from_fn(|i| quarter(d, bytes[i / 2] >> (i % 2 * 4) & 0xf))
}

#[inline(always)]
fn quarter(d: f32, scale: u8) -> f32 {
    d * (0.5 + f32::from(scale)) * 0.25
}

/// The signs of 8 numbers, by their bits.
pub(super) static SIGNS: [Signs; 256] = {
    let mut table = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        table[bits as usize] = signs_of(bits);
        bits += 1;
    }
    table
};

/// Sign bits of `f32`. A table of them is faster than shifts, which rustc does not vectorize here.
type Signs = [u32; 8];

const fn signs_of(bits: u32) -> Signs {
    let (mut signs, mut i) = ([0; 8], 0);
    while i < 8 {
        signs[i] = (bits >> i & 1) << 31;
        i += 1;
    }
    signs
}

/// Returns the signs of 8 numbers by 7 bits. The last one is not stored: the number of negative signs is even.
#[inline(always)]
pub(super) fn even_signs(bits: u32) -> &'static Signs {
    static SIGNS: [Signs; 128] = {
        let mut table = [[0; 8]; 128];
        let mut bits = 0_u32;
        while bits < 128 {
            table[bits as usize] = signs_of(bits | (bits.count_ones() % 2) << 7);
            bits += 1;
        }
        table
    };
    &SIGNS[(bits & 0x7f) as usize]
}

/// Multiplies the numbers of a point by their signs and the scale.
#[inline(always)]
pub(super) fn scaled(point: &[bf16; 8], signs: &Signs, scale: f32) -> [f32; 8] {
    std::array::from_fn(|i| f32::from_bits(point[i].widen().to_bits() ^ signs[i]) * scale)
}
