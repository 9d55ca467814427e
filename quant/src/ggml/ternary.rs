//! Ternary blocks: TQ1_0 and TQ2_0.

use super::k::quarters;
use super::one_scale::subtract;
use super::{field, scale};

/// ```text
/// codes: u8[52], the last 4 with 4 codes instead of 5 | d: f16
/// ```
///
/// A byte is a fraction of 256. Its digits in base 3 are codes. 32 bytes have the first 160 codes: the first digits of all bytes,
/// then the second digits, and so on. The next 16 bytes have 80 codes, and the last 4 have 16.
#[inline(always)]
pub(super) fn tq1_0(block: &[u8; 54], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    *scales = [scale(block, 52); 16];
    let (first, rest) = codes.split_at_mut(160);
    let (second, third) = rest.split_at_mut(80);
    digits::<32>(field(block, 0), first);
    digits::<16>(field(block, 32), second);
    digits::<4>(field(block, 48), third);
}

#[inline(always)]
fn digits<const BYTES: usize>(bytes: &[u8; BYTES], codes: &mut [i8]) {
    let mut fractions = *bytes;
    for codes in codes.as_chunks_mut::<BYTES>().0 {
        for (fraction, code) in fractions.iter_mut().zip(codes) {
            // The next digit is the upper byte of three times the fraction, which is 0, 1 or 2.
            *code = i8::from(*fraction > 85) + i8::from(*fraction > 170) - 1;
            *fraction = fraction.wrapping_mul(3);
        }
    }
}

/// ```text
/// codes: u2[256] | d: f16
/// ```
#[inline(always)]
pub(super) fn tq2_0(block: &[u8; 66], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    *scales = [scale(block, 64); 16];
    quarters(field(block, 0), codes);
    subtract(codes, 1);
}
