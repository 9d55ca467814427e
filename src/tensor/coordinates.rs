//! The payload of tensors in COO layout; see [`Layout::Coo`].

use super::element::check_bools;
use super::{Dtype, InvalidTensor, Layout, Shape, TensorInfo};

impl TensorInfo {
    /// Checks a payload in memory: its length, the coordinates of a sparse tensor, and the values of bools.
    #[inline]
    pub(crate) fn check_bytes(&self, payload: &[u8]) -> Result<(), InvalidTensor> {
        self.check_payload(payload.len() as u64)?;
        check(self, payload)
    }
}

/// Checks the coordinates of a tensor in COO layout, and the values of bools.
#[inline]
pub(crate) fn check(info: &TensorInfo, bytes: &[u8]) -> Result<(), InvalidTensor> {
    if let Layout::Coo { entries } = info.layout {
        check_sparse(info, entries, bytes)?;
    }
    if info.dtype == Dtype::Bool { check_bools(split(info, bytes).1) } else { Ok(()) }
}

fn check_sparse(info: &TensorInfo, entries: usize, bytes: &[u8]) -> Result<(), InvalidTensor> {
    let (indices, rest) = bytes.split_at(bytes.len() - info.dtype.bytes_for(entries).unwrap_or(0));
    let (indices, again) = indices.split_at(indices.len() - size_of::<u64>());
    let again = le_u64(again);
    if again != entries as u64 {
        return Err(InvalidTensor::CoordinateCount { coordinates: entries as u64, values: again });
    }
    debug_assert_eq!(rest.len(), info.dtype.bytes_for(entries).unwrap_or(0));
    check_indices(&info.shape, 0, indices)
}

/// Checks some indices of a payload in COO layout against the shape, from number `first` on.
pub(crate) fn check_indices(shape: &Shape, first: usize, indices: &[u8]) -> Result<(), InvalidTensor> {
    check_inside(shape, first, indices.chunks_exact(size_of::<u64>()).map(le_u64))
}

/// Splits the checked bytes of a tensor in COO layout into indices and values.
pub(crate) fn split<'a>(info: &TensorInfo, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let Layout::Coo { .. } = info.layout else { return (&[], bytes) };
    let indices = index_bytes(info);
    (&bytes[..indices], &bytes[indices + size_of::<u64>()..])
}

/// Returns the length of the indices in a checked payload in COO layout, before the number of values. In any other
/// layout, there are no indices.
pub(crate) fn index_bytes(info: &TensorInfo) -> usize {
    match info.layout {
        Layout::Coo { entries } => entries * info.shape.rank() * size_of::<u64>(),
        _ => 0,
    }
}

impl InvalidTensor {
    /// Returns the offset of the mistake in the payload of a tensor; 0 if it is all of it. The length of the payload
    /// was checked.
    pub(crate) fn offset_in(&self, info: &TensorInfo) -> usize {
        let is_sparse = matches!(info.layout, Layout::Coo { .. });
        match self {
            Self::Coordinate { entry, axis, .. } if is_sparse => (entry * info.shape.rank() + axis) * size_of::<u64>(),
            Self::CoordinateCount { .. } => index_bytes(info),
            // The elements are bytes.
            Self::Value { element, .. } if is_sparse => index_bytes(info) + size_of::<u64>() + element,
            Self::Value { element, .. } => *element,
            _ => 0,
        }
    }
}

fn le_u64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Checks indices against the shape. They are row-major coordinates, from number `first` on.
pub(super) fn check_inside(
    shape: &Shape,
    first: usize,
    indices: impl Iterator<Item = u64>,
) -> Result<(), InvalidTensor> {
    // Coordinates of a tensor of rank 0 have no indices, so they are always right.
    let rank = shape.rank().max(1);
    for (index, found) in (first..).zip(indices) {
        let dim = shape[index % rank];
        if found >= dim as u64 {
            return Err(InvalidTensor::Coordinate { entry: index / rank, axis: index % rank, found, dim });
        }
    }
    Ok(())
}
