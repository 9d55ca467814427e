use std::borrow::Cow;
use std::fmt::Debug;

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use super::float8;
use super::number::{Number, round_to_odd_f32};
use super::{Dtype, InvalidTensor};

/// A Rust scalar that has a [`Dtype`].
///
/// Sealed: a dtype of a file and the type that holds it belong together.
pub trait Element: sealed::Sealed + Copy + PartialEq + Debug + Send + Sync + 'static {
    /// The dtype of this scalar.
    const DTYPE: Dtype;

    /// The scalar's bytes as a type of which every bit pattern is a value; `Self` for all but `bool`.
    #[doc(hidden)]
    type Bits: Pod;

    #[doc(hidden)]
    fn as_bits(elements: &[Self]) -> &[Self::Bits];

    /// Takes the elements over, without a copy.
    #[doc(hidden)]
    fn from_bits(bits: Vec<Self::Bits>) -> Result<Vec<Self>, InvalidTensor>;

    #[doc(hidden)]
    fn view_bits(bits: &[Self::Bits]) -> Result<&[Self], InvalidTensor>;

    /// The number as this scalar, where it is one and can be; see [`cast`](super::cast::cast).
    #[doc(hidden)]
    fn from_number(number: Number) -> Option<Self>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($scalar:ty => $dtype:ident by $from_number:expr),* $(,)?) => {$(
        impl sealed::Sealed for $scalar {}

        impl Element for $scalar {
            const DTYPE: Dtype = Dtype::$dtype;
            type Bits = Self;

            fn as_bits(elements: &[Self]) -> &[Self] {
                elements
            }

            fn from_bits(bits: Vec<Self>) -> Result<Vec<Self>, InvalidTensor> {
                Ok(bits)
            }

            fn view_bits(bits: &[Self]) -> Result<&[Self], InvalidTensor> {
                Ok(bits)
            }

            fn from_number(number: Number) -> Option<Self> {
                $from_number(number)
            }
        }
    )*};
}

elements! {
    i8 => I8 by Number::to_integer,
    i16 => I16 by Number::to_integer,
    i32 => I32 by Number::to_integer,
    i64 => I64 by Number::to_integer,
    u8 => U8 by Number::to_integer,
    u16 => U16 by Number::to_integer,
    u32 => U32 by Number::to_integer,
    u64 => U64 by Number::to_integer,
    f16 => F16 by |number: Number| number.to_float(|wide| f16::from_f32(round_to_odd_f32(wide))),
    bf16 => Bf16 by |number: Number| number.to_float(|wide| bf16::from_f32(round_to_odd_f32(wide))),
    f32 => F32 by |number: Number| number.to_float(round_to_f32),
    f64 => F64 by |number: Number| number.to_float(|wide| wide),
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest is what is asked for")]
fn round_to_f32(wide: f64) -> f32 {
    wide as f32
}

/// Declares the scalars that Rust has no arithmetic for.
macro_rules! opaque {
    ($($scalar:ident($bits:ty) $doc:literal by $from_number:expr),* $(,)?) => {
        $(
            #[doc = $doc]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Pod, Zeroable)]
            #[repr(transparent)]
            pub struct $scalar(
                /// The bits as the file holds them.
                pub $bits,
            );
        )*
        elements! { $($scalar => $scalar by $from_number),* }
    };
}

opaque! {
    F8E5M2(u8) "An [`Dtype::F8E5M2`] as its bits." by |number: Number| float8::E5M2.encode(number.to_odd_float()).map(F8E5M2),
    F8E4M3Fn(u8) "An [`Dtype::F8E4M3Fn`] as its bits." by |number: Number| float8::E4M3FN.encode(number.to_odd_float()).map(F8E4M3Fn),
    F8E5M2Fnuz(u8) "An [`Dtype::F8E5M2Fnuz`] as its bits." by |number: Number| float8::E5M2FNUZ.encode(number.to_odd_float()).map(F8E5M2Fnuz),
    F8E4M3Fnuz(u8) "An [`Dtype::F8E4M3Fnuz`] as its bits." by |number: Number| float8::E4M3FNUZ.encode(number.to_odd_float()).map(F8E4M3Fnuz),
    QInt8(i8) "A [`Dtype::QInt8`] as its bits." by |_| None,
    QUint8(u8) "A [`Dtype::QUint8`] as its bits." by |_| None,
    QInt32(i32) "A [`Dtype::QInt32`] as its bits." by |_| None,
    QUint4x2(u8) "A byte of [`Dtype::QUint4x2`]." by |_| None,
    QUint2x4(u8) "A byte of [`Dtype::QUint2x4`]." by |_| None,
    Bits16(u16) "A [`Dtype::Bits16`]." by |_| None,
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const DTYPE: Dtype = Dtype::Bool;
    type Bits = u8;

    fn as_bits(elements: &[Self]) -> &[u8] {
        bytemuck::cast_slice(elements)
    }

    fn from_bits(bits: Vec<u8>) -> Result<Vec<Self>, InvalidTensor> {
        check_bools(&bits)?;
        Ok(bits.into_iter().map(|bit| bit == 1).collect())
    }

    fn view_bits(bits: &[u8]) -> Result<&[Self], InvalidTensor> {
        check_bools(bits)?;
        Ok(bytemuck::checked::cast_slice(bits))
    }

    fn from_number(_: Number) -> Option<Self> {
        None
    }
}

fn check_bools(bits: &[u8]) -> Result<(), InvalidTensor> {
    match bits.iter().position(|&bit| bit > 1) {
        None => Ok(()),
        Some(element) => Err(InvalidTensor::Value { dtype: Dtype::Bool, element, found: bits[element] }),
    }
}

/// The little-endian bytes of `elements`: borrowed where the host is little-endian, swapped copies elsewhere.
pub(crate) fn to_le_bytes<A: Element>(elements: &[A]) -> Cow<'_, [u8]> {
    let bytes: &[u8] = bytemuck::cast_slice(A::as_bits(elements));
    if cfg!(target_endian = "little") || size_of::<A::Bits>() == 1 {
        return Cow::Borrowed(bytes);
    }
    let mut swapped = bytes.to_vec();
    swap_bytes(&mut swapped, size_of::<A::Bits>());
    Cow::Owned(swapped)
}

/// The elements of little-endian `bytes`, in memory of their own: one copy, aligned or not.
///
/// `bytes` must hold whole elements.
pub(crate) fn from_le_bytes<A: Element>(bytes: &[u8]) -> Result<Vec<A>, InvalidTensor> {
    debug_assert_eq!(bytes.len() % size_of::<A>(), 0, "whole elements");
    A::from_bits(bits_from_le_bytes(bytes))
}

pub(crate) fn bits_from_le_bytes<B: Pod>(bytes: &[u8]) -> Vec<B> {
    let mut bits = match bytemuck::try_cast_slice::<u8, B>(bytes) {
        // Memory that is allocated and filled at once is written once; zeroed memory would be written twice.
        Ok(aligned) => aligned.to_vec(),
        Err(_) => {
            let mut bits = bytemuck::zeroed_vec(bytes.len() / size_of::<B>());
            bytemuck::cast_slice_mut(&mut bits).copy_from_slice(bytes);
            bits
        }
    };
    le_to_host(&mut bits);
    bits
}

/// Turns little-endian bit patterns into the host's, in place.
pub(crate) fn le_to_host<B: Pod>(bits: &mut [B]) {
    if cfg!(target_endian = "big") {
        swap_bytes(bytemuck::cast_slice_mut(bits), size_of::<B>());
    }
}

/// The elements that `bytes` are, where they lie aligned and the host is little-endian; else `None`.
pub(crate) fn view_le_bytes<A: Element>(bytes: &[u8]) -> Option<Result<&[A], InvalidTensor>> {
    if cfg!(target_endian = "big") && size_of::<A::Bits>() > 1 {
        return None;
    }
    if bytes.is_empty() {
        return Some(Ok(&[]));
    }
    bytemuck::try_cast_slice(bytes).ok().map(A::view_bits)
}

fn swap_bytes(bytes: &mut [u8], element: usize) {
    for element in bytes.chunks_exact_mut(element) {
        element.reverse();
    }
}

macro_rules! float8 {
    ($($scalar:ident by $kind:ident),*) => {$(
        impl From<$scalar> for Number {
            fn from(value: $scalar) -> Self {
                Number::Float(float8::$kind.decode(value.0))
            }
        }

        impl $scalar {
            /// The number that the bits are, exactly.
            #[must_use]
            pub fn to_f32(self) -> f32 {
                round_to_f32(float8::$kind.decode(self.0))
            }

            /// The nearest number of this kind, ties to even; `None` where it lies beyond the largest one.
            #[must_use]
            pub fn from_f32(number: f32) -> Option<Self> {
                float8::$kind.encode(number.into()).map(Self)
            }
        }
    )*};
}

float8! { F8E5M2 by E5M2, F8E4M3Fn by E4M3FN, F8E5M2Fnuz by E5M2FNUZ, F8E4M3Fnuz by E4M3FNUZ }
