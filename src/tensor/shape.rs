use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

/// The dims of a tensor, outermost first. A scalar has none.
///
/// Up to four dims are stored without an allocation.
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// Creates a shape from its dims.
    #[must_use]
    pub fn new(dims: &[usize]) -> Self {
        Self(SmallVec::from_slice(dims))
    }

    /// Returns the dims, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Adds an innermost dim.
    pub(crate) fn push(&mut self, dim: usize) {
        self.0.push(dim);
    }

    /// Returns the number of dims.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of elements: 1 for rank 0. `None` on overflow.
    ///
    /// With a dim of 0 there are 0 elements, so `[2^40, 2^40, 0]` does not overflow.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim))
    }

    /// Returns the strides, in elements, of a dense tensor in row-major order.
    pub(crate) fn row_major_strides(&self) -> Vec<usize> {
        self.strides_in(0..self.rank())
    }

    /// Returns the strides, in elements, of a dense tensor with its dims in the given order, outermost first.
    pub(super) fn strides_in(&self, order: impl DoubleEndedIterator<Item = usize>) -> Vec<usize> {
        let mut strides = vec![0; self.rank()];
        let mut stride = usize::from(!self.contains(&0));
        for dim in order.rev() {
            strides[dim] = stride;
            stride *= self[dim];
        }
        strides
    }
}

impl Clone for Shape {
    fn clone(&self) -> Self {
        // `SmallVec` would clone dim by dim.
        Self::new(self.dims())
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.0
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
        Self(SmallVec::from_vec(dims))
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Self {
        Self(dims.into_iter().collect())
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
}
