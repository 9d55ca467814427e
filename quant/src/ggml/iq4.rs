//! Codes of 4 bits that are looked up in a map: IQ4_NL, IQ4_XS, MXFP4 and NVFP4.

use super::one_scale::halves;
use super::{field, scale};
use crate::Float8;

const IQ4: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// ```text
/// d: f16 | codes: u4[32]
/// ```
#[inline(always)]
pub(super) fn iq4_nl(block: &[u8; 18], codes: &mut [i8; 32], scales: &mut [f32; 2]) {
    *scales = [scale(block, 0); 2];
    by_map(field(block, 2), codes);
}

/// ```text
/// d: f16 | upper bits of scales: u2[8] | lower bits of scales: u4[8] | codes: u4[256]
/// ```
#[inline(always)]
pub(super) fn iq4_xs(block: &[u8; 136], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    let d = scale(block, 0);
    let upper: &[u8; 2] = field(block, 2);
    let lower: &[u8; 4] = field(block, 4);
    for (i, (codes, scales)) in codes.as_chunks_mut().0.iter_mut().zip(scales.as_chunks_mut().0).enumerate() {
        let scale = lower[i / 2] >> (i % 2 * 4) & 0xf | (upper[i / 4] >> (i % 4 * 2) & 3) << 4;
        *scales = [d * (f32::from(scale) - 32.0); 2];
        by_map(field(block, 8 + 16 * i), codes);
    }
}

/// Writes the numbers of the low bits of all bytes, then of the high bits.
#[inline(always)]
fn by_map(bytes: &[u8; 16], codes: &mut [i8; 32]) {
    /// The numbers of the low and the high bits of each byte. One look-up is faster than two.
    static PAIRS: [[i8; 2]; 256] = {
        let mut pairs = [[0; 2]; 256];
        let mut byte = 0;
        while byte < pairs.len() {
            pairs[byte] = [IQ4[byte & 0xf], IQ4[byte >> 4]];
            byte += 1;
        }
        pairs
    };
    let mut pairs = [[0; 2]; 16];
    for (&byte, pair) in bytes.iter().zip(&mut pairs) {
        *pair = PAIRS[usize::from(byte)];
    }
    let (low, high) = codes.split_at_mut(16);
    for ((pair, low), high) in pairs.iter().zip(low).zip(high) {
        [*low, *high] = *pair;
    }
}

/// ```text
/// e: e8m0 | codes: e2m1[32]
/// ```
#[inline(always)]
pub(super) fn mxfp4(block: &[u8; 17], codes: &mut [i8; 32], scales: &mut [f32; 2]) {
    // Half of 2^(e - 127), as codes are twice their numbers. For ggml, 255 is not NaN.
    let e = u32::from(block[0]);
    *scales = [f32::from_bits(if e < 2 { 0x20_0000 << e } else { (e - 1) << 23 }); 2];
    halves(field(block, 1), 0, codes);
    twice_e2m1(codes);
}

/// ```text
/// scales: e4m3[4] | codes: e2m1[64]
/// ```
///
/// Every 8 bytes have the codes of a scale, with the low bits of all bytes first. ggml ignores the signs of scales, and decodes
/// 0x7f as 0 and 0xff as 480.
#[inline(always)]
pub(super) fn nvfp4(block: &[u8; 36], codes: &mut [i8; 64], scales: &mut [f32; 4]) {
    for (i, (&byte, scale)) in field::<4>(block, 0).iter().zip(scales).enumerate() {
        *scale = match byte {
            0x7f => 0.0,
            0xff => 480.0,
            _ => Float8::E4m3Fn.to_f32(byte & 0x7f),
        } * 0.5;
        let (low, high) = codes[16 * i..][..16].split_at_mut(8);
        for ((&byte, low), high) in field::<8>(block, 4 + 8 * i).iter().zip(low).zip(high) {
            *low = (byte & 0xf).cast_signed();
            *high = (byte >> 4).cast_signed();
        }
    }
    twice_e2m1(codes);
}

/// Replaces codes by twice their numbers: 0, 1, 2, 3, 4, 6, 8, 12, and the same with a sign. Zero has none.
#[inline(always)]
fn twice_e2m1(codes: &mut [i8]) {
    for code in codes {
        let magnitude = *code & 7;
        // Comparisons are faster than a table.
        let number = magnitude + i8::from(magnitude > 4) + i8::from(magnitude > 5) + (i8::from(magnitude > 6) * 3);
        *code = if *code > 7 { -number } else { number };
    }
}
