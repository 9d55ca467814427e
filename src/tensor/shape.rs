use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

/// The dims of a tensor, outermost first; of rank 0 when empty.
///
/// Up to four dims are held without an allocation.
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// The shape of the given dims.
    #[must_use]
    pub fn new(dims: &[usize]) -> Self {
        Self(SmallVec::from_slice(dims))
    }

    /// The dims, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Adds an innermost dim.
    pub(crate) fn push(&mut self, dim: usize) {
        self.0.push(dim);
    }

    /// The number of dims.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements: 1 at rank 0. `None` on overflow.
    ///
    /// A zero dim makes the count 0 whatever the others are, so `[2^40, 2^40, 0]` is a fine shape.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim))
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
