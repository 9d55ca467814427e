//! Arrays of `ndarray` as tensors, and a module for serde.
//!
//! `#[serde(with = "tensorfile::array")]` makes arrays in plain serde structs tensors:
//!
//! ```
//! use ndarray::{Array2, array};
//! use serde::{Deserialize, Serialize};
//! use tensorfile::btf;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Sample {
//!     #[serde(with = "tensorfile::array")]
//!     image: Array2<u8>,
//! }
//!
//! let file = btf::to_vec(&Sample { image: array![[1, 2], [3, 4]] })?;
//! let sample: Sample = btf::from_slice(&file)?;
//! assert_eq!(sample.image, array![[1, 2], [3, 4]]);
//! # Ok::<(), tensorfile::Error>(())
//! ```
//!
//! A list without tensors leaves nothing in a file. A plain serde struct must mark it as optional. A struct with
//! `#[derive(TensorFile)]` need not:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tensorfile::{Tensor, ten};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Batch {
//!     images: Vec<Tensor>,
//!     #[serde(default)]
//!     masks: Vec<Tensor>,
//! }
//!
//! let batch = Batch { images: vec![Tensor::from_slice(&[1_u8], [1])?], masks: vec![] };
//! let options = ten::Options::new().embed_names(true);
//! let read: Batch = ten::from_slice(&options.to_vec(&batch)?)?;
//! assert_eq!((read.images, read.masks), (batch.images, vec![]));
//! # Ok::<(), tensorfile::Error>(())
//! ```

mod compiled;
mod load;
mod store;
mod with;

use ndarray::{ArrayView, IxDyn, ShapeBuilder};

pub use with::{Arrays, deserialize, serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{TensorSpec, misaligned};
use crate::tensor::{CooTensor, Element, InvalidTensor, Layout, Shape, Tensor, TensorInfo, TensorMap, TensorView};

impl<'a> TensorView<'a> {
    /// The elements as a borrowed array.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::TensorView;
    ///
    /// let view = TensorView::from_slice(&[1_i32, 2, 3, 4], [2, 2])?;
    /// assert_eq!(view.array::<i32>()?, array![[1, 2], [3, 4]].into_dyn());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::WrongDtype`], [`ErrorKind::WrongLayout`]: the elements are not of `A`, or sparse.
    /// - [`ErrorKind::Misaligned`]: the bytes do not start at a multiple of the element's alignment;
    ///   [`to_array`](Self::to_array) copies them.
    pub fn array<A: Element>(&self) -> Result<ArrayView<'a, A, IxDyn>> {
        TensorSpec::dense(A::DTYPE, None).check(self.info())?;
        let misaligned = || misaligned(A::DTYPE, align_of::<A>());
        load::view(self.info(), A::view_le_bytes(self.as_bytes()).ok_or_else(misaligned)??)
    }

    /// Copies the elements into a new array. Their address need not be aligned.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::TensorView;
    ///
    /// // The bytes need not be aligned for the elements.
    /// let bytes = [7, 1, 0, 2, 0];
    /// let view = TensorView::new(tensorfile::TensorInfo::new(tensorfile::Dtype::U16, [2]), &bytes[1..])?;
    /// assert_eq!(view.to_array::<u16>()?, array![1, 2].into_dyn());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongDtype`], [`ErrorKind::WrongLayout`]: the elements are not of `A`, or sparse.
    pub fn to_array<A: Element>(&self) -> Result<ndarray::ArrayD<A>> {
        TensorSpec::dense(A::DTYPE, None).check(self.info())?;
        load::owned(self.info(), A::from_le_bytes(self.as_bytes())?)
    }

    /// The stored elements of a sparse tensor. Copies them.
    ///
    /// ```
    /// use tensorfile::CooTensor;
    ///
    /// let tensor = CooTensor::new([3], vec![2], vec![1.5_f32])?.to_tensor();
    /// assert_eq!(tensor.as_view().coo::<f32>()?.coordinates(), [2]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongDtype`], [`ErrorKind::WrongLayout`]: the elements are not of `A`, or dense.
    pub fn coo<A: Element>(&self) -> Result<CooTensor<A>> {
        if self.dtype() != A::DTYPE {
            return Err(ErrorKind::WrongDtype { found: self.info().clone(), expected: A::DTYPE }.into());
        }
        match self.layout() {
            Layout::Coo { .. } => Ok(CooTensor::from_view(self)?),
            _ => Err(ErrorKind::WrongLayout { found: self.info().clone(), expected: "COO layout" }.into()),
        }
    }
}

impl Tensor {
    /// A tensor of an array's elements in row-major order. Copies them.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::Tensor;
    ///
    /// let matrix = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let transposed = Tensor::from_array(&matrix.t());
    /// assert_eq!(transposed, Tensor::from_slice(&[1.0_f32, 3.0, 2.0, 4.0], [2, 2])?);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn from_array<A, S, D>(array: &ndarray::ArrayBase<S, D>) -> Self
    where
        A: Element,
        S: ndarray::Data<Elem = A>,
        D: ndarray::Dimension,
    {
        let contiguous = array.as_standard_layout();
        let elements = contiguous.as_slice().expect("standard layout is contiguous");
        Self::from_slice(elements, array.shape()).expect("an array has as many elements as its shape")
    }

    /// Copies the elements into a new array.
    ///
    /// ```
    /// use ndarray::{Ix2, array};
    /// use tensorfile::Tensor;
    ///
    /// let tensor = Tensor::from_slice(&[1_i32, 2], [1, 2])?;
    /// let matrix = tensor.to_array::<i32>()?.into_dimensionality::<Ix2>()?;
    /// assert_eq!(matrix, array![[1, 2]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongDtype`], [`ErrorKind::WrongLayout`]: the elements are not of `A`, or sparse.
    pub fn to_array<A: Element>(&self) -> Result<ndarray::ArrayD<A>> {
        self.as_view().to_array()
    }

    /// The elements as a borrowed array.
    ///
    /// ```
    /// use tensorfile::Tensor;
    ///
    /// let tensor = Tensor::from_slice(&[1.0_f32, 2.0], [2])?;
    /// assert_eq!(tensor.array::<f32>()?.sum(), 3.0);
    /// let error = tensor.array::<f64>().unwrap_err();
    /// assert_eq!(error.to_string(), "the file has f32[2], but expected f64; `#[tensor(cast)]` converts it");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongDtype`], [`ErrorKind::WrongLayout`]: the elements are not of `A`, or sparse.
    pub fn array<A: Element>(&self) -> Result<ArrayView<'_, A, IxDyn>> {
        self.as_view().array()
    }
}

/// A tensor of an array's elements in row-major order. Copies them.
impl<A: Element, S: ndarray::Data<Elem = A>, D: ndarray::Dimension> From<ndarray::ArrayBase<S, D>> for Tensor {
    fn from(array: ndarray::ArrayBase<S, D>) -> Self {
        Self::from_array(&array)
    }
}

impl TensorMap {
    /// Returns the elements of the tensor called `name`, as a borrowed array of their type and rank.
    ///
    /// ```
    /// use ndarray::{Ix2, array};
    /// use tensorfile::TensorMap;
    ///
    /// let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// assert_eq!(map.get_array::<f32, Ix2>("weight")?, array![[1.0, 2.0]]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Missing`], [`ErrorKind::WrongDtype`], [`ErrorKind::WrongShape`], [`ErrorKind::WrongLayout`].
    pub fn get_array<A: Element, D: ndarray::Dimension>(&self, name: &str) -> Result<ArrayView<'_, A, D>> {
        let Some(tensor) = self.get(name) else {
            return Err(ErrorKind::missing(name, self.names().map(str::to_owned).collect(), 0).into());
        };
        let view = || {
            TensorSpec::with_rank(A::DTYPE, D::NDIM).check(tensor.info())?;
            let misaligned = || misaligned(A::DTYPE, align_of::<A>());
            load::view(tensor.info(), A::view_le_bytes(tensor.as_bytes()).ok_or_else(misaligned)??)
        };
        view().map_err(|error| error.in_tensor(name))
    }
}

impl<A: Element> CooTensor<A> {
    /// The nonzero elements of a dense array, in row-major order.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::CooTensor;
    ///
    /// let sparse = CooTensor::from_dense(&array![[0_i32, 5], [0, 0]]);
    /// assert_eq!((sparse.coordinates(), sparse.values()), (&[0, 1][..], &[5][..]));
    /// ```
    pub fn from_dense<S, D>(array: &ndarray::ArrayBase<S, D>) -> Self
    where
        A: num_traits::Zero,
        S: ndarray::Data<Elem = A>,
        D: ndarray::Dimension,
    {
        let (mut coordinates, mut values) = (Vec::new(), Vec::new());
        for (index, value) in array.view().into_dyn().indexed_iter() {
            if !value.is_zero() {
                coordinates.extend(ndarray::Dimension::slice(&index).iter().map(|&index| index as u64));
                values.push(*value);
            }
        }
        Self::new(array.shape(), coordinates, values).expect("the indices are the array's own")
    }

    /// A dense array with zero wherever no element is stored.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::CooTensor;
    ///
    /// let sparse = CooTensor::new([2, 2], vec![0, 1], vec![5_i32])?;
    /// assert_eq!(sparse.to_dense()?, array![[0, 5], [0, 0]].into_dyn());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTensor`]: the array would be too large.
    pub fn to_dense(&self) -> Result<ndarray::ArrayD<A>>
    where
        A: num_traits::Zero,
    {
        let too_large = || array_too_large(&TensorInfo::new(A::DTYPE, self.shape().clone()));
        let elements = self.shape().elements().ok_or_else(too_large)?;
        let mut zeros = Vec::new();
        zeros.try_reserve_exact(elements).map_err(|_| too_large())?;
        zeros.resize(elements, A::zero());
        let mut dense = ndarray::ArrayD::from_shape_vec(self.shape().dims(), zeros).map_err(|_| too_large())?;
        for (coordinate, value) in self.iter() {
            let index = coordinate.iter().map(|&index| usize::try_from(index).expect("an index is below its dim"));
            let index: Shape = index.collect();
            dense[index.dims()] = *value;
        }
        Ok(dense)
    }
}

fn array_too_large(info: &TensorInfo) -> Error {
    InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() }.into()
}

/// The dims and strides of an array of `D` with the tensor's layout.
fn strided<D: ndarray::Dimension>(info: &TensorInfo) -> ndarray::StrideShape<D> {
    let dims: D = dimension(info.shape.dims());
    match &info.layout {
        Layout::DimOrder(order) => {
            let strides: D = dimension(&order.strides(&info.shape));
            dims.strides(strides)
        }
        _ => dims.into(),
    }
}

fn dimension<D: ndarray::Dimension>(dims: &[usize]) -> D {
    let mut dimension = D::zeros(dims.len());
    dimension.slice_mut().copy_from_slice(dims);
    dimension
}

/// The most common arrays. Unoptimized builds take their code from here; otherwise each crate with such a field would
/// compile it again.
#[cfg(debug_assertions)]
mod common {
    use ndarray::{Array, Ix1, Ix2};

    use crate::error::Result;
    use crate::model::{FieldAttrs, Source, Store, put};

    type Put<T> = fn(&mut Option<T>, &mut (dyn Source<'static> + '_), &'static FieldAttrs) -> Result<()>;

    macro_rules! common {
        ($($name:ident: $array:ty),*) => {$(
            #[used]
            static $name: (fn(&$array) -> &dyn Store, Put<$array>) = (|array| array, put);
        )*};
    }

    common! { F32_1: Array<f32, Ix1>, F32_2: Array<f32, Ix2>, I64_1: Array<i64, Ix1>, I64_2: Array<i64, Ix2> }
}
