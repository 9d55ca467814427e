//! Parts of tensors, read without the rest.

use std::ops::Range;

use super::FileTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Buffer, Layout, Shape, Tensor, TensorInfo};

/// Reads a range of each dim.
pub(super) fn read(tensor: &FileTensor<'_>, ranges: &[Range<usize>]) -> Result<Tensor> {
    let shape = tensor.shape();
    check(shape, ranges)?;
    let strides = match tensor.layout() {
        Layout::DimOrder(order) => order.strides(shape),
        Layout::Coo { .. } => return Err(unsupported("slice a sparse tensor", "read it whole")),
        _ => shape.row_major_strides(),
    };
    let info = TensorInfo::new(tensor.dtype(), ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>());
    let len = info.payload_bytes().expect("a part is no larger than the whole");
    let mut buffer = Buffer::zeroed(info.element_bytes(), len);
    let part = Part { element: tensor.dtype().block_bytes(), strides: &strides, ranges };
    let (start, storage) = (tensor.span().start, tensor.file().storage());
    // A tensor with a codec is decoded whole.
    let whole = tensor.entry().has_codec().then(|| tensor.read()).transpose()?;
    let mut rest = &mut buffer[..];
    part.for_each_run(&mut |offset, len| {
        let (now, later) = std::mem::take(&mut rest).split_at_mut(len);
        rest = later;
        match &whole {
            Some(whole) => now.copy_from_slice(&whole.as_bytes()[offset..offset + len]),
            None => storage.read_at(start + offset as u64, now)?,
        }
        Ok(())
    })?;
    Ok(Tensor::of_checked(info, buffer))
}

/// A part of a tensor in memory order, in which all offsets are within the payload.
struct Part<'a> {
    /// The bytes of an element.
    element: usize,
    strides: &'a [usize],
    ranges: &'a [Range<usize>],
}

impl Part<'_> {
    /// Calls `take` with offset and length in bytes of every run of bytes, in row-major order.
    fn for_each_run(&self, take: &mut impl FnMut(usize, usize) -> Result<()>) -> Result<()> {
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
    use crate::tensor::DimOrder;

    /// The runs of a part of a tensor of bytes, in bytes.
    fn runs(dims: &[usize], order: &[u8], ranges: &[Range<usize>]) -> Vec<(usize, usize)> {
        let strides = DimOrder::new(order).unwrap().strides(&Shape::new(dims));
        let mut runs = Vec::new();
        let mut take = |offset, len| {
            runs.push((offset, len));
            Ok(())
        };
        Part { element: 1, strides: &strides, ranges }.for_each_run(&mut take).unwrap();
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
