//! Reads the elements of a slice, block by block.

use std::ops::Range;

use crate::args::Axis;
use crate::exit::{Failure, Outcome};

/// The largest step for which the elements between are read too. With a larger step, each index is read by itself.
const MAX_READ_STEP: usize = 8;

/// Returns the elements at these ranges of each axis, in row-major order. An element has `size` bytes.
///
/// `read` returns the elements of a block of the tensor in row-major order. Nothing else is read.
pub fn gather(
    axes: &[Axis],
    ranges: &[Vec<Range<usize>>],
    size: usize,
    mut read: impl FnMut(&[Range<usize>]) -> Outcome<Vec<u8>>,
) -> Outcome<Vec<u8>> {
    let counts: Vec<usize> = ranges.iter().map(|ranges| ranges.iter().map(Range::len).sum()).collect();
    if counts.contains(&0) {
        // The other axes may be of any length.
        return Ok(Vec::new());
    }
    let too_large = || Failure::usage("the slice does not fit into memory; use a smaller one");
    let ranges: Vec<Vec<Range<usize>>> = axes.iter().zip(ranges).map(|(axis, ranges)| split(*axis, ranges)).collect();
    let total = counts.iter().try_fold(size, |product, &count| product.checked_mul(count)).ok_or_else(too_large)?;
    let mut bytes = Vec::new();

    let strides = strides(&counts, size);
    let mut index = vec![0; axes.len()];
    loop {
        // The block at range `at[dim]` of each axis.
        let axes_of_block: Vec<Axis> =
            (0..axes.len()).map(|dim| axes[dim].narrow(ranges[dim][index[dim]].clone())).collect();
        let bounds: Vec<Range<usize>> = axes_of_block.iter().map(|axis| axis.bounds()).collect();
        let block = read(&bounds)?;
        let is_first = bytes.is_empty();
        if is_first && block.len() == total && axes_of_block.iter().all(|axis| axis.step == 1 || axis.count == 1) {
            return Ok(block);
        }
        if is_first {
            // A compressed tensor may be shorter than it says, which is known once it was read.
            bytes.try_reserve_exact(total).map_err(|_| too_large())?;
            bytes.resize(total, 0);
        }
        let lens: Vec<usize> = bounds.iter().map(Range::len).collect();
        let dims: Vec<Dim> = (0..axes.len())
            .zip(self::strides(&lens, size))
            .map(|(dim, stride)| Dim {
                axis: axes_of_block[dim],
                first: bounds[dim].start,
                from: stride,
                to: strides[dim],
            })
            .collect();
        let start = (0..axes.len())
            .map(|dim| strides[dim] * ranges[dim][..index[dim]].iter().map(Range::len).sum::<usize>())
            .sum();
        copy(&dims, size, &block, 0, &mut bytes, start);

        // Continues with the next range of the last axis that has one.
        let Some(dim) = (0..axes.len()).rev().find(|&dim| index[dim] + 1 < ranges[dim].len()) else { return Ok(bytes) };
        index[dim] += 1;
        index[dim + 1..].fill(0);
    }
}

/// Splits ranges into single indices if the step is large.
fn split(axis: Axis, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    if axis.step.unsigned_abs() > MAX_READ_STEP {
        ranges.iter().flat_map(|range| range.clone().map(|index| index..index + 1)).collect()
    } else {
        ranges.to_vec()
    }
}

/// Returns the row-major strides in bytes.
fn strides(counts: &[usize], size: usize) -> Vec<usize> {
    let mut strides = vec![size; counts.len()];
    for dim in (1..counts.len()).rev() {
        strides[dim - 1] = strides[dim] * counts[dim];
    }
    strides
}

/// A dim of a block, with its strides in bytes.
struct Dim {
    axis: Axis,
    /// The index at which the block starts.
    first: usize,
    /// The stride in the block.
    from: usize,
    /// The stride in the result.
    to: usize,
}

fn copy(dims: &[Dim], size: usize, block: &[u8], from: usize, bytes: &mut [u8], to: usize) {
    match dims.split_first() {
        None => bytes[to..to + size].copy_from_slice(&block[from..from + size]),
        Some((dim, [])) if dim.axis.step == 1 => {
            let len = dim.axis.count * size;
            bytes[to..to + len].copy_from_slice(&block[from..from + len]);
        }
        Some((dim, inner)) => {
            for index in 0..dim.axis.count {
                let from = from + (dim.axis.index(index) - dim.first) * dim.from;
                copy(inner, size, block, from, bytes, to + index * dim.to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Slice;

    /// Gathers from a tensor with the elements 0, 1, 2, …; also returns the number of elements read.
    fn gathered(shape: &[usize], text: &str, edge: Option<usize>) -> (Vec<u8>, usize) {
        let axes = text.parse::<Slice>().unwrap().axes(shape).unwrap();
        let ranges: Vec<Vec<Range<usize>>> = axes
            .iter()
            .map(|axis| match edge {
                Some(edge) if axis.count > 2 * edge => vec![0..edge, axis.count - edge..axis.count],
                _ => std::iter::once(0..axis.count).collect(),
            })
            .collect();
        let mut read = 0;
        let bytes = gather(&axes, &ranges, 1, |ranges| {
            let mut block = vec![0];
            for (range, dim) in ranges.iter().zip(shape) {
                let next = |before: &usize| range.clone().map(|index| before * dim + index).collect::<Vec<_>>();
                block = block.iter().flat_map(next).collect();
            }
            read += block.len();
            Ok(block.into_iter().map(|index| u8::try_from(index).unwrap()).collect())
        });
        (bytes.unwrap(), read)
    }

    #[test]
    fn gathers_in_row_major_order() {
        assert_eq!(gathered(&[], "", None), (vec![0], 1));
        assert_eq!(gathered(&[2, 3], "", None), (vec![0, 1, 2, 3, 4, 5], 6));
        assert_eq!(gathered(&[2, 3], ":, 1", None), (vec![1, 4], 2));
        assert_eq!(gathered(&[2, 3], "::-1, ::2", None), (vec![3, 5, 0, 2], 6));
        assert_eq!(gathered(&[2, 3], "1:, 2:0:-1", None), (vec![5, 4], 2));
        assert_eq!(gathered(&[2, 0], "", None), (vec![], 0));
        assert_eq!(gathered(&[2, 3], "5:, 1", None), (vec![], 0));
        assert_eq!(gathered(&[usize::MAX, 0], "::9, :", None), (vec![], 0));
    }

    #[test]
    fn reads_only_the_ranges() {
        assert_eq!(gathered(&[10, 9], "", Some(1)), (vec![0, 8, 81, 89], 4));
        assert_eq!(gathered(&[2, 50], ":, 3::20", None), (vec![3, 23, 43, 53, 73, 93], 6));
        assert_eq!(gathered(&[50], "::-20", None), (vec![49, 29, 9], 3));
    }
}
