//! The elements of a slice, gathered from the runs of a file that hold them.

use std::ops::Range;

use crate::failure::{Failure, Outcome};
use crate::slice::Axis;

/// A step up to this reads what lies between, too; with a longer one, each index is read by itself.
const SHORT_STEP: usize = 8;

/// Gathers elements of `size` bytes in row-major order: for each axis those at the `ranges` of it, one range after the other.
///
/// `read` is asked for blocks of the tensor, which it gives in row-major order; no more is read than it is asked for.
pub fn gather(
    axes: &[Axis],
    ranges: &[Vec<Range<usize>>],
    size: usize,
    mut read: impl FnMut(&[Range<usize>]) -> Outcome<Vec<u8>>,
) -> Outcome<Vec<u8>> {
    let ranges: Vec<Vec<Range<usize>>> = axes.iter().zip(ranges).map(|(axis, ranges)| split(*axis, ranges)).collect();
    let counts: Vec<usize> = ranges.iter().map(|ranges| ranges.iter().map(Range::len).sum()).collect();
    let total = counts.iter().try_fold(size, |product, &count| product.checked_mul(count));
    if counts.contains(&0) {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    let total = total.filter(|&total| bytes.try_reserve_exact(total).is_ok());
    bytes.resize(total.ok_or_else(|| Failure::usage("the slice does not fit into memory; a smaller one may"))?, 0);

    let strides = strides(&counts, size);
    let mut at = vec![0; axes.len()];
    loop {
        // One block: the range that is `at` of each axis.
        let parts: Vec<Axis> = (0..axes.len()).map(|dim| axes[dim].part(ranges[dim][at[dim]].clone())).collect();
        let hulls: Vec<Range<usize>> = parts.iter().map(|part| part.hull()).collect();
        let block = read(&hulls)?;
        let lens: Vec<usize> = hulls.iter().map(Range::len).collect();
        let dims: Vec<Dim> = (0..axes.len())
            .zip(self::strides(&lens, size))
            .map(|(dim, stride)| Dim { part: parts[dim], low: hulls[dim].start, from: stride, to: strides[dim] })
            .collect();
        let start = (0..axes.len())
            .map(|dim| strides[dim] * ranges[dim][..at[dim]].iter().map(Range::len).sum::<usize>())
            .sum();
        copy(&dims, size, &block, 0, &mut bytes, start);

        // The next block, the last axis running fastest.
        let Some(dim) = (0..axes.len()).rev().find(|&dim| at[dim] + 1 < ranges[dim].len()) else { return Ok(bytes) };
        at[dim] += 1;
        at[dim + 1..].fill(0);
    }
}

/// All of an axis that has so many indices, as the only range of it.
pub fn whole(count: usize) -> Vec<Range<usize>> {
    std::iter::once(0..count).collect()
}

/// The ranges, each index by itself where it lies far from the next one.
fn split(axis: Axis, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    match axis.step.unsigned_abs() > SHORT_STEP {
        true => ranges.iter().flat_map(|range| range.clone().map(|at| at..at + 1)).collect(),
        false => ranges.to_vec(),
    }
}

/// The bytes from one index of each dim to the next, in row-major order.
fn strides(counts: &[usize], size: usize) -> Vec<usize> {
    let mut strides = vec![size; counts.len()];
    for dim in (1..counts.len()).rev() {
        strides[dim - 1] = strides[dim] * counts[dim];
    }
    strides
}

/// A dim of a block and of where it goes.
struct Dim {
    part: Axis,
    /// The index that the block begins with.
    low: usize,
    from: usize,
    to: usize,
}

fn copy(dims: &[Dim], size: usize, block: &[u8], from: usize, bytes: &mut [u8], to: usize) {
    match dims.split_first() {
        None => bytes[to..to + size].copy_from_slice(&block[from..from + size]),
        Some((dim, [])) if dim.part.step == 1 => {
            let len = dim.part.count * size;
            bytes[to..to + len].copy_from_slice(&block[from..from + len]);
        }
        Some((dim, inner)) => {
            for at in 0..dim.part.count {
                let from = from + (dim.part.index(at) - dim.low) * dim.from;
                copy(inner, size, block, from, bytes, to + at * dim.to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::Subscript;

    /// Gathers from a tensor whose elements count up.
    fn gathered(shape: &[usize], text: &str, edge: Option<usize>) -> (Vec<u8>, usize) {
        let axes = text.parse::<Subscript>().unwrap().of(shape).unwrap();
        let ranges: Vec<Vec<Range<usize>>> = axes
            .iter()
            .map(|axis| match edge {
                Some(edge) if axis.count > 2 * edge => vec![0..edge, axis.count - edge..axis.count],
                _ => whole(axis.count),
            })
            .collect();
        let mut read = 0;
        let bytes = gather(&axes, &ranges, 1, |hulls| {
            let mut block = vec![0];
            for (hull, dim) in hulls.iter().zip(shape) {
                let next = |before: &usize| hull.clone().map(|at| before * dim + at).collect::<Vec<_>>();
                block = block.iter().flat_map(next).collect();
            }
            read += block.len();
            Ok(block.into_iter().map(|at| u8::try_from(at).unwrap()).collect())
        });
        (bytes.unwrap(), read)
    }

    #[test]
    fn slices_are_gathered_in_order() {
        assert_eq!(gathered(&[], "", None), (vec![0], 1));
        assert_eq!(gathered(&[2, 3], "", None), (vec![0, 1, 2, 3, 4, 5], 6));
        assert_eq!(gathered(&[2, 3], ":, 1", None), (vec![1, 4], 2));
        assert_eq!(gathered(&[2, 3], "::-1, ::2", None), (vec![3, 5, 0, 2], 6));
        assert_eq!(gathered(&[2, 3], "1:, 2:0:-1", None), (vec![5, 4], 2));
        assert_eq!(gathered(&[2, 0], "", None), (vec![], 0));
        assert_eq!(gathered(&[2, 3], "5:, 1", None), (vec![], 0));
    }

    #[test]
    fn only_what_is_shown_is_read() {
        assert_eq!(gathered(&[10, 9], "", Some(1)), (vec![0, 8, 81, 89], 4));
        assert_eq!(gathered(&[2, 50], ":, 3::20", None), (vec![3, 23, 43, 53, 73, 93], 6));
        assert_eq!(gathered(&[50], "::-20", None), (vec![49, 29, 9], 3));
    }
}
