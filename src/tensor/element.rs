//! The Rust scalars of the dtypes, and their conversion from and to little-endian bytes.

use std::borrow::Cow;
use std::fmt::Debug;

use bytemuck::Pod;
use bytemuck::allocation::{cast_vec, try_cast_vec};

use super::buffer::{copied_integers, swap_bytes, try_with_capacity};
use super::dtype::for_each_dtype;
use super::{Buffer, Dtype, InvalidTensor};

/// A Rust scalar with a [`Dtype`].
///
/// This trait is sealed: there is one scalar for each dtype, except for dtypes with several elements in a block, such
/// as [`Dtype::F4`].
///
/// ```
/// use ndarray::Array1;
/// use tensorfile::{Dtype, Element, File, Result};
///
/// /// Reads a vector of any element type.
/// fn vector<A: Element>(file: &File, name: &str) -> Result<Array1<A>> {
///     file.array(name)
/// }
///
/// assert_eq!(<half::f16 as Element>::DTYPE, Dtype::F16);
/// ```
pub trait Element: sealed::Sealed + Copy + PartialEq + Debug + Send + Sync + 'static {
    /// The dtype of this scalar.
    const DTYPE: Dtype;

    /// Returns the little-endian bytes of `elements`: borrowed on little-endian hosts, otherwise a copy.
    // Methods of each scalar, so that the crates of users do not compile them again.
    #[doc(hidden)]
    fn as_le_bytes(elements: &[Self]) -> Cow<'_, [u8]>;

    /// Borrows elements from little-endian `bytes`. `None` if they are not aligned or the host is big-endian.
    #[doc(hidden)]
    fn view_le_bytes(bytes: &[u8]) -> Option<Result<&[Self], InvalidTensor>>;

    /// Returns the bytes of `elements`, to be overwritten by any little-endian bytes. `None` if not all are elements,
    /// or the host is big-endian.
    #[doc(hidden)]
    fn le_bytes_mut(_elements: &mut [Self]) -> Option<&mut [u8]> {
        None
    }

    /// Converts the little-endian bytes in a buffer to elements, without a copy if it was made for elements of this
    /// size.
    ///
    /// The bytes must be whole elements.
    #[doc(hidden)]
    fn from_buffer(buffer: Buffer) -> Result<Vec<Self>, InvalidTensor>;

    /// Copies elements from little-endian `bytes` at any address.
    ///
    /// The bytes must be whole elements.
    #[doc(hidden)]
    fn from_le_bytes(bytes: &[u8]) -> Result<Vec<Self>, InvalidTensor>;
}

mod sealed {
    pub trait Sealed {}
}

/// Implements [`Element`] for all scalars but `bool`.
macro_rules! elements {
    ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {$(
        element!($class $variant, $scalar, $bits);
    )*};
}

macro_rules! element {
    (Logical $variant:ident, $scalar:ty, $bits:ty) => {};
    (Block $variant:ident, $scalar:ty, $bits:ty) => {};
    (Complex $variant:ident, $scalar:ty, $bits:ty) => {
        element!($variant, $scalar, $bits, |parts| try_cast_vec(parts).unwrap_or_else(|(_, parts)| {
            // A vector of another capacity than whole numbers.
            bytemuck::cast_slice(&parts).to_vec()
        }));
    };
    ($class:ident $variant:ident, $scalar:ty, $bits:ty) => {
        element!($variant, $scalar, $bits, cast_vec);
    };
    ($variant:ident, $scalar:ty, $bits:ty, $cast:expr) => {
        impl sealed::Sealed for $scalar {}

        impl Element for $scalar {
            const DTYPE: Dtype = Dtype::$variant;

            fn as_le_bytes(elements: &[Self]) -> Cow<'_, [u8]> {
                bits_to_le_bytes(bytemuck::cast_slice(elements), size_of::<$bits>())
            }

            fn view_le_bytes(bytes: &[u8]) -> Option<Result<&[Self], InvalidTensor>> {
                view_bits(bytes).map(Ok)
            }

            fn le_bytes_mut(elements: &mut [Self]) -> Option<&mut [u8]> {
                let is_little = cfg!(target_endian = "little") || size_of::<$bits>() == 1;
                is_little.then(|| bytemuck::cast_slice_mut(elements))
            }

            fn from_buffer(buffer: Buffer) -> Result<Vec<Self>, InvalidTensor> {
                let cast: fn(Vec<$bits>) -> Vec<Self> = $cast;
                buffer.into_integers().map(cast)
            }

            fn from_le_bytes(bytes: &[u8]) -> Result<Vec<Self>, InvalidTensor> {
                let cast: fn(Vec<$bits>) -> Vec<Self> = $cast;
                copied_integers(bytes).map(cast)
            }
        }
    };
}

for_each_dtype!(elements);

impl sealed::Sealed for bool {}

impl Element for bool {
    const DTYPE: Dtype = Dtype::Bool;

    fn as_le_bytes(elements: &[Self]) -> Cow<'_, [u8]> {
        Cow::Borrowed(bytemuck::cast_slice(elements))
    }

    fn view_le_bytes(bytes: &[u8]) -> Option<Result<&[Self], InvalidTensor>> {
        Some(check_bools(bytes).map(|()| bytemuck::checked::cast_slice(bytes)))
    }

    fn from_buffer(buffer: Buffer) -> Result<Vec<Self>, InvalidTensor> {
        Self::from_le_bytes(&buffer)
    }

    fn from_le_bytes(bytes: &[u8]) -> Result<Vec<Self>, InvalidTensor> {
        check_bools(bytes)?;
        let mut bools = try_with_capacity(bytes.len())?;
        bools.extend(bytes.iter().map(|bit| *bit == 1));
        Ok(bools)
    }
}

/// Returns whether all bytes are 0 or 1.
pub(crate) fn are_bools(bytes: &[u8]) -> bool {
    // Without an early exit, so that many are checked at once.
    bytes.iter().fold(0, |all, byte| all | byte) <= 1
}

/// Refuses bytes other than 0 and 1.
pub(crate) fn check_bools(bytes: &[u8]) -> Result<(), InvalidTensor> {
    if are_bools(bytes) {
        return Ok(());
    }
    match bytes.iter().position(|&byte| byte > 1) {
        None => Ok(()),
        Some(element) => Err(InvalidTensor::Value { dtype: Dtype::Bool, element, found: bytes[element] }),
    }
}

/// Makes every byte but 0 a 1.
pub(crate) fn to_bools(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
}

fn bits_to_le_bytes(bytes: &[u8], element: usize) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") || element == 1 {
        return Cow::Borrowed(bytes);
    }
    let mut swapped = bytes.to_vec();
    swap_bytes(&mut swapped, element);
    Cow::Owned(swapped)
}

fn view_bits<B: Pod>(bytes: &[u8]) -> Option<&[B]> {
    if cfg!(target_endian = "big") && size_of::<B>() > 1 {
        return None;
    }
    if bytes.is_empty() { Some(&[]) } else { bytemuck::try_cast_slice(bytes).ok() }
}
