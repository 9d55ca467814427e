use std::fmt;

use half::{bf16, f16};
use num_traits::{Float, NumCast};

/// A number of any numeric dtype, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An element of an integer dtype.
    Integer(i128),
    /// An element of a floating-point dtype.
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
    pub(crate) fn is_negative(self) -> bool {
        match self {
            Self::Integer(integer) => integer < 0,
            Self::Float(float) => float < 0.0,
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        matches!(self, Self::Float(float) if float.is_nan())
    }

    /// Whether the numbers are equal, exactly; NaN is equal to none.
    pub(crate) fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one == other,
            (Self::Float(one), Self::Float(other)) => one == other,
            (Self::Integer(integer), Self::Float(float)) | (Self::Float(float), Self::Integer(integer)) => {
                // Most integers are small, and 128 bits are slow.
                match i32::try_from(integer) {
                    Ok(small) => <f64 as From<i32>>::from(small) == float,
                    Err(_) => Self::Float(float).to_integer() == Some(integer),
                }
            }
        }
    }

    /// The number as an integer, if it is one and in range.
    pub(crate) fn to_integer<I: NumCast>(self) -> Option<I> {
        match self {
            Self::Integer(integer) => I::from(integer),
            Self::Float(float) if float.fract() == 0.0 => I::from(float),
            Self::Float(_) => None,
        }
    }

    /// The number as an `f64` to be rounded once more. Rounding twice is rounding once when the first time keeps a
    /// trace of what it drops.
    pub(super) fn to_odd_float(self) -> f64 {
        match self {
            Self::Float(float) => float,
            Self::Integer(integer) => round_to_odd(integer),
        }
    }

    /// The number as the nearest float; `None` where that is infinite and the number is not.
    pub(super) fn to_float<F: Float>(self, round: impl Fn(f64) -> F) -> Option<F> {
        let wide = match self {
            Self::Integer(integer) if size_of::<F>() == size_of::<f64>() => integer as f64,
            number => number.to_odd_float(),
        };
        Some(round(wide)).filter(|float| float.is_infinite() == wide.is_infinite())
    }
}

/// The integer as an `f64` whose last bit is set where bits were lost.
fn round_to_odd(integer: i128) -> f64 {
    if let Ok(small) = i32::try_from(integer) {
        return small.into();
    }
    let nearest = integer as f64;
    #[expect(clippy::cast_possible_truncation, reason = "a float made from an `i128` is a whole number")]
    let (there, wanted) = ((nearest as i128).unsigned_abs(), integer.unsigned_abs());
    if there == wanted {
        return nearest;
    }
    let toward_zero = if there > wanted { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f64::from_bits(toward_zero | 1)
}

/// The float as an `f32` whose last bit is set where bits were lost, to be rounded once more. (`half` drops bits of an
/// `f64`.)
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
