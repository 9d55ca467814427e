use std::fmt;

use half::{bf16, f16};
use num_traits::{Float, NumCast};

use super::{Dtype, Element, element};

/// A number that the dtype asked for cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCast {
    /// Which element.
    pub element: usize,
    /// The number.
    pub value: String,
    /// The dtype asked for.
    pub to: Dtype,
}

impl fmt::Display for InvalidCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element {} is {}, which no {} can hold", self.element, self.value, self.to)
    }
}

impl std::error::Error for InvalidCast {}

/// Whether elements of one dtype can be read as another by [`cast`]: both are numbers, and not of 8-bit floats.
pub(crate) fn can_cast(from: Dtype, to: Dtype) -> bool {
    let number = |dtype: Dtype| dtype.is_integer() || (dtype.is_float() && dtype.block_bytes() > 1);
    number(from) && number(to)
}

/// Casts the elements in little-endian `bytes`, number by number; [`can_cast`] says between which dtypes.
///
/// A float is rounded to the nearest of the other type, ties to even. Nothing else may change: an integer that does not fit, a fraction
/// that would become an integer, and a finite number that would become infinite are errors.
pub(crate) fn cast<A: Element>(from: Dtype, bytes: &[u8]) -> Result<Vec<A>, InvalidCast> {
    let cast = |(element, bytes): (usize, &[u8])| {
        let value = number(from, bytes).expect("`can_cast` says yes for numbers only");
        A::from_number(value).ok_or_else(|| InvalidCast { element, value: value.to_string(), to: A::DTYPE })
    };
    bytes.chunks_exact(from.block_bytes()).enumerate().map(cast).collect()
}

/// The number that the little-endian bytes of one element are; `None` where the dtype is not of numbers that we can compute with.
pub(crate) fn number(dtype: Dtype, bytes: &[u8]) -> Option<Number> {
    fn one<A: Element + Into<Number>>(bytes: &[u8]) -> Option<Number> {
        let mut bits = [bytemuck::try_pod_read_unaligned::<A::Bits>(bytes).ok()?];
        element::le_to_host(&mut bits);
        Some(A::view_bits(&bits).ok()?[0].into())
    }

    match dtype {
        Dtype::I8 => one::<i8>(bytes),
        Dtype::I16 => one::<i16>(bytes),
        Dtype::I32 => one::<i32>(bytes),
        Dtype::I64 => one::<i64>(bytes),
        Dtype::U8 => one::<u8>(bytes),
        Dtype::U16 => one::<u16>(bytes),
        Dtype::U32 => one::<u32>(bytes),
        Dtype::U64 => one::<u64>(bytes),
        Dtype::F16 => one::<f16>(bytes),
        Dtype::Bf16 => one::<bf16>(bytes),
        Dtype::F32 => one::<f32>(bytes),
        Dtype::F64 => one::<f64>(bytes),
        _ => None,
    }
}

/// A number of any numeric dtype, exactly.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    Integer(i128),
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(f),
            Self::Float(float) => float.fmt(f),
        }
    }
}

impl Number {
    /// The number as an integer, if it is one and in range.
    pub(super) fn to_integer<I: NumCast>(self) -> Option<I> {
        match self {
            Self::Integer(integer) => I::from(integer),
            Self::Float(float) if float.fract() == 0.0 => I::from(float),
            Self::Float(_) => None,
        }
    }

    /// The number as the nearest float; `None` where that is infinite and the number is not.
    pub(super) fn to_float<F: Float>(self, round: impl Fn(f64) -> F) -> Option<F> {
        let wide = match self {
            Self::Float(float) => float,
            // Rounding to `f64` and then again is rounding once when the first time keeps a trace of what it drops.
            Self::Integer(integer) if size_of::<F>() < size_of::<f64>() => round_to_odd(integer),
            Self::Integer(integer) => integer as f64,
        };
        Some(round(wide)).filter(|float| float.is_infinite() == wide.is_infinite())
    }
}

/// The integer as an `f64` whose last bit is set where bits were lost.
fn round_to_odd(integer: i128) -> f64 {
    let nearest = integer as f64;
    #[expect(clippy::cast_possible_truncation, reason = "a float made from an `i128` is a whole number")]
    let (there, wanted) = ((nearest as i128).unsigned_abs(), integer.unsigned_abs());
    if there == wanted {
        return nearest;
    }
    let toward_zero = if there > wanted { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f64::from_bits(toward_zero | 1)
}

/// The float as an `f32` whose last bit is set where bits were lost, to be rounded once more. (`half` drops bits of an `f64`.)
#[expect(clippy::cast_possible_truncation, reason = "what is lost leaves its trace")]
pub(super) fn round_to_odd_f32(wide: f64) -> f32 {
    let nearest = wide as f32;
    let back: f64 = nearest.into();
    if back == wide || !nearest.is_finite() {
        return nearest;
    }
    let toward_zero = if back.abs() > wide.abs() { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f32::from_bits(toward_zero | 1)
}

macro_rules! numbers {
    ($($scalar:ty => $variant:ident),*) => {$(
        impl From<$scalar> for Number {
            fn from(value: $scalar) -> Self {
                Number::$variant(value.into())
            }
        }
    )*};
}

numbers! {
    i8 => Integer, i16 => Integer, i32 => Integer, i64 => Integer,
    u8 => Integer, u16 => Integer, u32 => Integer, u64 => Integer,
    f16 => Float, bf16 => Float, f32 => Float, f64 => Float
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<A: Element, F: Element>(value: F) -> Option<A> {
        cast(F::DTYPE, &element::to_le_bytes(&[value])).ok().map(|all| all[0])
    }

    #[test]
    fn rounds_once_and_to_even() {
        assert_eq!(one::<f32, f64>(16_777_217.0), Some(16_777_216.0));
        assert_eq!(one::<f32, i64>(16_777_219), Some(16_777_220.0));
        // Rounded to `f32` first, these would be ties that they are not.
        assert_eq!(one::<f16, f64>(1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40)), Some(f16::from_bits(0x3c01)));
        let above_a_tie = (1_i64 << 60) + (1 << 52) + 1;
        assert_eq!(one::<bf16, i64>(above_a_tie).map(bf16::to_f32), Some(2.0_f32.powi(60) + 2.0_f32.powi(53)));
        assert_eq!(one::<bf16, i64>(-above_a_tie).map(bf16::to_f32), Some(-2.0_f32.powi(60) - 2.0_f32.powi(53)));
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(one::<u8, i16>(256), None);
        assert_eq!(one::<u8, i16>(-1), None);
        assert_eq!(one::<i32, f32>(0.5), None);
        assert_eq!(one::<i32, f32>(f32::NAN), None);
        assert_eq!(one::<f16, f32>(65520.0), None);
        assert_eq!(one::<f16, f32>(f32::INFINITY), Some(f16::INFINITY));
        assert_eq!(one::<i64, f64>(-3.0), Some(-3));
        assert!(one::<f32, f64>(f64::NAN).is_some_and(f32::is_nan));
    }
}
