//! Blocks of 256 weights with scales of scales: Q2_K to Q6_K, and Q8_K.

use super::one_scale::subtract;
use super::{field, scale};

/// ```text
/// (scale: u4, minimum: u4)[16] | codes: u2[256] | d: f16 | dmin: f16
/// ```
#[inline(always)]
pub(super) fn q2_k(block: &[u8; 84], codes: &mut [i8; 256], scales: &mut [f32; 16], shifts: &mut [f32; 16]) {
    let (d, minimum) = (scale(block, 80), scale(block, 82));
    let products: &[u8; 16] = field(block, 0);
    for ((&product, scale), shift) in products.iter().zip(scales).zip(shifts) {
        *scale = d * f32::from(product & 0xf);
        *shift = -(minimum * f32::from(product >> 4));
    }
    quarters(field(block, 16), codes);
}

/// ```text
/// highest bits: u1[256] | lower bits: u2[256] | scales: u6[16] | d: f16
/// ```
///
/// A byte has the highest bits of every 32nd code.
#[inline(always)]
pub(super) fn q3_k(block: &[u8; 110], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    let d = scale(block, 108);
    for (i, scale) in scales.iter_mut().enumerate() {
        *scale = d * (f32::from(q3_scale(field(block, 96), i)) - 32.0);
    }
    quarters(field(block, 32), codes);
    add_bits(field(block, 0), 2, codes);
    subtract(codes, 4);
}

/// Returns a scale of Q3_K. The first 8 bytes have the lower 4 bits of all scales, and the last 4 bytes the upper 2 bits of every
/// fourth scale.
#[inline(always)]
fn q3_scale(bytes: &[u8; 12], i: usize) -> u8 {
    let low = if i < 8 { bytes[i] & 0xf } else { bytes[i - 8] >> 4 };
    low | (bytes[8 + i % 4] >> (i / 4 * 2) & 3) << 4
}

/// ```text
/// d: f16 | dmin: f16 | (scale: u6, minimum: u6)[8] | codes: u4[256]
/// ```
#[inline(always)]
pub(super) fn q4_k(block: &[u8; 144], codes: &mut [i8; 256], scales: &mut [f32; 16], shifts: &mut [f32; 16]) {
    scales_and_shifts(block, scales, shifts);
    halves(field(block, 16), codes);
}

/// ```text
/// d: f16 | dmin: f16 | (scale: u6, minimum: u6)[8] | highest bits: u1[256] | lower bits: u4[256]
/// ```
///
/// A byte has the highest bits of every 32nd code.
#[inline(always)]
pub(super) fn q5_k(block: &[u8; 176], codes: &mut [i8; 256], scales: &mut [f32; 16], shifts: &mut [f32; 16]) {
    scales_and_shifts(block, scales, shifts);
    halves(field(block, 48), codes);
    add_bits(field(block, 16), 4, codes);
}

/// Unpacks the scales and minima of Q4_K and Q5_K. The first four of each are the lower 6 bits of 8 bytes. The other four have
/// their upper 2 bits there, and their lower 4 bits in the last 4 bytes.
#[inline(always)]
fn scales_and_shifts(block: &[u8], scales: &mut [f32; 16], shifts: &mut [f32; 16]) {
    let (d, dmin) = (scale(block, 0), scale(block, 2));
    let bytes: &[u8; 12] = field(block, 4);
    for i in 0..8 {
        let (scale, minimum) = if i < 4 {
            (bytes[i] & 0x3f, bytes[i + 4] & 0x3f)
        } else {
            (bytes[i + 4] & 0xf | bytes[i - 4] >> 6 << 4, bytes[i + 4] >> 4 | bytes[i] >> 6 << 4)
        };
        scales[2 * i..][..2].fill(d * f32::from(scale));
        shifts[2 * i..][..2].fill(-(dmin * f32::from(minimum)));
    }
}

/// ```text
/// lower bits: u4[256] | upper bits: u2[256] | scales: i8[16] | d: f16
/// ```
///
/// Unlike in the other types, every 64 bytes of `u4[256]` have the lower bits of 128 codes.
#[inline(always)]
pub(super) fn q6_k(block: &[u8; 210], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    let d = scale(block, 208);
    let factors: &[u8; 16] = field(block, 192);
    for (&factor, scale) in factors.iter().zip(scales) {
        *scale = d * f32::from(factor.cast_signed());
    }
    let lower: &[u8; 128] = field(block, 0);
    let mut upper = [0; 256];
    quarters(field(block, 128), &mut upper);
    for ((lower, upper), codes) in
        lower.as_chunks::<64>().0.iter().zip(upper.as_chunks::<128>().0).zip(codes.as_chunks_mut::<128>().0)
    {
        for i in 0..64 {
            codes[i] = ((lower[i] & 0xf).cast_signed() | upper[i] << 4) - 32;
            codes[i + 64] = ((lower[i] >> 4).cast_signed() | upper[i + 64] << 4) - 32;
        }
    }
}

/// ```text
/// d: f32 | codes: i8[256] | sums: i16[16]
/// ```
#[inline(always)]
pub(super) fn q8_k(block: &[u8; 292], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    *scales = [f32::from_le_bytes(*field(block, 0)); 16];
    for (&byte, code) in field::<256>(block, 4).iter().zip(codes) {
        *code = byte.cast_signed();
    }
}

/// Writes codes of 2 bits. Every 32 bytes have 128 of them, with the lowest bits of all bytes first.
#[inline(always)]
pub(super) fn quarters(bytes: &[u8; 64], codes: &mut [i8; 256]) {
    for (bytes, codes) in bytes.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<128>().0) {
        for (i, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (&byte, code) in bytes.iter().zip(codes) {
                *code = (byte >> (2 * i) & 3).cast_signed();
            }
        }
    }
}

/// Writes codes of 4 bits. Every 32 bytes have 64 of them, with the low bits of all bytes first.
#[inline(always)]
fn halves(bytes: &[u8; 128], codes: &mut [i8; 256]) {
    for (bytes, codes) in bytes.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<64>().0) {
        let (low, high) = codes.split_at_mut(32);
        for ((&byte, low), high) in bytes.iter().zip(low).zip(high) {
            *low = (byte & 0xf).cast_signed();
            *high = (byte >> 4).cast_signed();
        }
    }
}

/// Sets a bit of each code. A byte has the bits of every 32nd code.
#[inline(always)]
fn add_bits(bits: &[u8; 32], place: usize, codes: &mut [i8; 256]) {
    for (i, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (&bits, code) in bits.iter().zip(codes) {
            *code |= (bits >> i & 1).cast_signed() << place;
        }
    }
}
