//! Blocks of 256 weights with scales of scales: Q2_K to Q6_K, and Q8_K.

use super::{field, number, scale};
use crate::Float;

/// ```text
/// (scale: u4, minimum: u4)[16] | codes: u2[256] | d: f16 | dmin: f16
/// ```
///
/// 32 bytes have 128 codes: the lowest bits of all bytes are first.
#[inline(always)]
pub(super) fn q2_k<F: Float>(block: &[u8; 84], out: &mut [F; 256]) {
    let (d, minimum) = (scale(block, 80), scale(block, 82));
    let scales: &[u8; 16] = field(block, 0);
    let codes: &[u8; 64] = field(block, 16);
    for (i, (&scale, out)) in scales.iter().zip(out.as_chunks_mut::<16>().0).enumerate() {
        let (d, minimum) = (d * number(scale & 0xf), minimum * number(scale >> 4));
        let codes: &[u8; 16] = field(codes, i / 8 * 32 + i % 2 * 16);
        let shift = i % 8 / 2 * 2;
        *out = codes.map(|code| F::nearest(d * number(code >> shift & 3) - minimum));
    }
}

/// ```text
/// highest bits: u1[256] | codes: u2[256] | scales: u6[16] | d: f16
/// ```
#[inline(always)]
pub(super) fn q3_k<F: Float>(block: &[u8; 110], out: &mut [F; 256]) {
    let d = scale(block, 108);
    let scales = q3_scales(field(block, 96));
    for (i, (&scale, out)) in scales.iter().zip(out.as_chunks_mut::<16>().0).enumerate() {
        let d = d * (number(scale) - 32.0);
        let highest: &[u8; 16] = field(block, i % 2 * 16);
        let codes: &[u8; 16] = field(block, 32 + i / 8 * 32 + i % 2 * 16);
        let (bit, shift) = (i / 2, i % 8 / 2 * 2);
        *out = std::array::from_fn(|j| {
            let code = codes[j] >> shift & 3 | (highest[j] >> bit & 1) << 2;
            F::nearest(d * (number(code) - 4.0))
        });
    }
}

/// Unpacks the scales of Q3_K: the lower 4 bits of all are in 8 bytes, as [`halves`](super::simple::halves) has them, and then
/// the upper 2 bits, of every fourth in one byte.
#[inline(always)]
fn q3_scales(bytes: &[u8; 12]) -> [u8; 16] {
    std::array::from_fn(|i| {
        let low = if i < 8 { bytes[i] & 0xf } else { bytes[i - 8] >> 4 };
        low | (bytes[8 + i % 4] >> (i / 4 * 2) & 3) << 4
    })
}

/// ```text
/// d: f16 | dmin: f16 | (scale: u6, minimum: u6)[8] | codes: u4[256]
/// ```
///
/// 32 bytes have 64 codes: the low bits of all bytes are first.
#[inline(always)]
pub(super) fn q4_k<F: Float>(block: &[u8; 144], out: &mut [F; 256]) {
    let scales = scales_and_minima(block);
    for (i, (&(d, minimum), out)) in scales.iter().zip(out.as_chunks_mut::<32>().0).enumerate() {
        let codes: &[u8; 32] = field(block, 16 + i / 2 * 32);
        let shift = i % 2 * 4;
        *out = codes.map(|code| F::nearest(d * number(code >> shift & 0xf) - minimum));
    }
}

/// ```text
/// d: f16 | dmin: f16 | (scale: u6, minimum: u6)[8] | highest bits: u1[256] | codes: u4[256]
/// ```
#[inline(always)]
pub(super) fn q5_k<F: Float>(block: &[u8; 176], out: &mut [F; 256]) {
    let scales = scales_and_minima(block);
    let highest: &[u8; 32] = field(block, 16);
    for (i, (&(d, minimum), out)) in scales.iter().zip(out.as_chunks_mut::<32>().0).enumerate() {
        let codes: &[u8; 32] = field(block, 48 + i / 2 * 32);
        let shift = i % 2 * 4;
        *out = std::array::from_fn(|j| {
            let code = codes[j] >> shift & 0xf | (highest[j] >> i & 1) << 4;
            F::nearest(d * number(code) - minimum)
        });
    }
}

/// Returns the products of scales and minima of Q4_K and Q5_K. The first four are the lower 6 bits of bytes; their upper 2
/// bits belong to the other four.
#[inline(always)]
fn scales_and_minima(block: &[u8]) -> [(f32, f32); 8] {
    let (d, minimum) = (scale(block, 0), scale(block, 2));
    let bytes: &[u8; 12] = field(block, 4);
    std::array::from_fn(|i| {
        let (scale, min) = if i < 4 {
            (bytes[i] & 0x3f, bytes[i + 4] & 0x3f)
        } else {
            (bytes[i + 4] & 0xf | bytes[i - 4] >> 6 << 4, bytes[i + 4] >> 4 | bytes[i] >> 6 << 4)
        };
        (d * number(scale), minimum * number(min))
    })
}

/// ```text
/// lower bits: u4[256] | upper bits: u2[256] | scales: i8[16] | d: f16
/// ```
///
/// 64 bytes have the lower bits of 128 codes: the low bits of all bytes are first. 32 bytes have their upper bits.
#[inline(always)]
pub(super) fn q6_k<F: Float>(block: &[u8; 210], out: &mut [F; 256]) {
    let d = scale(block, 208);
    let scales: &[u8; 16] = field(block, 192);
    for (i, (&scale, out)) in scales.iter().zip(out.as_chunks_mut::<16>().0).enumerate() {
        let d = d * number(scale);
        let lower: &[u8; 16] = field(block, i / 8 * 64 + i % 4 * 16);
        let upper: &[u8; 16] = field(block, 128 + i / 8 * 32 + i % 2 * 16);
        let (lower_shift, upper_shift) = (i % 8 / 4 * 4, i % 8 / 2 * 2);
        *out = std::array::from_fn(|j| {
            let code = lower[j] >> lower_shift & 0xf | (upper[j] >> upper_shift & 3) << 4;
            F::nearest(d * (number(code) - 32.0))
        });
    }
}

/// ```text
/// d: f32 | codes: i8[256] | sums: i16[16]
/// ```
#[inline(always)]
pub(super) fn q8_k<F: Float>(block: &[u8; 292], out: &mut [F; 256]) {
    let d = f32::from_le_bytes(*field(block, 0));
    let codes: &[u8; 256] = field(block, 4);
    for (&code, out) in codes.iter().zip(out) {
        *out = F::nearest(d * number(code));
    }
}
