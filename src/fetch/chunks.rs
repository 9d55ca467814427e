//! Tensors stored in chunks: boxes of elements, each in a place of its own.

use std::ops::Range;

use super::piece::{merging, read_part};
use super::slice::TensorSlice;
use crate::error::Result;
use crate::storage::{FileStorage, GatherBytes, Wanted};
use crate::tensor::{Shape, try_zeros};

/// The chunks of a tensor, which hold each element once.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// The size of an element in bytes.
    element: usize,
    shape: Shape,
    chunks: Vec<TensorChunk>,
    bytes: u64,
}

/// A box of the elements of a tensor.
#[derive(Debug)]
pub(crate) struct TensorChunk {
    /// The index of the chunk's first element in each dim of the tensor.
    pub(crate) offsets: Shape,
    pub(crate) shape: Shape,
    /// The distance between neighbours in each dim, as stored, in elements.
    pub(crate) strides: Vec<usize>,
    /// The offset of the first element in the files.
    pub(crate) start: u64,
}

/// Fills memory with a box of elements, given by a range of each dim.
pub(crate) type ReadBox<'r> = &'r mut dyn FnMut(&[Range<usize>], &mut [u8]) -> Result<()>;

/// Takes a range of each dim, and the place of its bytes.
pub(crate) type EachBox<'e> = &'e mut dyn FnMut(&[Range<usize>], Range<usize>) -> Result<()>;

impl Chunks {
    /// The chunks of a tensor of `bytes` bytes. They are not empty, and tile it.
    pub(crate) fn new(element: usize, shape: Shape, chunks: Vec<TensorChunk>, bytes: u64) -> Self {
        Self { element, shape, chunks, bytes }
    }

    /// Calls `each` with the parts of a box: the offset of their chunk's payload, and the part of it to read.
    fn each_part(
        &self,
        ranges: &[Range<usize>],
        each: &mut dyn FnMut(u64, &TensorSlice<'_>) -> Result<()>,
    ) -> Result<()> {
        let to = ranges.iter().map(ExactSizeIterator::len).collect::<Shape>().row_major_strides();
        for TensorChunk { offsets, shape, strides, start } in &self.chunks {
            let (mut own, mut first) = (Vec::with_capacity(ranges.len()), 0);
            for (((range, offset), dim), stride) in ranges.iter().zip(offsets.iter()).zip(shape.iter()).zip(&to) {
                let (from, end) = (range.start.max(*offset), range.end.min(offset + dim));
                if from >= end {
                    break;
                }
                own.push(from - offset..end - offset);
                first += (from - range.start) * stride;
            }
            if own.len() == ranges.len() {
                each(*start, &TensorSlice::within(self.element, (shape, strides), own, (first, to.clone())))?;
            }
        }
        Ok(())
    }
}

/// Calls `each` with the boxes of elements that have some bytes of a row-major tensor, and with the places of the elements'
/// bytes from the first element on.
pub(crate) fn boxes(shape: &Shape, element: usize, from: u64, len: usize, each: EachBox<'_>) -> Result<()> {
    let bytes = whole(element, from, len);
    let (mut start, end) = (bytes.start / element, bytes.end / element);
    let strides = shape.row_major_strides();
    if strides.is_empty() && start < end {
        return each(&[], 0..element);
    }
    while start < end {
        // The outermost dim whose rows begin here and fit.
        let outer = strides.iter().position(|stride| start.is_multiple_of(*stride) && *stride <= end - start);
        let outer = outer.expect("the innermost stride is 1");
        let index = |dim: usize| start / strides[dim] % shape[dim];
        let count = ((end - start) / strides[outer]).min(shape[outer] - index(outer));
        let range = |dim: usize| match dim {
            _ if dim < outer => index(dim)..index(dim) + 1,
            _ if dim == outer => index(dim)..index(dim) + count,
            _ => 0..shape[dim],
        };
        let ranges: Vec<Range<usize>> = (0..strides.len()).map(range).collect();
        let next = start + count * strides[outer];
        each(&ranges, start * element - bytes.start..next * element - bytes.start)?;
        start = next;
    }
    Ok(())
}

/// Fills bytes of a row-major tensor, from an offset on. `read` fills a box of its elements.
pub(crate) fn fill_boxes(shape: &Shape, element: usize, from: u64, bytes: &mut [u8], read: ReadBox<'_>) -> Result<()> {
    let whole = whole(element, from, bytes.len());
    if whole.len() == bytes.len() {
        return boxes(shape, element, from, bytes.len(), &mut |ranges, within| read(ranges, &mut bytes[within]));
    }
    // A caller may ask for bytes that begin or end inside an element.
    let mut memory = try_zeros(whole.len())?;
    boxes(shape, element, from, bytes.len(), &mut |ranges, within| read(ranges, &mut memory[within]))?;
    let before = usize::try_from(from).unwrap_or(usize::MAX) - whole.start;
    bytes.copy_from_slice(&memory[before..before + bytes.len()]);
    Ok(())
}

/// Returns the whole elements with some bytes.
fn whole(element: usize, from: u64, len: usize) -> Range<usize> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    from - from % element..from.saturating_add(len).next_multiple_of(element)
}

impl GatherBytes for Chunks {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn start(&self) -> u64 {
        self.chunks.first().map_or(0, |chunk| chunk.start)
    }

    fn places(&self) -> Vec<Range<u64>> {
        let place = |TensorChunk { shape, strides, start, .. }: &TensorChunk| {
            let last: usize = shape.iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride).sum();
            *start..start.saturating_add(((last + 1) * self.element) as u64)
        };
        self.chunks.iter().map(place).collect()
    }

    fn read(&self, files: &FileStorage, wanted: Wanted<'_>, bytes: &mut [u8]) -> Result<()> {
        let read = |ranges: &[Range<usize>], bytes: &mut [u8]| {
            self.each_part(ranges, &mut |start, part| read_part(files, start, part, bytes))
        };
        match wanted {
            Wanted::Box(ranges) => read(ranges, bytes),
            Wanted::From(from) => fill_boxes(&self.shape, self.element, from, bytes, &mut { read }),
        }
    }

    fn spans(&self, files: &FileStorage, wanted: Wanted<'_>, len: usize, each: &mut dyn FnMut(Range<u64>)) {
        let mut spans_of = |ranges: &[Range<usize>]| {
            self.each_part(ranges, &mut |start, part| {
                let offset = |within: usize| start.saturating_add(within as u64);
                let spans = part.spans(&merging(files, start));
                spans.for_each(|(span, _)| each(offset(span.start)..offset(span.end)));
                Ok(())
            })
        };
        let done = match wanted {
            Wanted::Box(ranges) => spans_of(ranges),
            Wanted::From(from) => boxes(&self.shape, self.element, from, len, &mut |ranges, _| spans_of(ranges)),
        };
        done.expect("no bytes are read");
    }
}
