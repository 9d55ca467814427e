//! Floats of 8 bits: weights of FP8 and MXFP8, and scales.
//!
//! The value is `code * scale`. MXFP8 is [`E4m3Fn`](Float8::E4m3Fn) in groups of 32 with scales of
//! [`E8m0`](Float8::E8m0); MLX's `mxfp8` is the same.
//!
//! # Specification
//!
//! OCP's 8-bit Floating Point Specification and Microscaling Formats Specification; arXiv 2206.02915 for `Fnuz`.

use crate::{Float, groups};

/// The encoding of an 8-bit float.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Float8 {
    /// 4 exponent bits, no infinities. `F8_E4M3` in safetensors.
    E4m3Fn,
    /// 5 exponent bits, with infinities. `F8_E5M2` in safetensors.
    E5m2,
    /// 4 exponent bits, no infinities, no negative zero.
    E4m3Fnuz,
    /// 5 exponent bits, no infinities, no negative zero.
    E5m2Fnuz,
    /// A power of two from 2^-127 to 2^127. 255 is NaN.
    E8m0,
}

impl Float8 {
    /// Returns the number of a code, exactly.
    ///
    /// ```
    /// use tensorfile_quant::Float8;
    ///
    /// assert_eq!(Float8::E4m3Fn.to_f32(0x7e), 448.0);
    /// assert_eq!(Float8::E8m0.to_f32(128), 2.0);
    /// ```
    #[inline]
    #[must_use]
    pub fn to_f32(self, code: u8) -> f32 {
        match self {
            Self::E4m3Fn => e4m3_fn(code),
            Self::E5m2 => e5m2(code),
            Self::E4m3Fnuz => e4m3_fnuz(code),
            Self::E5m2Fnuz => e5m2_fnuz(code),
            Self::E8m0 => e8m0(code),
        }
    }

    /// Converts codes to numbers, exactly. Makes the scales for other functions from a file's bytes.
    ///
    /// ```
    /// use tensorfile_quant::Float8;
    ///
    /// let mut scales = [0.0; 2];
    /// Float8::E8m0.widen_bytes(&[127, 126], &mut scales);
    /// assert_eq!(scales, [1.0, 0.5]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn widen_bytes(self, codes: &[u8], out: &mut [f32]) {
        self.decode(codes, &[1.0], codes.len().max(1), out);
    }

    /// Decodes weights: `code * scale`. Each `group` codes share a scale; the last group may be shorter.
    ///
    /// ```
    /// use tensorfile_quant::Float8;
    ///
    /// let mut weights = [0.0_f32; 4];
    /// Float8::E4m3Fn.decode(&[0x38, 0xb8, 0x40, 0x00], &[0.5, 2.0], 2, &mut weights);
    /// assert_eq!(weights, [0.5, -0.5, 4.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the lengths of `codes`, `scales` and `out` do not match.
    pub fn decode<F: Float>(self, codes: &[u8], scales: &[f32], group: usize, out: &mut [F]) {
        match self {
            Self::E4m3Fn => groups::decode_each(
                codes,
                scales,
                group,
                out,
                #[inline(always)]
                |code, scale| e4m3_fn(code) * scale,
            ),
            Self::E5m2 => groups::decode_each(
                codes,
                scales,
                group,
                out,
                #[inline(always)]
                |code, scale| e5m2(code) * scale,
            ),
            Self::E4m3Fnuz => groups::decode_each(
                codes,
                scales,
                group,
                out,
                #[inline(always)]
                |code, scale| e4m3_fnuz(code) * scale,
            ),
            Self::E5m2Fnuz => groups::decode_each(
                codes,
                scales,
                group,
                out,
                #[inline(always)]
                |code, scale| e5m2_fnuz(code) * scale,
            ),
            Self::E8m0 => groups::decode_each(
                codes,
                scales,
                group,
                out,
                #[inline(always)]
                |code, scale| e8m0(code) * scale,
            ),
        }
    }
}

// Comparisons are of floats: rustc makes those of codes in bytes, and widens their masks.

/// Returns the number of a code without its sign, as if no code were special.
#[inline(always)]
fn magnitude<const MANTISSA_BITS: u32, const BIAS: u32>(code: u8) -> f32 {
    let bits = (i32::from(code.cast_signed()) << (23 - MANTISSA_BITS)).cast_unsigned() & (0x7f << (23 - MANTISSA_BITS));
    let normal = f32::from_bits(bits + ((127 - BIAS) << 23));
    // Subnormal numbers have no implied one, and twice the step. This is the smaller number only there.
    let subnormal = normal + normal - f32::from_bits((128 - BIAS) << 23);
    if subnormal < normal { subnormal } else { normal }
}

#[inline(always)]
fn with_sign(number: f32, code: u8) -> f32 {
    let sign = i32::from(code.cast_signed()).cast_unsigned() & 1 << 31;
    f32::from_bits(number.to_bits() | sign)
}

#[inline(always)]
fn e4m3_fn(code: u8) -> f32 {
    let magnitude = magnitude::<3, 7>(code);
    with_sign(if magnitude > 448.0 { f32::NAN } else { magnitude }, code)
}

#[inline(always)]
fn e5m2(code: u8) -> f32 {
    let magnitude = magnitude::<2, 15>(code);
    // The highest exponent is that of `f32` too.
    let special = f32::from_bits(0x7f80_0000 | magnitude.to_bits());
    with_sign(if magnitude > 57344.0 { special } else { magnitude }, code)
}

#[inline(always)]
fn e4m3_fnuz(code: u8) -> f32 {
    without_negative_zero(with_sign(magnitude::<3, 8>(code), code))
}

#[inline(always)]
fn e5m2_fnuz(code: u8) -> f32 {
    without_negative_zero(with_sign(magnitude::<2, 16>(code), code))
}

/// Returns NaN for negative zero.
#[inline(always)]
fn without_negative_zero(number: f32) -> f32 {
    if number.to_bits() == 1 << 31 { f32::NAN } else { number }
}

#[inline(always)]
fn e8m0(code: u8) -> f32 {
    let bits = u32::from(code) << 23;
    // Neither 2^-127 nor NaN is its exponent alone.
    f32::from_bits(if code == 0 || code == u8::MAX { bits | 1 << 22 } else { bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stand_for_sign_times_fraction_times_power() {
        for (encoding, mantissa_bits, bias) in
            [(Float8::E4m3Fn, 3, 7), (Float8::E5m2, 2, 15), (Float8::E4m3Fnuz, 3, 8), (Float8::E5m2Fnuz, 2, 16)]
        {
            for code in 0..=u8::MAX {
                let steps = 1 << mantissa_bits;
                let (exponent, mantissa) = (i32::from(code & 0x7f) >> mantissa_bits, i32::from(code) % steps);
                let whole = if exponent == 0 { 0 } else { steps };
                let number = f64::from(whole + mantissa) * 2.0_f64.powi(exponent.max(1) - bias - mantissa_bits);
                let number = if code > 0x7f { -number } else { number };
                let expected = match (encoding, code & 0x7f) {
                    (Float8::E4m3Fn, 0x7f) | (Float8::E5m2, 0x7d..) => f64::NAN,
                    (Float8::E5m2, 0x7c) => number * f64::INFINITY,
                    (Float8::E4m3Fnuz | Float8::E5m2Fnuz, 0) if code == 0x80 => f64::NAN,
                    _ => number,
                };
                let found = f64::from(encoding.to_f32(code));
                let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                assert!(is_same, "{encoding:?} {code:#x}: {found} is not {expected}");
            }
        }
        for code in 0..u8::MAX {
            assert_eq!(f64::from(Float8::E8m0.to_f32(code)), 2.0_f64.powi(i32::from(code) - 127));
        }
        assert!(Float8::E8m0.to_f32(u8::MAX).is_nan());
    }
}
