//! Sparse tensors in coordinate layout, as indices and values.

use super::{Buffer, Element, InvalidTensor, Layout, Shape, Tensor, TensorInfo, TensorView, coordinates};

/// A sparse tensor in coordinate layout: its stored elements, each with a coordinate.
///
/// Every coordinate is inside the shape. Entries keep their order. If several have the same coordinate, the last one
/// counts, as in TensorFlow Runtime.
///
/// ```
/// use ndarray::array;
/// use tensorfile::{CooTensor, btf};
///
/// let sparse = CooTensor::from_dense(&array![[0.0_f32, 2.0], [3.0, 0.0]]);
/// assert_eq!((sparse.coordinates(), sparse.values()), (&[0, 1, 1, 0][..], &[2.0, 3.0][..]));
///
/// // Of the formats of this crate, BTF stores sparse tensors.
/// let [read]: [CooTensor<f32>; 1] = btf::from_slice(&btf::to_vec(&[&sparse])?)?;
/// assert_eq!(read, sparse);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CooTensor<A> {
    shape: Shape,
    coordinates: Vec<u64>,
    values: Vec<A>,
}

impl<A: Element> CooTensor<A> {
    /// Creates a tensor with `values[i]` at the `i`-th coordinate.
    ///
    /// `coordinates` holds one row for each value: an index into each dim.
    ///
    /// ```
    /// use tensorfile::CooTensor;
    ///
    /// let diagonal = CooTensor::new([2, 2], vec![0, 0, 1, 1], vec![1.0_f32, 2.0])?;
    /// assert_eq!(diagonal.iter().last(), Some((&[1_u64, 1][..], &2.0)));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`InvalidTensor::CoordinateCount`]: there are more or fewer coordinates than values.
    /// - [`InvalidTensor::Coordinate`]: an index is outside its dim.
    pub fn new(shape: impl Into<Shape>, coordinates: Vec<u64>, values: Vec<A>) -> Result<Self, InvalidTensor> {
        let shape = shape.into();
        if values.len().checked_mul(shape.rank()) != Some(coordinates.len()) {
            let rows = coordinates.len() / shape.rank().max(1);
            return Err(InvalidTensor::CoordinateCount { coordinates: rows as u64, values: values.len() as u64 });
        }
        coordinates::check_inside(&shape, 0, coordinates.iter().copied())?;
        Ok(Self { shape, coordinates, values })
    }

    /// Returns the dims of the whole tensor.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the coordinates, row by row.
    #[must_use]
    pub fn coordinates(&self) -> &[u64] {
        &self.coordinates
    }

    /// Returns the stored elements.
    #[must_use]
    pub fn values(&self) -> &[A] {
        &self.values
    }

    /// Iterates over the stored elements, each with its coordinate.
    ///
    /// ```
    /// use tensorfile::CooTensor;
    ///
    /// let diagonal = CooTensor::new([2, 2], vec![0, 0, 1, 1], vec![1.0_f32, 2.0])?;
    /// let trace: f32 = diagonal.iter().filter(|(at, _)| at[0] == at[1]).map(|(_, value)| value).sum();
    /// assert_eq!(trace, 3.0);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&[u64], &A)> {
        let rank = self.shape.rank();
        self.values.iter().enumerate().map(move |(row, value)| (&self.coordinates[row * rank..][..rank], value))
    }

    /// Returns the shape, the coordinates and the values.
    ///
    /// ```
    /// use tensorfile::CooTensor;
    ///
    /// let diagonal = CooTensor::new([2, 2], vec![0, 0, 1, 1], vec![1.0_f32, 2.0])?;
    /// let (shape, coordinates, values) = diagonal.into_parts();
    /// let halved = CooTensor::new(shape, coordinates, values.into_iter().map(|value| value / 2.0).collect())?;
    /// assert_eq!(halved.values(), [0.5, 1.0]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn into_parts(self) -> (Shape, Vec<u64>, Vec<A>) {
        (self.shape, self.coordinates, self.values)
    }

    /// Returns the same tensor with a dtype known at run time. Copies the elements.
    ///
    /// ```
    /// use tensorfile::{CooTensor, TensorMap, btf};
    ///
    /// // A map holds sparse tensors next to dense ones.
    /// let mut map = TensorMap::new();
    /// map.insert("sparse", CooTensor::new([2, 2], vec![1, 1], vec![2.0_f32])?.to_tensor());
    /// map.insert("dense", ndarray::array![1.0_f32]);
    /// let file = btf::Options::new().embed_names(true).to_vec(&map)?;
    /// assert_eq!(btf::from_slice::<TensorMap>(&file)?["sparse"].as_view().coo::<f32>()?.values(), [2.0]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn to_tensor(&self) -> Tensor {
        let (info, parts) = (self.info(), self.parts());
        let len = parts.iter().map(|part| part.len()).sum();
        let mut bytes = Buffer::with_capacity(info.unit_bytes(), len);
        parts.iter().for_each(|part| bytes.append(part, len).expect("there is room for all"));
        Tensor::from_checked(info, bytes)
    }

    pub(crate) fn info(&self) -> TensorInfo {
        let layout = Layout::Coo { entries: self.values.len() };
        TensorInfo { dtype: A::DTYPE, shape: self.shape.clone(), layout }
    }

    /// Returns the three parts of the payload; see [`Layout::Coo`].
    pub(crate) fn parts(&self) -> [std::borrow::Cow<'_, [u8]>; 3] {
        [
            Element::as_le_bytes(&self.coordinates),
            (self.values.len() as u64).to_le_bytes().to_vec().into(),
            Element::as_le_bytes(&self.values),
        ]
    }

    /// Copies the parts of a checked view.
    pub(crate) fn from_view(view: &TensorView<'_>) -> Result<Self, InvalidTensor> {
        let (indices, values) = coordinates::split(view.info(), view.as_bytes());
        Self::new(view.shape().clone(), <u64 as Element>::from_le_bytes(indices)?, A::from_le_bytes(values)?)
    }
}
