use std::sync::Arc;

use super::{Buffer, Dtype, Element, InvalidTensor, Layout, Shape, TensorInfo, TensorView};

/// A tensor that owns its bytes, with a dtype known at run time.
///
/// Clones share the bytes. So do tensors of a [`TensorMap`](super::TensorMap) that shared them in the file they were read
/// from, if that was in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    info: TensorInfo,
    bytes: Arc<Buffer>,
}

impl Tensor {
    /// Creates a tensor from little-endian bytes in the layout of `info`. Copies them.
    ///
    /// # Errors
    ///
    /// The same as for [`TensorView::new`].
    pub fn new(info: TensorInfo, bytes: &[u8]) -> Result<Self, InvalidTensor> {
        TensorView::new(info, bytes).map(|view| view.to_tensor())
    }

    /// Creates a row-major tensor of the given elements. Copies them.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::Elements`]: the number of elements is not that of the shape.
    pub fn from_slice<A: Element>(elements: &[A], shape: impl Into<Shape>) -> Result<Self, InvalidTensor> {
        let shape = shape.into();
        if shape.elements() != Some(elements.len()) {
            return Err(InvalidTensor::Elements { found: elements.len(), shape });
        }
        let bytes = Buffer::from_slice(A::DTYPE.unit_bytes(), &A::as_le_bytes(elements));
        Ok(Self { info: TensorInfo::new(A::DTYPE, shape), bytes: Arc::new(bytes) })
    }

    /// Creates a tensor from parts that were checked to fit each other.
    pub(crate) fn of_checked(info: TensorInfo, bytes: impl Into<Arc<Buffer>>) -> Self {
        let bytes = bytes.into();
        debug_assert_eq!(info.check_payload(bytes.len() as u64), Ok(()));
        Self { info, bytes }
    }

    /// Borrows the tensor.
    #[must_use]
    pub fn as_view(&self) -> TensorView<'_> {
        TensorView::of_checked(self.info.clone(), &self.bytes)
    }

    /// Returns dtype, shape and layout.
    #[must_use]
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Returns the element type.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.info.dtype
    }

    /// Returns the logical dims.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.info.shape
    }

    /// Returns the order of the elements in memory.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.info.layout
    }

    /// Returns the little-endian bytes, in the tensor's layout and without padding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl TensorView<'_> {
    /// Copies the tensor.
    #[must_use]
    pub fn to_tensor(&self) -> Tensor {
        let bytes = Buffer::from_slice(self.info().unit_bytes(), self.as_bytes());
        Tensor::of_checked(self.info().clone(), bytes)
    }
}
