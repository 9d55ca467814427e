//! Writes dense tensors of any dim order in row-major order.

use std::io::{self, Write};

use bytemuck::Pod;

use super::{DimOrder, Shape};

use crate::tensor::checked_io::write_all;

/// The number of bytes to gather before writing.
const BATCH: usize = 64 << 10;

/// The memory for gathered rows.
const BLOCK: usize = 128 << 10;

/// The maximum memory for long rows, where less than a cache line of each row fits into a block.
const LONG_ROWS: usize = 4 << 20;

/// The usual size of cache lines. Reading one byte takes as long as reading all.
const CACHE_LINE: usize = 64;

/// Writes the elements of a dense tensor in row-major order.
///
/// `bytes` holds the elements of the shape in the given dim order, of `element` bytes each. Long runs in row-major
/// order are written without a copy, all other elements in batches of up to 64 KiB. Transposing takes 128 KiB of
/// memory, and up to 4 MiB for long rows.
pub(crate) fn write_row_major(
    bytes: &[u8],
    element: usize,
    shape: &Shape,
    order: &DimOrder,
    out: &mut dyn Write,
) -> io::Result<()> {
    debug_assert_eq!(shape.elements().and_then(|elements| elements.checked_mul(element)), Some(bytes.len()));
    if bytes.is_empty() {
        return Ok(());
    }
    let dims = merged_dims(shape, order);
    match (dims.split_last(), element) {
        (None, _) => write_all(out, bytes),
        (Some((last, outer)), _) if last.stride == 1 => write_runs(bytes, element, outer, last.len, out),
        (_, 1) => write_transposed::<1>(bytemuck::cast_slice(bytes), &dims, out),
        (_, 2) => write_transposed::<2>(bytemuck::cast_slice(bytes), &dims, out),
        (_, 4) => write_transposed::<4>(bytemuck::cast_slice(bytes), &dims, out),
        (_, 8) => write_transposed::<8>(bytemuck::cast_slice(bytes), &dims, out),
        (_, 16) => write_transposed::<16>(bytemuck::cast_slice(bytes), &dims, out),
        _ => unreachable!("elements of {element} bytes"),
    }
}

/// A dim, or several merged ones.
#[derive(Clone, Copy)]
struct StridedDim {
    len: usize,
    /// The distance between neighbours, in elements.
    stride: usize,
}

/// Returns the dims, outermost first, without dims of length 1. Neighbours with a common stride are merged.
fn merged_dims(shape: &Shape, order: &DimOrder) -> Vec<StridedDim> {
    let mut dims: Vec<StridedDim> = Vec::with_capacity(shape.rank());
    for (&len, stride) in shape.iter().zip(order.strides(shape)).filter(|(len, _)| **len != 1) {
        match dims.last_mut() {
            Some(outer) if outer.stride == len * stride => *outer = StridedDim { len: outer.len * len, stride },
            _ => dims.push(StridedDim { len, stride }),
        }
    }
    dims
}

/// Writes runs of `run` contiguous elements.
fn write_runs(bytes: &[u8], element: usize, outer: &[StridedDim], run: usize, out: &mut dyn Write) -> io::Result<()> {
    let run = run * element;
    let mut batch = Vec::with_capacity(if run < BATCH { BATCH.min(bytes.len()) } else { 0 });
    for offset in Offsets::new(outer) {
        let run = &bytes[offset * element..][..run];
        if batch.len() + run.len() > BATCH {
            write_all(out, &batch)?;
            batch.clear();
        }
        if run.len() < BATCH { batch.extend_from_slice(run) } else { write_all(out, run)? }
    }
    write_all(out, &batch)
}

/// Writes elements whose innermost dim is not innermost in memory.
fn write_transposed<const SIZE: usize>(
    elements: &[[u8; SIZE]],
    dims: &[StridedDim],
    out: &mut dyn Write,
) -> io::Result<()>
where
    [u8; SIZE]: Pod,
{
    let in_memory = dims.iter().position(|dim| dim.stride == 1).expect("a dense tensor has a dim of stride 1");
    let (outer, inner) = dims.split_at(in_memory);
    let (rows, inner) = (inner[0].len, &inner[1..]);
    let row: usize = inner.iter().map(|dim| dim.len).product();
    // Neighbours in memory are in different rows, so several rows are gathered together: one for each element of a
    // cache line, or more if they are short.
    let together = (BLOCK / (row * SIZE)).max(CACHE_LINE / SIZE).min(LONG_ROWS / (row * SIZE)).min(rows);
    if together < 2 {
        return write_one_by_one(elements, dims, out);
    }
    let mut block = vec![[0; SIZE]; together * row];
    for start in Offsets::new(outer) {
        for first in (0..rows).step_by(together) {
            let block = &mut block[..together.min(rows - first) * row];
            gather_rows(&elements[start + first..], inner, row, block);
            bytemuck::cast_slice(block).chunks(BATCH).try_for_each(|batch| write_all(out, batch))?;
        }
    }
    Ok(())
}

/// Fills `block` with rows of `row` elements. Each row begins one element after the row before it.
fn gather_rows<E: Copy>(elements: &[E], inner: &[StridedDim], row: usize, block: &mut [E]) {
    // The number of elements of a row to gather at a time: few enough for both sides to stay in the nearest cache.
    const TILE: usize = 16;
    let mut offsets = Offsets::new(inner);
    for column in (0..row).step_by(TILE) {
        let mut tile = [0; TILE];
        let columns = TILE.min(row - column);
        tile.iter_mut().zip(&mut offsets).for_each(|(to, offset)| *to = offset);
        for (i, row) in block.chunks_exact_mut(row).enumerate() {
            let row = &mut row[column..column + columns];
            // Whole tiles have a length known to the compiler.
            match <&mut [E; TILE]>::try_from(&mut *row) {
                Ok(row) => row.iter_mut().zip(tile).for_each(|(to, offset)| *to = elements[offset + i]),
                Err(_) => row.iter_mut().zip(tile).for_each(|(to, offset)| *to = elements[offset + i]),
            }
        }
    }
}

fn write_one_by_one<const SIZE: usize>(
    elements: &[[u8; SIZE]],
    dims: &[StridedDim],
    out: &mut dyn Write,
) -> io::Result<()>
where
    [u8; SIZE]: Pod,
{
    let Some((last, outer)) = dims.split_last() else { return Ok(()) };
    let mut batch: Vec<[u8; SIZE]> = Vec::with_capacity(BATCH / SIZE);
    for start in Offsets::new(outer) {
        for i in 0..last.len {
            batch.push(elements[start + i * last.stride]);
            if batch.len() == BATCH / SIZE {
                write_all(out, bytemuck::cast_slice(&batch))?;
                batch.clear();
            }
        }
    }
    write_all(out, bytemuck::cast_slice(&batch))
}

/// Iterates over the offsets of all elements, in row-major order.
struct Offsets<'a> {
    dims: &'a [StridedDim],
    indices: Vec<usize>,
    next: usize,
    left: usize,
}

impl<'a> Offsets<'a> {
    fn new(dims: &'a [StridedDim]) -> Self {
        let left = dims.iter().map(|dim| dim.len).product();
        Self { dims, indices: vec![0; dims.len()], next: 0, left }
    }
}

impl Iterator for Offsets<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let offset = self.next;
        for (dim, index) in self.dims.iter().zip(&mut self.indices).rev() {
            *index += 1;
            self.next += dim.stride;
            if *index < dim.len {
                break;
            }
            *index = 0;
            self.next -= dim.len * dim.stride;
        }
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the elements one by one, by their indices.
    fn by_index(bytes: &[u8], element: usize, shape: &Shape, order: &DimOrder) -> Vec<u8> {
        let strides = order.strides(shape);
        let element_at = |mut i: usize| {
            let mut offset = 0;
            for (dim, stride) in shape.iter().zip(&strides).rev() {
                offset += i % dim * stride;
                i /= dim;
            }
            &bytes[offset * element..][..element]
        };
        (0..shape.elements().unwrap()).flat_map(element_at).copied().collect()
    }

    fn check(element: usize, dims: &[usize], order: &[u8]) {
        let (shape, dim_order) = (Shape::new(dims), DimOrder::new(order).unwrap());
        let bytes: Vec<u8> = (0..=250).cycle().take(shape.elements().unwrap() * element).collect();
        let mut out = Vec::new();
        write_row_major(&bytes, element, &shape, &dim_order, &mut out).unwrap();
        assert!(out == by_index(&bytes, element, &shape, &dim_order), "{element} bytes, {dims:?}, {order:?}");
    }

    #[test]
    fn writes_row_major_order() {
        let orders: [&[u8]; 6] = [&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
        for element in [1, 2, 4, 8, 16] {
            for dims in [[2, 3, 4], [1, 5, 3], [3, 1, 1], [4, 0, 2], [17, 33, 5], [40, 1, 70]] {
                orders.iter().for_each(|order| check(element, &dims, order));
            }
            check(element, &[], &[]);
            check(element, &[2, 3, 2, 5], &[0, 2, 3, 1]);
        }
    }

    #[test]
    fn writes_rows_longer_than_a_batch() {
        for dims in [[40, 20_000], [20_000, 40], [3, 700_000]] {
            check(4, &dims, &[1, 0]);
        }
        check(1, &[2, 3, 70_000], &[1, 0, 2]);
    }

    #[test]
    fn batches_are_bounded() {
        struct Sizes(Vec<usize>);

        impl Write for Sizes {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.push(bytes.len());
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        for dims in [[40, 20_000], [2000, 400], [2, 700_000]] {
            let (shape, order) = (Shape::new(&dims), DimOrder::new(&[1, 0]).unwrap());
            let mut sizes = Sizes(Vec::new());
            write_row_major(&vec![0; shape.elements().unwrap() * 8], 8, &shape, &order, &mut sizes).unwrap();
            assert!(sizes.0.iter().all(|size| *size <= BATCH), "{dims:?}");
        }
    }
}
