//! Arrays of any memory order as tensors.
//!
//! A user's program compiles the part that depends on the element type and the rank, so this part is small: it hands
//! out bytes, and non-generic functions choose between layouts.

use std::borrow::Cow;
use std::io;

use ndarray::{ArrayBase, ArrayView, Axis, Data, Dimension, IxDyn};

use crate::error::{ErrorKind, Result};
use crate::model::{
    ArrayField, BorrowedPayloads, FieldAttrs, Node, Sink, Store, TensorData, TensorFile, TensorSpec, dims_text,
};
use crate::tensor::checked_io::write_all;
use crate::tensor::{DimOrder, Dtype, Element, Layout, TensorInfo, sorted, write_row_major};

impl<A, S, D> TensorFile for ArrayBase<S, D>
where
    A: Element,
    S: Data<Elem = A>,
    D: Dimension,
{
    const NODE: Node = Node::Tensor(TensorSpec::with_rank(A::DTYPE, D::NDIM));
}

impl<A, S, D> Store for ArrayBase<S, D>
where
    A: Element,
    S: Data<Elem = A>,
    D: Dimension,
{
    // Not inlined, so that the copies in `compiled` are used.
    #[inline(never)]
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        check_shape(self.shape(), attrs)?;
        match self.as_slice() {
            Some(elements) if !attrs.transpose => {
                sink.tensor(&TensorInfo::new(A::DTYPE, self.shape()), &&*A::as_le_bytes(elements))
            }
            _ if attrs.transpose => store_strided(&self.view().into_dyn().reversed_axes(), sink),
            _ => store_strided(&self.view().into_dyn(), sink),
        }
    }

    #[inline(never)]
    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        if let Some(elements) = self.as_slice_memory_order() {
            payloads.bytes(A::as_le_bytes(elements));
        }
    }
}

impl<A, S: Data<Elem = A>, D> ArrayField for ArrayBase<S, D> {}

/// Stores an array in any order except row-major.
fn store_strided(array: &dyn StridedArray, sink: &mut (dyn Sink + '_)) -> Result<()> {
    let mut info = TensorInfo::new(array.dtype(), array.shape());
    let in_memory = dim_order(array.shape(), array.strides())
        .and_then(|order| array.in_memory_order(&order).map(|bytes| (order, bytes)));
    let Some((order, bytes)) = in_memory else {
        return sink.tensor(&info, &Gathered { array, element: info.dtype.block_bytes() });
    };
    match () {
        () if order.is_row_major() => sink.tensor(&info, &bytes),
        () if sink.takes_dim_order() => {
            info.layout = Layout::DimOrder(order);
            sink.tensor(&info, &bytes)
        }
        () => sink.tensor(&info, &Transposed { bytes: &bytes, info: &info, order: &order }),
    }
}

/// Refuses an array that the field's attribute would refuse on read.
#[inline]
fn check_shape(found: &[usize], attrs: &FieldAttrs) -> Result<()> {
    attrs.shape.map_or(Ok(()), |dims| check_dims(found, dims))
}

fn check_dims(found: &[usize], dims: &[Option<usize>]) -> Result<()> {
    if found.len() == dims.len() && found.iter().zip(dims).all(|(found, dim)| dim.is_none_or(|dim| dim == *found)) {
        return Ok(());
    }
    let (what, dims) = (format!("store an array of shape {found:?}"), dims_text(dims));
    Err(ErrorKind::Unsupported { what, instead: format!("its field says `shape = {dims}`") }.into())
}

/// Returns the dim order with these strides, if there is one.
fn dim_order(shape: &[usize], strides: &[isize]) -> Option<DimOrder> {
    let order = sorted::positions(shape.len(), &mut |one, other| strides[other].cmp(&strides[one]));
    let order: Vec<u8> = order.into_iter().map(u8::try_from).collect::<Result<_, _>>().ok()?;
    let order = DimOrder::new(&order).ok()?;
    let expected = order.strides(&shape.into());
    // The stride of a dim of one element has no meaning.
    let fits = |(dim, stride): (usize, &usize)| shape[dim] == 1 || strides[dim] == stride.cast_signed();
    expected.iter().enumerate().all(fits).then_some(order)
}

/// An array of any element type and memory order.
trait StridedArray {
    fn dtype(&self) -> Dtype;

    fn shape(&self) -> &[usize];

    /// Returns the strides in elements.
    fn strides(&self) -> &[isize];

    /// Returns the address of the first element.
    fn address(&self) -> u64;

    /// Returns the bytes of an array with this dim order in memory, without gaps.
    fn in_memory_order(&self, order: &DimOrder) -> Option<Cow<'_, [u8]>>;

    /// Appends the bytes of `len` elements along the last axis, starting at `index`.
    fn append_run(&self, index: &mut [usize], len: usize, out: &mut Vec<u8>);
}

impl<A: Element> StridedArray for ArrayView<'_, A, IxDyn> {
    fn dtype(&self) -> Dtype {
        A::DTYPE
    }

    fn shape(&self) -> &[usize] {
        (**self).shape()
    }

    fn strides(&self) -> &[isize] {
        (**self).strides()
    }

    fn address(&self) -> u64 {
        self.as_ptr().addr() as u64
    }

    fn in_memory_order(&self, order: &DimOrder) -> Option<Cow<'_, [u8]>> {
        let mut in_order = self.clone();
        for (one, other) in swaps(order) {
            in_order.swap_axes(one, other);
        }
        in_order.to_slice().map(A::as_le_bytes)
    }

    fn append_run(&self, index: &mut [usize], len: usize, out: &mut Vec<u8>) {
        let last = index.len() - 1;
        let run = index[last]..index[last] + len;
        let mut row = self.clone();
        for (axis, index) in index[..last].iter().enumerate() {
            row.collapse_axis(Axis(axis), *index);
        }
        if let Some(elements) = row.to_slice() {
            return out.extend_from_slice(&A::as_le_bytes(&elements[run]));
        }
        for i in run {
            index[last] = i;
            out.extend_from_slice(&A::as_le_bytes(std::slice::from_ref(&self[&*index])));
        }
    }
}

/// Returns swaps that bring the axes into this order.
fn swaps(order: &DimOrder) -> Vec<(usize, usize)> {
    let mut axes: Vec<usize> = (0..order.as_slice().len()).collect();
    let mut swaps = Vec::with_capacity(axes.len());
    for (to, axis) in order.as_slice().iter().enumerate() {
        let from = axes.iter().position(|other| other == &usize::from(*axis)).unwrap_or(to);
        axes.swap(to, from);
        swaps.push((to, from));
    }
    swaps
}

/// The elements of a gapless array, in row-major order.
struct Transposed<'a> {
    bytes: &'a [u8],
    info: &'a TensorInfo,
    order: &'a DimOrder,
}

impl TensorData for Transposed<'_> {
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        write_row_major(self.bytes, self.info.dtype.block_bytes(), &self.info.shape, self.order, out)
    }

    fn storage_id(&self) -> Option<u64> {
        self.bytes.storage_id()
    }
}

/// The elements of an array with gaps between its rows or elements, in row-major order.
struct Gathered<'a> {
    array: &'a dyn StridedArray,
    /// The bytes of an element.
    element: usize,
}

impl TensorData for Gathered<'_> {
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        /// The number of bytes to gather before writing.
        const BATCH: usize = 64 << 10;

        let Some((row, outer)) = self.array.shape().split_last() else { return Ok(()) };
        let rows: usize = outer.iter().product();
        let most = BATCH / self.element;
        let mut batch = Vec::with_capacity(BATCH.min(rows * row * self.element));
        let mut index = vec![0; outer.len() + 1];
        for _ in 0..rows {
            let mut done = 0;
            while done < *row {
                // Part of a row, if not all of it fits the batch.
                let len = (most - batch.len() / self.element).min(row - done);
                index[outer.len()] = done;
                self.array.append_run(&mut index, len, &mut batch);
                done += len;
                if batch.len() / self.element == most {
                    write_all(out, &batch)?;
                    batch.clear();
                }
            }
            for (index, dim) in index[..outer.len()].iter_mut().zip(outer).rev() {
                *index += 1;
                if *index < *dim {
                    break;
                }
                *index = 0;
            }
        }
        write_all(out, &batch)
    }

    fn storage_id(&self) -> Option<u64> {
        Some(self.array.address())
    }
}
