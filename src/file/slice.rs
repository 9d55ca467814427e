//! Parts of tensors, as the runs of bytes that they consist of.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Layout, Shape, TensorInfo};

/// A range of each dim of a tensor. All offsets are within the payload.
pub(super) struct Part<'a> {
    /// The bytes of an element.
    element: usize,
    strides: Vec<usize>,
    ranges: &'a [Range<usize>],
}

impl<'a> Part<'a> {
    pub(super) fn new(tensor: &TensorInfo, ranges: &'a [Range<usize>]) -> Result<Self> {
        let shape = &tensor.shape;
        check(shape, ranges)?;
        let strides = match &tensor.layout {
            Layout::DimOrder(order) => order.strides(shape),
            Layout::Coo { .. } => return Err(unsupported("slice a sparse tensor", "read it whole")),
            _ => shape.row_major_strides(),
        };
        Ok(Self { element: tensor.dtype.block_bytes(), strides, ranges })
    }

    /// Returns the dims of the part.
    pub(super) fn shape(&self) -> Shape {
        self.ranges.iter().map(ExactSizeIterator::len).collect()
    }

    /// Calls `take` with offset and length in bytes of every run of bytes, in row-major order.
    pub(super) fn for_each_run(&self, take: &mut impl FnMut(usize, usize) -> Result<()>) -> Result<()> {
        if self.ranges.iter().any(|range| range.is_empty()) {
            return Ok(());
        }
        let (outer, run) = self.split();
        self.descend(0, outer, 0, &mut |offset| take(offset * self.element, run * self.element))
    }

    /// Returns the number of dims outside of runs, and the number of elements in a run. A run consists of inner dims that
    /// are contiguous.
    fn split(&self) -> (usize, usize) {
        let (mut outer, mut run) = (self.ranges.len(), 1);
        while let Some(dim) = outer.checked_sub(1)
            && (self.strides[dim] == run || self.ranges[dim].len() == 1 && run == 1)
        {
            run *= self.ranges[dim].len();
            outer = dim;
        }
        (outer, run)
    }

    fn descend(
        &self,
        dim: usize,
        outer: usize,
        offset: usize,
        take: &mut impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        if dim == outer {
            let inner: usize = (outer..self.ranges.len()).map(|dim| self.ranges[dim].start * self.strides[dim]).sum();
            return take(offset + inner);
        }
        for at in self.ranges[dim].clone() {
            self.descend(dim + 1, outer, offset + at * self.strides[dim], take)?;
        }
        Ok(())
    }
}

fn check(shape: &Shape, ranges: &[Range<usize>]) -> Result<()> {
    if ranges.len() != shape.rank() {
        return Err(unsupported(format!("take {} ranges", ranges.len()), format!("the shape is {shape}")));
    }
    match ranges.iter().zip(shape.iter()).find(|(range, dim)| range.start > range.end || range.end > **dim) {
        Some((range, _)) => Err(unsupported(format!("take the range {range:?}"), format!("the shape is {shape}"))),
        None => Ok(()),
    }
}

fn unsupported(what: impl Into<String>, instead: impl Into<String>) -> Error {
    ErrorKind::Unsupported { what: what.into(), instead: instead.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DimOrder, Dtype};

    /// The runs of a part of a tensor of bytes, in bytes.
    fn runs(dims: &[usize], order: &[u8], ranges: &[Range<usize>]) -> Vec<(usize, usize)> {
        let mut runs = Vec::new();
        let mut take = |offset, len| {
            runs.push((offset, len));
            Ok(())
        };
        let layout = Layout::DimOrder(DimOrder::new(order).unwrap());
        let tensor = TensorInfo { dtype: Dtype::U8, shape: Shape::new(dims), layout };
        Part::new(&tensor, ranges).unwrap().for_each_run(&mut take).unwrap();
        runs
    }

    #[test]
    fn whole_inner_dims_are_one_run() {
        assert_eq!(runs(&[4, 2, 3], &[0, 1, 2], &[1..3, 0..2, 0..3]), [(6, 12)]);
        assert_eq!(runs(&[4, 2, 3], &[0, 1, 2], &[1..3, 0..1, 0..3]), [(6, 3), (12, 3)]);
        assert_eq!(runs(&[4, 2, 3], &[0, 1, 2], &[3..4, 1..2, 1..2]), [(22, 1)]);
        assert_eq!(runs(&[2, 2], &[1, 0], &[0..2, 0..2]), [(0, 1), (2, 1), (1, 1), (3, 1)]);
        assert_eq!(runs(&[2, 0], &[0, 1], &[0..2, 0..0]), []);
        assert_eq!(runs(&[], &[], &[]), [(0, 1)]);
    }
}
