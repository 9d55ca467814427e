use std::fmt;

use super::{Dtype, Shape, TensorInfo};

/// The error for a dtype, shape, layout and payload that do not fit each other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTensor {
    /// The payload has another size than dtype, shape and layout take.
    Length {
        /// The size of the payload in bytes.
        found: u64,
        /// The tensor that it should be.
        info: Box<TensorInfo>,
    },
    /// The tensor takes more bytes than this machine can address.
    TooLarge {
        /// The element type.
        dtype: Dtype,
        /// The dims.
        shape: Shape,
    },
    /// The number of elements is not that of the shape.
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
        /// The dim that the index is outside of.
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
}

impl fmt::Display for InvalidTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found, info } => match info.payload_bytes() {
                Some(expected) => write!(f, "payload is {found} bytes, but {info} takes {expected}"),
                None => write!(f, "payload is {found} bytes, but {info} takes more than can be addressed"),
            },
            Self::TooLarge { dtype, shape } => write!(f, "{dtype}{shape} takes more bytes than can be addressed"),
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
        }
    }
}

impl std::error::Error for InvalidTensor {}
