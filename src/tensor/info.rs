//! The description of a tensor, and the error for an inconsistent one.

use std::fmt;

use super::{Dtype, Shape};

/// Dtype, shape and layout of a tensor: everything but its elements.
///
/// ```
/// use tensorfile::{Dtype, TensorInfo};
///
/// let info = TensorInfo::new(Dtype::F16, [1000, 64]);
/// assert_eq!(info.to_string(), "f16[1000, 64]");
/// assert_eq!(info.payload_bytes(), Some(128_000));
/// ```
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
    /// A row-major tensor without dims, to be filled in. A constant is not assembled from parts.
    pub(crate) const EMPTY: Self = Self { dtype: Dtype::U8, shape: Shape::EMPTY, layout: Layout::RowMajor };

    /// Describes a dense row-major tensor.
    #[must_use]
    pub fn new(dtype: Dtype, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into(), layout: Layout::RowMajor }
    }

    /// Describes a blob of `bytes` bytes.
    ///
    /// ```
    /// use tensorfile::{Layout, TensorInfo};
    ///
    /// let info = TensorInfo::blob(100);
    /// assert_eq!(info.layout, Layout::Blob);
    /// assert_eq!(info.to_string(), "a blob of 100 bytes");
    /// ```
    #[must_use]
    pub fn blob(bytes: usize) -> Self {
        Self { dtype: Dtype::U8, shape: [bytes].into(), layout: Layout::Blob }
    }

    /// Describes a tensor of `bytes` bytes with an unknown dtype. `tag` is the name of the dtype in the file.
    #[must_use]
    pub fn unknown(tag: &str, shape: impl Into<Shape>, bytes: usize) -> Self {
        Self {
            dtype: Dtype::U8,
            shape: shape.into(),
            layout: Layout::unknown(UnknownDtype::shown(tag), [].into(), bytes),
        }
    }

    /// Describes a tensor of an unknown dtype that `format` can write again. `stored` is everything that a header has
    /// about the dtype, in the format's own form.
    pub(crate) fn unknown_in(format: &str, tag: &str, stored: &[u8], shape: impl Into<Shape>, bytes: usize) -> Self {
        let stored = [format.as_bytes(), b"\0", stored].concat().into_boxed_slice();
        Self { dtype: Dtype::U8, shape: shape.into(), layout: Layout::unknown(UnknownDtype::shown(tag), stored, bytes) }
    }

    /// Describes a damaged tensor. The file has `bytes` bytes of it, not as many as the dtype and shape take.
    pub(crate) fn damaged(dtype: Dtype, shape: Shape, bytes: usize) -> Self {
        let unknown = UnknownDtype { tag: dtype.name().into(), stored: [].into(), bytes, is_damaged: true };
        Self { dtype, shape, layout: Layout::Unknown(Box::new(unknown)) }
    }

    /// Returns whether the file lacks bytes of the tensor. The dtype and the shape are as in the file.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        matches!(&self.layout, Layout::Unknown(unknown) if unknown.is_damaged)
    }

    /// Sets the number of bytes of a tensor of an unknown dtype.
    pub(crate) fn set_unknown_bytes(&mut self, bytes: u64) {
        if let Layout::Unknown(unknown) = &mut self.layout {
            unknown.bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
    }

    /// Returns what the file calls the dtype, if the elements cannot be read: this crate does not know the dtype, or
    /// the tensor [is damaged](Self::is_damaged).
    #[must_use]
    #[inline]
    pub fn unknown_dtype(&self) -> Option<&str> {
        match &self.layout {
            Layout::Unknown(unknown) => Some(unknown.tag()),
            _ => None,
        }
    }

    /// Returns `true` if the elements can be cast to a dtype: both are floats or integers.
    pub(crate) fn can_cast_to(&self, dtype: Dtype) -> bool {
        let is_number = |dtype: Dtype| dtype.is_float() || dtype.is_integer();
        self.unknown_dtype().is_none() && is_number(self.dtype) && is_number(dtype)
    }

    /// Returns the stored form of an unknown dtype in `format`, if it can be written again.
    pub(crate) fn unknown_stored(&self, format: &str) -> Option<&[u8]> {
        match &self.layout {
            Layout::Unknown(unknown) => unknown.stored_in(format),
            _ => None,
        }
    }

    /// Returns the size of the payload in bytes, without padding. `None` on overflow.
    #[inline]
    #[must_use]
    pub fn payload_bytes(&self) -> Option<usize> {
        match &self.layout {
            Layout::RowMajor | Layout::DimOrder(_) | Layout::Blob => self.dtype.bytes_for(self.shape.elements()?),
            Layout::Unknown(unknown) => Some(unknown.bytes),
            Layout::Coo { entries } => {
                let entries = *entries;
                let indices = entries.checked_mul(self.shape.rank())?.checked_mul(size_of::<u64>())?;
                indices.checked_add(size_of::<u64>())?.checked_add(self.dtype.bytes_for(entries)?)
            }
        }
    }

    /// Returns the size of the integers in a [`Buffer`](super::Buffer) for the payload: 1 if the payload is not a run
    /// of elements.
    pub(crate) fn unit_bytes(&self) -> usize {
        match self.layout {
            Layout::RowMajor | Layout::DimOrder(_) => self.dtype.unit_bytes(),
            Layout::Coo { .. } | Layout::Blob | Layout::Unknown(_) => 1,
        }
    }

    /// Returns whether any `bytes` bytes are a payload of this tensor. Otherwise they have to be checked.
    #[inline]
    pub(crate) fn takes_any(&self, bytes: usize) -> bool {
        self.any_bytes() == Some(bytes)
    }

    /// Returns the length of the payload in bytes, if any bytes are valid: the tensor is dense and in row-major order,
    /// and all bits of an element have a meaning.
    #[inline]
    pub(crate) fn any_bytes(&self) -> Option<usize> {
        let is_simple = matches!(self.layout, Layout::RowMajor) && self.dtype != Dtype::Bool;
        if !is_simple || self.dtype.block_elements() > 1 {
            return None;
        }
        self.shape.elements()?.checked_mul(self.dtype.block_bytes())
    }

    /// Checks that a dtype with several elements in a block has whole blocks, in row-major order.
    #[inline]
    pub(crate) fn check_blocks(&self) -> Result<(), InvalidTensor> {
        match self.dtype.block_elements() {
            1 => Ok(()),
            block => self.check_blocks_of(block),
        }
    }

    fn check_blocks_of(&self, block: usize) -> Result<(), InvalidTensor> {
        // Too many elements are whole blocks, as their number is not known.
        let is_whole = self.shape.elements().is_none_or(|elements| elements.is_multiple_of(block));
        if is_whole && self.layout == Layout::RowMajor {
            Ok(())
        } else {
            Err(InvalidTensor::Blocks { info: Box::new(self.clone()) })
        }
    }

    /// Checks that a payload has `found` bytes, that the dim order has the rank of the shape, and that blocks are
    /// whole.
    #[inline]
    pub(crate) fn check_payload(&self, found: u64) -> Result<(), InvalidTensor> {
        self.check_blocks()?;
        self.check_order()?;
        match self.payload_bytes() {
            Some(expected) if expected as u64 == found => Ok(()),
            _ => Err(self.has_other_length(found)),
        }
    }

    /// Checks the rank of the dim order against the shape.
    #[inline]
    pub(crate) fn check_order(&self) -> Result<(), InvalidTensor> {
        match &self.layout {
            Layout::DimOrder(order) if order.as_slice().len() != self.shape.rank() => {
                Err(InvalidTensor::DimOrderRank { found: order.as_slice().len(), rank: self.shape.rank() })
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn has_other_length(&self, found: u64) -> InvalidTensor {
        InvalidTensor::Length { found, info: Box::new(self.clone()) }
    }
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.layout == Layout::Blob {
            return write!(f, "a blob of {} bytes", self.shape.elements().unwrap_or(0));
        }
        if let Some(tag) = self.unknown_dtype() {
            let what = if self.is_damaged() { ", damaged" } else { " of unknown dtype" };
            return write!(f, "{tag}{}{what}", self.shape);
        }
        write!(f, "{}{}", self.dtype, self.shape)?;
        match &self.layout {
            Layout::RowMajor | Layout::Blob | Layout::Unknown(_) => Ok(()),
            Layout::DimOrder(order) => write!(f, " in dim order {:?}", order.as_slice()),
            Layout::Coo { entries } => write!(f, " in COO layout with {entries} values"),
        }
    }
}

/// The order of a tensor's elements in memory.
///
/// ```
/// use tensorfile::{DimOrder, Dtype, Layout, TensorInfo};
///
/// let layout = Layout::DimOrder(DimOrder::new(&[0, 2, 3, 1])?);
/// let info = TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [1, 3, 8, 8]) };
/// assert_eq!(info.to_string(), "u8[1, 3, 8, 8] in dim order [0, 2, 3, 1]");
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Dense; the last dim is innermost.
    #[default]
    RowMajor,
    /// Dense, with the dims in another order.
    DimOrder(DimOrder),
    /// Sparse, with a coordinate for each stored element.
    ///
    /// The payload is `entries × rank` indices of 64 bits, `entries` as 64 bits, and `entries` elements. The Binary
    /// Tensor Format stores exactly these bytes, so a view can borrow them.
    Coo {
        /// The number of stored elements.
        entries: usize,
    },
    /// Not a tensor, but named bytes of unknown meaning. The dtype is `u8`, and the shape is their number.
    Blob,
    /// A tensor of an unknown dtype. [`TensorInfo::dtype`] is `u8` and means nothing; the shape is as in the file. The
    /// elements cannot be read, but [`Tensor`](super::Tensor) and [`TensorMap`](super::TensorMap) hold the bytes, and
    /// the original format writes them again.
    ///
    /// So is a tensor that [is damaged](TensorInfo::is_damaged), with the dtype of the file. No format writes it again.
    Unknown(Box<UnknownDtype>),
}

impl Clone for Layout {
    // The commonest layouts are cloned in place: every view of a tensor has its own.
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Self::RowMajor => Self::RowMajor,
            other => other.clone_other(),
        }
    }
}

/// A dtype in a file, unknown to this crate.
///
/// Keeps the format and the raw tag, so that the same format can write it back. Tags mean nothing in other formats.
/// Dtypes are equal if both are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct UnknownDtype {
    tag: Box<str>,
    /// The name of the format, NUL, and the bytes it writes for the dtype. Empty if no format can write it.
    stored: Box<[u8]>,
    bytes: usize,
    /// The dtype is known, but the file lacks bytes of the tensor.
    is_damaged: bool,
}

impl UnknownDtype {
    /// Returns the name of the dtype in the file. Long texts are cut, and control characters are escaped.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns the bytes for the dtype in a format, if it comes from that format.
    pub(crate) fn stored_in(&self, format: &str) -> Option<&[u8]> {
        self.stored.strip_prefix(format.as_bytes())?.strip_prefix(b"\0")
    }

    /// Returns the length of all texts in bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        self.tag.len() + self.stored.len()
    }

    /// Returns a tag as it is kept.
    fn shown(tag: &str) -> Box<str> {
        /// The maximum number of characters kept of a tag: every tensor of a file may have one.
        const LONGEST: usize = 96;
        let mut shown = String::new();
        for letter in tag.chars().take(LONGEST) {
            if letter.is_control() { shown.extend(letter.escape_default()) } else { shown.push(letter) }
        }
        if tag.chars().nth(LONGEST).is_some() {
            shown.push('…');
        }
        shown.into_boxed_str()
    }
}

impl fmt::Debug for UnknownDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The stored bytes may be longer than any reader wants to see.
        f.debug_struct("UnknownDtype").field("tag", &self.tag).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Layout {
    #[cold]
    fn clone_other(&self) -> Self {
        match self {
            Self::RowMajor => Self::RowMajor,
            Self::DimOrder(order) => Self::DimOrder(order.clone()),
            Self::Coo { entries } => Self::Coo { entries: *entries },
            Self::Blob => Self::Blob,
            Self::Unknown(unknown) => Self::Unknown(unknown.clone()),
        }
    }

    /// Returns the layout for a dim order: `RowMajor` if the order is 0, 1, 2, ….
    ///
    /// ```
    /// use tensorfile::{DimOrder, Layout};
    ///
    /// assert_eq!(Layout::from_dim_order(&[0, 1])?, Layout::RowMajor);
    /// assert_eq!(Layout::from_dim_order(&[1, 0])?, Layout::DimOrder(DimOrder::new(&[1, 0])?));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::DimOrder`]: `order` is not a permutation of its indices.
    pub fn from_dim_order(order: &[u8]) -> Result<Self, InvalidTensor> {
        if is_row_major(order) {
            return Ok(Self::RowMajor);
        }
        DimOrder::new(order).map(Self::DimOrder)
    }

    /// Returns the layout of an unknown dtype, with its tag in the form of [`UnknownDtype::tag`].
    fn unknown(tag: Box<str>, stored: Box<[u8]>, bytes: usize) -> Self {
        Self::Unknown(Box::new(UnknownDtype { tag, stored, bytes, is_damaged: false }))
    }
}

fn is_row_major(order: &[u8]) -> bool {
    order.iter().enumerate().all(|(index, dim)| index == usize::from(*dim))
}

/// The dims from outermost to innermost in memory: a permutation of `0..rank`.
///
/// `[0, 2, 3, 1]` is an NCHW tensor in NHWC memory.
///
/// ```
/// use tensorfile::{DimOrder, Dtype, Layout, Tensor, TensorInfo};
///
/// // A matrix of two rows, stored column by column.
/// let layout = Layout::DimOrder(DimOrder::new(&[1, 0])?);
/// let info = TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [2, 3]) };
/// let tensor = Tensor::new(info, &[1, 4, 2, 5, 3, 6])?;
/// assert_eq!(tensor.array::<u8>()?, ndarray::array![[1, 2, 3], [4, 5, 6]].into_dyn());
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DimOrder(Box<[u8]>);

impl DimOrder {
    /// Creates a dim order from a permutation.
    ///
    /// ```
    /// use tensorfile::DimOrder;
    ///
    /// assert_eq!(DimOrder::new(&[0, 2, 1])?.as_slice(), [0, 2, 1]);
    /// let error = DimOrder::new(&[0, 2]).unwrap_err();
    /// assert_eq!(error.to_string(), "dim order [0, 2] is not a permutation of 0..2");
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidTensor::DimOrder`]: `order` is not a permutation of its indices.
    pub fn new(order: &[u8]) -> Result<Self, InvalidTensor> {
        let mut seen = [false; 256];
        for &dim in order {
            if usize::from(dim) >= order.len() || std::mem::replace(&mut seen[usize::from(dim)], true) {
                return Err(InvalidTensor::DimOrder { order: order.to_vec() });
            }
        }
        Ok(Self(order.into()))
    }

    /// Returns the dims, outermost in memory first.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Returns `true` if the order is 0, 1, 2, ….
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        is_row_major(&self.0)
    }

    /// Returns the strides, in elements, of a dense tensor in this order.
    pub(crate) fn strides(&self, shape: &Shape) -> Vec<usize> {
        shape.strides_in(self.0.iter().map(|dim| usize::from(*dim)))
    }
}

/// The error for a dtype, shape, layout and payload that do not fit together.
///
/// ```
/// use tensorfile::report::InvalidTensor;
/// use tensorfile::Tensor;
///
/// let error = Tensor::from_slice(&[1.0_f32, 2.0], [3]).unwrap_err();
/// assert!(matches!(error, InvalidTensor::Elements { found: 2, .. }));
/// assert_eq!(error.to_string(), "2 elements, but the shape [3] takes 3");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTensor {
    /// The payload has another size than dtype, shape and layout take.
    Length {
        /// The size of the payload in bytes.
        found: u64,
        /// The intended tensor.
        info: Box<TensorInfo>,
    },
    /// The tensor takes more bytes than this machine can address.
    TooLarge {
        /// The element type.
        dtype: Dtype,
        /// The dims.
        shape: Shape,
    },
    /// A dtype with several elements in a block has a block in part, or another layout than row-major.
    Blocks {
        /// The tensor.
        info: Box<TensorInfo>,
    },
    /// The number of elements differs from the shape.
    Elements {
        /// The number of elements.
        found: usize,
        /// The shape.
        shape: Shape,
    },
    /// A dim order is not a permutation.
    DimOrder {
        /// The dim order.
        order: Vec<u8>,
    },
    /// A dim order has more or fewer dims than the shape.
    DimOrderRank {
        /// The number of dims in the dim order.
        found: usize,
        /// The rank of the shape.
        rank: usize,
    },
    /// A coordinate is outside the shape.
    Coordinate {
        /// The position of the coordinate among the entries.
        entry: usize,
        /// The dim with the index.
        axis: usize,
        /// The index.
        found: u64,
        /// The size of the dim.
        dim: usize,
    },
    /// There are more or fewer coordinates than values.
    CoordinateCount {
        /// The number of coordinates.
        coordinates: u64,
        /// The number of values.
        values: u64,
    },
    /// Coordinates have more or fewer indices than the tensor has dims.
    CoordinateRank {
        /// The number of indices in a coordinate.
        found: u64,
        /// The rank of the tensor.
        rank: usize,
    },
    /// A byte is not a value of the dtype, such as 2 for `bool`.
    Value {
        /// The element type.
        dtype: Dtype,
        /// The index of the element.
        element: usize,
        /// The byte.
        found: u8,
    },
    /// There is not enough memory for the payload. [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) is the
    /// same.
    OutOfMemory {
        /// The number of bytes requested.
        bytes: u64,
    },
}

impl fmt::Display for InvalidTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found, info } => match info.payload_bytes() {
                Some(expected) => write!(f, "payload is {found} bytes, but {info} takes {expected}"),
                None => write!(f, "payload is {found} bytes, but {info} takes more than can be addressed"),
            },
            Self::TooLarge { dtype, shape } => write!(f, "{dtype}{shape} takes more bytes than can be addressed"),
            Self::Blocks { info } if info.layout == Layout::RowMajor => {
                let block = info.dtype.block_elements();
                let elements = info.shape.elements().unwrap_or(usize::MAX);
                write!(f, "{info} has {elements} elements, but {} stores blocks of {block}", info.dtype)
            }
            Self::Blocks { info } => write!(f, "blocks of several elements are row-major, but expected {info}"),
            Self::Elements { found, shape } => match shape.elements() {
                Some(expected) => write!(f, "{found} elements, but the shape {shape} takes {expected}"),
                None => write!(f, "{found} elements, but the shape {shape} takes more than can be addressed"),
            },
            Self::DimOrder { order } => {
                write!(f, "dim order {order:?} is not a permutation of 0..{}", order.len())
            }
            Self::DimOrderRank { found, rank } => {
                write!(f, "dim order has {found} dims, but the tensor has rank {rank}")
            }
            Self::Coordinate { entry, axis, found, dim } => {
                write!(f, "index {found} of coordinate {entry} is outside dim {axis}, which is {dim}")
            }
            Self::CoordinateCount { coordinates, values } => {
                write!(f, "{coordinates} coordinates, but {values} values")
            }
            Self::CoordinateRank { found, rank } => {
                write!(f, "coordinates have {found} indices, but the tensor has rank {rank}")
            }
            Self::Value { dtype, element, found } => {
                write!(f, "element {element} is the byte {found}, which is not a {dtype}")
            }
            Self::OutOfMemory { bytes } => write!(f, "there is not enough memory for {bytes} bytes"),
        }
    }
}

impl std::error::Error for InvalidTensor {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_orders_that_are_not_permutations() {
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
