use super::{Buffer, Element, InvalidTensor, Layout, Shape, Tensor, TensorInfo, TensorView, element};

/// A sparse tensor in coordinate layout: the stored elements and where each one lies.
///
/// Every coordinate lies inside the shape. Entries keep the order that they were given in; where two name one place,
/// the later one is what [`to_dense`](Self::to_dense) shows, as in TensorFlow Runtime.
#[derive(Debug, Clone, PartialEq)]
pub struct CooTensor<A> {
    shape: Shape,
    coordinates: Vec<u64>,
    values: Vec<A>,
}

impl<A: Element> CooTensor<A> {
    /// The tensor with `values[i]` at the `i`-th coordinate.
    ///
    /// `coordinates` holds a row of one index a dim for each value, row after row.
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
    /// - [`InvalidTensor::CoordinateCount`]: not as many coordinates as values.
    /// - [`InvalidTensor::Coordinate`]: an index outside its dim.
    pub fn new(shape: impl Into<Shape>, coordinates: Vec<u64>, values: Vec<A>) -> Result<Self, InvalidTensor> {
        let shape = shape.into();
        if values.len().checked_mul(shape.rank()) != Some(coordinates.len()) {
            let rows = coordinates.len() / shape.rank().max(1);
            return Err(InvalidTensor::CoordinateCount { coordinates: rows as u64, values: values.len() as u64 });
        }
        check_coordinates(&shape, coordinates.iter().copied())?;
        Ok(Self { shape, coordinates, values })
    }

    /// The dims of the whole tensor.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The coordinates, row after row.
    #[must_use]
    pub fn coordinates(&self) -> &[u64] {
        &self.coordinates
    }

    /// The stored elements.
    #[must_use]
    pub fn values(&self) -> &[A] {
        &self.values
    }

    /// Each stored element with its coordinate.
    pub fn iter(&self) -> impl Iterator<Item = (&[u64], &A)> {
        let rank = self.shape.rank();
        self.values.iter().enumerate().map(move |(row, value)| (&self.coordinates[row * rank..][..rank], value))
    }

    /// The coordinates and the values.
    #[must_use]
    pub fn into_parts(self) -> (Shape, Vec<u64>, Vec<A>) {
        (self.shape, self.coordinates, self.values)
    }

    /// The same tensor with its dtype known at run time. Copies the elements.
    #[must_use]
    pub fn to_tensor(&self) -> Tensor {
        let mut bytes = Buffer::zeroed(self.parts().iter().map(|part| part.len()).sum());
        let mut at = 0;
        for part in self.parts() {
            bytes[at..at + part.len()].copy_from_slice(&part);
            at += part.len();
        }
        Tensor::of_checked(self.info(), bytes)
    }

    pub(crate) fn info(&self) -> TensorInfo {
        let layout = Layout::Coo { entries: self.values.len() };
        TensorInfo { dtype: A::DTYPE, shape: self.shape.clone(), layout }
    }

    /// The payload in three runs of bytes: see [`Layout::Coo`].
    pub(crate) fn parts(&self) -> [std::borrow::Cow<'_, [u8]>; 3] {
        [
            element::to_le_bytes(&self.coordinates),
            (self.values.len() as u64).to_le_bytes().to_vec().into(),
            element::to_le_bytes(&self.values),
        ]
    }

    /// Takes a checked view apart.
    pub(crate) fn from_view(view: &TensorView<'_>) -> Result<Self, InvalidTensor> {
        let (indices, values) = split(view.info(), view.as_bytes());
        Self::new(view.shape().clone(), element::bits_from_le_bytes(indices), element::from_le_bytes(values)?)
    }
}

/// Checks the coordinates in the bytes of a tensor of COO layout; other layouts have none.
pub(crate) fn check(info: &TensorInfo, bytes: &[u8]) -> Result<(), InvalidTensor> {
    let Layout::Coo { entries } = info.layout else { return Ok(()) };
    let (indices, rest) = bytes.split_at(bytes.len() - info.dtype.bytes_for(entries).unwrap_or(0));
    let (indices, again) = indices.split_at(indices.len() - size_of::<u64>());
    let again = le_u64(again);
    if again != entries as u64 {
        return Err(InvalidTensor::CoordinateCount { coordinates: entries as u64, values: again });
    }
    debug_assert_eq!(rest.len(), info.dtype.bytes_for(entries).unwrap_or(0));
    check_coordinates(&info.shape, indices.chunks_exact(size_of::<u64>()).map(le_u64))
}

/// The bytes of the indices and those of the values, in the checked bytes of a tensor of COO layout.
pub(crate) fn split<'a>(info: &TensorInfo, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let Layout::Coo { entries } = info.layout else { return (&[], bytes) };
    let indices = entries * info.shape.rank() * size_of::<u64>();
    (&bytes[..indices], &bytes[indices + size_of::<u64>()..])
}

fn le_u64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn check_coordinates(shape: &Shape, indices: impl Iterator<Item = u64>) -> Result<(), InvalidTensor> {
    // A tensor of rank 0 has coordinates without indices, and none of them can be wrong.
    let rank = shape.rank().max(1);
    for (at, found) in indices.enumerate() {
        let dim = shape[at % rank];
        if found >= dim as u64 {
            return Err(InvalidTensor::Coordinate { entry: at / rank, axis: at % rank, found, dim });
        }
    }
    Ok(())
}
