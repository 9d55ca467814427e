use half::{bf16, f16};

use super::number::Numeric;
use super::vectors::{map, narrow_f16, widen_f16};

/// A float type whose numbers are all numbers of `f32`.
pub(super) trait SmallFloat: Numeric {
    /// Converts to `f32`, exactly. The slices have the same length.
    fn widen(from: &[Self], to: &mut [f32]);

    /// Converts to the nearest number, ties to even; out of range, to infinity, or NaN if there is none.
    fn narrow(from: &[f32], to: &mut [Self]);
}

impl SmallFloat for f16 {
    fn widen(from: &[Self], to: &mut [f32]) {
        widen_f16(from, to);
    }

    fn narrow(from: &[f32], to: &mut [Self]) {
        narrow_f16(from, to);
    }
}

impl SmallFloat for bf16 {
    fn widen(from: &[Self], to: &mut [f32]) {
        map(from, to, |from| f32::from_bits(u32::from(from.to_bits()) << 16));
    }

    // As `half` does it, but without branches, so that many are done at once.
    fn narrow(from: &[f32], to: &mut [Self]) {
        map(from, to, |from| {
            let bits = from.to_bits();
            let last = (bits >> 16) & 1;
            let nearest = if from.is_nan() { bits | 0x40_0000 } else { bits.wrapping_add(0x7fff + last) };
            Self::from_bits(upper_half(nearest))
        });
    }
}

/// Returns the upper 16 bits. Shifted with their sign, they fit the instructions that pack 32 bits into 16.
#[inline(always)]
fn upper_half(bits: u32) -> u16 {
    ((bits.cast_signed() >> 16) as i16).cast_unsigned()
}
