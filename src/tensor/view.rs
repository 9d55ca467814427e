use super::{Dtype, Element, InvalidTensor, Layout, Shape, TensorInfo, element};

/// A tensor whose bytes are borrowed, from a file in memory or from an owned tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorView<'a> {
    info: TensorInfo,
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// The tensor that `bytes` are: little-endian, in the layout of `info`.
    ///
    /// # Errors
    ///
    /// [`InvalidTensor`] where the bytes are not as many as `info` takes, or a dim order or coordinate is wrong.
    pub fn new(info: TensorInfo, bytes: &'a [u8]) -> Result<Self, InvalidTensor> {
        info.check_payload(bytes.len() as u64)?;
        super::coo::check(&info, bytes)?;
        Ok(Self { info, bytes })
    }

    /// A row-major tensor over a slice of numbers, without a copy.
    ///
    /// ```
    /// use tensorfile::{Dtype, TensorView};
    ///
    /// let view = TensorView::from_slice(&[1.0_f32, 2.0], [1, 2])?;
    /// assert_eq!((view.dtype(), view.shape().dims()), (Dtype::F32, &[1, 2][..]));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::Elements`] where `elements` are not as many as the shape takes.
    ///
    /// # Panics
    ///
    /// On a big-endian host, where numbers would have to be copied: use
    /// [`Tensor::from_slice`](super::Tensor::from_slice).
    pub fn from_slice<A: Element>(elements: &'a [A], shape: impl Into<Shape>) -> Result<Self, InvalidTensor> {
        let shape = shape.into();
        if shape.elements() != Some(elements.len()) {
            return Err(InvalidTensor::Elements { found: elements.len(), shape });
        }
        let std::borrow::Cow::Borrowed(bytes) = element::to_le_bytes(elements) else {
            panic!("numbers of a big-endian host are no little-endian bytes");
        };
        Ok(Self { info: TensorInfo::new(A::DTYPE, shape), bytes })
    }

    /// A view of parts that are known to fit each other.
    pub(crate) fn of_checked(info: TensorInfo, bytes: &'a [u8]) -> Self {
        debug_assert_eq!(info.check_payload(bytes.len() as u64), Ok(()));
        Self { info, bytes }
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
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// A tensor of its own: copies the bytes.
    #[must_use]
    pub fn to_tensor(&self) -> super::Tensor {
        super::Tensor::of_checked(self.info.clone(), super::Buffer::from_slice(self.bytes))
    }
}
