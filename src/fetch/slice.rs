//! Parts of tensors, as runs of bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::merge::{Merging, merge};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Layout, Shape, TensorInfo, sorted};

/// The elements of a tile along each of its two dims.
const TILE: usize = 32;

/// A range of each dim of a tensor. All offsets are within the payload.
#[derive(Debug, Clone)]
pub(crate) struct TensorSlice<'a> {
    /// The bytes of an element, or of a block.
    element: usize,
    /// The number of elements in a block. In the last dim, `shape`, `strides` and `ranges` count blocks.
    block: usize,
    shape: Cow<'a, Shape>,
    strides: Vec<usize>,
    ranges: Cow<'a, [Range<usize>]>,
    /// The first element and the strides in memory, if the part belongs to something larger there.
    to: Option<(usize, Vec<usize>)>,
}

impl<'a> TensorSlice<'a> {
    pub(crate) fn new(tensor: &'a TensorInfo, ranges: Cow<'a, [Range<usize>]>) -> Result<Self> {
        let shape = &tensor.shape;
        check(shape, &ranges)?;
        let (element, block) = (tensor.dtype.block_bytes(), tensor.dtype.block_elements());
        if block > 1 {
            let (shape, ranges) = in_blocks(tensor, &ranges)?;
            let strides = shape.row_major_strides();
            return Ok(Self {
                element,
                block,
                shape: Cow::Owned(shape),
                strides,
                ranges: Cow::Owned(ranges),
                to: None,
            });
        }
        let strides = match &tensor.layout {
            Layout::DimOrder(order) => order.strides(shape),
            Layout::Coo { .. } => return Err(unsupported("slice a sparse tensor", "read it whole")),
            _ => shape.row_major_strides(),
        };
        Ok(Self { element, block, shape: Cow::Borrowed(shape), strides, ranges, to: None })
    }

    /// All elements of a tensor.
    pub(crate) fn whole(tensor: &'a TensorInfo) -> Result<Self> {
        Self::new(tensor, tensor.shape.iter().map(|dim| 0..*dim).collect())
    }

    /// A part of a tensor with elements of `element` bytes and any strides. `to` is the first element and the strides
    /// in memory.
    pub(super) fn within(
        element: usize,
        (shape, strides): (&'a Shape, &[usize]),
        ranges: Vec<Range<usize>>,
        to: (usize, Vec<usize>),
    ) -> Self {
        let (shape, strides) = (Cow::Borrowed(shape), strides.to_vec());
        Self { element, block: 1, shape, strides, ranges: Cow::Owned(ranges), to: Some(to) }
    }

    /// Returns the range of each dim. The last range counts blocks, which usually are single elements.
    pub(super) fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// Returns the dims of the part, in elements.
    pub(crate) fn shape(&self) -> Shape {
        let mut dims: Vec<usize> = self.ranges.iter().map(ExactSizeIterator::len).collect();
        if let Some(last) = dims.last_mut() {
            *last *= self.block;
        }
        dims.into()
    }

    /// Returns the byte runs of the part, in stored order.
    pub(crate) fn runs(&self) -> Runs {
        Runs::new(self)
    }

    /// Returns the range of the payload from the first byte of the part to the last.
    pub(crate) fn bounds(&self) -> Range<usize> {
        if self.ranges.iter().any(Range::is_empty) {
            return 0..0;
        }
        let offset = |of: fn(&Range<usize>) -> usize| -> usize {
            self.ranges.iter().zip(&self.strides).map(|(range, stride)| of(range) * stride).sum()
        };
        offset(|range| range.start) * self.element..(offset(|range| range.end - 1) + 1) * self.element
    }

    /// Returns the offset of the first byte of the part, and the number of bytes to its last, if the payload begins at
    /// `start`.
    pub(super) fn place(&self, start: u64) -> (u64, u64) {
        let bounds = self.bounds();
        (start.saturating_add(bounds.start as u64), bounds.len() as u64)
    }

    /// Returns the offset in the payload of a byte of the part.
    pub(crate) fn place_in_payload(&self, i: usize) -> usize {
        let mut runs = self.runs();
        let len = runs.len;
        runs.find(|run| (run.to..run.to + len).contains(&i)).map_or(i, |run| run.from + (i - run.to))
    }

    /// Copies the part to `part`, in row-major order, from the bytes of the payload from `start` on.
    pub(crate) fn copy_from(&self, payload: &[u8], start: usize, part: &mut [u8]) {
        let mut runs = self.runs();
        runs.copy(runs.left, start, payload, part);
    }

    /// Reads the part of a payload to `part`, in row-major order. `read` fills bytes from an offset in the payload on.
    ///
    /// Runs close together are read with one call, as [`spans`](Self::spans) says.
    pub(crate) fn read(
        &self,
        merging: &Merging,
        read: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
        part: &mut [u8],
    ) -> Result<()> {
        let (mut runs, mut window) = (self.runs(), Vec::new());
        let len = runs.len;
        for (span, count) in self.spans(merging) {
            let Some(first) = runs.first() else { break };
            if count == 1 {
                runs.next();
                read(first.from, &mut part[first.to..first.to + len])?;
                continue;
            }
            window.resize(span.len(), 0);
            read(first.from, &mut window)?;
            runs.copy(count, first.from, &window, part);
        }
        Ok(())
    }

    /// Returns the ranges of the payload to read, each with one call, and the number of runs in each.
    ///
    /// Short runs are read with the bytes between them, if those are at most a row. So at most twice the bytes of the
    /// touched rows are read, and of a matrix at most whole rows.
    pub(crate) fn spans(&self, merging: &Merging) -> impl Iterator<Item = (Range<usize>, usize)> + use<> {
        /// Reading longer runs alone takes no longer than reading what is between them.
        const LONG: usize = 64 << 10;

        let runs = self.runs();
        let (len, near) = (runs.len, runs.len.max(self.row_bytes()) as u64);
        let over_read = if len < LONG { 1 } else { merging.over_read };
        let merging = Merging { gap: merging.gap.min(near), over_read, ..*merging };
        let ranges = runs.map(move |run| run.from as u64..(run.from + len) as u64);
        let index = |offset| usize::try_from(offset).expect("it is an offset in memory");
        merge(ranges, merging).map(move |(span, count)| (index(span.start)..index(span.end), count))
    }

    /// Cuts the part into parts of about `bytes` bytes each, if they are stored in the same order as in memory. Returns
    /// the parts with their ranges in this one.
    pub(crate) fn cut(self, bytes: usize) -> Vec<(Range<usize>, Self)> {
        let len = self.ranges.iter().map(ExactSizeIterator::len).product::<usize>() * self.element;
        let outer = self.ranges.iter().position(|range| range.len() > 1).filter(|outer| {
            let strides = self.ranges.iter().zip(&self.strides).filter(|(range, _)| range.len() > 1);
            strides.map(|(_, stride)| *stride).max() == Some(self.strides[*outer])
        });
        let Some(outer) = outer.filter(|_| len >= 2 * bytes) else { return vec![(0..len, self)] };
        let all = self.ranges[outer].clone();
        let row = len / all.len();
        let step = (bytes / row).max(1);
        let cut = all.clone().step_by(step).map(|start| {
            let end = all.end.min(start + step);
            let mut ranges = self.ranges.to_vec();
            ranges[outer] = start..end;
            let within = (start - all.start) * row..(end - all.start) * row;
            (
                within,
                Self {
                    ranges: Cow::Owned(ranges),
                    strides: self.strides.clone(),
                    shape: self.shape.clone(),
                    to: self.to.clone(),
                    ..self
                },
            )
        });
        cut.collect()
    }

    /// Returns the length of a run in bytes.
    pub(super) fn run_bytes(&self) -> usize {
        self.runs().len
    }

    /// Returns the length of the part in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).product::<usize>() * self.element
    }

    /// Returns the part with its elements in memory in the order in which they are stored.
    pub(super) fn in_stored_order(&self) -> Self {
        Self { to: Some((0, self.packed_strides())), ..self.clone() }
    }

    /// Returns the part as it is stored if only its elements are, in the same order.
    pub(super) fn packed(&self) -> Self {
        let lens: Vec<usize> = self.ranges.iter().map(ExactSizeIterator::len).collect();
        let ranges = lens.iter().map(|len| 0..*len).collect();
        Self {
            strides: self.packed_strides(),
            shape: Cow::Owned(lens.into()),
            ranges: Cow::Owned(ranges),
            ..self.clone()
        }
    }

    /// Returns the strides of the elements in the order in which they are stored, without gaps.
    fn packed_strides(&self) -> Vec<usize> {
        let dims = sorted::values((0..self.ranges.len()).collect(), &mut |one: &usize, other| {
            self.strides[*one].cmp(&self.strides[*other])
        });
        let (mut strides, mut stride) = (vec![0; dims.len()], 1);
        for dim in dims {
            strides[dim] = stride;
            stride *= self.ranges[dim].len();
        }
        strides
    }

    /// Divides a part with a place in memory in two, along the dim whose neighbours are stored farthest from each other, as
    /// long as it is not short.
    pub(super) fn halves(&self) -> Option<[Self; 2]> {
        /// Copies go by tiles of so many elements.
        const SHORT: usize = 2 * TILE;

        let (first, to) = self.to.as_ref()?;
        let dims = (0..self.ranges.len()).filter(|dim| self.ranges[*dim].len() > 1);
        let dim = dims.max_by_key(|dim| (self.ranges[*dim].len() > SHORT, self.strides[*dim]))?;
        let Range { start, end } = self.ranges[dim];
        let middle = start + (end - start) / 2;
        let half = |range: Range<usize>| {
            let mut ranges = self.ranges.to_vec();
            let to = (first + (range.start - start) * to[dim], to.clone());
            ranges[dim] = range;
            Self { ranges: Cow::Owned(ranges), to: Some(to), ..self.clone() }
        };
        Some([half(start..middle), half(middle..end)])
    }

    /// Returns the bytes of a whole row as it is stored: of all elements along the innermost dim.
    fn row_bytes(&self) -> usize {
        let innermost = self.strides.iter().zip(self.shape.iter()).filter(|(_, dim)| **dim > 1).min();
        // The dims of an empty tensor can be so large that the bytes of a row overflow.
        innermost.map_or(1, |(_, dim)| *dim).saturating_mul(self.element)
    }
}

/// A run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The offset in the payload.
    pub(crate) from: usize,
    /// The offset in the part.
    pub(crate) to: usize,
}

/// The byte runs of a part, in stored order. All runs have the same length.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    /// The length of a run in bytes.
    pub(crate) len: usize,
    /// The dims outside of runs, outermost first: their lengths, and the bytes between two elements in the payload and
    /// in the part.
    dims: Vec<(usize, usize, usize)>,
    indices: Vec<usize>,
    next: Run,
    left: usize,
}

impl Runs {
    fn new(part: &TensorSlice<'_>) -> Self {
        if part.ranges.iter().any(Range::is_empty) {
            // The remaining dims can be so large that their product overflows.
            return Self { len: 0, dims: Vec::new(), indices: Vec::new(), next: Run { from: 0, to: 0 }, left: 0 };
        }
        let (first, to) = part.to.clone().unwrap_or_else(|| {
            (0, part.ranges.iter().map(ExactSizeIterator::len).collect::<Shape>().row_major_strides())
        });
        // A dim of one element has no place in the order.
        let dims = (0..to.len())
            .filter(|&dim| part.ranges[dim].len() != 1)
            .map(|dim| (part.ranges[dim].len(), part.strides[dim] * part.element, to[dim] * part.element))
            .collect();
        let mut dims: Vec<(usize, usize, usize)> = sorted::values(dims, &mut |one, other| other.1.cmp(&one.1));
        let mut len = part.element;
        // Inner dims contiguous on both sides form one run.
        while let Some(&(dim, from, to)) = dims.last()
            && from == len
            && to == len
        {
            len *= dim;
            dims.pop();
        }
        let start: usize = part.ranges.iter().zip(&part.strides).map(|(range, stride)| range.start * stride).sum();
        let left = dims.iter().map(|(dim, ..)| dim).product();
        let next = Run { from: start * part.element, to: first * part.element };
        Self { len, indices: vec![0; dims.len()], dims, next, left }
    }

    /// Returns the next run, which stays the next.
    pub(crate) fn first(&self) -> Option<Run> {
        (self.left > 0).then_some(self.next)
    }

    /// Returns the only run of a contiguous part.
    pub(crate) fn single(&self) -> Option<Run> {
        (self.left == 1).then_some(self.next)
    }

    /// Copies the next `count` runs from the bytes of the payload from `start` on to `part`.
    pub(crate) fn copy(&mut self, count: usize, start: usize, payload: &[u8], part: &mut [u8]) {
        let len = self.len;
        if count == self.left {
            match len {
                1 => return self.copy_all::<1>(start, payload, part),
                2 => return self.copy_all::<2>(start, payload, part),
                4 => return self.copy_all::<4>(start, payload, part),
                8 => return self.copy_all::<8>(start, payload, part),
                _ => {}
            }
        }
        for run in self.take(count) {
            part[run.to..run.to + len].copy_from_slice(&payload[run.from - start..][..len]);
        }
    }
}

impl Runs {
    /// Copies all runs that are left, of `LEN` bytes each.
    // Elements one by one, in the order in which they are stored, took four times as long: for a transpose, each is
    // written to another line of the cache. A tile has lines of both.
    fn copy_all<const LEN: usize>(&mut self, start: usize, payload: &[u8], part: &mut [u8]) {
        let is_at_start = self.indices.iter().all(|index| *index == 0);
        let Some(inner) = self.dims.len().checked_sub(1).filter(|_| is_at_start) else {
            for run in self {
                part[run.to..run.to + LEN].copy_from_slice(&payload[run.from - start..][..LEN]);
            }
            return;
        };
        // The dims of a tile: neighbours as stored, and neighbours in the part.
        let other = (0..inner).min_by_key(|dim| self.dims[*dim].2);
        let ((count, from, to), (rows, from_row, to_row)) =
            (self.dims[inner], other.map_or((1, 0, 0), |other| self.dims[other]));
        let outer: Vec<(usize, usize, usize)> =
            (0..inner).filter(|dim| Some(*dim) != other).map(|dim| self.dims[dim]).collect();
        let tiles: usize = outer.iter().map(|(len, ..)| len).product();
        for number in 0..tiles {
            let (mut rest, mut base, mut place) = (number, self.next.from - start, self.next.to);
            for (len, from, to) in outer.iter().rev() {
                (base, place) = (base + rest % len * from, place + rest % len * to);
                rest /= len;
            }
            let is_transpose = from == LEN && to_row == LEN;
            for first_row in (0..rows).step_by(TILE) {
                let tile_rows = first_row..rows.min(first_row + TILE);
                for first in (0..count).step_by(TILE) {
                    let tile = first..count.min(first + TILE);
                    let from_place = |i: usize, row: usize| base + i * from + row * from_row;
                    let to_place = |i: usize, row: usize| place + i * to + row * to_row;
                    if is_transpose {
                        transpose_tile::<LEN>(
                            [tile.len(), tile_rows.len()],
                            (&payload[from_place(first, first_row)..], from_row),
                            (&mut part[to_place(first, first_row)..], to),
                        );
                        continue;
                    }
                    for i in tile {
                        for row in tile_rows.clone() {
                            let (from, to) = (from_place(i, row), to_place(i, row));
                            part[to..to + LEN].copy_from_slice(&payload[from..from + LEN]);
                        }
                    }
                }
            }
        }
        self.left = 0;
    }
}

/// Copies a tile of neighbouring elements from lines of the payload to lines of the part, which have a distance in bytes.
///
/// Lines are read and written whole, because they are in the same sets of the cache.
fn transpose_tile<const LEN: usize>(
    [columns, rows]: [usize; 2],
    (payload, from_row): (&[u8], usize),
    (part, to): (&mut [u8], usize),
) {
    let mut held = [[[0_u8; LEN]; TILE]; TILE];
    if [columns, rows] == [TILE; 2] {
        for (row, held) in held.iter_mut().enumerate() {
            let line = payload[row * from_row..].as_chunks::<LEN>().0;
            *held = *line.first_chunk().expect("the tile has a line");
        }
        for (column, turned) in turned(&held).iter().enumerate() {
            let line = part[column * to..].as_chunks_mut::<LEN>().0;
            *line.first_chunk_mut().expect("the tile has a line") = *turned;
        }
        return;
    }
    for (row, held) in held.iter_mut().enumerate().take(rows) {
        let line = payload[row * from_row..][..columns * LEN].as_chunks::<LEN>().0;
        held[..columns].copy_from_slice(line);
    }
    for column in 0..columns {
        let line = part[column * to..][..rows * LEN].as_chunks_mut::<LEN>().0;
        line.iter_mut().zip(&held).for_each(|(element, held)| *element = held[column]);
    }
}

/// Returns the columns of a tile.
// Elements of one or two bytes one by one took two to three times as long as squares, which processors turn in registers.
fn turned<const LEN: usize>(lines: &[[[u8; LEN]; TILE]; TILE]) -> [[[u8; LEN]; TILE]; TILE] {
    const SQUARE: usize = 4;

    let mut columns = [[[0; LEN]; TILE]; TILE];
    for (row, lines) in lines.as_chunks::<SQUARE>().0.iter().enumerate() {
        for (column, columns) in columns.as_chunks_mut::<SQUARE>().0.iter_mut().enumerate() {
            let square = lines.each_ref().map(|line| line.as_chunks::<SQUARE>().0[column]);
            for (i, to) in columns.iter_mut().enumerate() {
                to.as_chunks_mut().0[row] = square.map(|line| line[i]);
            }
        }
    }
    columns
}

impl Iterator for Runs {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        self.left = self.left.checked_sub(1)?;
        let run = self.next;
        for ((len, from, to), index) in self.dims.iter().zip(&mut self.indices).rev() {
            *index += 1;
            self.next.from += from;
            self.next.to += to;
            if *index < *len {
                break;
            }
            *index = 0;
            self.next.from -= len * from;
            self.next.to -= len * to;
        }
        Some(run)
    }
}

/// Returns a shape and ranges of it with the last dim in blocks.
fn in_blocks(tensor: &TensorInfo, ranges: &[Range<usize>]) -> Result<(Shape, Vec<Range<usize>>)> {
    let block = tensor.dtype.block_elements();
    let (mut dims, mut ranges) = (tensor.shape.dims().to_vec(), ranges.to_vec());
    if let (Some(dim), Some(range)) = (dims.last_mut(), ranges.last_mut()) {
        if ![*dim, range.start, range.end].iter().all(|i| i.is_multiple_of(block)) {
            let instead = format!("{tensor} has blocks of {block} elements along the last dim, which are read whole");
            return Err(unsupported(format!("take the range {range:?} of {dim}"), instead));
        }
        *dim /= block;
        *range = range.start / block..range.end / block;
    }
    Ok((dims.into(), ranges))
}

fn check(shape: &Shape, ranges: &[Range<usize>]) -> Result<()> {
    if ranges.len() != shape.rank() {
        let many = if ranges.len() == 1 { "" } else { "s" };
        let instead = format!("the shape is {shape}, of rank {}", shape.rank());
        return Err(unsupported(format!("take {} range{many}", ranges.len()), instead));
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
    use crate::tensor::Dtype;

    fn info(dims: &[usize], order: &[u8]) -> TensorInfo {
        let layout = Layout::from_dim_order(order).unwrap();
        TensorInfo { dtype: Dtype::U8, shape: Shape::new(dims), layout }
    }

    /// The runs of a part of a tensor of bytes: their length, and their offsets in the payload and in the part.
    fn runs(dims: &[usize], order: &[u8], ranges: &[Range<usize>]) -> (usize, Vec<(usize, usize)>) {
        let info = info(dims, order);
        let runs = TensorSlice::new(&info, Cow::Borrowed(ranges)).unwrap().runs();
        (runs.len, runs.map(|run| (run.from, run.to)).collect())
    }

    #[test]
    fn whole_inner_dims_are_one_run() {
        assert_eq!(runs(&[4, 2, 3], &[0, 1, 2], &[1..3, 0..2, 0..3]), (12, vec![(6, 0)]));
        assert_eq!(runs(&[4, 2, 3], &[0, 1, 2], &[1..3, 0..1, 0..3]), (3, vec![(6, 0), (12, 3)]));
        assert_eq!(runs(&[4, 2, 3], &[0, 1, 2], &[3..4, 1..2, 1..2]), (1, vec![(22, 0)]));
        assert_eq!(runs(&[2, 2], &[1, 0], &[0..2, 0..2]), (1, vec![(0, 0), (1, 2), (2, 1), (3, 3)]));
        assert_eq!(runs(&[2, 0], &[0, 1], &[0..2, 0..0]).1, []);
        assert_eq!(runs(&[2, 3], &[0, 1], &[1..1, 0..3]).1, []);
        assert_eq!(runs(&[], &[], &[]), (1, vec![(0, 0)]));
    }

    #[test]
    fn blocks_are_read_whole() {
        let info = TensorInfo::new(Dtype::F6E2M3, [3, 8]);
        let part = |range: Range<usize>| {
            TensorSlice::new(&info, vec![1..3, range.clone()].into()).map(|part| (part.shape(), part.runs().len))
        };
        assert_eq!(part(0..8).unwrap(), (Shape::new(&[2, 8]), 12));
        assert_eq!(part(4..8).unwrap(), (Shape::new(&[2, 4]), 3));
        assert_eq!(
            part(4..6).unwrap_err().to_string(),
            "cannot take the range 4..6 of 8; f6_e2m3[3, 8] has blocks of 4 elements along the last dim, which are read whole"
        );
        let ranges = [1..3, 4..8];
        let part = TensorSlice::new(&info, Cow::Borrowed(&ranges)).unwrap();
        let mut found = [0; 6];
        part.copy_from(&(0..18).collect::<Vec<u8>>(), 0, &mut found);
        assert_eq!(found, [9, 10, 11, 15, 16, 17]);
        let uneven = TensorInfo::new(Dtype::F4, [4, 3]);
        assert!(TensorSlice::new(&uneven, vec![0..2, 0..3].into()).is_err(), "rows are not whole blocks");
    }

    #[test]
    fn empty_parts_of_huge_dims_have_no_runs() {
        let huge = usize::MAX / 2;
        assert_eq!(runs(&[huge, huge, 0], &[0, 1, 2], &[0..huge, 1..huge, 0..0]).1, []);
        assert_eq!(runs(&[0, huge, huge], &[2, 0, 1], &[0..0, 1..huge, 0..huge]).1, []);
        let mut calls = 0;
        let info = TensorInfo { dtype: Dtype::F64, ..info(&[huge, huge, 0], &[0, 1, 2]) };
        let ranges = [0..huge, 0..huge, 0..0];
        let part = TensorSlice::new(&info, Cow::Borrowed(&ranges)).unwrap();
        let mut count = |_: usize, _: &mut [u8]| {
            calls += 1;
            Ok(())
        };
        part.read(&Merging::LOCAL, &mut count, &mut []).unwrap();
        assert_eq!(calls, 0);
    }

    /// Reads a part of a tensor of bytes, compares it with the elements one by one, and returns the number of calls and
    /// of bytes read.
    fn read(dims: &[usize], order: &[u8], ranges: &[Range<usize>]) -> (usize, usize) {
        let info = info(dims, order);
        let payload: Vec<u8> = (0..=250).cycle().take(info.payload_bytes().unwrap()).collect();
        let part = TensorSlice::new(&info, Cow::Borrowed(ranges)).unwrap();
        let mut found = vec![0; part.shape().elements().unwrap()];
        let (mut calls, mut bytes) = (0, 0);
        let mut from_payload = |offset: usize, into: &mut [u8]| {
            into.copy_from_slice(&payload[offset..offset + into.len()]);
            (calls, bytes) = (calls + 1, bytes + into.len());
            Ok(())
        };
        part.read(&Merging::LOCAL, &mut from_payload, &mut found).unwrap();
        let expected: Vec<u8> = (0..found.len())
            .map(|mut i| {
                let dims = part.shape.dims().iter().zip(ranges).zip(&part.strides).rev();
                let offset: usize = dims
                    .map(|((_, range), stride)| {
                        let index = range.start + i % range.len();
                        i /= range.len();
                        index * stride
                    })
                    .sum();
                payload[offset]
            })
            .collect();
        assert!(found == expected, "{dims:?} in order {order:?}, {ranges:?}");
        found.fill(0);
        part.copy_from(&payload, 0, &mut found);
        assert!(found == expected, "{dims:?} in order {order:?}, {ranges:?}, from memory");
        (calls, bytes)
    }

    #[test]
    fn runs_near_to_each_other_are_read_with_one_call() {
        let columns = read(&[1000, 1000], &[0, 1], &[0..1000, 10..20]);
        assert_eq!(columns, (1, 999_010), "the rows touched are the whole tensor");
        assert_eq!(read(&[1000, 1000], &[0, 1], &[100..110, 10..20]), (1, 9010));
        assert_eq!(read(&[1000, 1000], &[1, 0], &[100..110, 10..20]), (1, 9010), "column-major");
        assert_eq!(read(&[1000, 1000], &[1, 0], &[0..1000, 10..20]), (1, 10_000), "columns as they are stored");
        assert_eq!(read(&[20, 100_000], &[0, 1], &[0..20, 10..20]), (20, 200), "rows are far from each other");
        assert_eq!(read(&[100, 4, 1000], &[0, 1, 2], &[0..100, 0..1, 0..10]), (100, 1000), "so are planes");
        assert_eq!(read(&[100, 4, 1000], &[0, 1, 2], &[0..100, 0..2, 0..10]), (100, 101_000), "two rows each");
        assert_eq!(read(&[4000, 1000], &[0, 1], &[0..4000, 0..999]).0, 4, "windows are bounded");
    }

    #[test]
    fn no_part_reads_more_than_twice_its_rows() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for dims in [[30_usize, 20, 40], [3, 1, 5000], [2, 4000, 9], [200, 7, 1], [5, 60, 70]] {
                for parts in 1..5 {
                    let ranges = dims.map(|dim| dim / (parts + 1)..dim.div_ceil(parts));
                    let (_, bytes) = read(&dims, &order, &ranges);
                    // The innermost dim with a stride, and all indices of the remaining dims.
                    let innermost = order.iter().rev().map(|dim| usize::from(*dim)).find(|dim| dims[*dim] > 1).unwrap();
                    let others = (0..3).filter(|dim| *dim != innermost).map(|dim| ranges[dim].len());
                    let rows = others.product::<usize>() * dims[innermost];
                    assert!(bytes <= 2 * rows, "{bytes} bytes for rows of {rows}: {dims:?}, {order:?}, {ranges:?}");
                }
            }
        }
    }
}
