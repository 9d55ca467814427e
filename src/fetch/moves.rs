//! Tensors put together from elements in other places: the chunks of a tensor, or the tensors of another layout.

use std::ops::Range;
use std::sync::Arc;

use super::blocks::{BlockCache, BlockKey, MOST_HELD, SharedBlocks};
use super::piece::{merging, read_part};
use super::slice::TensorSlice;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{FileStorage, GatherBytes, Wanted};
use crate::tensor::{Shape, try_zeros};
use crate::threads;

/// The moves of a tensor, which make each element at most once. Other elements are zeros.
#[derive(Debug)]
pub(crate) struct Moves {
    /// The size of an element in bytes.
    element: usize,
    shape: Shape,
    /// In order of their first elements.
    moves: Vec<PlacedMove>,
    bytes: u64,
    is_padded: bool,
    checks: Vec<MoveCheck>,
    /// Reads whole blocks, where parts of one would read the same bytes again.
    blocks: Option<BlockCache>,
    /// What is read from a disk for parts of a block.
    disk_blocks: DiskBlocks,
}

/// A box of elements of a tensor, and where they are stored. A dim may be divided into several axes.
#[derive(Debug, Clone)]
pub(crate) struct TensorMove {
    /// The offset of the first element in the files.
    pub(crate) start: u64,
    /// The index of the first element in each dim of the tensor.
    pub(crate) offsets: Vec<usize>,
    /// The axes of the box. Those of each dim follow each other, outermost first.
    pub(crate) axes: Vec<MoveAxis>,
}

/// An axis of a [`TensorMove`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MoveAxis {
    /// The dim of the tensor.
    pub(crate) dim: usize,
    pub(crate) len: usize,
    /// The distance between neighbours in the dim.
    pub(crate) target: usize,
    /// The distance between neighbours as stored, in elements.
    pub(crate) source: usize,
}

/// A check of stored elements that no tensor has, made when the last element before them is read.
#[derive(Debug, Clone)]
pub(crate) struct MoveCheck {
    /// The element of the tensor whose reading makes the check.
    pub(crate) at: usize,
    pub(crate) kind: MoveCheckKind,
    /// The tensor as stored.
    pub(crate) name: String,
    /// The line of the map that leaves the elements out.
    pub(crate) line: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum MoveCheckKind {
    /// The elements at these places are zeros: axes with lengths and distances, from an offset on.
    Zeros { start: u64, axes: Vec<(usize, usize)> },
    /// The bytes of two ranges are equal. The second tensor has the name.
    Equal([Range<u64>; 2]),
}

/// A move, and the first and the last of its elements in the tensor.
#[derive(Debug)]
struct PlacedMove {
    first: usize,
    last: usize,
    /// The last element of this move and those before it.
    reach: usize,
    lens: Shape,
    strides: Vec<usize>,
    moved: TensorMove,
}

/// How elements are read from a disk if they are stored in another order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskBlocks {
    /// One by one, in long runs.
    Runs,
    /// All that is stored for a move is held, and elements are taken from it.
    Stored,
    /// A move is too long for that, so blocks are held.
    Blocks,
}

/// Shorter runs are read with what is between them, in bytes.
const SHORT_RUN: usize = 2 << 10;

/// Fills memory with a box of elements, given by a range of each dim.
pub(crate) type ReadBox<'r> = &'r mut dyn FnMut(&[Range<usize>], &mut [u8]) -> Result<()>;

/// Takes a range of each dim, and the place of its bytes.
pub(crate) type EachBox<'e> = &'e mut dyn FnMut(&[Range<usize>], Range<usize>) -> Result<()>;

impl TensorMove {
    /// A chunk of a tensor: a box of its indices.
    pub(crate) fn chunk(start: u64, offsets: &Shape, shape: &Shape, strides: &[usize]) -> Self {
        let axis =
            |(dim, (len, source)): (usize, (&usize, &usize))| MoveAxis { dim, len: *len, target: 1, source: *source };
        let axes = shape.iter().zip(strides).enumerate().map(axis).collect();
        Self { start, offsets: offsets.dims().to_vec(), axes }
    }

    /// All elements of axes with lengths and distances, in order, from an offset on.
    pub(crate) fn rows(start: u64, axes: &[(usize, usize)]) -> Self {
        let axis =
            |(dim, (len, source)): (usize, &(usize, usize))| MoveAxis { dim, len: *len, target: 1, source: *source };
        Self { start, offsets: vec![0; axes.len()], axes: axes.iter().enumerate().map(axis).collect() }
    }

    /// Copies the elements from a payload to a tensor with these strides.
    pub(crate) fn copy(&self, element: usize, strides: &[usize], payload: &[u8], tensor: &mut [u8]) {
        let (lens, sources): (Vec<usize>, Vec<usize>) = self.axes.iter().map(|axis| (axis.len, axis.source)).unzip();
        let (ranges, lens) = (lens.iter().map(|len| 0..*len).collect(), Shape::from(lens));
        let to = (self.bounds(strides).0, self.axes.iter().map(|axis| axis.target * strides[axis.dim]).collect());
        let start = usize::try_from(self.start).unwrap_or(usize::MAX);
        TensorSlice::within(element, (&lens, &sources), ranges, to).copy_from(&payload[start..], 0, tensor);
    }

    /// Joins neighbouring axes that are one in the tensor and as stored, and leaves out those of one element.
    pub(crate) fn join(&mut self) {
        let mut axes = Vec::<MoveAxis>::with_capacity(self.axes.len());
        for axis in self.axes.drain(..).filter(|axis| axis.len != 1) {
            match axes.last_mut() {
                Some(last)
                    if last.dim == axis.dim
                        && last.target == axis.target * axis.len
                        && last.source == axis.source * axis.len =>
                {
                    *last = MoveAxis { len: last.len * axis.len, ..axis };
                }
                _ => axes.push(axis),
            }
        }
        self.axes = axes;
    }

    /// Returns the number of elements.
    pub(crate) fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
    }

    /// Returns the first and the last element in a row-major tensor with these strides.
    pub(crate) fn bounds(&self, strides: &[usize]) -> (usize, usize) {
        let first: usize = self.offsets.iter().zip(strides).map(|(offset, stride)| offset * stride).sum();
        let span: usize = self.axes.iter().map(|axis| (axis.len - 1) * axis.target * strides[axis.dim]).sum();
        (first, first + span)
    }

    /// Returns whether the elements are one run, in the order of the tensor.
    pub(crate) fn is_run(&self, strides: &[usize]) -> bool {
        self.axes.iter().all(|axis| axis.source == axis.target * strides[axis.dim])
    }

    /// Returns the number of neighbouring elements that are neighbours as stored too.
    fn run_elements(&self, strides: &[usize]) -> usize {
        let mut axes: Vec<(usize, &MoveAxis)> =
            self.axes.iter().map(|axis| (axis.target * strides[axis.dim], axis)).collect();
        axes.sort_unstable_by_key(|(target, _)| *target);
        let mut run = 1;
        for (target, axis) in axes {
            if (target, axis.source) != (run, run) {
                break;
            }
            run *= axis.len;
        }
        run
    }

    /// Returns the number of bytes of a row-major tensor to read together, because parts of them are stored among each
    /// other. `None` if they are few, or in the same order as in the tensor.
    fn block(&self, strides: &[usize], element: usize) -> Option<usize> {
        /// Fewer bytes are read together anyway.
        const LEAST: usize = 64 << 10;
        const MOST: usize = MOST_HELD;

        let mut axes: Vec<(usize, usize)> =
            self.axes.iter().map(|axis| (axis.target * strides[axis.dim], axis.source)).collect();
        axes.sort_unstable_by(|one, other| other.cmp(one));
        // Indices of the first axes have elements in the same order, and apart from each other.
        let is_in_order = |at: &usize| axes[at + 1..].iter().all(|(_, inner)| *inner < axes[*at].1);
        let ordered = (0..axes.len()).take_while(is_in_order).count();
        if ordered == axes.len() {
            return None;
        }
        let (first, last) = self.bounds(strides);
        let whole = ordered.checked_sub(1).map_or(last + 1 - first, |outer| axes[outer].0) * element;
        if whole <= LEAST {
            return None;
        }
        if whole <= MOST {
            return Some(whole * (MOST / 32 / whole).max(1));
        }
        let row = axes[ordered..].iter().map(|(target, _)| target * element).find(|row| *row <= MOST)?;
        Some(MOST / row * row)
    }

    /// Calls `each` with the boxes of the axes of a dim whose indices are in a range.
    fn boxes_in(&self, dim: usize, range: &Range<usize>, each: &mut dyn FnMut(&[Range<usize>])) {
        let axes: Vec<&MoveAxis> = self.axes.iter().filter(|axis| axis.dim == dim).collect();
        let offset = self.offsets[dim];
        let (start, end) = (range.start.saturating_sub(offset), range.end.saturating_sub(offset));
        if let [axis] = axes[..] {
            let range = start.div_ceil(axis.target)..end.div_ceil(axis.target).min(axis.len);
            if !range.is_empty() {
                each(&[range]);
            }
            return;
        }
        // The number of elements before an index of the dim: they are in its order.
        let before = |index: usize| {
            let (mut rest, mut inside) = (index, axes.iter().map(|axis| axis.len).product::<usize>());
            let mut count = 0;
            for axis in &axes {
                inside /= axis.len;
                let whole = rest / axis.target;
                if whole >= axis.len {
                    return count + axis.len * inside;
                }
                count += whole * inside;
                rest -= whole * axis.target;
            }
            count + usize::from(rest > 0)
        };
        let (from, to) = (before(start), before(end));
        let lens: Shape = axes.iter().map(|axis| axis.len).collect();
        if from < to {
            let found = boxes(&lens, 1, from as u64, to - from, &mut |ranges, _| {
                each(ranges);
                Ok(())
            });
            found.expect("nothing is read");
        }
    }
}

impl PlacedMove {
    /// Returns the number of bytes from the first element to the end of the last one, as stored.
    fn stored_bytes(&self, element: usize) -> usize {
        let last: usize = self.moved.axes.iter().map(|axis| (axis.len - 1) * axis.source).sum();
        (last + 1) * element
    }
}

impl Moves {
    /// The moves of a tensor of `bytes` bytes.
    pub(crate) fn new(element: usize, shape: Shape, moves: Vec<TensorMove>, bytes: u64) -> Self {
        let strides = shape.row_major_strides();
        let placed = |moved: TensorMove| {
            let (first, last) = moved.bounds(&strides);
            let (lens, strides) = moved.axes.iter().map(|axis| (axis.len, axis.source)).unzip::<_, _, Vec<_>, _>();
            PlacedMove { first, last, reach: last, lens: lens.into(), strides, moved }
        };
        let mut moves: Vec<PlacedMove> = moves.into_iter().map(placed).collect();
        moves.sort_by_key(|moved| moved.first);
        let mut reach = 0;
        for moved in &mut moves {
            reach = moved.reach.max(reach);
            moved.reach = reach;
        }
        Self {
            element,
            shape,
            moves,
            bytes,
            is_padded: false,
            checks: Vec::new(),
            blocks: None,
            disk_blocks: DiskBlocks::Runs,
        }
    }

    /// Adds zeros for the elements that no move makes, and checks. `blocks` holds blocks of several tensors.
    pub(crate) fn with(mut self, is_padded: bool, checks: Vec<MoveCheck>, blocks: &Arc<SharedBlocks>) -> Self {
        (self.is_padded, self.checks) = (is_padded, checks);
        let strides = self.shape.row_major_strides();
        let block = self.moves.iter().filter_map(|placed| placed.moved.block(&strides, self.element)).max();
        self.blocks = block.map(|block| BlockCache::new(block, self.bytes, blocks));
        let mut runs = self.moves.iter().map(|placed| placed.moved.run_elements(&strides) * self.element);
        if runs.any(|run| run < SHORT_RUN) {
            let is_held = |placed: &PlacedMove| {
                let (stored, bytes) = (placed.stored_bytes(self.element), placed.moved.elements() * self.element);
                stored <= MOST_HELD.min(2 * bytes)
            };
            let is_short = self.moves.iter().all(is_held);
            self.disk_blocks = if is_short { DiskBlocks::Stored } else { DiskBlocks::Blocks };
        }
        self
    }

    /// Calls `each` with the parts of a box: the position of their move, and the part of it to read.
    fn each_part(
        &self,
        ranges: &[Range<usize>],
        each: &mut dyn FnMut(usize, &TensorSlice<'_>) -> Result<()>,
    ) -> Result<()> {
        if ranges.iter().any(Range::is_empty) {
            return Ok(());
        }
        let to = ranges.iter().map(ExactSizeIterator::len).collect::<Shape>().row_major_strides();
        let strides = self.shape.row_major_strides();
        let element = |of: fn(&Range<usize>) -> usize| -> usize {
            ranges.iter().zip(&strides).map(|(range, stride)| of(range) * stride).sum()
        };
        let (first, last) = (element(|range| range.start), element(|range| range.end - 1));
        let from = self.moves.partition_point(|moved| moved.reach < first);
        let end = self.moves.partition_point(|moved| moved.first <= last);
        for position in from..end.max(from) {
            let PlacedMove { lens, strides, moved, last, .. } = &self.moves[position];
            if *last < first {
                continue;
            }
            let mut found = vec![Vec::with_capacity(moved.axes.len())];
            for (dim, range) in ranges.iter().enumerate() {
                let mut next = Vec::new();
                if !moved.axes.iter().any(|axis| axis.dim == dim) {
                    if !range.contains(&moved.offsets[dim]) {
                        found.clear();
                    }
                    continue;
                }
                moved.boxes_in(dim, range, &mut |own| {
                    next.extend(found.iter().map(|outer: &Vec<Range<usize>>| [outer, own].concat()));
                });
                found = next;
            }
            let place = |axis: &MoveAxis| axis.target * to[axis.dim];
            for own in found {
                let inside: usize = own.iter().zip(&moved.axes).map(|(range, axis)| range.start * place(axis)).sum();
                let outside: usize = moved.offsets.iter().zip(&to).map(|(offset, to)| offset * to).sum();
                let before: usize = ranges.iter().zip(&to).map(|(range, to)| range.start * to).sum();
                let to = (outside + inside - before, moved.axes.iter().map(place).collect());
                each(position, &TensorSlice::within(self.element, (lens, strides), own, to))?;
            }
        }
        Ok(())
    }

    /// Fills a box of elements. `held` holds what is stored for a move.
    fn read_box(
        &self,
        files: &FileStorage,
        ranges: &[Range<usize>],
        held: Option<&BlockCache>,
        bytes: &mut [u8],
    ) -> Result<()> {
        if self.is_padded {
            bytes.fill(0);
        }
        let mut memories = Vec::new();
        self.each_part(ranges, &mut |position, part| {
            let (start, len) = (self.moves[position].moved.start, self.moves[position].stored_bytes(self.element));
            let Some(held) = held.filter(|_| files.borrow(start, len as u64).is_none()) else {
                return read_moved(files, start, part, bytes, &mut memories);
            };
            let mut fill = |memory: &mut [u8]| files.read_at(start, memory);
            held.with_held(BlockKey::Stored(position), len, &mut fill, &mut |stored| part.copy_from(stored, 0, bytes))
        })?;
        self.checks
            .iter()
            .filter(|check| check.is_due(ranges, &self.shape))
            .try_for_each(|check| check.run(self.element, files))
    }
}

/// Reads a part of the payload that begins at `start`. Short runs are read together with their neighbours as stored, and copied
/// in memory. Several threads read a long part.
fn read_moved(
    files: &FileStorage,
    start: u64,
    part: &TensorSlice<'_>,
    bytes: &mut [u8],
    memories: &mut Vec<PieceMemory>,
) -> Result<()> {
    /// Longer runs are read one by one, or in windows.
    const SHORT: usize = 256;

    if files.takes_requests(start) || part.run_bytes() >= SHORT {
        return read_part(files, start, part, bytes);
    }
    let (first, len) = part.place(start);
    if let Some(found) = files.borrow(first, len) {
        part.copy_from(found?, part.bounds().start, bytes);
        return Ok(());
    }
    let mut pieces = Vec::new();
    divide(part.clone(), &mut pieces);
    let read =
        |number: usize, memory: &mut PieceMemory| memory.failed = memory.read(files, start, &pieces[number]).err();
    let mut rest = pieces.iter();
    let read_bytes = pieces.iter().map(|piece| piece.bounds().len()).sum();
    threads::in_order(memories, pieces.len(), read_bytes, &read, &mut |memory| match memory.failed.take() {
        Some(error) => Err(error),
        None => {
            rest.next().into_iter().for_each(|piece| memory.copy(piece, bytes));
            Ok(())
        }
    })
}

/// Divides a part of a payload into pieces that are read one by one.
fn divide<'p>(part: TensorSlice<'p>, pieces: &mut Vec<TensorSlice<'p>>) {
    /// A processor's cache holds these bytes until they are copied.
    const MOST: usize = 256 << 10;

    let is_long = part.bytes() > MOST || !has_gaps(&part) && part.bounds().len() > 2 * MOST;
    match part.halves().filter(|_| is_long) {
        Some(halves) => halves.into_iter().for_each(|half| divide(half, pieces)),
        None => pieces.push(part),
    }
}

/// Returns whether the elements of a part are so far from each other that their runs are read one by one.
fn has_gaps(part: &TensorSlice<'_>) -> bool {
    /// Copying so many bytes takes as long as one more call of the system.
    const GAP: usize = 4 << 10;

    let (bounds, needed) = (part.bounds().len(), part.bytes());
    bounds - needed > needed / part.in_stored_order().run_bytes() * GAP
}

/// Memory for a piece of a payload.
#[derive(Default)]
struct PieceMemory {
    bytes: Vec<u8>,
    failed: Option<Error>,
}

impl PieceMemory {
    fn read(&mut self, files: &FileStorage, start: u64, piece: &TensorSlice<'_>) -> Result<()> {
        if !has_gaps(piece) {
            self.bytes.resize(piece.bounds().len(), 0);
            return files.read_alone(piece.place(start).0, &mut self.bytes);
        }
        let runs = piece.in_stored_order().runs();
        self.bytes.resize(piece.bytes(), 0);
        let len = runs.len;
        runs.zip(self.bytes.chunks_exact_mut(len))
            .try_for_each(|(run, memory)| files.read_alone(start.saturating_add(run.from as u64), memory))
    }

    fn copy(&self, piece: &TensorSlice<'_>, bytes: &mut [u8]) {
        if has_gaps(piece) {
            piece.packed().copy_from(&self.bytes, 0, bytes);
        } else {
            piece.copy_from(&self.bytes, piece.bounds().start, bytes);
        }
    }
}

impl MoveCheck {
    /// Returns whether a box has the element that makes the check.
    fn is_due(&self, ranges: &[Range<usize>], shape: &Shape) -> bool {
        let strides = shape.row_major_strides();
        ranges
            .iter()
            .zip(&strides)
            .zip(shape.iter())
            .all(|((range, stride), dim)| range.contains(&(self.at / stride % dim)))
    }

    fn run(&self, element: usize, files: &FileStorage) -> Result<()> {
        /// The bytes that are read at once.
        const CHUNK: u64 = 1 << 20;

        let misfit = |what: String| -> Result<()> { Err(ErrorKind::Unmapped { misfits: vec![what], count: 1 }.into()) };
        let (name, line) = (&self.name, self.line);
        match &self.kind {
            MoveCheckKind::Equal([one, two]) => {
                let mut buffers = [Vec::new(), Vec::new()];
                for done in (0..one.end - one.start).step_by(1 << 20) {
                    let now = usize::try_from(CHUNK.min(one.end - one.start - done)).unwrap_or_default();
                    for (buffer, range) in buffers.iter_mut().zip([one, two]) {
                        buffer.resize(now, 0);
                        files.read_alone(range.start + done, buffer)?;
                    }
                    if buffers[0] != buffers[1] {
                        return misfit(format!("`{name}` differs from the tensor that it is a copy of: line {line}"));
                    }
                }
                Ok(())
            }
            MoveCheckKind::Zeros { start, axes } => {
                let (lens, strides): (Vec<usize>, Vec<usize>) = axes.iter().copied().unzip();
                let (lens, ranges): (Shape, Vec<Range<usize>>) =
                    (lens.clone().into(), lens.iter().map(|len| 0..*len).collect());
                let to = (0, lens.row_major_strides());
                let slice = TensorSlice::within(element, (&lens, &strides), ranges, to);
                for (_, part) in slice.cut(1 << 20) {
                    let count = part.ranges().iter().map(ExactSizeIterator::len).product::<usize>();
                    let mut bytes = try_zeros(count * element)?;
                    let own = part.ranges().iter().map(ExactSizeIterator::len).collect::<Shape>();
                    let part = TensorSlice::within(
                        element,
                        (&lens, &strides),
                        part.ranges().to_vec(),
                        (0, own.row_major_strides()),
                    );
                    read_part(files, *start, &part, &mut bytes)?;
                    if bytes.iter().any(|byte| *byte != 0) {
                        return misfit(format!("the padding of `{name}` is not zero: line {line} leaves it out"));
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the ranges of the files that the check reads.
    fn places(&self, element: usize) -> Vec<Range<u64>> {
        match &self.kind {
            MoveCheckKind::Equal([one, two]) => vec![one.clone(), two.clone()],
            MoveCheckKind::Zeros { start, axes } => {
                let last: usize = axes.iter().map(|(len, stride)| (len - 1) * stride).sum();
                let end = start.saturating_add(((last + 1) * element) as u64);
                std::iter::once(*start..end).collect()
            }
        }
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

impl GatherBytes for Moves {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn start(&self) -> u64 {
        self.moves.first().map_or(0, |placed| placed.moved.start)
    }

    fn places(&self) -> Vec<Range<u64>> {
        let place = |placed: &PlacedMove| {
            let start = placed.moved.start;
            start..start.saturating_add(placed.stored_bytes(self.element) as u64)
        };
        self.moves.iter().map(place).collect()
    }

    fn read(&self, files: &FileStorage, wanted: Wanted<'_>, bytes: &mut [u8]) -> Result<()> {
        let fill = |from: u64, bytes: &mut [u8], held: Option<&BlockCache>| {
            let mut read = |ranges: &[Range<usize>], bytes: &mut [u8]| self.read_box(files, ranges, held, bytes);
            fill_boxes(&self.shape, self.element, from, bytes, &mut read)
        };
        let from = match wanted {
            Wanted::Box(ranges) => return self.read_box(files, ranges, None, bytes),
            Wanted::From(from) => from,
        };
        match (&self.blocks, self.disk_blocks) {
            (Some(blocks), kind) if kind == DiskBlocks::Blocks || files.takes_requests(self.start()) => {
                blocks.read(from, bytes, &mut |from, block| fill(from, block, None))
            }
            (Some(blocks), DiskBlocks::Stored) => fill(from, bytes, Some(blocks)),
            _ => fill(from, bytes, None),
        }
    }

    fn spans(&self, files: &FileStorage, wanted: Wanted<'_>, len: usize, each: &mut dyn FnMut(Range<u64>)) {
        let mut spans_of = |ranges: &[Range<usize>]| {
            self.each_part(ranges, &mut |position, part| {
                let start = self.moves[position].moved.start;
                let offset = |within: usize| start.saturating_add(within as u64);
                let spans = part.spans(&merging(files, start));
                spans.for_each(|(span, _)| each(offset(span.start)..offset(span.end)));
                Ok(())
            })?;
            let due = self.checks.iter().filter(|check| check.is_due(ranges, &self.shape));
            due.flat_map(|check| check.places(self.element)).for_each(&mut *each);
            Ok(())
        };
        let done = match wanted {
            Wanted::Box(ranges) => spans_of(ranges),
            Wanted::From(from) => boxes(&self.shape, self.element, from, len, &mut |ranges, _| spans_of(ranges)),
        };
        done.expect("no bytes are read");
    }
}
