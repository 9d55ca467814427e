use std::sync::Arc;

use super::{Buffer, Dtype, Element, InvalidTensor, Layout, Shape, TensorInfo, TensorView, element};

/// A tensor that owns its bytes; its dtype is known when the program runs.
///
/// Clones share the bytes, and so do the tensors of a [`TensorMap`](super::TensorMap) that share them in the file in
/// memory that they were read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    info: TensorInfo,
    bytes: Arc<Buffer>,
}

impl Tensor {
    /// The tensor that `bytes` are: little-endian, in the layout of `info`. Copies them.
    ///
    /// # Errors
    ///
    /// As [`TensorView::new`].
    pub fn new(info: TensorInfo, bytes: &[u8]) -> Result<Self, InvalidTensor> {
        TensorView::new(info, bytes).map(|view| view.to_tensor())
    }

    /// A row-major tensor of the given elements. Copies them.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::Elements`] where `elements` are not as many as the shape takes.
    pub fn from_slice<A: Element>(elements: &[A], shape: impl Into<Shape>) -> Result<Self, InvalidTensor> {
        let shape = shape.into();
        if shape.elements() != Some(elements.len()) {
            return Err(InvalidTensor::Elements { found: elements.len(), shape });
        }
        let bytes = Buffer::from_slice(&element::to_le_bytes(elements));
        Ok(Self { info: TensorInfo::new(A::DTYPE, shape), bytes: Arc::new(bytes) })
    }

    /// A tensor of parts that are known to fit each other.
    pub(crate) fn of_checked(info: TensorInfo, bytes: impl Into<Arc<Buffer>>) -> Self {
        let bytes = bytes.into();
        debug_assert_eq!(info.check_payload(bytes.len() as u64), Ok(()));
        Self { info, bytes }
    }

    /// The same tensor, borrowed.
    #[must_use]
    pub fn as_view(&self) -> TensorView<'_> {
        TensorView::of_checked(self.info.clone(), &self.bytes)
    }

    /// Dtype, shape and layout.
    #[must_use]
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.info.dtype
    }

    /// The logical dims.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.info.shape
    }

    /// How the elements lie in the bytes.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.info.layout
    }

    /// The bytes: little-endian, in the tensor's layout, without padding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
