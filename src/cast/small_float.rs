use half::{bf16, f16};

use super::CHUNK;
use super::changes::RoundingCounts;
use super::number::Numeric;
use super::vectors::{count_changes, map, narrow_and_count_f16, narrow_f16, round_and_count, widen_f16};

/// A float type whose numbers are a subset of `f32`.
pub(super) trait SmallFloat: Numeric {
    /// Converts to `f32`, exactly. The slices have the same length.
    fn widen(from: &[Self], to: &mut [f32]);

    /// Converts to the nearest number, ties to even; out of range, to infinity, or NaN if there is none.
    fn narrow(from: &[f32], to: &mut [Self]);

    /// As [`narrow`](Self::narrow), for up to a chunk of numbers. Changed ones are counted.
    fn narrow_and_count(from: &[f32], to: &mut [Self]) -> RoundingCounts {
        narrow_and_widen(from, to)
    }
}

fn narrow_and_widen<A: SmallFloat>(from: &[f32], to: &mut [A]) -> RoundingCounts {
    let mut back = [0.0; CHUNK];
    let back = &mut back[..to.len()];
    A::narrow(from, to);
    A::widen(to, back);
    count_changes(from, back)
}

impl SmallFloat for f16 {
    fn widen(from: &[Self], to: &mut [f32]) {
        widen_f16(from, to);
    }

    fn narrow(from: &[f32], to: &mut [Self]) {
        narrow_f16(from, to);
    }

    fn narrow_and_count(from: &[f32], to: &mut [Self]) -> RoundingCounts {
        narrow_and_count_f16(from, to).unwrap_or_else(|| narrow_and_widen(from, to))
    }
}

impl SmallFloat for bf16 {
    fn widen(from: &[Self], to: &mut [f32]) {
        map(from, to, bf16_to_f32);
    }

    fn narrow(from: &[f32], to: &mut [Self]) {
        map(from, to, f32_to_bf16);
    }

    fn narrow_and_count(from: &[f32], to: &mut [Self]) -> RoundingCounts {
        round_and_count(from, to, f32_to_bf16, bf16_to_f32)
    }
}

// Inlined into loops for wide vectors, as the next two. The conversions of `half` have branches, and are calls.
#[inline(always)]
fn bf16_to_f32(number: bf16) -> f32 {
    f32::from_bits(u32::from(number.to_bits()) << 16)
}

/// As in `half`, but without branches, so that the loop is vectorized.
#[inline(always)]
fn f32_to_bf16(number: f32) -> bf16 {
    let bits = number.to_bits();
    let last = (bits >> 16) & 1;
    let nearest = if number.is_nan() { bits | 0x40_0000 } else { bits.wrapping_add(0x7fff + last) };
    bf16::from_bits(upper_half(nearest))
}

/// Returns the upper 16 bits. Shifted with their sign, they fit the instructions for packing 32 bits into 16.
#[inline(always)]
fn upper_half(bits: u32) -> u16 {
    ((bits.cast_signed() >> 16) as i16).cast_unsigned()
}
