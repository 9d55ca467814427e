//! The four kinds of 8-bit floats: what their bits are worth, and which bits come nearest to a number.

/// How the bits of an 8-bit float are shared out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Float8 {
    mantissa_bits: i32,
    bias: i32,
    special: Special,
}

/// Which bits are no finite number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    /// As IEEE 754 has it: the highest exponent is infinity and NaN.
    HighestExponent,
    /// All bits but the sign set is NaN; there is no infinity.
    AllOnes,
    /// What would be negative zero is NaN; there is no infinity.
    NegativeZero,
}

pub(super) const E5M2: Float8 = Float8 { mantissa_bits: 2, bias: 15, special: Special::HighestExponent };
pub(super) const E4M3FN: Float8 = Float8 { mantissa_bits: 3, bias: 7, special: Special::AllOnes };
pub(super) const E5M2FNUZ: Float8 = Float8 { mantissa_bits: 2, bias: 16, special: Special::NegativeZero };
pub(super) const E4M3FNUZ: Float8 = Float8 { mantissa_bits: 3, bias: 8, special: Special::NegativeZero };

const SIGN: u8 = 0x80;
const NAN: u8 = 0x7f;
const F64_BIAS: i32 = 1023;

/// 2 to the power of a normal exponent.
#[expect(clippy::cast_sign_loss, reason = "normal exponents are above that of zero")]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + F64_BIAS) as u64) << 52)
}

impl Float8 {
    /// The number that the bits are.
    pub(super) fn decode(self, bits: u8) -> f64 {
        let sign = if bits & SIGN == 0 { 1.0 } else { -1.0 };
        match bits & !SIGN {
            0 if bits == SIGN && self.special == Special::NegativeZero => f64::NAN,
            magnitude if magnitude <= self.largest() => sign * self.magnitude(magnitude),
            magnitude if self.infinity() == Some(magnitude) => sign * f64::INFINITY,
            _ => f64::NAN,
        }
    }

    /// The nearest bits, ties to even; `None` where a finite number lies beyond the largest, or an infinite one has no
    /// bits.
    pub(super) fn encode(self, number: f64) -> Option<u8> {
        if number.is_nan() {
            return Some(if self.special == Special::NegativeZero { SIGN } else { NAN });
        }
        let sign = if number.is_sign_negative() { SIGN } else { 0 };
        let magnitude = match number.abs() {
            infinite if infinite.is_infinite() => self.infinity()?,
            finite => self.nearest(finite)?,
        };
        let has_no_sign = magnitude == 0 && self.special == Special::NegativeZero;
        Some(if has_no_sign { 0 } else { sign | magnitude })
    }

    #[expect(clippy::cast_possible_truncation, reason = "a few steps, and an exponent")]
    fn nearest(self, number: f64) -> Option<u8> {
        // Between two powers of two, and below the smallest normal number, all steps are of one width.
        let exponent = ((number.to_bits() >> 52) as i32 - F64_BIAS).max(1 - self.bias);
        let steps = (number * power_of_two(self.mantissa_bits - exponent)).round_ties_even() as i32;
        // A step past the highest fraction carries into the exponent. To round past the largest is to overflow.
        let magnitude = ((exponent + self.bias - 1) << self.mantissa_bits) + steps;
        u8::try_from(magnitude).ok().filter(|&magnitude| magnitude <= self.largest())
    }

    /// The value of bits without a sign, as if none were special.
    fn magnitude(self, bits: u8) -> f64 {
        let exponent = i32::from(bits >> self.mantissa_bits);
        let fraction = bits & ((1 << self.mantissa_bits) - 1);
        let whole = if exponent == 0 { 0 } else { 1 << self.mantissa_bits };
        f64::from(whole + fraction) * power_of_two(exponent.max(1) - self.bias - self.mantissa_bits)
    }

    /// The bits of the largest finite number.
    fn largest(self) -> u8 {
        match self.special {
            Special::HighestExponent => (0x7f >> self.mantissa_bits << self.mantissa_bits) - 1,
            Special::AllOnes => 0x7e,
            Special::NegativeZero => 0x7f,
        }
    }

    fn infinity(self) -> Option<u8> {
        (self.special == Special::HighestExponent).then(|| self.largest() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_landmarks_of_each_kind() {
        for (kind, one, largest, smallest) in [
            (E5M2, 0x3c, 57344.0, 2.0_f64.powi(-16)),
            (E4M3FN, 0x38, 448.0, 2.0_f64.powi(-9)),
            (E5M2FNUZ, 0x40, 57344.0, 2.0_f64.powi(-17)),
            (E4M3FNUZ, 0x40, 240.0, 2.0_f64.powi(-10)),
        ] {
            assert_eq!((kind.decode(one), kind.decode(kind.largest()), kind.decode(1)), (1.0, largest, smallest));
        }
        assert_eq!(E5M2.decode(0xfc), f64::NEG_INFINITY);
        assert!(E4M3FN.decode(0xff).is_nan() && E4M3FNUZ.decode(0x80).is_nan() && E5M2.decode(0x7d).is_nan());
    }

    #[test]
    fn every_number_comes_back_as_its_bits() {
        for kind in [E5M2, E4M3FN, E5M2FNUZ, E4M3FNUZ] {
            for bits in 0..=u8::MAX {
                let number = kind.decode(bits);
                let back = kind.encode(number).expect("a number of the kind");
                assert!(back == bits || (number.is_nan() && kind.decode(back).is_nan()), "{kind:?} {bits:#x}");
            }
        }
    }

    #[test]
    fn numbers_between_two_become_the_nearer_one() {
        for kind in [E5M2, E4M3FN, E5M2FNUZ, E4M3FNUZ] {
            for below in 0..kind.largest() {
                let middle = f64::midpoint(kind.decode(below), kind.decode(below + 1));
                assert_eq!(kind.encode(middle.next_down()), Some(below), "{kind:?} {below:#x}");
                assert_eq!(kind.encode(middle), Some(below + below % 2), "{kind:?} {below:#x}");
                assert_eq!(kind.encode(middle.next_up()), Some(below + 1), "{kind:?} {below:#x}");
            }
            assert_eq!((kind.encode(f64::MAX), kind.encode(f64::MIN_POSITIVE / 2.0)), (None, Some(0)));
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
