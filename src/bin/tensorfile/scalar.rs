//! The numbers in a tensor's bytes, and how they are written.

use std::fmt;
use std::io::{self, Write};

use half::{bf16, f16};
use serde::{Serialize, Serializer};
use tensorfile::{Dtype, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Number};

/// An element of any dtype. Quantised and packed ones are the integers that their bits are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    Bool(bool),
    Integer(i128),
    Float(Float),
}

/// A float, exactly, and what kind of float holds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Float {
    pub value: f64,
    pub kind: Kind,
}

/// What the floats of a dtype can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Bits behind the point of a mantissa.
    mantissa: i32,
    /// The exponent of the smallest number that has all of them.
    min_exponent: i32,
    /// The decimal digits that it always keeps, as numpy's `finfo` has them.
    pub digits: i32,
}

const F64: Kind = Kind { mantissa: 52, min_exponent: -1022, digits: 15 };
const F32: Kind = Kind { mantissa: 23, min_exponent: -126, digits: 6 };
const F16: Kind = Kind { mantissa: 10, min_exponent: -14, digits: 3 };
const BF16: Kind = Kind { mantissa: 7, min_exponent: -126, digits: 3 };
const F8E5: Kind = Kind { mantissa: 2, min_exponent: -14, digits: 3 };
const F8E5FNUZ: Kind = Kind { min_exponent: -15, ..F8E5 };
const F8E4: Kind = Kind { mantissa: 3, min_exponent: -6, digits: 3 };
const F8E4FNUZ: Kind = Kind { min_exponent: -7, ..F8E4 };

/// The elements in little-endian `bytes`, which hold whole elements.
pub fn scalars(dtype: Dtype, bytes: &[u8]) -> impl Iterator<Item = Scalar> + Clone {
    bytes.chunks_exact(dtype.block_bytes()).map(move |bytes| scalar(dtype, bytes))
}

/// The element that the little-endian bytes of one are.
pub fn scalar(dtype: Dtype, bytes: &[u8]) -> Scalar {
    fn sized<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.first_chunk().copied().unwrap_or([0; N])
    }
    let float = |value: f64, kind: Kind| Scalar::Float(Float { value, kind });
    let byte = || u8::from_le_bytes(sized(bytes));

    match dtype {
        Dtype::Bool => Scalar::Bool(byte() != 0),
        Dtype::F16 => float(f16::from_le_bytes(sized(bytes)).into(), F16),
        Dtype::Bf16 => float(bf16::from_le_bytes(sized(bytes)).into(), BF16),
        Dtype::F32 => float(f32::from_le_bytes(sized(bytes)).into(), F32),
        Dtype::F64 => float(f64::from_le_bytes(sized(bytes)), F64),
        Dtype::F8E5M2 => float(F8E5M2(byte()).to_f32().into(), F8E5),
        Dtype::F8E5M2Fnuz => float(F8E5M2Fnuz(byte()).to_f32().into(), F8E5FNUZ),
        Dtype::F8E4M3Fn => float(F8E4M3Fn(byte()).to_f32().into(), F8E4),
        Dtype::F8E4M3Fnuz => float(F8E4M3Fnuz(byte()).to_f32().into(), F8E4FNUZ),
        Dtype::I8 | Dtype::QInt8 => Scalar::Integer(i8::from_le_bytes(sized(bytes)).into()),
        Dtype::I16 => Scalar::Integer(i16::from_le_bytes(sized(bytes)).into()),
        Dtype::I32 | Dtype::QInt32 => Scalar::Integer(i32::from_le_bytes(sized(bytes)).into()),
        Dtype::I64 => Scalar::Integer(i64::from_le_bytes(sized(bytes)).into()),
        // The others are unsigned, or bits that are not told apart.
        _ => {
            let digits = bytes.iter().rev().take(size_of::<u64>());
            Scalar::Integer(digits.fold(0, |number, &byte| number << 8 | i128::from(byte)))
        }
    }
}

impl fmt::Display for Scalar {
    /// As Python's `str` and numpy's scalars write it, with as few digits as tell the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Integer(integer) => integer.fmt(f),
            Self::Float(float) if !float.value.is_finite() => f.write_str(float.name()),
            Self::Float(float) => f.write_str(&float.short()),
        }
    }
}

impl Scalar {
    /// Writes the number as JSON; a float that is none as a string, which is how protocol buffers have it too.
    pub fn write_json(self, out: &mut impl Write) -> io::Result<()> {
        match (self, self.json_name()) {
            (_, Some(name)) => write!(out, "\"{name}\""),
            (Self::Bool(bool), None) => write!(out, "{bool}"),
            (number, None) => write!(out, "{number}"),
        }
    }

    /// What JSON has instead of a float that is no number.
    fn json_name(self) -> Option<&'static str> {
        let Self::Float(Float { value, .. }) = self else { return None };
        match value.is_finite() {
            true => None,
            false if value.is_nan() => Some("NaN"),
            false => Some(if value > 0.0 { "Infinity" } else { "-Infinity" }),
        }
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Self::Float(Float { value, kind: F64 })
    }
}

impl Serialize for Scalar {
    /// As [`write_json`](Self::write_json), but floats with the digits of an `f64`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self, self.json_name()) {
            (_, Some(name)) => serializer.serialize_str(name),
            (Self::Bool(bool), None) => serializer.serialize_bool(*bool),
            (Self::Integer(integer), None) => Number::Integer(*integer).serialize(serializer),
            (Self::Float(float), None) => serializer.serialize_f64(float.value),
        }
    }
}

impl Float {
    /// The number where it is none: `nan`, `inf`, `-inf`.
    pub fn name(self) -> &'static str {
        if self.value.is_nan() {
            "nan"
        } else if self.value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
    }

    /// The finite number without an exponent where that is short, as Python does.
    fn short(self) -> String {
        let exponent = self.digits().exponent;
        if (-4..16).contains(&exponent) {
            let mut text = self.positional(usize::MAX);
            if text.ends_with('.') {
                text.push('0');
            }
            return text;
        }
        let (mantissa, exponent) = self.scientific(usize::MAX);
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", mantissa.trim_end_matches('.'), exponent.unsigned_abs())
    }

    /// The finite number without an exponent and with up to so many digits behind the point, which is always there:
    /// `1.5`, `2.`, `-0.`.
    pub fn positional(self, precision: usize) -> String {
        let Digits { negative, digits, exponent } = self.digits();
        let sign = if negative { "-" } else { "" };
        let behind = i32::try_from(digits.len()).unwrap_or(i32::MAX).saturating_sub(1).saturating_sub(exponent);
        if usize::try_from(behind).is_ok_and(|behind| behind > precision) {
            let mut text = format!("{:.precision$}", self.value);
            if precision == 0 {
                text.push('.');
            }
            text.truncate(text.trim_end_matches('0').len());
            return text;
        }
        let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
        match usize::try_from(exponent) {
            Err(_) => format!("{sign}0.{}{digits}", zeros(-1 - exponent)),
            Ok(_) if behind <= 0 => format!("{sign}{digits}{}.", zeros(-behind)),
            Ok(exponent) => format!("{sign}{}.{}", &digits[..=exponent], &digits[exponent + 1..]),
        }
    }

    /// The finite number as a mantissa with one digit before the point and up to so many behind it, and an exponent.
    pub fn scientific(self, precision: usize) -> (String, i32) {
        let mut digits = self.digits();
        if digits.digits.len() - 1 > precision {
            digits = Digits::parse(&format!("{:.precision$e}", self.value));
        }
        let sign = if digits.negative { "-" } else { "" };
        let (first, rest) = digits.digits.split_at(1);
        (format!("{sign}{first}.{}", rest.trim_end_matches('0')), digits.exponent)
    }

    /// The fewest digits that tell the number from others of its kind.
    fn digits(self) -> Digits {
        let Self { value, kind } = self;
        if kind == F64 || value == 0.0 {
            return Digits::parse(&format!("{value:e}"));
        }
        if kind == F32 {
            #[expect(clippy::cast_possible_truncation, reason = "the number came from an `f32`")]
            let value = value as f32;
            return Digits::parse(&format!("{value:e}"));
        }
        // Narrower ones have few digits, so that the first tries succeed.
        let texts = (0..17).map(|precision| format!("{value:.precision$e}"));
        let mut texts = texts.skip_while(|text| !text.parse().is_ok_and(|text| kind.tells(value, text)));
        Digits::parse(&texts.next().unwrap_or_else(|| format!("{value:e}")))
    }
}

impl Kind {
    /// The distance from a number to the next one that is farther from 0.
    fn step(self, value: f64) -> f64 {
        let bits = value.abs().to_bits() >> (f64::MANTISSA_DIGITS - 1);
        let exponent = i32::try_from(bits).unwrap_or(0) - (f64::MAX_EXP - 1);
        2_f64.powi(exponent.max(self.min_exponent) - self.mantissa)
    }

    /// The number of this kind that is nearest, where none is too large.
    pub fn round(self, value: f64) -> f64 {
        if self == F64 || !value.is_finite() || value == 0.0 {
            return value;
        }
        let step = self.step(value);
        (value / step).round_ties_even() * step
    }

    /// Whether `text` is nearer to `value` than to others of this kind.
    fn tells(self, value: f64, text: f64) -> bool {
        let step = self.step(value);
        let is_even = (value / step) % 2.0 == 0.0;
        let (value, text) = (value.abs(), text.abs());
        // Below a power of two, numbers lie closer.
        let below = if self.step(value - step / 4.0) < step { step / 4.0 } else { step / 2.0 };
        let (low, high) = (value - below, value + step / 2.0);
        if is_even { (low..=high).contains(&text) } else { low < text && text < high }
    }
}

/// A decimal number: a digit, a point, more digits, and an exponent.
struct Digits {
    negative: bool,
    digits: String,
    exponent: i32,
}

impl Digits {
    /// Takes apart what Rust writes for `{:e}`.
    fn parse(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        Self { negative: mantissa.starts_with('-'), digits, exponent: exponent.parse().unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(dtype: Dtype, bytes: &[u8]) -> Vec<String> {
        scalars(dtype, bytes).map(|number| number.to_string()).collect()
    }

    #[test]
    fn every_dtype_is_numbers() {
        for &dtype in Dtype::ALL {
            let bytes = vec![1; dtype.block_bytes()];
            assert_eq!(scalars(dtype, &bytes).count(), 1, "{dtype}");
        }
        assert_eq!(written(Dtype::Bool, &[0, 1]), ["False", "True"]);
        assert_eq!(written(Dtype::I8, &[0xff, 3]), ["-1", "3"]);
        assert_eq!(written(Dtype::U64, &[0xff; 8]), ["18446744073709551615"]);
        assert_eq!(written(Dtype::QUint4x2, &[0x21]), ["33"]);
        assert_eq!(written(Dtype::Bits16, &[1, 2]), ["513"]);
    }

    /// What numpy 2.4 and ml_dtypes print for scalars.
    #[test]
    fn floats_have_as_few_digits_as_tell_them() {
        let f32s = [0.1_f32, 1.0, -0.0, 16_777_216.0, 1e16, 3.4e38, 1e-45, f32::MIN_POSITIVE, 1e-4, 9.9e-5];
        let bytes: Vec<u8> = f32s.iter().flat_map(|number| number.to_le_bytes()).collect();
        let expected =
            ["0.1", "1.0", "-0.0", "16777216.0", "1e+16", "3.4e+38", "1e-45", "1.1754944e-38", "0.0001", "9.9e-05"];
        assert_eq!(written(Dtype::F32, &bytes), expected);
        let bytes = [0.1 + 0.2, 5e-324, f64::NAN, f64::NEG_INFINITY].map(f64::to_le_bytes).concat();
        assert_eq!(written(Dtype::F64, &bytes), ["0.30000000000000004", "5e-324", "nan", "-inf"]);
        let bytes = [0x2e66_u16, 0x0001, 0x7bff, 0x0400, 0x3555].map(u16::to_le_bytes).concat();
        assert_eq!(written(Dtype::F16, &bytes), ["0.1", "6e-08", "65500.0", "6.104e-05", "0.3333"]);
        let bytes = [0x3dcd_u16, 0x0001, 0x7f7f].map(u16::to_le_bytes).concat();
        assert_eq!(written(Dtype::Bf16, &bytes), ["0.1", "9e-41", "3.39e+38"]);
        assert_eq!(written(Dtype::F8E4M3Fn, &[0x7e, 0x01, 0x7f, 0x1d]), ["450.0", "0.002", "nan", "0.1"]);
        assert_eq!(written(Dtype::F8E5M2, &[0x7b, 0x01, 0xfc]), ["60000.0", "2e-05", "-inf"]);
    }

    #[test]
    fn digits_lead_back_to_the_number() {
        for bits in (0..=u16::MAX).filter(|&bits| f16::from_bits(bits).is_finite()) {
            let Scalar::Float(float) = scalar(Dtype::F16, &bits.to_le_bytes()) else { panic!("a float") };
            let text: f64 = float.short().parse().unwrap();
            assert_eq!(F16.round(text).to_bits(), float.value.to_bits(), "{bits:04x}");
        }
        for bits in (0..=u16::MAX).filter(|&bits| bf16::from_bits(bits).is_finite()) {
            let Scalar::Float(float) = scalar(Dtype::Bf16, &bits.to_le_bytes()) else { panic!("a float") };
            let text: f64 = float.short().parse().unwrap();
            assert_eq!(BF16.round(text).to_bits(), float.value.to_bits(), "{bits:04x}");
        }
    }
}
