use std::fmt;

use super::{Dtype, InvalidTensor, Layout, Shape};

/// Dtype, shape and layout of a tensor: everything but its elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorInfo {
    /// The element type.
    pub dtype: Dtype,
    /// The logical dims.
    pub shape: Shape,
    /// The order of the elements in memory.
    pub layout: Layout,
}

impl TensorInfo {
    /// Describes a dense row-major tensor.
    #[must_use]
    pub fn new(dtype: Dtype, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into(), layout: Layout::RowMajor }
    }

    /// Describes a blob of `bytes` bytes.
    #[must_use]
    pub fn blob(bytes: usize) -> Self {
        Self { dtype: Dtype::U8, shape: [bytes].into(), layout: Layout::Blob }
    }

    /// Returns the size of the payload in bytes, without padding. `None` on overflow.
    #[must_use]
    pub fn payload_bytes(&self) -> Option<usize> {
        match self.layout {
            Layout::RowMajor | Layout::DimOrder(_) | Layout::Blob => self.dtype.bytes_for(self.shape.elements()?),
            Layout::Coo { entries } => {
                let indices = entries.checked_mul(self.shape.rank())?.checked_mul(size_of::<u64>())?;
                indices.checked_add(size_of::<u64>())?.checked_add(self.dtype.bytes_for(entries)?)
            }
        }
    }

    /// Returns the element size for a [`Buffer`](super::Buffer) that holds the payload: 1 if the payload is not a run of
    /// elements.
    pub(crate) fn element_bytes(&self) -> usize {
        match self.layout {
            Layout::RowMajor | Layout::DimOrder(_) => self.dtype.block_bytes(),
            Layout::Coo { .. } | Layout::Blob => 1,
        }
    }

    /// Checks that a payload has `found` bytes, and that the dim order has the rank of the shape.
    pub(crate) fn check_payload(&self, found: u64) -> Result<(), InvalidTensor> {
        if let Layout::DimOrder(order) = &self.layout
            && order.as_slice().len() != self.shape.rank()
        {
            return Err(InvalidTensor::DimOrderRank { found: order.as_slice().len(), rank: self.shape.rank() });
        }
        match self.payload_bytes() {
            Some(expected) if expected as u64 == found => Ok(()),
            _ => Err(InvalidTensor::Length { found, info: Box::new(self.clone()) }),
        }
    }
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.layout == Layout::Blob {
            return write!(f, "a blob of {} bytes", self.shape.elements().unwrap_or(0));
        }
        write!(f, "{}{}", self.dtype, self.shape)?;
        match &self.layout {
            Layout::RowMajor | Layout::Blob => Ok(()),
            Layout::DimOrder(order) => write!(f, " in dim order {:?}", order.as_slice()),
            Layout::Coo { entries } => write!(f, " in COO layout with {entries} values"),
        }
    }
}
