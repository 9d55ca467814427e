//! Shapes and dim orders.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// The dims of a tensor, outermost first. A scalar has none.
///
/// Up to four dims are stored without an allocation.
///
/// ```
/// use tensorfile::Shape;
///
/// let shape = Shape::from([2, 3]);
/// assert_eq!(shape[1], 3);                // a shape is a slice
/// assert_eq!(shape, [2, 3]);
/// assert_eq!(shape.to_string(), "[2, 3]");
/// ```
#[derive(Clone)]
pub struct Shape(Dims);

/// Unlike a `SmallVec`, few dims are cloned without a look at their number.
// Cloning a `SmallVec` calls `memcpy` with a length that the compiler does not know.
#[derive(Clone)]
enum Dims {
    /// Their number, and zeros after them.
    Few(u8, [usize; 4]),
    Many(Vec<usize>),
}

impl Shape {
    pub(super) const EMPTY: Self = Self(Dims::Few(0, [0; 4]));

    /// Creates a shape from its dims.
    #[must_use]
    pub fn new(dims: &[usize]) -> Self {
        Self(match *dims {
            [] => Dims::Few(0, [0; 4]),
            [a] => Dims::Few(1, [a, 0, 0, 0]),
            [a, b] => Dims::Few(2, [a, b, 0, 0]),
            [a, b, c] => Dims::Few(3, [a, b, c, 0]),
            [a, b, c, d] => Dims::Few(4, [a, b, c, d]),
            _ => Dims::Many(dims.to_vec()),
        })
    }

    /// Returns the dims, outermost first.
    #[inline]
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        match &self.0 {
            Dims::Few(rank, dims) => &dims[..usize::from(*rank)],
            Dims::Many(dims) => dims,
        }
    }

    /// Adds an innermost dim.
    #[inline]
    pub(crate) fn push(&mut self, dim: usize) {
        match &mut self.0 {
            Dims::Few(rank @ 0..4, dims) => {
                dims[usize::from(*rank)] = dim;
                *rank += 1;
            }
            dims => dims.push_more(dim),
        }
    }
    /// Returns the number of dims.
    #[inline]
    #[must_use]
    pub fn rank(&self) -> usize {
        match &self.0 {
            Dims::Few(rank, _) => usize::from(*rank),
            Dims::Many(dims) => dims.len(),
        }
    }

    /// Returns the number of elements: 1 for rank 0. `None` on overflow.
    ///
    /// With a dim of 0 there are 0 elements, so `[2^40, 2^40, 0]` does not overflow.
    #[inline]
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        let (mut product, mut overflows) = (1_usize, false);
        for &dim in self.dims() {
            if dim == 0 {
                return Some(0);
            }
            let (next, overflow) = product.overflowing_mul(dim);
            (product, overflows) = (next, overflows | overflow);
        }
        (!overflows).then_some(product)
    }

    /// Returns the strides, in elements, of a dense tensor in row-major order.
    pub(crate) fn row_major_strides(&self) -> Vec<usize> {
        self.strides_in(0..self.rank())
    }

    /// Returns the strides, in elements, of a dense tensor with its dims in the given order, outermost first.
    pub(crate) fn strides_in(&self, order: impl DoubleEndedIterator<Item = usize>) -> Vec<usize> {
        let mut strides = vec![0; self.rank()];
        let mut stride = usize::from(!self.contains(&0));
        for dim in order.rev() {
            strides[dim] = stride;
            stride *= self[dim];
        }
        strides
    }
}

impl Dims {
    /// Appends a dim to at least four.
    fn push_more(&mut self, dim: usize) {
        match self {
            Self::Few(_, dims) => *self = Self::Many([&dims[..], &[dim]].concat()),
            Self::Many(dims) => dims.push(dim),
        }
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // The numbers after the dims are zeros.
            (Dims::Few(rank, dims), Dims::Few(other_rank, others)) => rank == other_rank && dims == others,
            _ => self.dims() == other.dims(),
        }
    }
}

impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dims().hash(state);
    }
}

impl Deref for Shape {
    type Target = [usize];

    #[inline]
    fn deref(&self) -> &[usize] {
        self.dims()
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Self::new(dims)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Self::new(&dims)
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Self {
        if dims.len() > 4 { Self(Dims::Many(dims)) } else { Self::new(&dims) }
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Self {
        let mut shape = Self::default();
        dims.into_iter().for_each(|dim| shape.push(dim));
        shape
    }
}

impl<const N: usize> PartialEq<[usize; N]> for Shape {
    fn eq(&self, dims: &[usize; N]) -> bool {
        self.dims() == dims
    }
}

impl PartialEq<[usize]> for Shape {
    fn eq(&self, dims: &[usize]) -> bool {
        self.dims() == dims
    }
}

impl<const N: usize> PartialEq<[usize; N]> for &Shape {
    fn eq(&self, dims: &[usize; N]) -> bool {
        self.dims() == dims
    }
}

impl AsRef<[usize]> for Shape {
    fn as_ref(&self) -> &[usize] {
        self.dims()
    }
}

impl<'a> IntoIterator for &'a Shape {
    type Item = &'a usize;
    type IntoIter = std::slice::Iter<'a, usize>;

    fn into_iter(self) -> Self::IntoIter {
        self.dims().iter()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dims(), f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dims(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_elements() {
        for (dims, elements) in
            [(&[][..], Some(1)), (&[2, 3], Some(6)), (&[usize::MAX, 2, 0], Some(0)), (&[usize::MAX, 2], None)]
        {
            assert_eq!(Shape::new(dims).elements(), elements, "{dims:?}");
        }
    }

    #[test]
    fn few_and_many_dims_are_alike() {
        for rank in 0..10 {
            let dims: Vec<usize> = (1..=rank).collect();
            let shape = Shape::new(&dims);
            assert_eq!((shape.dims(), shape.rank(), shape.elements()), (&*dims, rank, Some(dims.iter().product())));
            let (collected, taken): (Shape, Shape) = (dims.iter().copied().collect(), dims.clone().into());
            assert!(shape == collected && shape == taken && shape == shape.clone());
            let mut longer = shape.clone();
            longer.push(7);
            assert_eq!(longer.dims(), [&dims[..], &[7]].concat());
            assert_ne!(longer, shape);
        }
    }
}
