//! The encodings of 8-bit floats.

use super::number::{Number, Numeric, round_to_odd_f32};
use super::small_float::SmallFloat;
use super::vectors::map;
use crate::tensor::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0};

/// Conversion of an 8-bit float to numbers and back.
trait Float8Codec: Copy {
    /// Returns the number represented by the bits.
    fn decode(self, bits: u8) -> f32;

    /// Returns the bits of the nearest number, ties to even. `None` if the number is out of range, or infinite in a
    /// format without infinity.
    fn encode(self, number: f64) -> Option<u8>;

    /// Returns the bits of the nearest number, ties to even; out of range, of infinity, or NaN if there is none.
    fn encode_any(self, number: f32) -> u8;
}

/// The encoding of an 8-bit float: sign, exponent and mantissa, highest bit first.
#[derive(Debug, Clone, Copy)]
struct Encoding {
    mantissa_bits: u32,
    bias: u32,
    special: Special,
}

/// The bit patterns for infinity and NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    /// The highest exponent is infinity and NaN, as in IEEE 754.
    HighestExponent,
    /// NaN is all bits except the sign. There is no infinity.
    AllOnes,
    /// NaN is negative zero. There is no infinity.
    NegativeZero,
}

macro_rules! encodings {
    ($($scalar:ident: $type:ident $encoding:tt;)*) => {$(
        impl $scalar {
            const ENCODING: $type = $type $encoding;

            /// Returns the number, exactly.
            ///
            /// ```
            #[doc = concat!("use tensorfile::scalar::", stringify!($scalar), ";")]
            ///
            #[doc = concat!("assert_eq!(", stringify!($scalar), "::from_f32(2.0).map(", stringify!($scalar), "::to_f32), Some(2.0));")]
            /// ```
            #[must_use]
            pub fn to_f32(self) -> f32 {
                Self::ENCODING.decode(self.0)
            }

            /// Returns the nearest element, ties to even. `None` if the number is beyond the largest one.
            ///
            /// ```
            #[doc = concat!("use tensorfile::scalar::", stringify!($scalar), ";")]
            ///
            #[doc = concat!("let rounded = ", stringify!($scalar), "::from_f32(1.01).map(", stringify!($scalar), "::to_f32);")]
            /// assert_eq!(rounded, Some(1.0));
            #[doc = concat!("assert_eq!(", stringify!($scalar), "::from_f32(f32::MAX), None);")]
            /// ```
            #[must_use]
            pub fn from_f32(number: f32) -> Option<Self> {
                Self::ENCODING.encode(number.into()).map(Self)
            }
        }

        impl From<$scalar> for Number {
            fn from(value: $scalar) -> Self {
                Number::Float(value.to_f32().into())
            }
        }

        impl Numeric for $scalar {
            fn from_number(number: Number) -> Option<Self> {
                Self::ENCODING.encode(number.to_odd_float()).map(Self)
            }
        }

        impl SmallFloat for $scalar {
            fn widen(from: &[Self], to: &mut [f32]) {
                map(from, to, Self::to_f32);
            }

            fn narrow(from: &[f32], to: &mut [Self]) {
                map(from, to, |from| Self(Self::ENCODING.encode_any(from)));
            }
        }
    )*};
}

encodings! {
    F8E5M2: Encoding { mantissa_bits: 2, bias: 15, special: Special::HighestExponent };
    F8E4M3Fn: Encoding { mantissa_bits: 3, bias: 7, special: Special::AllOnes };
    F8E5M2Fnuz: Encoding { mantissa_bits: 2, bias: 16, special: Special::NegativeZero };
    F8E4M3Fnuz: Encoding { mantissa_bits: 3, bias: 8, special: Special::NegativeZero };
    F8E8M0: PowerOfTwo {};
}

const SIGN: u8 = 0x80;
const F32_BIAS: u32 = 127;
const F32_MANTISSA_BITS: u32 = f32::MANTISSA_DIGITS - 1;

// The functions called for each element are inlined and have no branches, so that loops are vectorized.
impl Float8Codec for Encoding {
    #[inline]
    fn decode(self, bits: u8) -> f32 {
        let magnitude = u32::from(bits & !SIGN);
        let subnormal = f32::from_bits(self.steps().to_bits() + magnitude) - self.steps();
        let exponent = self.smallest_exponent() - 1;
        let normal = (magnitude << self.dropped_bits()) + (exponent << F32_MANTISSA_BITS);
        let finite = if magnitude >> self.mantissa_bits == 0 { subnormal.to_bits() } else { normal };
        let infinity = self.infinity().map(u32::from);
        let positive = if infinity == Some(magnitude) { f32::INFINITY.to_bits() } else { finite };
        let is_nan = (magnitude > infinity.unwrap_or(self.largest().into()))
            | (bits == SIGN && self.special == Special::NegativeZero);
        f32::from_bits(if is_nan { f32::NAN.to_bits() } else { positive | u32::from(bits & SIGN) << 24 })
    }

    fn encode(self, number: f64) -> Option<u8> {
        if number.is_nan() {
            return Some(self.nan());
        }
        let magnitude = match u8::try_from(self.round(round_to_odd_f32(number).abs())) {
            Ok(magnitude) if magnitude <= self.largest() => magnitude,
            _ if number.is_infinite() => self.infinity()?,
            _ => return None,
        };
        Some(self.with_sign(magnitude, number.is_sign_negative()))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most the largest, and a sign")]
    fn encode_any(self, number: f32) -> u8 {
        let magnitude = self.round(number.abs());
        let sign = (number.to_bits() >> 24) & u32::from(SIGN);
        let limit = self.infinity().map_or(u32::from(self.nan()), |infinity| u32::from(infinity) | sign);
        let sign = if magnitude == 0 && self.special == Special::NegativeZero { 0 } else { sign };
        let bits = if magnitude > u32::from(self.largest()) { limit } else { magnitude | sign };
        (if number.is_nan() { u32::from(self.nan()) } else { bits }) as u8
    }
}

impl Encoding {
    /// Returns the bits of the nearest number to a positive one, ties to even, as if there were no largest.
    #[inline]
    fn round(self, number: f32) -> u32 {
        let subnormal = (number + self.steps()).to_bits().wrapping_sub(self.steps().to_bits());
        // Rounding up the largest fraction carries into the exponent.
        let (bits, dropped) = (number.to_bits(), self.dropped_bits());
        let is_odd = (bits >> dropped) & 1;
        let rounded = (bits + (1 << (dropped - 1)) - 1 + is_odd) >> dropped;
        let normal = rounded.wrapping_sub((self.smallest_exponent() - 1) << self.mantissa_bits);
        if bits < self.smallest_exponent() << F32_MANTISSA_BITS { subnormal } else { normal }
    }

    /// Returns an `f32` whose neighbours are as far apart as subnormal numbers: adding it rounds to them.
    #[inline]
    fn steps(self) -> f32 {
        f32::from_bits((self.smallest_exponent() + self.dropped_bits()) << F32_MANTISSA_BITS)
    }

    /// Returns the exponent of the smallest normal number, with the bias of an `f32`.
    #[inline]
    fn smallest_exponent(self) -> u32 {
        F32_BIAS + 1 - self.bias
    }

    /// Returns the number of additional mantissa bits in an `f32`.
    #[inline]
    fn dropped_bits(self) -> u32 {
        F32_MANTISSA_BITS - self.mantissa_bits
    }

    #[inline]
    fn with_sign(self, magnitude: u8, is_negative: bool) -> u8 {
        let has_sign = is_negative && (magnitude > 0 || self.special != Special::NegativeZero);
        magnitude | if has_sign { SIGN } else { 0 }
    }

    #[inline]
    fn nan(self) -> u8 {
        if self.special == Special::NegativeZero { SIGN } else { 0x7f }
    }

    /// Returns the bits of the largest finite number.
    #[inline]
    fn largest(self) -> u8 {
        match self.special {
            Special::HighestExponent => (0x7f >> self.mantissa_bits << self.mantissa_bits) - 1,
            Special::AllOnes => 0x7e,
            Special::NegativeZero => 0x7f,
        }
    }

    #[inline]
    fn infinity(self) -> Option<u8> {
        (self.special == Special::HighestExponent).then(|| self.largest() + 1)
    }
}

/// The encoding of powers of two, from -127 to 127. The last one is NaN. Zero becomes the smallest, and negative
/// numbers are out of range.
#[derive(Debug, Clone, Copy)]
struct PowerOfTwo {}

impl PowerOfTwo {
    const NAN: u8 = 0xff;
    /// The bits of an `f32` below which numbers are subnormal, and of the smallest power of two.
    const NORMAL: u32 = 1 << F32_MANTISSA_BITS;
    const SMALLEST: u32 = Self::NORMAL / 2;
}

impl Float8Codec for PowerOfTwo {
    #[inline]
    fn decode(self, bits: u8) -> f32 {
        let exponent = u32::from(bits) << F32_MANTISSA_BITS;
        let number = if bits == 0 { Self::SMALLEST } else { exponent };
        f32::from_bits(if bits == Self::NAN { f32::NAN.to_bits() } else { number })
    }

    fn encode(self, number: f64) -> Option<u8> {
        let bits = self.encode_any(round_to_odd_f32(number));
        (bits != Self::NAN || number.is_nan()).then_some(bits)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an exponent of 8 bits")]
    fn encode_any(self, number: f32) -> u8 {
        let bits = number.abs().to_bits();
        // Half a step less one, plus one if the step is odd.
        let half = Self::SMALLEST - 1 + ((bits >> F32_MANTISSA_BITS) & 1);
        let normal = (bits + half) >> F32_MANTISSA_BITS;
        let subnormal = u32::from(bits > Self::NORMAL - Self::SMALLEST / 2);
        let exponent = if bits < Self::NORMAL { subnormal } else { normal };
        let is_out_of_range = number < 0.0 || exponent > u32::from(Self::NAN);
        (if is_out_of_range { u32::from(Self::NAN) } else { exponent }) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E5M2: Encoding = F8E5M2::ENCODING;
    const E4M3FN: Encoding = F8E4M3Fn::ENCODING;
    const E5M2FNUZ: Encoding = F8E5M2Fnuz::ENCODING;
    const E4M3FNUZ: Encoding = F8E4M3Fnuz::ENCODING;

    #[test]
    fn known_numbers_have_known_bits() {
        for (encoding, one, largest, smallest) in [
            (E5M2, 0x3c, 57344.0, 2.0_f32.powi(-16)),
            (E4M3FN, 0x38, 448.0, 2.0_f32.powi(-9)),
            (E5M2FNUZ, 0x40, 57344.0, 2.0_f32.powi(-17)),
            (E4M3FNUZ, 0x40, 240.0, 2.0_f32.powi(-10)),
        ] {
            assert_eq!(
                (encoding.decode(one), encoding.decode(encoding.largest()), encoding.decode(1)),
                (1.0, largest, smallest)
            );
        }
        assert_eq!(E5M2.decode(0xfc), f32::NEG_INFINITY);
        assert!(E4M3FN.decode(0xff).is_nan() && E4M3FNUZ.decode(0x80).is_nan() && E5M2.decode(0x7d).is_nan());
    }

    #[test]
    fn bits_stand_for_sign_times_fraction_times_power() {
        for encoding in [E5M2, E4M3FN, E5M2FNUZ, E4M3FNUZ] {
            let steps = 2.0_f32.powi(encoding.mantissa_bits.cast_signed());
            for bits in 0..=encoding.largest() {
                let exponent = i32::from(bits >> encoding.mantissa_bits);
                let fraction = f32::from(bits % (1 << encoding.mantissa_bits)) / steps;
                let whole = if exponent == 0 { 0.0 } else { 1.0 };
                let number = (whole + fraction) * 2.0_f32.powi(exponent.max(1) - encoding.bias.cast_signed());
                assert_eq!(encoding.decode(bits), number, "{encoding:?} {bits:#x}");
                assert!(bits == 0 || encoding.decode(bits | SIGN) == -number, "{encoding:?} -{bits:#x}");
            }
        }
    }

    #[test]
    fn every_number_is_encoded_as_its_bits() {
        for encoding in [E5M2, E4M3FN, E5M2FNUZ, E4M3FNUZ] {
            for bits in 0..=u8::MAX {
                let number = encoding.decode(bits);
                let back = encoding.encode(number.into()).expect("a number of this encoding");
                assert!(back == bits || (number.is_nan() && encoding.decode(back).is_nan()), "{encoding:?} {bits:#x}");
            }
        }
    }

    #[test]
    fn numbers_between_two_round_to_the_nearest() {
        for encoding in [E5M2, E4M3FN, E5M2FNUZ, E4M3FNUZ] {
            for below in 0..encoding.largest() {
                let middle = f64::midpoint(encoding.decode(below).into(), encoding.decode(below + 1).into());
                assert_eq!(encoding.encode(middle.next_down()), Some(below), "{encoding:?} {below:#x}");
                assert_eq!(encoding.encode(middle), Some(below + below % 2), "{encoding:?} {below:#x}");
                assert_eq!(encoding.encode(middle.next_up()), Some(below + 1), "{encoding:?} {below:#x}");
            }
            assert_eq!((encoding.encode(f64::MAX), encoding.encode(f64::MIN_POSITIVE / 2.0)), (None, Some(0)));
        }
    }

    #[test]
    fn powers_of_two_have_known_bits() {
        let encoding = F8E8M0::ENCODING;
        for bits in 0..PowerOfTwo::NAN {
            let number = 2.0_f64.powi(i32::from(bits) - 127);
            assert_eq!((f64::from(encoding.decode(bits)), encoding.encode(number)), (number, Some(bits)));
            // The largest stays the largest, up to a tie.
            let middle = 1.5 * number;
            assert_eq!(encoding.encode(middle.next_down()), Some(bits));
            assert_eq!(encoding.encode(middle), Some(bits + bits % 2));
            let above = (bits + 1 < PowerOfTwo::NAN).then_some(bits + 1);
            assert_eq!(encoding.encode(middle.next_up()), above, "{bits:#x}");
        }
        assert!(encoding.decode(PowerOfTwo::NAN).is_nan());
        assert_eq!(encoding.encode(f64::NAN), Some(PowerOfTwo::NAN));
        for (number, bits) in [(0.0, Some(0)), (-0.0, Some(0)), (1e-300, Some(0)), (-1.0, None), (-1e-300, None)] {
            assert_eq!(encoding.encode(number), bits, "{number}");
        }
        for number in [f64::MAX, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(encoding.encode(number), None, "{number}");
        }
    }

    #[test]
    fn rounds_to_even_and_not_past_the_largest() {
        assert_eq!(E4M3FN.encode(1.0625), Some(0x38), "a tie goes to even");
        assert_eq!(E4M3FN.encode(1.1875), Some(0x3a));
        assert_eq!(E4M3FN.encode(463.9), Some(0x7e));
        assert_eq!(E4M3FN.encode(464.0), Some(0x7e), "a tie, and the largest is even");
        assert_eq!(E4M3FN.encode(465.0), None);
        assert_eq!(E5M2.encode(61440.0), None, "a tie goes to even, which is infinity");
        assert_eq!(E4M3FN.encode(f64::INFINITY), None);
        assert_eq!(E4M3FNUZ.encode(-0.0), Some(0));
    }
}
