use std::borrow::Cow;
use std::fmt::Debug;

use bytemuck::{Pod, Zeroable};

use super::dtype::for_each_dtype;
use super::{Dtype, InvalidTensor};

/// A Rust scalar that has a [`Dtype`].
///
/// This trait is sealed: there is one scalar for each dtype.
pub trait Element: sealed::Sealed + Copy + PartialEq + Debug + Send + Sync + 'static {
    /// The dtype of this scalar.
    const DTYPE: Dtype;

    /// A type of the same size for which every bit pattern is valid: `Self` for all scalars but `bool`.
    #[doc(hidden)]
    type Bits: Pod;

    #[doc(hidden)]
    fn as_bits(elements: &[Self]) -> &[Self::Bits];

    /// Converts elements without a copy.
    #[doc(hidden)]
    fn from_bits(bits: Vec<Self::Bits>) -> Result<Vec<Self>, InvalidTensor>;

    #[doc(hidden)]
    fn view_bits(bits: &[Self::Bits]) -> Result<&[Self], InvalidTensor>;
}

mod sealed {
    pub trait Sealed {}
}

/// Declares the scalars that Rust has no type for, and implements [`Element`] for all but `bool`.
macro_rules! elements {
    ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {$(
        scalar!($class $variant, $bits);
        element!($class $variant, $scalar);
    )*};
}

macro_rules! scalar {
    (Logical $variant:ident, $bits:ty) => {};
    (Signed $variant:ident, $bits:ty) => {};
    (Unsigned $variant:ident, $bits:ty) => {};
    (Float $variant:ident, $bits:ty) => {};
    ($class:ident $variant:ident, $bits:ty) => {
        #[doc = concat!("An element of [`Dtype::", stringify!($variant), "`], as its bits.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $variant(
            /// The bits as the file holds them.
            pub $bits,
        );
    };
}

macro_rules! element {
    (Logical $variant:ident, $scalar:ty) => {};
    ($class:ident $variant:ident, $scalar:ty) => {
        impl sealed::Sealed for $scalar {}

        impl Element for $scalar {
            const DTYPE: Dtype = Dtype::$variant;
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
        }
    };
}

for_each_dtype!(elements);

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
}

fn check_bools(bits: &[u8]) -> Result<(), InvalidTensor> {
    match bits.iter().position(|&bit| bit > 1) {
        None => Ok(()),
        Some(element) => Err(InvalidTensor::Value { dtype: Dtype::Bool, element, found: bits[element] }),
    }
}

/// Returns the little-endian bytes of `elements`: borrowed on little-endian hosts, a copy on others.
pub(crate) fn to_le_bytes<A: Element>(elements: &[A]) -> Cow<'_, [u8]> {
    let bytes: &[u8] = bytemuck::cast_slice(A::as_bits(elements));
    if cfg!(target_endian = "little") || size_of::<A::Bits>() == 1 {
        return Cow::Borrowed(bytes);
    }
    let mut swapped = bytes.to_vec();
    swap_bytes(&mut swapped, size_of::<A::Bits>());
    Cow::Owned(swapped)
}

/// Copies elements from little-endian `bytes` at any address.
///
/// `bytes` must hold whole elements.
pub(crate) fn from_le_bytes<A: Element>(bytes: &[u8]) -> Result<Vec<A>, InvalidTensor> {
    debug_assert_eq!(bytes.len() % size_of::<A>(), 0, "whole elements");
    A::from_bits(bits_from_le_bytes(bytes))
}

pub(crate) fn bits_from_le_bytes<B: Pod>(bytes: &[u8]) -> Vec<B> {
    let mut bits = match bytemuck::try_cast_slice::<u8, B>(bytes) {
        // Zeroed memory would be written twice.
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

/// Converts little-endian elements to the host's byte order, in place.
pub(crate) fn le_to_host<B: Pod>(bits: &mut [B]) {
    if cfg!(target_endian = "big") {
        swap_bytes(bytemuck::cast_slice_mut(bits), size_of::<B>());
    }
}

/// Borrows elements from little-endian `bytes`. `None` if they are not aligned or the host is big-endian.
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
