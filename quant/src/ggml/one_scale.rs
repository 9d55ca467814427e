//! Blocks with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q1_0 and Q2_0.

use super::{field, masks, scale};

/// ```text
/// d: f16 | codes: u4[32]
/// ```
#[inline(always)]
pub(super) fn q4_0(block: &[u8; 18], codes: &mut [i8; 32], scales: &mut [f32; 2]) {
    *scales = [scale(block, 0); 2];
    halves(field(block, 2), 8, codes);
}

/// ```text
/// d: f16 | m: f16 | codes: u4[32]
/// ```
#[inline(always)]
pub(super) fn q4_1(block: &[u8; 20], codes: &mut [i8; 32], scales: &mut [f32; 2], shifts: &mut [f32; 2]) {
    *scales = [scale(block, 0); 2];
    *shifts = [scale(block, 2); 2];
    halves(field(block, 4), 0, codes);
}

/// ```text
/// d: f16 | highest bits: u1[32] | codes: u4[32]
/// ```
#[inline(always)]
pub(super) fn q5_0(block: &[u8; 22], codes: &mut [i8; 32], scales: &mut [f32; 2]) {
    *scales = [scale(block, 0); 2];
    halves(field(block, 6), 0, codes);
    for (&bits, codes) in field::<4>(block, 2).iter().zip(codes.as_chunks_mut().0) {
        // Codes without their highest bit become negative.
        *codes = masks::codes(masks::word(*codes) | !masks::mask(bits) & masks::repeat(0xf0));
    }
}

/// ```text
/// d: f16 | m: f16 | highest bits: u1[32] | codes: u4[32]
/// ```
#[inline(always)]
pub(super) fn q5_1(block: &[u8; 24], codes: &mut [i8; 32], scales: &mut [f32; 2], shifts: &mut [f32; 2]) {
    *scales = [scale(block, 0); 2];
    *shifts = [scale(block, 2); 2];
    halves(field(block, 8), 0, codes);
    for (&bits, codes) in field::<4>(block, 4).iter().zip(codes.as_chunks_mut().0) {
        *codes = masks::codes(masks::word(*codes) | masks::mask(bits) & masks::repeat(0x10));
    }
}

/// ```text
/// d: f16 | codes: i8[32]
/// ```
#[inline(always)]
pub(super) fn q8_0(block: &[u8; 34], codes: &mut [i8; 32], scales: &mut [f32; 2]) {
    *scales = [scale(block, 0); 2];
    for (&byte, code) in field::<32>(block, 2).iter().zip(codes) {
        *code = byte.cast_signed();
    }
}

/// ```text
/// d: f16 | codes: u1[128]
/// ```
///
/// A bit of 0 is -1.
#[inline(always)]
pub(super) fn q1_0(block: &[u8; 18], codes: &mut [i8; 128], scales: &mut [f32; 8]) {
    *scales = [scale(block, 0); 8];
    let bits: &[u8; 16] = field(block, 2);
    for (&bits, codes) in bits.iter().zip(codes.as_chunks_mut().0) {
        *codes = masks::codes(!masks::mask(bits) | masks::repeat(1));
    }
}

/// ```text
/// d: f16 | codes: u2[64]
/// ```
#[inline(always)]
pub(super) fn q2_0(block: &[u8; 18], codes: &mut [i8; 64], scales: &mut [f32; 4]) {
    *scales = [scale(block, 0); 4];
    let bytes: &[u8; 16] = field(block, 2);
    for (&byte, codes) in bytes.iter().zip(codes.as_chunks_mut::<4>().0) {
        for (i, code) in codes.iter_mut().enumerate() {
            *code = (byte >> (2 * i) & 3).cast_signed() - 1;
        }
    }
}

/// Writes the low bits of 16 bytes, then the high bits, and subtracts `middle` from all.
#[inline(always)]
pub(super) fn halves(bytes: &[u8; 16], middle: i8, codes: &mut [i8; 32]) {
    let (low, high) = codes.split_at_mut(16);
    for ((&byte, low), high) in bytes.iter().zip(low).zip(high) {
        *low = (byte & 0xf).cast_signed() - middle;
        *high = (byte >> 4).cast_signed() - middle;
    }
}

#[inline(always)]
pub(super) fn subtract(codes: &mut [i8], middle: i8) {
    codes.iter_mut().for_each(|code| *code -= middle);
}
