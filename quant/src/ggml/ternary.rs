//! Ternary blocks: TQ1_0 and TQ2_0. The value is `(code - 1) * d`.

use super::{field, number, scale};
use crate::Float;

/// ```text
/// codes: u8[52], the last 4 with 4 codes instead of 5 | d: f16
/// ```
///
/// A byte is a fraction of 256 whose first digits in base 3 are the codes. The first digits of 32 bytes come first, then
/// those of 16 bytes and of 4.
#[inline(always)]
pub(super) fn tq1_0<F: Float>(block: &[u8; 54], out: &mut [F; 256]) {
    let d = scale(block, 52);
    let (first, rest) = out.split_at_mut(160);
    let (second, third) = rest.split_at_mut(80);
    digits::<32, F>(field(block, 0), d, first);
    digits::<16, F>(field(block, 32), d, second);
    digits::<4, F>(field(block, 48), d, third);
}

#[inline(always)]
fn digits<const BYTES: usize, F: Float>(bytes: &[u8; BYTES], d: f32, out: &mut [F]) {
    let mut fractions = *bytes;
    for out in out.as_chunks_mut::<BYTES>().0 {
        *out = fractions.map(|fraction| {
            let digit = (u16::from(fraction) * 3).to_le_bytes()[1];
            F::nearest((number(digit) - 1.0) * d)
        });
        fractions = fractions.map(|fraction| fraction.wrapping_mul(3));
    }
}

/// ```text
/// codes: u2[256] | d: f16
/// ```
///
/// 32 bytes have 128 codes: the lowest bits of all bytes are first.
#[inline(always)]
pub(super) fn tq2_0<F: Float>(block: &[u8; 66], out: &mut [F; 256]) {
    let d = scale(block, 64);
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let codes: &[u8; 32] = field(block, i / 4 * 32);
        let shift = i % 4 * 2;
        *out = codes.map(|code| F::nearest((number(code >> shift & 3) - 1.0) * d));
    }
}
