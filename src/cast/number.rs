use std::fmt;

use bytemuck::Pod;
use half::{bf16, f16};
use num_traits::{Float, NumCast};

use crate::tensor::{Dtype, Element, for_each_dtype, le_to_host};

/// A number of any numeric dtype, exactly.
///
/// ```
/// use tensorfile::cast::Number;
///
/// assert_eq!(Number::Integer(-3).to_string(), "-3");
/// assert_eq!(Number::Float(0.5).to_string(), "0.5");
/// assert_eq!(Number::Float(-1e-40).to_string(), "-1e-40");
/// ```
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
            // As `{:?}` does; otherwise there may be hundreds of zeros.
            Self::Float(float) if *float != 0.0 && !(1e-5..1e16).contains(&float.abs()) => fmt::LowerExp::fmt(float, f),
            Self::Float(float) => float.fmt(f),
        }
    }
}

impl Number {
    /// Reads one element from its little-endian bytes. `None` for non-numeric dtypes.
    pub(crate) fn from_le_bytes(dtype: Dtype, bytes: &[u8]) -> Option<Self> {
        macro_rules! from_le_bytes {
            ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
                match dtype {
                    $(Dtype::$variant => if_number!($class => one::<$scalar>(bytes), else None),)*
                }
            };
        }

        fn one<A: Numeric>(bytes: &[u8]) -> Option<Number> {
            let mut element = [bytemuck::try_pod_read_unaligned::<A>(bytes).ok()?];
            le_to_host(&mut element);
            Some(element[0].into())
        }

        for_each_dtype!(from_le_bytes)
    }

    pub(crate) fn is_negative(self) -> bool {
        match self {
            Self::Integer(integer) => integer < 0,
            Self::Float(float) => float < 0.0,
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        matches!(self, Self::Float(float) if float.is_nan())
    }

    /// Returns `true` if the numbers are equal, exactly. NaN is equal to none.
    pub(crate) fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one == other,
            (Self::Float(one), Self::Float(other)) => one == other,
            (Self::Integer(integer), Self::Float(float)) | (Self::Float(float), Self::Integer(integer)) => {
                Self::Float(float).to_integer() == Some(integer)
            }
        }
    }

    /// Returns the number as an integer, if it is one and in range.
    pub(crate) fn to_integer<I: NumCast>(self) -> Option<I> {
        match self {
            Self::Integer(integer) => I::from(integer),
            Self::Float(float) if float.fract() == 0.0 => I::from(float),
            Self::Float(_) => None,
        }
    }

    /// Rounds to odd, to an `f64`. Rounding the result to a narrower float gives the same as rounding once.
    pub(super) fn to_odd_float(self) -> f64 {
        match self {
            Self::Float(float) => float,
            Self::Integer(integer) => round_to_odd(integer),
        }
    }

    /// Returns the nearest float. `None` if a finite number would become infinite.
    fn to_float<F: Float>(self, round: impl Fn(f64) -> F) -> Option<F> {
        let wide = match self {
            Self::Integer(integer) if size_of::<F>() == size_of::<f64>() => integer as f64,
            number => number.to_odd_float(),
        };
        Some(round(wide)).filter(|float| float.is_infinite() == wide.is_infinite())
    }
}

/// Rounds to odd: the last bit of the result is set if bits were lost.
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

/// Rounds to odd: the last bit of the result is set if bits were lost. A finite number stays finite.
///
/// Rounding the result to a narrower float gives the same as rounding once. (`half` would drop bits of an `f64`.)
// Inlined into the loops that `vectors::widest` compiles for wide vectors: a call would end the vectors.
#[expect(clippy::cast_possible_truncation, reason = "lost bits set the last one")]
#[inline(always)]
pub(super) fn round_to_odd_f32(wide: f64) -> f32 {
    let nearest = wide as f32;
    let back: f64 = nearest.into();
    // Without branches, so that the loop is vectorized.
    let toward_zero = if back.abs() > wide.abs() { nearest.to_bits() - 1 } else { nearest.to_bits() };
    let is_exact = (back == wide) | wide.is_nan();
    f32::from_bits(if is_exact { nearest.to_bits() } else { toward_zero | 1 })
}

// Inlined for the same reason.
#[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest")]
#[inline(always)]
pub(super) fn round_to_f32(wide: f64) -> f32 {
    wide as f32
}

/// A scalar of a numeric dtype.
pub(crate) trait Numeric: Element + Pod + Into<Number> {
    /// Returns the number as this scalar: an integer exactly, or the nearest float, ties to even.
    ///
    /// `None` if it is out of range, or if a fraction or NaN would become an integer.
    fn from_number(number: Number) -> Option<Self>;
}

/// Expands to the first expression for the class of a numeric dtype, and to the second one for all other classes.
macro_rules! if_number {
    (Logical => $number:expr, else $other:expr) => {
        $other
    };
    (Quantized => $number:expr, else $other:expr) => {
        $other
    };
    (Opaque => $number:expr, else $other:expr) => {
        $other
    };
    (Complex => $number:expr, else $other:expr) => {
        $other
    };
    (Block => $number:expr, else $other:expr) => {
        $other
    };
    ($class:ident => $number:expr, else $other:expr) => {
        $number
    };
}

pub(super) use if_number;

macro_rules! integers {
    ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
        $(integer!($class $scalar);)*
    };
}

macro_rules! integer {
    (Signed $scalar:ty) => {
        integer!($scalar);
    };
    (Unsigned $scalar:ty) => {
        integer!($scalar);
    };
    ($class:ident $scalar:ty) => {};
    ($scalar:ty) => {
        impl From<$scalar> for Number {
            fn from(value: $scalar) -> Self {
                Number::Integer(value.into())
            }
        }

        impl Numeric for $scalar {
            fn from_number(number: Number) -> Option<Self> {
                number.to_integer()
            }
        }
    };
}

for_each_dtype!(integers);

macro_rules! floats {
    ($($scalar:ty: $round:expr;)*) => {$(
        impl From<$scalar> for Number {
            fn from(value: $scalar) -> Self {
                Number::Float(value.into())
            }
        }

        impl Numeric for $scalar {
            fn from_number(number: Number) -> Option<Self> {
                number.to_float($round)
            }
        }
    )*};
}

floats! {
    f16: |wide| f16::from_f32(round_to_odd_f32(wide));
    bf16: |wide| bf16::from_f32(round_to_odd_f32(wide));
    f32: round_to_f32;
    f64: |wide| wide;
}
