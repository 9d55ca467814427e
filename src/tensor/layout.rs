use smallvec::SmallVec;

use super::invalid::InvalidTensor;

/// How a tensor's elements lie in its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Dense, the last dim running fastest.
    #[default]
    RowMajor,
    /// Dense, the dims in the order given.
    DimOrder(DimOrder),
    /// Sparse, by coordinates.
    ///
    /// The bytes are `entries × rank` indices of 64 bits, `entries` once more as 64 bits, and `entries` elements:
    /// as the Binary Tensor Format stores them, so that a view can borrow them.
    Coo {
        /// The number of stored elements.
        entries: usize,
    },
    /// No tensor: bytes that a file names, and of which it says no more. Dtype and shape are those of the bytes, `u8`
    /// and their number.
    Blob,
}

impl Layout {
    /// The layout of the given dim order: `RowMajor` where the order is 0, 1, 2, ….
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::DimOrder`] where `order` is no permutation of its indices.
    pub fn from_dim_order(order: &[u8]) -> Result<Self, InvalidTensor> {
        let order = DimOrder::new(order)?;
        Ok(if order.is_row_major() { Self::RowMajor } else { Self::DimOrder(order) })
    }
}

/// The dims from outermost to innermost in memory: a permutation of `0..rank`.
///
/// `[0, 2, 3, 1]` is the NHWC memory of an NCHW tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DimOrder(SmallVec<[u8; 8]>);

impl DimOrder {
    /// Checks that `order` is a permutation.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::DimOrder`] where it is not.
    pub fn new(order: &[u8]) -> Result<Self, InvalidTensor> {
        let mut seen = [false; 256];
        for &dim in order {
            if usize::from(dim) >= order.len() || std::mem::replace(&mut seen[usize::from(dim)], true) {
                return Err(InvalidTensor::DimOrder { order: order.to_vec() });
            }
        }
        Ok(Self(SmallVec::from_slice(order)))
    }

    /// The dims, outermost in memory first.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Whether the order is 0, 1, 2, ….
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        self.0.iter().enumerate().all(|(at, &dim)| at == usize::from(dim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_permutation() {
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
