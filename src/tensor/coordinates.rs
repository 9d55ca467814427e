//! The payload of tensors in COO layout; see [`Layout::Coo`].

use super::{InvalidTensor, Layout, Shape, TensorInfo};

/// Checks the coordinates in the bytes of a tensor in COO layout. Other layouts have none.
pub(crate) fn check(info: &TensorInfo, bytes: &[u8]) -> Result<(), InvalidTensor> {
    let Layout::Coo { entries } = info.layout else { return Ok(()) };
    let (indices, rest) = bytes.split_at(bytes.len() - info.dtype.bytes_for(entries).unwrap_or(0));
    let (indices, again) = indices.split_at(indices.len() - size_of::<u64>());
    let again = le_u64(again);
    if again != entries as u64 {
        return Err(InvalidTensor::CoordinateCount { coordinates: entries as u64, values: again });
    }
    debug_assert_eq!(rest.len(), info.dtype.bytes_for(entries).unwrap_or(0));
    check_inside(&info.shape, indices.chunks_exact(size_of::<u64>()).map(le_u64))
}

/// Splits the checked bytes of a tensor in COO layout into indices and values.
pub(crate) fn split<'a>(info: &TensorInfo, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let Layout::Coo { entries } = info.layout else { return (&[], bytes) };
    let indices = entries * info.shape.rank() * size_of::<u64>();
    (&bytes[..indices], &bytes[indices + size_of::<u64>()..])
}

fn le_u64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Checks that indices, one for each dim after the other, are inside the shape.
pub(super) fn check_inside(shape: &Shape, indices: impl Iterator<Item = u64>) -> Result<(), InvalidTensor> {
    // Coordinates of a tensor of rank 0 have no indices, so they are always right.
    let rank = shape.rank().max(1);
    for (at, found) in indices.enumerate() {
        let dim = shape[at % rank];
        if found >= dim as u64 {
            return Err(InvalidTensor::Coordinate { entry: at / rank, axis: at % rank, found, dim });
        }
    }
    Ok(())
}
