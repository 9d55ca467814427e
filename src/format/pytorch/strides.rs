//! The place of a tensor in its storage, which can have gaps and repeated elements.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::read::Strided;
use crate::tensor::{Layout, sorted};

/// The place of a tensor in the file.
#[derive(Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) range: Range<u64>,
    pub(super) layout: Layout,
    /// The elements in the range, if they are not all of it.
    pub(super) strided: Option<Box<Strided>>,
}

impl Placed {
    /// All of a range, in row-major order.
    pub(super) fn whole(range: Range<u64>) -> Self {
        Self { range, layout: Layout::RowMajor, strided: None }
    }
}

/// Returns the place of a tensor whose first element is at `start` in a storage. `size` is the size of an element
/// in bytes.
pub(super) fn place(storage: Range<u64>, start: u64, shape: &[u64], strides: &[u64], size: u64) -> Result<Placed> {
    if shape.contains(&0) {
        return Ok(Placed::whole(storage.start..storage.start));
    }
    let elements = (storage.end - storage.start) / size;
    let last = shape
        .iter()
        .zip(strides)
        .try_fold(start, |last, (dim, stride)| last.checked_add((dim - 1).checked_mul(*stride)?));
    let Some(last) = last.filter(|last| *last < elements) else {
        let last = last.map_or("one that is out of range".to_owned(), |last| last.to_string());
        let what = format!("its last element is {last} of its storage, which has {elements}");
        return Err(Error::new(ErrorKind::Malformed { what }).at(storage.start));
    };
    // All are less than the length of the storage.
    let range = storage.start + start * size..storage.start + (last + 1) * size;
    let dims: Vec<usize> = sorted::positions(shape.len(), &mut |one, other| strides[other].cmp(&strides[one]));
    let has_own_order = || -> Option<Vec<u8>> { dims.iter().map(|dim| u8::try_from(*dim).ok()).collect() };
    let mut runs = Vec::new();
    let (mut run, mut inner) = (1, 0);
    for &dim in dims.iter().rev().filter(|dim| shape[**dim] > 1) {
        let (count, stride) = (shape[dim], strides[dim]);
        if stride == 0 {
            runs.push((count, 0));
            continue;
        }
        if stride <= inner {
            return overlapping(range, shape, strides, size);
        }
        inner += (count - 1) * stride;
        if runs.is_empty() && stride == run { run *= count } else { runs.push((count, stride * size)) }
    }
    runs.reverse();
    let layout = if is_row_major(shape, strides) {
        Layout::RowMajor
    } else {
        let order = has_own_order().ok_or(ErrorKind::Limit {
            what: "rank of a tensor in another order",
            found: shape.len() as u64,
            limit: u8::MAX.into(),
        })?;
        Layout::from_dim_order(&order)?
    };
    let run = run_bytes(run * size)?;
    let strided = (!runs.is_empty()).then(|| Box::new(Strided { run, dims: runs.into(), ..Strided::default() }));
    Ok(Placed { range, layout, strided })
}

/// Returns the length of elements that are next to each other, which is no longer than the storage.
pub(super) fn run_bytes(bytes: u64) -> Result<usize> {
    let limit = || ErrorKind::Limit { what: "bytes of a row", found: bytes, limit: usize::MAX as u64 };
    usize::try_from(bytes).map_err(|_| limit().into())
}

/// Places a tensor whose elements overlap or interleave. They are read one after the other, in row-major order.
fn overlapping(range: Range<u64>, shape: &[u64], strides: &[u64], size: u64) -> Result<Placed> {
    let mut dims: Vec<(u64, u64)> = shape.iter().copied().zip(strides.iter().copied()).collect();
    dims.retain(|(count, _)| *count > 1);
    let mut run = 1;
    while let Some((count, stride)) = dims.last().copied()
        && stride == run
    {
        run *= count;
        dims.pop();
    }
    let dims = dims.iter().map(|(count, stride)| (*count, stride * size)).collect();
    let strided = Strided { run: run_bytes(run * size)?, dims, ..Strided::default() };
    Ok(Placed { range, layout: Layout::RowMajor, strided: Some(Box::new(strided)) })
}

/// Returns whether the elements are next to each other, the last dim innermost. A dim of one element has any stride.
fn is_row_major(shape: &[u64], strides: &[u64]) -> bool {
    let mut next = 1;
    shape.iter().zip(strides).rev().filter(|(dim, _)| **dim != 1).all(|(dim, stride)| {
        let is_next = *stride == next;
        next = next.saturating_mul(*dim);
        is_next
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The range, the dim order, and the runs: their length, and their counts and steps.
    type Found = (Range<u64>, Vec<u8>, Option<(usize, Vec<(u64, u64)>)>);

    fn placed(start: u64, shape: &[u64], strides: &[u64]) -> Found {
        let placed = place(100..148, start, shape, strides, 2).unwrap();
        let order = match placed.layout {
            Layout::DimOrder(order) => order.as_slice().to_vec(),
            _ => Vec::new(),
        };
        (placed.range, order, placed.strided.map(|strided| (strided.run, strided.dims.to_vec())))
    }

    #[test]
    fn dense_tensors_are_ranges() {
        assert_eq!(placed(0, &[4, 6], &[6, 1]), (100..148, vec![], None));
        assert_eq!(placed(6, &[2, 6], &[6, 1]), (112..136, vec![], None));
        assert_eq!(placed(0, &[6, 4], &[1, 6]), (100..148, vec![1, 0], None));
        assert_eq!(placed(0, &[1, 2, 3, 4], &[24, 1, 8, 2]), (100..148, vec![0, 2, 3, 1], None), "channels last");
        assert_eq!(placed(3, &[], &[]), (106..108, vec![], None));
        assert_eq!(placed(3, &[1, 1], &[7, 0]), (106..108, vec![], None));
        assert_eq!(placed(99, &[2, 0], &[0, 1]), (100..100, vec![], None));
    }

    #[test]
    fn others_are_runs() {
        assert_eq!(placed(1, &[4, 3], &[6, 1]), (102..144, vec![], Some((6, vec![(4, 12)]))));
        assert_eq!(placed(0, &[2, 2], &[12, 3]), (100..132, vec![], Some((2, vec![(2, 24), (2, 6)]))));
        assert_eq!(placed(8, &[2, 3], &[1, 6]), (116..144, vec![1, 0], Some((4, vec![(3, 12)]))));
        assert_eq!(placed(0, &[4, 3], &[6, 0]), (100..138, vec![], Some((2, vec![(4, 12), (3, 0)]))));
        assert_eq!(placed(0, &[2, 6], &[0, 1]), (100..112, vec![1, 0], Some((2, vec![(6, 2), (2, 0)]))));
    }

    #[test]
    fn elements_that_overlap_are_gathered_in_row_major_order() {
        assert_eq!(placed(0, &[3, 2], &[1, 1]), (100..108, vec![], Some((4, vec![(3, 2)]))));
        assert_eq!(placed(1, &[2, 3], &[3, 2]), (102..118, vec![], Some((2, vec![(2, 6), (3, 4)]))));
        assert_eq!(placed(0, &[2, 1, 2, 3], &[0, 9, 2, 1]), (100..110, vec![], Some((6, vec![(2, 0), (2, 4)]))));
    }

    #[test]
    fn rejects_what_is_not_in_the_storage() {
        let message = |start, shape: &[u64], strides: &[u64]| {
            place(100..148, start, shape, strides, 2).unwrap_err().kind().to_string()
        };
        assert_eq!(message(1, &[24], &[1]), "its last element is 24 of its storage, which has 24");
        assert_eq!(message(24, &[], &[]), "its last element is 24 of its storage, which has 24");
        let huge = "its last element is one that is out of range of its storage, which has 24";
        assert_eq!(message(0, &[u64::MAX, 2], &[2, 1]), huge);
        assert_eq!(message(u64::MAX, &[2], &[1]), huge);
    }
}
