//! Tensors with their own bytes.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Buffer, Dtype, Element, InvalidTensor, Layout, Shape, TensorInfo, TensorView};

/// A tensor with its own bytes, and a dtype known at run time.
///
/// Clones share the bytes. So do tensors of a [`TensorMap`](super::TensorMap) read from a file in memory in which they
/// were shared.
///
/// ```
/// use ndarray::array;
/// use tensorfile::{Dtype, Tensor};
///
/// let tensor = Tensor::from(array![[1.0_f32, 2.0]]);
/// assert_eq!((tensor.dtype(), tensor.shape().dims()), (Dtype::F32, &[1, 2][..]));
/// assert_eq!(tensor.array::<f32>()?, array![[1.0, 2.0]].into_dyn());
/// assert!(tensor.array::<f64>().is_err());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    info: TensorInfo,
    bytes: Arc<Buffer>,
}

impl Tensor {
    /// Creates a tensor from little-endian bytes in the layout of `info`. Copies them.
    ///
    /// ```
    /// use tensorfile::{Dtype, Tensor, TensorInfo};
    ///
    /// let zeros = Tensor::new(TensorInfo::new(Dtype::Bf16, [2, 2]), &[0; 8])?;
    /// assert_eq!(zeros.info().to_string(), "bf16[2, 2]");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same as for [`TensorView::new`].
    pub fn new(info: TensorInfo, bytes: &[u8]) -> Result<Self, InvalidTensor> {
        TensorView::new(info, bytes).map(|view| view.to_tensor())
    }

    /// Creates a row-major tensor of the given elements. Copies them.
    ///
    /// ```
    /// use tensorfile::Tensor;
    ///
    /// let tensor = Tensor::from_slice(&[1_i64, 2, 3, 4], [2, 2])?;
    /// assert_eq!(tensor.info().to_string(), "i64[2, 2]");
    /// assert!(Tensor::from_slice(&[1_i64, 2, 3], [2, 2]).is_err());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::Elements`]: the number of elements does not match the shape.
    pub fn from_slice<A: Element>(elements: &[A], shape: impl Into<Shape>) -> Result<Self, InvalidTensor> {
        let shape = shape.into();
        if shape.elements() != Some(elements.len()) {
            return Err(InvalidTensor::Elements { found: elements.len(), shape });
        }
        let bytes = Buffer::from_slice(A::DTYPE.unit_bytes(), &A::as_le_bytes(elements));
        Ok(Self { info: TensorInfo::new(A::DTYPE, shape), bytes: Arc::new(bytes) })
    }

    /// Creates a tensor from checked parts.
    pub(crate) fn from_checked(info: TensorInfo, bytes: impl Into<Arc<Buffer>>) -> Self {
        let bytes = bytes.into();
        debug_assert_eq!(info.check_payload(bytes.len() as u64), Ok(()));
        Self { info, bytes }
    }

    /// Borrows the tensor.
    ///
    /// ```
    /// use tensorfile::Tensor;
    /// use tensorfile::view::PrintOptions;
    ///
    /// // Some functions take views, which a file can give without a copy.
    /// let tensor = Tensor::from_slice(&[1_u8, 2], [2])?;
    /// assert_eq!(PrintOptions::new().print(&tensor.as_view()).as_deref(), Some("[1 2]"));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn as_view(&self) -> TensorView<'_> {
        TensorView::from_checked(Cow::Borrowed(&self.info), &self.bytes)
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
    ///
    /// ```
    /// use tensorfile::{File, Tensor, TensorMap, ten};
    ///
    /// let file = File::from_bytes(ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?)?;
    /// let a: Tensor = file.view("a")?.to_tensor();
    /// drop(file);
    /// assert_eq!(a.info().to_string(), "f32[1]");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn to_tensor(&self) -> Tensor {
        let bytes = Buffer::from_slice(self.info().unit_bytes(), self.as_bytes());
        Tensor::from_checked(self.info().clone(), bytes)
    }
}
