use std::fmt;

use super::{Dtype, Shape, TensorInfo};

/// Why parts do not make a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTensor {
    /// The bytes are not as many as dtype, shape and layout take.
    Length {
        /// The bytes given.
        found: u64,
        /// The tensor that they should be.
        info: Box<TensorInfo>,
    },
    /// The size in bytes passes what this machine can address.
    TooLarge {
        /// The element type.
        dtype: Dtype,
        /// The dims.
        shape: Shape,
    },
    /// The elements are not as many as the shape takes.
    Elements {
        /// The elements given.
        found: usize,
        /// The dims that they should fill.
        shape: Shape,
    },
    /// Not a permutation of the dims.
    DimOrder {
        /// The order given.
        order: Vec<u8>,
    },
    /// The dim order has not as many dims as the shape.
    DimOrderRank {
        /// The number of dims in the order.
        found: usize,
        /// The rank of the shape.
        rank: usize,
    },
    /// A coordinate that lies outside the shape.
    Coordinate {
        /// Which stored element.
        entry: usize,
        /// Which dim.
        axis: usize,
        /// The index found there.
        found: u64,
        /// The dim's size.
        dim: usize,
    },
    /// The coordinates are not as many as the values.
    CoordinateCount {
        /// The rows of coordinates.
        coordinates: u64,
        /// The values.
        values: u64,
    },
    /// A coordinate has not as many indices as the tensor has dims.
    CoordinateRank {
        /// The indices in a coordinate.
        found: u64,
        /// The rank of the tensor.
        rank: usize,
    },
    /// A byte that is no value of the dtype, such as a `bool` of 2.
    Value {
        /// The element type.
        dtype: Dtype,
        /// Which element.
        element: usize,
        /// The byte found there.
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
                write!(f, "element {element} is the byte {found}, which is no {dtype}")
            }
        }
    }
}

impl std::error::Error for InvalidTensor {}
