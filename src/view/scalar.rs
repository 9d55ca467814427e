//! Single elements, and their text as numpy prints them.

use std::fmt;

use half::{bf16, f16};

use crate::cast::Number;
use crate::tensor::{Dtype, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0};

/// One element of a tensor, of any dtype.
///
/// `Display` writes the number as numpy prints a scalar: with the fewest digits that distinguish it within its dtype.
///
/// ```
/// use tensorfile::Dtype;
/// use tensorfile::view::{Scalar, scalars};
///
/// assert_eq!(Scalar::from_le_bytes(Dtype::F32, &0.1_f32.to_le_bytes()).to_string(), "0.1");
/// assert_eq!(scalars(Dtype::Bool, &[0, 1]).map(|bool| bool.to_string()).collect::<Vec<_>>(), ["False", "True"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// An element of [`Dtype::Bool`].
    Bool(bool),
    /// An integer; for a quantized or packed dtype, the integer in its bits, or the first 8 bytes of a block.
    Integer(i128),
    /// A floating-point number.
    Float(Float),
    /// A complex number: its real and its imaginary part.
    Complex(Float, Float),
}

/// A floating-point number of any dtype.
///
/// ```
/// use tensorfile::Dtype;
/// use tensorfile::view::{Scalar, scalars};
///
/// let Some(Scalar::Float(float)) = scalars(Dtype::F16, &[0x00, 0x3e]).next() else { panic!("it is a float") };
/// assert_eq!(float.value(), 1.5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Float {
    pub(super) value: f64,
    pub(super) precision: Precision,
}

/// The precision of a floating-point dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Precision {
    /// Bits of the mantissa after the point.
    mantissa: i32,
    /// The exponent of the smallest normal number.
    min_exponent: i32,
    /// The decimal digits always kept, as listed by numpy's `finfo`.
    pub(super) digits: i32,
}

const F64: Precision = Precision { mantissa: 52, min_exponent: -1022, digits: 15 };
const F32: Precision = Precision { mantissa: 23, min_exponent: -126, digits: 6 };
const F16: Precision = Precision { mantissa: 10, min_exponent: -14, digits: 3 };
const BF16: Precision = Precision { mantissa: 7, min_exponent: -126, digits: 3 };
const F8E5: Precision = Precision { mantissa: 2, min_exponent: -14, digits: 3 };
const F8E5FNUZ: Precision = Precision { min_exponent: -15, ..F8E5 };
const F8E4: Precision = Precision { mantissa: 3, min_exponent: -6, digits: 3 };
const F8E4FNUZ: Precision = Precision { min_exponent: -7, ..F8E4 };
const F8E8: Precision = Precision { mantissa: 0, min_exponent: -127, digits: 3 };

/// Returns the elements in little-endian bytes. Of a dtype with several elements in a block, one for each block.
///
/// ```
/// use tensorfile::view::scalars;
/// use tensorfile::{Dtype, Tensor};
///
/// let tensor = Tensor::from_slice(&[1.0_f32, 0.1], [2])?;
/// let texts: Vec<String> = scalars(tensor.dtype(), tensor.as_bytes()).map(|scalar| scalar.to_string()).collect();
/// assert_eq!(texts, ["1.0", "0.1"]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub fn scalars(dtype: Dtype, bytes: &[u8]) -> impl Iterator<Item = Scalar> + Clone {
    bytes.chunks_exact(dtype.block_bytes()).map(move |bytes| Scalar::from_le_bytes(dtype, bytes))
}

impl Scalar {
    /// Returns the element in the little-endian bytes of one. Missing bytes count as zero.
    #[must_use]
    pub fn from_le_bytes(dtype: Dtype, bytes: &[u8]) -> Self {
        fn sized<const N: usize>(bytes: &[u8]) -> [u8; N] {
            let mut sized = [0; N];
            sized.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            sized
        }
        let float = |value: f64, precision: Precision| Self::Float(Float { value, precision });
        let complex = |part: Dtype| {
            let (real, imaginary) = bytes.split_at(bytes.len().min(part.block_bytes()));
            match [real, imaginary].map(|bytes| Self::from_le_bytes(part, bytes)) {
                [Self::Float(real), Self::Float(imaginary)] => Self::Complex(real, imaginary),
                _ => unreachable!("the parts are floats"),
            }
        };
        let byte = || u8::from_le_bytes(sized(bytes));

        match dtype {
            Dtype::Bool => Self::Bool(byte() != 0),
            Dtype::F16 => float(f16::from_le_bytes(sized(bytes)).into(), F16),
            Dtype::Bf16 => float(bf16::from_le_bytes(sized(bytes)).into(), BF16),
            Dtype::F32 => float(f32::from_le_bytes(sized(bytes)).into(), F32),
            Dtype::F64 => float(f64::from_le_bytes(sized(bytes)), F64),
            Dtype::F8E5M2 => float(F8E5M2(byte()).to_f32().into(), F8E5),
            Dtype::F8E5M2Fnuz => float(F8E5M2Fnuz(byte()).to_f32().into(), F8E5FNUZ),
            Dtype::F8E4M3Fn => float(F8E4M3Fn(byte()).to_f32().into(), F8E4),
            Dtype::F8E4M3Fnuz => float(F8E4M3Fnuz(byte()).to_f32().into(), F8E4FNUZ),
            Dtype::F8E8M0 => float(F8E8M0(byte()).to_f32().into(), F8E8),
            Dtype::C64 => complex(Dtype::F32),
            Dtype::C128 => complex(Dtype::F64),
            Dtype::I8 | Dtype::QInt8 => Self::Integer(i8::from_le_bytes(sized(bytes)).into()),
            Dtype::I16 => Self::Integer(i16::from_le_bytes(sized(bytes)).into()),
            Dtype::I32 | Dtype::QInt32 => Self::Integer(i32::from_le_bytes(sized(bytes)).into()),
            Dtype::I64 => Self::Integer(i64::from_le_bytes(sized(bytes)).into()),
            // All other classes are unsigned integers or plain bits.
            _ => {
                let digits = bytes.iter().take(size_of::<u64>()).rev();
                Self::Integer(digits.fold(0, |number, &byte| number << 8 | i128::from(byte)))
            }
        }
    }
}

impl Scalar {
    /// Returns the number of the element; of a `bool`, 0 or 1. `None` for complex numbers.
    #[must_use]
    pub fn to_number(self) -> Option<Number> {
        match self {
            Self::Bool(bool) => Some(Number::Integer(bool.into())),
            Self::Integer(integer) => Some(Number::Integer(integer)),
            Self::Float(float) => Some(Number::Float(float.value)),
            Self::Complex(..) => None,
        }
    }

    /// Returns the element with the digits to parse it back as the same `f64`. `Display` alone writes the digits that
    /// distinguish it within its dtype, as numpy does.
    ///
    /// ```
    /// use tensorfile::view::scalars;
    /// use tensorfile::{Tensor, half::f16};
    ///
    /// let largest = Tensor::from_slice(&[f16::MAX], [1])?;
    /// let scalar = scalars(largest.dtype(), largest.as_bytes()).next().expect("there is one");
    /// assert_eq!((scalar.to_string(), scalar.with_all_digits().to_string()), ("65500.0".into(), "65504.0".into()));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn with_all_digits(self) -> Self {
        let full = |float: Float| Float { precision: F64, ..float };
        match self {
            Self::Float(float) => Self::Float(full(float)),
            Self::Complex(real, imaginary) => Self::Complex(full(real), full(imaginary)),
            other => other,
        }
    }

    /// Returns the real and the imaginary part, which is 0 for real numbers.
    #[must_use]
    pub fn to_complex(self) -> (f64, f64) {
        match self {
            Self::Bool(bool) => (bool.into(), 0.0),
            Self::Integer(integer) => (integer as f64, 0.0),
            Self::Float(float) => (float.value, 0.0),
            Self::Complex(real, imaginary) => (real.value, imaginary.value),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Integer(integer) => integer.fmt(f),
            Self::Float(float) if !float.value.is_finite() => f.write_str(float.name()),
            Self::Float(float) => f.write_str(&float.short()),
            Self::Complex(real, imaginary) if real.value == 0.0 && real.value.is_sign_positive() => {
                write!(f, "{}j", imaginary.part())
            }
            Self::Complex(real, imaginary) => {
                let imaginary = imaginary.part();
                let sign = if imaginary.starts_with('-') { "" } else { "+" };
                write!(f, "({}{sign}{imaginary}j)", real.part())
            }
        }
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Self::Float(Float { value, precision: F64 })
    }
}

impl Float {
    /// Returns the number. The conversion is exact for every dtype.
    #[must_use]
    pub fn value(self) -> f64 {
        self.value
    }

    /// Returns `nan`, `inf` or `-inf`, for a non-finite number.
    pub(super) fn name(self) -> &'static str {
        if self.value.is_nan() {
            "nan"
        } else if self.value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
    }

    /// Writes a part of a complex number, as short as possible.
    fn part(self) -> String {
        if !self.value.is_finite() {
            return self.name().to_owned();
        }
        let text = self.short();
        text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
    }

    /// Writes a finite number, with an exponent if it is very large or very small, as Python does.
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

    /// Writes a finite number without an exponent, with at most `precision` digits after the point, which is always
    /// written: `1.5`, `2.`, `-0.`.
    pub(super) fn positional(self, precision: usize) -> String {
        let Digits { negative, digits, exponent } = self.digits();
        let sign = if negative { "-" } else { "" };
        let decimals = i32::try_from(digits.len()).unwrap_or(i32::MAX).saturating_sub(1).saturating_sub(exponent);
        if usize::try_from(decimals).is_ok_and(|decimals| decimals > precision) {
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
            Ok(_) if decimals <= 0 => format!("{sign}{digits}{}.", zeros(-decimals)),
            Ok(exponent) => format!("{sign}{}.{}", &digits[..=exponent], &digits[exponent + 1..]),
        }
    }

    /// Returns the mantissa of a finite number, with one digit before the point and at most `precision` after it, and
    /// the exponent.
    pub(super) fn scientific(self, precision: usize) -> (String, i32) {
        let mut digits = self.digits();
        if digits.digits.len() - 1 > precision {
            digits = Digits::parse(&format!("{:.precision$e}", self.value));
        }
        let sign = if digits.negative { "-" } else { "" };
        let (first, rest) = digits.digits.split_at(1);
        (format!("{sign}{first}.{}", rest.trim_end_matches('0')), digits.exponent)
    }

    /// Returns the fewest digits that distinguish the number within its dtype.
    fn digits(self) -> Digits {
        let Self { value, precision } = self;
        if precision == F64 || value == 0.0 {
            return Digits::parse(&format!("{value:e}"));
        }
        if precision == F32 {
            #[expect(clippy::cast_possible_truncation, reason = "the number came from an `f32`")]
            let value = value as f32;
            return Digits::parse(&format!("{value:e}"));
        }
        // Narrower dtypes have few digits, so one of the first tries succeeds.
        let texts = (0..17).map(|digits| format!("{value:.digits$e}"));
        let mut texts = texts.skip_while(|text| !text.parse().is_ok_and(|text| precision.identifies(value, text)));
        Digits::parse(&texts.next().unwrap_or_else(|| format!("{value:e}")))
    }
}

impl Precision {
    /// Returns the distance from a number to the next one away from zero.
    fn step(self, value: f64) -> f64 {
        let bits = value.abs().to_bits() >> (f64::MANTISSA_DIGITS - 1);
        let exponent = i32::try_from(bits).unwrap_or(0) - (f64::MAX_EXP - 1);
        2_f64.powi(exponent.max(self.min_exponent) - self.mantissa)
    }

    /// Returns the nearest number of the dtype, as if its exponent had no upper limit.
    pub(super) fn round(self, value: f64) -> f64 {
        if self == F64 || !value.is_finite() || value == 0.0 {
            return value;
        }
        let step = self.step(value);
        (value / step).round_ties_even() * step
    }

    /// Returns whether `text` is closer to `value` than to any other number of the dtype.
    fn identifies(self, value: f64, text: f64) -> bool {
        let step = self.step(value);
        let is_even = (value / step) % 2.0 == 0.0;
        let (value, text) = (value.abs(), text.abs());
        // Numbers are closer to each other below a power of two.
        let below = if self.step(value - step / 4.0) < step { step / 4.0 } else { step / 2.0 };
        let (low, high) = (value - below, value + step / 2.0);
        if is_even { (low..=high).contains(&text) } else { low < text && text < high }
    }
}

/// A decimal number: digits with a point after the first one, and an exponent.
struct Digits {
    negative: bool,
    digits: String,
    exponent: i32,
}

impl Digits {
    /// Parses a number written by Rust's `{:e}`.
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
    fn reads_every_dtype() {
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

    /// Expects what numpy 2.4 and ml_dtypes print.
    #[test]
    fn floats_have_the_fewest_digits() {
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
    fn digits_parse_back_to_the_number() {
        for bits in (0..=u16::MAX).filter(|&bits| f16::from_bits(bits).is_finite()) {
            let Scalar::Float(float) = Scalar::from_le_bytes(Dtype::F16, &bits.to_le_bytes()) else {
                panic!("a float")
            };
            let text: f64 = float.short().parse().unwrap();
            assert_eq!(F16.round(text).to_bits(), float.value.to_bits(), "{bits:04x}");
        }
        for bits in (0..=u16::MAX).filter(|&bits| bf16::from_bits(bits).is_finite()) {
            let Scalar::Float(float) = Scalar::from_le_bytes(Dtype::Bf16, &bits.to_le_bytes()) else {
                panic!("a float")
            };
            let text: f64 = float.short().parse().unwrap();
            assert_eq!(BF16.round(text).to_bits(), float.value.to_bits(), "{bits:04x}");
        }
    }
}
