use smallvec::SmallVec;

use super::{InvalidTensor, Shape};

/// The order of a tensor's elements in memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Dense; the last dim is innermost.
    #[default]
    RowMajor,
    /// Dense, with the dims in another order.
    DimOrder(DimOrder),
    /// Sparse, with a coordinate for each stored element.
    ///
    /// The payload is `entries × rank` indices of 64 bits, `entries` as 64 bits, and `entries` elements. The Binary Tensor
    /// Format stores exactly these bytes, so a view can borrow them.
    Coo {
        /// The number of stored elements.
        entries: usize,
    },
    /// Not a tensor, but named bytes of unknown meaning. The dtype is `u8`, and the shape is their number.
    Blob,
}

impl Layout {
    /// Returns the layout for a dim order: `RowMajor` if the order is 0, 1, 2, ….
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::DimOrder`]: `order` is not a permutation of its indices.
    pub fn from_dim_order(order: &[u8]) -> Result<Self, InvalidTensor> {
        let order = DimOrder::new(order)?;
        Ok(if order.is_row_major() { Self::RowMajor } else { Self::DimOrder(order) })
    }
}

/// The dims from outermost to innermost in memory: a permutation of `0..rank`.
///
/// `[0, 2, 3, 1]` is an NCHW tensor in NHWC memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DimOrder(SmallVec<[u8; 8]>);

impl DimOrder {
    /// Creates a dim order from a permutation.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::DimOrder`]: `order` is not a permutation of its indices.
    pub fn new(order: &[u8]) -> Result<Self, InvalidTensor> {
        let mut seen = [false; 256];
        for &dim in order {
            if usize::from(dim) >= order.len() || std::mem::replace(&mut seen[usize::from(dim)], true) {
                return Err(InvalidTensor::DimOrder { order: order.to_vec() });
            }
        }
        Ok(Self(SmallVec::from_slice(order)))
    }

    /// Returns the dims, outermost in memory first.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Returns `true` if the order is 0, 1, 2, ….
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        self.0.iter().enumerate().all(|(at, &dim)| at == usize::from(dim))
    }

    /// Returns the strides, in elements, of a dense tensor in this order.
    pub(crate) fn strides(&self, shape: &Shape) -> Vec<usize> {
        shape.strides_in(self.0.iter().map(|dim| usize::from(*dim)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_orders_that_are_not_permutations() {
        for order in [&[1][..], &[0, 0], &[0, 2], &[255]] {
            let error = Layout::from_dim_order(order).unwrap_err();
            assert_eq!(error, InvalidTensor::DimOrder { order: order.to_vec() });
        }
    }

    #[test]
    fn the_identity_is_row_major() {
        assert_eq!(Layout::from_dim_order(&[]), Ok(Layout::RowMajor));
        assert_eq!(Layout::from_dim_order(&[0, 1]), Ok(Layout::RowMajor));
        assert!(matches!(Layout::from_dim_order(&[1, 0]), Ok(Layout::DimOrder(_))));
    }
}
