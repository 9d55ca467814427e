//! Owned payloads with the alignment of their elements, so that arrays take their memory over without a copy.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use bytemuck::allocation::try_zeroed_vec;

use super::InvalidTensor;
use crate::threads;

/// Owned bytes in a `Vec` of integers as wide as their elements.
///
/// The bytes are aligned for the elements, and [`Element::from_buffer`](super::Element::from_buffer) takes the memory
/// over without a copy.
#[derive(Clone)]
pub struct Buffer {
    integers: IntegerVec,
    /// The bytes in use. The last integer may be in part.
    len: usize,
}

#[derive(Clone)]
pub(super) enum IntegerVec {
    B1(Vec<u8>),
    B2(Vec<u16>),
    B4(Vec<u32>),
    B8(Vec<u64>),
}

/// Evaluates `$body` with the vector, of any of the four types.
macro_rules! with_vec {
    ($integers:expr, $vec:ident => $body:expr) => {
        match $integers {
            IntegerVec::B1($vec) => $body,
            IntegerVec::B2($vec) => $body,
            IntegerVec::B4($vec) => $body,
            IntegerVec::B8($vec) => $body,
        }
    };
}

impl Buffer {
    /// Creates a buffer of zeros, to be overwritten with elements of `element` bytes each.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::OutOfMemory`].
    pub(crate) fn try_zeroed(element: usize, len: usize) -> Result<Self, InvalidTensor> {
        let integers = match element {
            2 => try_zeroed_vec(len.div_ceil(2)).map(IntegerVec::B2),
            4 => try_zeroed_vec(len.div_ceil(4)).map(IntegerVec::B4),
            8 => try_zeroed_vec(len.div_ceil(8)).map(IntegerVec::B8),
            _ => try_zeroed_vec(len).map(IntegerVec::B1),
        };
        Ok(Self { integers: integers.map_err(|()| out_of_memory(len))?, len })
    }

    /// Creates an empty buffer with room for `len` bytes, in elements of `element` bytes each.
    pub(crate) fn with_capacity(element: usize, len: usize) -> Self {
        let integers = match element {
            2 => IntegerVec::B2(Vec::with_capacity(len.div_ceil(2))),
            4 => IntegerVec::B4(Vec::with_capacity(len.div_ceil(4))),
            8 => IntegerVec::B8(Vec::with_capacity(len.div_ceil(8))),
            _ => IntegerVec::B1(Vec::with_capacity(len)),
        };
        Self { integers, len: 0 }
    }

    /// Copies bytes from any address. Aborts without memory for them, as a `Vec` does: bytes of a mapped file can be
    /// more than there is memory for, and are copied by [`try_from_slice`](Self::try_from_slice).
    pub(crate) fn from_slice(element: usize, bytes: &[u8]) -> Self {
        let integers = match element {
            2 => IntegerVec::B2(copied(bytes)),
            4 => IntegerVec::B4(copied(bytes)),
            8 => IntegerVec::B8(copied(bytes)),
            _ => IntegerVec::B1(copied(bytes)),
        };
        Self { integers, len: bytes.len() }
    }

    /// Copies bytes from any address.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::OutOfMemory`].
    pub(crate) fn try_from_slice(element: usize, bytes: &[u8]) -> Result<Self, InvalidTensor> {
        let integers = match element {
            2 => IntegerVec::B2(try_copied(bytes)?),
            4 => IntegerVec::B4(try_copied(bytes)?),
            8 => IntegerVec::B8(try_copied(bytes)?),
            _ => IntegerVec::B1(try_copied(bytes)?),
        };
        Ok(Self { integers, len: bytes.len() })
    }

    /// Makes room for exactly `len` more bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::OutOfMemory`].
    pub(crate) fn reserve(&mut self, len: usize) -> Result<(), InvalidTensor> {
        with_vec!(&mut self.integers, elements => try_reserve(elements, len.div_ceil(element_bytes(elements))))
    }

    /// Appends bytes, which may begin and end inside of an element.
    ///
    /// `expected` is the final number of bytes: the memory does not [`grow`] past it.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::OutOfMemory`], with the buffer as it was.
    pub(crate) fn append(&mut self, bytes: &[u8], expected: usize) -> Result<(), InvalidTensor> {
        with_vec!(&mut self.integers, elements => append(elements, self.len, bytes, expected))?;
        self.len += bytes.len();
        Ok(())
    }

    /// Appends `len` zeros, to be overwritten, and returns them. As [`append`](Self::append) otherwise.
    pub(crate) fn append_zeros(&mut self, len: usize, expected: usize) -> Result<&mut [u8], InvalidTensor> {
        let start = self.len;
        with_vec!(&mut self.integers, elements => append_zeros(elements, start + len, expected))?;
        self.len += len;
        Ok(&mut self[start..])
    }

    /// Returns the bytes as integers, without a copy if the buffer was made for elements of this size.
    ///
    /// The bytes must be whole integers.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::OutOfMemory`].
    pub(super) fn into_integers<I: BufferInteger>(self) -> Result<Vec<I>, InvalidTensor> {
        debug_assert_eq!(self.len % size_of::<I>(), 0, "whole integers");
        let mut integers = match I::take(self.integers) {
            Ok(integers) => integers,
            Err(other) => {
                let bytes: &[u8] = with_vec!(&other, vec => &bytemuck::cast_slice(vec)[..self.len]);
                let mut integers = try_with_capacity(self.len / size_of::<I>())?;
                threads::append(&mut integers, bytes);
                integers
            }
        };
        le_to_host(&mut integers);
        Ok(integers)
    }

    /// Returns the bytes, without a copy if the buffer was made for elements of one byte.
    pub(crate) fn into_vec_u8(self) -> Vec<u8> {
        match self.integers {
            IntegerVec::B1(bytes) => bytes,
            _ => self.to_vec(),
        }
    }
}

/// An integer with the width of some elements.
pub(super) trait BufferInteger: Pod {
    /// Returns the vector if it has this integer type.
    fn take(integers: IntegerVec) -> Result<Vec<Self>, IntegerVec>;
}

macro_rules! integers {
    ($($variant:ident: $($integer:ty),*;)*) => {$($(
        impl BufferInteger for $integer {
            fn take(integers: IntegerVec) -> Result<Vec<Self>, IntegerVec> {
                match integers {
                    IntegerVec::$variant(vec) => Ok(bytemuck::allocation::cast_vec(vec)),
                    other => Err(other),
                }
            }
        }
    )*)*};
}

integers! {
    B1: u8, i8;
    B2: u16, i16;
    B4: u32, i32;
    B8: u64, i64;
}

/// Appends `bytes` to the `len` bytes in `elements`.
fn append<B: Pod>(elements: &mut Vec<B>, len: usize, bytes: &[u8], expected: usize) -> Result<(), InvalidTensor> {
    let size = size_of::<B>();
    let missing = elements.len() * size - len;
    let (head, bytes) = bytes.split_at(bytes.len().min(missing));
    grow(elements, bytes.len().div_ceil(size), expected.div_ceil(size))?;
    if !head.is_empty() {
        bytemuck::cast_slice_mut(elements)[len..len + head.len()].copy_from_slice(head);
    }
    append_aligned(elements, bytes);
    Ok(())
}

/// Copies bytes. The last element may be incomplete.
fn copied<B: Pod>(bytes: &[u8]) -> Vec<B> {
    // Zeroed memory would be written twice.
    let mut elements = Vec::with_capacity(bytes.len().div_ceil(size_of::<B>()));
    append_aligned(&mut elements, bytes);
    elements
}

/// As [`copied`], but without memory for them an error.
fn try_copied<B: Pod>(bytes: &[u8]) -> Result<Vec<B>, InvalidTensor> {
    let mut elements = try_with_capacity(bytes.len().div_ceil(size_of::<B>()))?;
    append_aligned(&mut elements, bytes);
    Ok(elements)
}

/// Copies whole little-endian integers.
pub(super) fn copied_integers<B: Pod>(bytes: &[u8]) -> Result<Vec<B>, InvalidTensor> {
    let mut integers = try_with_capacity(bytes.len() / size_of::<B>())?;
    threads::append(&mut integers, bytes);
    le_to_host(&mut integers);
    Ok(integers)
}

/// Appends bytes starting with an element.
#[inline]
fn append_aligned<B: Pod>(elements: &mut Vec<B>, bytes: &[u8]) {
    let size = size_of::<B>();
    let (whole, cut) = bytes.split_at(bytes.len() - bytes.len() % size);
    threads::append(elements, whole);
    if !cut.is_empty() {
        let mut last = B::zeroed();
        bytemuck::bytes_of_mut(&mut last)[..cut.len()].copy_from_slice(cut);
        elements.push(last);
    }
}

/// Appends zeros until there are `len` bytes in `elements`.
fn append_zeros<B: Pod>(elements: &mut Vec<B>, len: usize, expected: usize) -> Result<(), InvalidTensor> {
    let size = size_of::<B>();
    let more = len.div_ceil(size).saturating_sub(elements.len());
    grow(elements, more, expected.div_ceil(size))?;
    elements.resize(elements.len() + more, B::zeroed());
    Ok(())
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        with_vec!(&self.integers, vec => &bytemuck::cast_slice(vec)[..self.len])
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        with_vec!(&mut self.integers, vec => &mut bytemuck::cast_slice_mut(vec)[..self.len])
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// Converts little-endian elements to the host's byte order, in place.
pub(crate) fn le_to_host<B: Pod>(bits: &mut [B]) {
    if cfg!(target_endian = "big") {
        swap_bytes(bytemuck::cast_slice_mut(bits), size_of::<B>());
    }
}

pub(super) fn swap_bytes(bytes: &mut [u8], element: usize) {
    for element in bytes.chunks_exact_mut(element) {
        element.reverse();
    }
}

/// Makes room for `more` items, by doubling the capacity as `Vec` does, but not past `expected`.
///
/// A length from a file is not allocated before the data arrives: the memory is at most twice as large as the data.
///
/// # Errors
///
/// [`InvalidTensor::OutOfMemory`].
pub(crate) fn grow<T>(items: &mut Vec<T>, more: usize, expected: usize) -> Result<(), InvalidTensor> {
    let needed = items.len() + more;
    if needed <= items.capacity() {
        return Ok(());
    }
    let capacity = items.capacity().saturating_mul(2).min(expected).max(needed);
    try_reserve(items, capacity - items.len())
}

/// Returns the size of an element.
fn element_bytes<B>(_: &[B]) -> usize {
    size_of::<B>()
}

/// Makes room for exactly `more` items.
///
/// # Errors
///
/// [`InvalidTensor::OutOfMemory`].
#[inline]
pub(crate) fn try_reserve<T>(items: &mut Vec<T>, more: usize) -> Result<(), InvalidTensor> {
    items
        .try_reserve_exact(more)
        .map_err(|_| out_of_memory(items.len().saturating_add(more).saturating_mul(size_of::<T>())))
}

/// Returns an empty vector with room for `len` items, as [`try_reserve`] does. For a few items, it uses the infallible
/// allocation, which takes a third of the instructions.
#[inline]
pub(crate) fn try_with_capacity<T>(len: usize) -> Result<Vec<T>, InvalidTensor> {
    /// The most bytes counted as a few.
    const FEW: usize = 4096;
    if len <= FEW / size_of::<T>().max(1) {
        return Ok(Vec::with_capacity(len));
    }
    let mut items = Vec::new();
    try_reserve(&mut items, len)?;
    Ok(items)
}

/// Returns `len` zeros. As [`try_reserve`] otherwise.
pub(crate) fn try_zeros(len: usize) -> Result<Vec<u8>, InvalidTensor> {
    try_zeroed_vec(len).map_err(|()| out_of_memory(len))
}

#[cold]
fn out_of_memory(bytes: usize) -> InvalidTensor {
    InvalidTensor::OutOfMemory { bytes: bytes as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Element, InvalidTensor};

    const SIZES: [usize; 4] = [1, 2, 4, 8];

    #[test]
    fn copies_bytes_from_any_address() {
        let bytes: Vec<u8> = (0..40).collect();
        for (size, start) in SIZES.into_iter().flat_map(|size| (0..8).map(move |start| (size, start))) {
            for end in start..bytes.len() {
                let bytes = &bytes[start..end];
                let buffer = Buffer::from_slice(size, bytes);
                assert_eq!(*buffer, *bytes);
                assert_eq!(buffer.into_vec_u8(), bytes);
            }
        }
    }

    #[test]
    fn pieces_may_cut_elements() {
        let bytes: Vec<u8> = (0..40).collect();
        for (size, piece) in SIZES.into_iter().flat_map(|size| (1..20).map(move |piece| (size, piece))) {
            let mut buffer = Buffer::with_capacity(size, 0);
            bytes.chunks(piece).for_each(|piece| buffer.append(piece, bytes.len()).unwrap());
            assert_eq!(*buffer, *bytes, "elements of {size} bytes in pieces of {piece}");
        }
    }

    #[test]
    fn zeros_may_begin_and_end_inside_elements() {
        for (size, piece) in SIZES.into_iter().flat_map(|size| (1..20).map(move |piece| (size, piece))) {
            let mut buffer = Buffer::with_capacity(size, 0);
            let mut bytes = Vec::new();
            while bytes.len() < 40 {
                buffer.append_zeros(piece, 60).unwrap().fill(7);
                buffer.append(&[1, 2, 3], 60).unwrap();
                bytes.resize(bytes.len() + piece, 7);
                bytes.extend([1, 2, 3]);
                assert_eq!(*buffer, *bytes, "elements of {size} bytes in pieces of {piece}");
            }
        }
    }

    #[test]
    fn memory_does_not_grow_past_the_expected_size() {
        let mut buffer = Buffer::with_capacity(4, 8);
        (0..3).for_each(|_| buffer.append(&[0; 8], 24).unwrap());
        let IntegerVec::B4(elements) = &buffer.integers else { panic!("memory of 4-byte elements") };
        assert_eq!((elements.len(), elements.capacity()), (6, 6));
    }

    #[test]
    fn memory_that_there_is_not_is_an_error() {
        let most = isize::MAX as usize;
        let expected = Err(InvalidTensor::OutOfMemory { bytes: most as u64 });
        for size in SIZES {
            assert_eq!(Buffer::try_zeroed(size, most), expected, "elements of {size} bytes");
        }
        let mut buffer = Buffer::with_capacity(1, 0);
        buffer.append(&[1, 2], 2).unwrap();
        assert!(buffer.append_zeros(most - 2, most).is_err());
        assert_eq!(*buffer, [1, 2]);
    }

    #[test]
    fn elements_of_the_same_size_are_not_copied() {
        let numbers = [1.0_f32, -2.0];
        let buffer = Buffer::from_slice(4, &Element::as_le_bytes(&numbers[..]));
        let address = buffer.as_ptr();
        let elements = f32::from_buffer(buffer).unwrap();
        assert_eq!((&*elements, elements.as_ptr().cast()), (&numbers[..], address));
    }

    #[test]
    fn elements_of_another_size_are_copied() {
        let buffer = Buffer::from_slice(1, &[1, 0, 2, 0]);
        assert_eq!(u16::from_buffer(buffer), Ok(vec![1, 2]));
    }

    #[test]
    fn rejects_bytes_that_are_not_bools() {
        let invalid = |element, found| InvalidTensor::Value { dtype: bool::DTYPE, element, found };
        assert_eq!(bool::from_buffer(Buffer::from_slice(1, &[0, 1])), Ok(vec![false, true]));
        assert_eq!(bool::from_buffer(Buffer::from_slice(1, &[0, 2])), Err(invalid(1, 2)));
    }
}
