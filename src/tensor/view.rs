//! Tensors with borrowed bytes.

use std::borrow::Cow;

use super::{Dtype, Element, InvalidTensor, Layout, Shape, TensorInfo};

/// A tensor with borrowed bytes, such as from a file in memory.
///
/// ```
/// use tensorfile::{Dtype, TensorInfo, TensorView};
///
/// let bytes = [0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0x40];
/// let view = TensorView::new(TensorInfo::new(Dtype::F32, [2]), &bytes)?;
/// assert_eq!(view.to_array::<f32>()?, ndarray::array![1.0, 2.0].into_dyn());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorView<'a> {
    info: Cow<'a, TensorInfo>,
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Creates a tensor from little-endian bytes in the layout of `info`.
    ///
    /// ```
    /// use tensorfile::{Dtype, TensorInfo, TensorView};
    ///
    /// let info = TensorInfo::new(Dtype::U16, [2]);
    /// assert!(TensorView::new(info.clone(), &[1, 0, 2, 0]).is_ok());
    /// let error = TensorView::new(info, &[1, 0, 2]).unwrap_err();
    /// assert_eq!(error.to_string(), "payload is 3 bytes, but u16[2] takes 4");
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidTensor`]: the payload has another size than `info` takes, or a dim order or coordinate is invalid.
    pub fn new(info: TensorInfo, bytes: &'a [u8]) -> Result<Self, InvalidTensor> {
        info.check_bytes(bytes)?;
        Ok(Self { info: Cow::Owned(info), bytes })
    }

    /// Creates a row-major tensor that borrows a slice of elements.
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
    /// [`InvalidTensor::Elements`]: the number of elements does not match the shape.
    ///
    /// # Panics
    ///
    /// On big-endian hosts, if the elements have more than one byte. Use
    /// [`Tensor::from_slice`](super::Tensor::from_slice) there.
    pub fn from_slice<A: Element>(elements: &'a [A], shape: impl Into<Shape>) -> Result<Self, InvalidTensor> {
        let shape = shape.into();
        if shape.elements() != Some(elements.len()) {
            return Err(InvalidTensor::Elements { found: elements.len(), shape });
        }
        let Cow::Borrowed(bytes) = A::as_le_bytes(elements) else {
            panic!("elements of a big-endian host are not little-endian bytes");
        };
        Ok(Self { info: Cow::Owned(TensorInfo::new(A::DTYPE, shape)), bytes })
    }

    /// Creates a view of checked parts.
    pub(crate) fn from_checked(info: Cow<'a, TensorInfo>, bytes: &'a [u8]) -> Self {
        debug_assert_eq!(info.check_payload(bytes.len() as u64), Ok(()));
        Self { info, bytes }
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
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}
