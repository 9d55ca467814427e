//! Codes of 4 bits that are looked up in a map: IQ4_NL, IQ4_XS, MXFP4 and NVFP4.

use super::{field, number, scale};
use crate::{Float, Float8};

const IQ4: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// ```text
/// d: f16 | codes: u4[32]
/// ```
#[inline(always)]
pub(super) fn iq4_nl<F: Float>(block: &[u8; 18], out: &mut [F; 32]) {
    by_map(field(block, 2), scale(block, 0), out);
}

/// ```text
/// d: f16 | upper bits of scales: u2[8] | lower bits of scales: u4[8] | codes: u4[256]
/// ```
#[inline(always)]
pub(super) fn iq4_xs<F: Float>(block: &[u8; 136], out: &mut [F; 256]) {
    let d = scale(block, 0);
    let upper: &[u8; 2] = field(block, 2);
    let lower: &[u8; 4] = field(block, 4);
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let scale = lower[i / 2] >> (i % 2 * 4) & 0xf | (upper[i / 4] >> (i % 4 * 2) & 3) << 4;
        by_map(field(block, 8 + 16 * i), d * (number(scale) - 32.0), out);
    }
}

#[inline(always)]
fn by_map<F: Float>(codes: &[u8; 16], d: f32, out: &mut [F; 32]) {
    let codes = super::simple::halves(codes);
    *out = codes.map(|code| F::nearest(d * f32::from(IQ4[usize::from(code)])));
}

/// ```text
/// e: e8m0 | codes: e2m1[32]
/// ```
#[inline(always)]
pub(super) fn mxfp4<F: Float>(block: &[u8; 17], out: &mut [F; 32]) {
    // Half of 2^(e - 127). ggml knows no NaN here.
    let e = u32::from(block[0]);
    let d = f32::from_bits(if e < 2 { 0x20_0000 << e } else { (e - 1) << 23 });
    *out = super::simple::halves(field(block, 1)).map(|code| F::nearest(twice_e2m1(code) * d));
}

/// ```text
/// scales: e4m3[4] | codes: e2m1[64]
/// ```
///
/// 8 bytes have the codes of a scale: the low bits of all bytes are first. ggml ignores the signs of scales, and decodes 0x7f as
/// 0 and 0xff as 480.
#[inline(always)]
pub(super) fn nvfp4<F: Float>(block: &[u8; 36], out: &mut [F; 64]) {
    let scales: &[u8; 4] = field(block, 0);
    for (i, (&scale, out)) in scales.iter().zip(out.as_chunks_mut::<16>().0).enumerate() {
        let d = match scale {
            0x7f => 0.0,
            0xff => 480.0,
            _ => Float8::E4m3Fn.to_f32(scale & 0x7f),
        } * 0.5;
        let codes: &[u8; 8] = field(block, 4 + 8 * i);
        *out = std::array::from_fn(|j| {
            let code = if j < 8 { codes[j] & 0xf } else { codes[j - 8] >> 4 };
            F::nearest(twice_e2m1(code) * d)
        });
    }
}

/// Returns twice the number of a code: integers, of which -0 is none.
#[inline(always)]
fn twice_e2m1(code: u8) -> f32 {
    const MAP: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
    f32::from(MAP[usize::from(code & 0xf)])
}
