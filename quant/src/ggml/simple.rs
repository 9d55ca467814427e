//! Blocks with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q1_0 and Q2_0.

use super::{field, number, scale};
use crate::Float;

/// ```text
/// d: f16 | codes: u4[32]
/// ```
///
/// The low bits of all bytes are first, as in all blocks here with halves of bytes.
#[inline(always)]
pub(super) fn q4_0<F: Float>(block: &[u8; 18], out: &mut [F; 32]) {
    let d = scale(block, 0);
    let codes = halves(field(block, 2));
    *out = codes.map(|code| F::nearest((number(code) - 8.0) * d));
}

/// ```text
/// d: f16 | m: f16 | codes: u4[32]
/// ```
#[inline(always)]
pub(super) fn q4_1<F: Float>(block: &[u8; 20], out: &mut [F; 32]) {
    let (d, m) = (scale(block, 0), scale(block, 2));
    let codes = halves(field(block, 4));
    *out = codes.map(|code| F::nearest(number(code) * d + m));
}

/// ```text
/// d: f16 | highest bits: u1[32] | codes: u4[32]
/// ```
#[inline(always)]
pub(super) fn q5_0<F: Float>(block: &[u8; 22], out: &mut [F; 32]) {
    let d = scale(block, 0);
    let codes = with_highest_bits(field(block, 2), field(block, 6));
    *out = codes.map(|code| F::nearest((number(code) - 16.0) * d));
}

/// ```text
/// d: f16 | m: f16 | highest bits: u1[32] | codes: u4[32]
/// ```
#[inline(always)]
pub(super) fn q5_1<F: Float>(block: &[u8; 24], out: &mut [F; 32]) {
    let (d, m) = (scale(block, 0), scale(block, 2));
    let codes = with_highest_bits(field(block, 4), field(block, 8));
    *out = codes.map(|code| F::nearest(number(code) * d + m));
}

/// ```text
/// d: f16 | codes: i8[32]
/// ```
#[inline(always)]
pub(super) fn q8_0<F: Float>(block: &[u8; 34], out: &mut [F; 32]) {
    let d = scale(block, 0);
    let codes: &[u8; 32] = field(block, 2);
    *out = codes.map(|code| F::nearest(number(code) * d));
}

/// ```text
/// d: f16 | codes: u1[128]
/// ```
#[inline(always)]
pub(super) fn q1_0<F: Float>(block: &[u8; 18], out: &mut [F; 128]) {
    let d = scale(block, 0);
    let bits: &[u8; 16] = field(block, 2);
    for (&bits, out) in bits.iter().zip(out.as_chunks_mut::<8>().0) {
        *out = std::array::from_fn(|i| F::nearest(if bits >> i & 1 == 0 { -d } else { d }));
    }
}

/// ```text
/// d: f16 | codes: u2[64]
/// ```
#[inline(always)]
pub(super) fn q2_0<F: Float>(block: &[u8; 18], out: &mut [F; 64]) {
    let d = scale(block, 0);
    let codes: &[u8; 16] = field(block, 2);
    for (&codes, out) in codes.iter().zip(out.as_chunks_mut::<4>().0) {
        *out = std::array::from_fn(|i| F::nearest((number(codes >> (2 * i) & 3) - 1.0) * d));
    }
}

/// Returns the low bits of 16 bytes, then the high bits.
#[inline(always)]
pub(super) fn halves(bytes: &[u8; 16]) -> [u8; 32] {
    std::array::from_fn(|i| if i < 16 { bytes[i] & 0xf } else { bytes[i - 16] >> 4 })
}

#[inline(always)]
fn with_highest_bits(bits: &[u8; 4], codes: &[u8; 16]) -> [u8; 32] {
    let codes = halves(codes);
    std::array::from_fn(|i| codes[i] | (bits[i / 8] >> (i % 8) & 1) << 4)
}
