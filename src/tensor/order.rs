use bytemuck::Pod;
use ndarray::{ArrayView, Axis, Dimension, IxDyn, ShapeBuilder};

use super::{DimOrder, Shape};

/// Elements gathered before they are passed on: up to 64 KiB.
const BATCH: usize = 8192;

/// Calls `take` with the elements of an array of any memory order, in row-major order and in batches.
pub(crate) fn in_row_major<A: Copy, D: Dimension, E>(
    array: &ArrayView<'_, A, D>,
    take: impl FnMut(&[A]) -> Result<(), E>,
) -> Result<(), E> {
    let mut batch = Batch { elements: Vec::with_capacity(BATCH.min(array.len())), take };
    let last = array.ndim().checked_sub(1).map(Axis);
    if last.is_some_and(|last| array.stride_of(last) == 1) {
        // Rows that lie in one run are copied as runs.
        array.rows().into_iter().try_for_each(|row| batch.run(row.to_slice().unwrap_or_default()))?;
    } else {
        array.iter().try_for_each(|element| batch.push(*element))?;
    }
    batch.pass_on()
}

/// Calls `take` with the elements in `bytes`, which lie in the given dim order, in row-major order and in batches.
///
/// The bytes must be as many as the shape takes, of one of the sizes that elements have.
pub(crate) fn bytes_in_row_major<E>(
    bytes: &[u8],
    shape: &Shape,
    order: &DimOrder,
    take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    match shape.elements().unwrap_or(0) {
        0 => Ok(()),
        elements => match bytes.len() / elements {
            1 => elements_in_row_major::<1, E>(bytes, shape, order, take),
            2 => elements_in_row_major::<2, E>(bytes, shape, order, take),
            4 => elements_in_row_major::<4, E>(bytes, shape, order, take),
            8 => elements_in_row_major::<8, E>(bytes, shape, order, take),
            size => unreachable!("no dtype has elements of {size} bytes"),
        },
    }
}

fn elements_in_row_major<const SIZE: usize, E>(
    bytes: &[u8],
    shape: &Shape,
    order: &DimOrder,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E>
where
    [u8; SIZE]: Pod,
{
    let elements: &[[u8; SIZE]] = bytemuck::cast_slice(bytes);
    let strided = IxDyn(shape.dims()).strides(IxDyn(&order.strides(shape)));
    let array = ArrayView::from_shape(strided, elements).expect("the bytes are as many as the shape takes");
    in_row_major(&array, |batch| take(bytemuck::cast_slice(batch)))
}

impl DimOrder {
    /// The strides, in elements, of a dense tensor in this order.
    pub(crate) fn strides(&self, shape: &Shape) -> Vec<usize> {
        strides(shape, self.as_slice().iter().map(|dim| usize::from(*dim)))
    }
}

impl Shape {
    /// The strides, in elements, of a dense tensor in row-major order.
    pub(crate) fn row_major_strides(&self) -> Vec<usize> {
        strides(self, 0..self.rank())
    }
}

/// The strides of a tensor whose dims lie in the given order, outermost first.
fn strides(shape: &Shape, order: impl DoubleEndedIterator<Item = usize>) -> Vec<usize> {
    let mut strides = vec![0; shape.rank()];
    let mut stride = usize::from(!shape.contains(&0));
    for dim in order.rev() {
        strides[dim] = stride;
        stride *= shape[dim];
    }
    strides
}

/// Elements gathered before they are passed on.
struct Batch<A, F> {
    elements: Vec<A>,
    take: F,
}

impl<A: Copy, E, F: FnMut(&[A]) -> Result<(), E>> Batch<A, F> {
    fn push(&mut self, element: A) -> Result<(), E> {
        self.elements.push(element);
        if self.elements.len() == BATCH { self.pass_on() } else { Ok(()) }
    }

    fn run(&mut self, mut run: &[A]) -> Result<(), E> {
        while !run.is_empty() {
            let (now, later) = run.split_at(run.len().min(BATCH - self.elements.len()));
            self.elements.extend_from_slice(now);
            if self.elements.len() == BATCH {
                self.pass_on()?;
            }
            run = later;
        }
        Ok(())
    }

    fn pass_on(&mut self) -> Result<(), E> {
        if !self.elements.is_empty() {
            (self.take)(&self.elements)?;
            self.elements.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_a_dim_order_into_rows() {
        // The matrix [[1, 2, 3], [4, 5, 6]], its columns one after the other.
        let order = DimOrder::new(&[1, 0]).unwrap();
        let mut rows = Vec::new();
        let take = |bytes: &[u8]| {
            rows.extend_from_slice(bytes);
            Ok::<(), ()>(())
        };
        bytes_in_row_major(&[1, 4, 2, 5, 3, 6], &Shape::new(&[2, 3]), &order, take).unwrap();
        assert_eq!(rows, [1, 2, 3, 4, 5, 6]);
    }
}
