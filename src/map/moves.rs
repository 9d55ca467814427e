//! The places of elements in tensors, and moves from one to another.

use std::cmp::Ordering;
use std::ops::Range;

use super::names::{AxisValues, index};
use super::parse::Equation;
use super::sizes::DimPlaces;
use crate::fetch::{MoveAxis, TensorMove};
use crate::tensor::{Layout, Shape, TensorInfo};

/// The axis of the last dim of a tensor of blocks, which stays whole.
const WHOLE: usize = usize::MAX;

/// The places of the axes of all dims of a tensor. With blocks, those of the last dim count as one axis.
pub(super) struct TensorPlaces {
    pub(super) dims: Vec<DimPlaces>,
    /// The padding of each dim.
    pub(super) padding: Vec<u64>,
}

impl TensorPlaces {
    /// The places of a tensor with `block` elements in a block.
    pub(super) fn new(mut dims: Vec<DimPlaces>, padding: Vec<u64>, block: usize) -> Self {
        if let Some(last) = dims.last_mut().filter(|_| block > 1) {
            let len = last.len / block as u64;
            *last = DimPlaces { len, base: 0, axes: vec![(WHOLE, len, 1)] };
        }
        Self { dims, padding }
    }
}

/// Sets the values of axes to the digits of a number.
pub(super) fn set_digits(values: &mut AxisValues, axes: &[usize], ranges: &[u64], mut number: u64) {
    for (axis, range) in axes.iter().zip(ranges).rev() {
        values[*axis] = number % range;
        number /= range;
    }
}

/// Returns whether both sides have the same axes in the last dim, as blocks along it need.
pub(super) fn keeps_last_dim(equation: &Equation, info: &TensorInfo) -> bool {
    let lasts = equation.sides.iter().map(|side| {
        let dims = side.dims.as_deref().unwrap_or_default();
        let is_divided = side.part.as_ref().is_some_and(|part| part.dim + 1 == dims.len());
        dims.last().filter(|dim| !is_divided && dim.padding.is_none()).map(|dim| &dim.axes)
    });
    let lasts: Vec<Option<&Vec<usize>>> = lasts.collect();
    let block = info.dtype.block_elements();
    lasts[0].is_some()
        && lasts[0] == lasts[1]
        && info.shape.dims().last().is_some_and(|last| last.is_multiple_of(block))
}

/// Returns the shape of a tensor with the last dim in blocks.
pub(super) fn stored_shape(info: &TensorInfo) -> Shape {
    let mut dims = info.shape.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last /= info.dtype.block_elements();
    }
    dims.into()
}

/// Returns the distance between neighbours of each dim as stored, in elements or blocks.
pub(super) fn stored_strides(info: &TensorInfo) -> Vec<usize> {
    let shape = stored_shape(info);
    match &info.layout {
        Layout::DimOrder(order) => order.strides(&shape),
        _ => shape.row_major_strides(),
    }
}

/// Returns the move of the elements that a source and a tensor have in common. `None` if an index is too large.
pub(super) fn tensor_move(source: &TensorInfo, here: &TensorPlaces, there: &TensorPlaces) -> Option<TensorMove> {
    let strides = stored_strides(source);
    let mut start = 0_u64;
    for (dim, stride) in here.dims.iter().zip(&strides) {
        start = start.checked_add(dim.base.checked_mul(*stride as u64)?)?;
    }
    let start = start.checked_mul(source.dtype.block_bytes() as u64)?;
    let (mut offsets, mut axes) = (Vec::with_capacity(there.dims.len()), Vec::new());
    for (dim, places) in there.dims.iter().enumerate() {
        offsets.push(index(places.base)?);
        for (axis, len, step) in &places.axes {
            let find = |(own, stride): (&DimPlaces, &usize)| {
                own.axes.iter().find(|(other, ..)| other == axis).map(|(_, _, step)| (*step, *stride))
            };
            let (stored, stride) = here.dims.iter().zip(&strides).find_map(find)?;
            let (len, target, source) = (index(*len)?, index(*step)?, index(stored)?.checked_mul(stride)?);
            axes.push(MoveAxis { dim, len, target, source });
        }
    }
    Some(TensorMove { start, offsets, axes })
}

/// Returns the move of all elements of a tensor to their own places.
pub(super) fn whole_move(info: &TensorInfo) -> TensorMove {
    let shape = stored_shape(info);
    TensorMove::chunk(0, &vec![0; shape.rank()].into(), &shape, &stored_strides(info))
}

/// Returns the boxes of the padding of a tensor: one for each dim, in which the dims before it have none.
pub(super) fn padding_boxes(lens: &[[u64; 2]]) -> Vec<Vec<Range<u64>>> {
    let of_dim = |d: usize| {
        let range = |other: usize| match other.cmp(&d) {
            Ordering::Less => 0..lens[other][0],
            Ordering::Equal => lens[d][0]..lens[d][1],
            Ordering::Greater => 0..lens[other][1],
        };
        (0..lens.len()).map(range).collect::<Vec<_>>()
    };
    (0..lens.len()).map(of_dim).filter(|ranges| !ranges.iter().any(Range::is_empty)).collect()
}
