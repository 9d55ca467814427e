use std::io;

use ndarray::{ArrayBase, ArrayView, Data, Dimension, IxDyn};

use super::order::in_row_major;
use crate::error::{ErrorKind, Result};
use crate::model::{Adapt, Adaptable, Node, Sink, Store, TensorData, TensorFile, TensorSpec, dims_text};
use crate::tensor::{DimOrder, Element, Layout, TensorInfo, to_le_bytes};

impl<A, S, D> TensorFile for ArrayBase<S, D>
where
    A: Element,
    S: Data<Elem = A>,
    D: Dimension,
{
    const NODE: Node = Node::Tensor(TensorSpec::of_rank(A::DTYPE, D::NDIM));
}

impl<A, S, D> Store for ArrayBase<S, D>
where
    A: Element,
    S: Data<Elem = A>,
    D: Dimension,
{
    fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
        check_shape(self.shape(), adapt)?;
        match self.as_slice() {
            Some(elements) if !adapt.transpose => {
                sink.tensor(&TensorInfo::new(A::DTYPE, self.shape()), &to_le_bytes(elements))
            }
            _ if adapt.transpose => store_strided(self.view().into_dyn().reversed_axes(), sink),
            _ => store_strided(self.view().into_dyn(), sink),
        }
    }
}

impl<A, S: Data<Elem = A>, D> Adaptable for ArrayBase<S, D> {}

/// Stores an array of any memory order.
fn store_strided<A: Element>(array: ArrayView<'_, A, IxDyn>, sink: &mut (dyn Sink + '_)) -> Result<()> {
    let mut info = TensorInfo::new(A::DTYPE, array.shape());
    let in_memory = sink.takes_dim_order().then(|| memory_order(&array)).flatten();
    if let Some((order, elements)) = in_memory {
        info.layout = if order.is_row_major() { Layout::RowMajor } else { Layout::DimOrder(order) };
        return sink.tensor(&info, &to_le_bytes(elements));
    }
    sink.tensor(&info, &RowMajor(array))
}

/// Refuses an array that the field's attribute would refuse when it is read.
fn check_shape(found: &[usize], adapt: &Adapt) -> Result<()> {
    let Some(dims) = adapt.shape else { return Ok(()) };
    if found.len() == dims.len() && found.iter().zip(dims).all(|(found, dim)| dim.is_none_or(|dim| dim == *found)) {
        return Ok(());
    }
    let (what, dims) = (format!("store an array of shape {found:?}"), dims_text(dims));
    Err(ErrorKind::Unsupported { what, instead: format!("its field says `shape = {dims}`") }.into())
}

/// Returns the elements in the order of memory, if they are there without gaps and forwards.
fn memory_order<'a, A>(array: &'a ArrayView<'_, A, IxDyn>) -> Option<(DimOrder, &'a [A])> {
    let elements = array.as_slice_memory_order()?;
    Some((dim_order(array.shape(), array.strides())?, elements))
}

/// Returns the dim order with these strides, if there is one. Not generic, because sorting takes long to compile.
fn dim_order(shape: &[usize], strides: &[isize]) -> Option<DimOrder> {
    let mut order: Vec<u8> = (0..shape.len()).map(u8::try_from).collect::<Result<_, _>>().ok()?;
    order.sort_by_key(|&dim| std::cmp::Reverse(strides[usize::from(dim)]));
    let order = DimOrder::new(&order).ok()?;
    let expected = order.strides(&shape.into());
    // The stride of a dim of one element has no meaning.
    let fits = |(dim, stride): (usize, &usize)| shape[dim] == 1 || strides[dim] == stride.cast_signed();
    expected.iter().enumerate().all(fits).then_some(order)
}

/// The elements of an array of any memory order, in row-major order.
struct RowMajor<'a, A>(ArrayView<'a, A, IxDyn>);

impl<A: Element> TensorData for RowMajor<'_, A> {
    fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        in_row_major(&self.0, |batch| out.write_all(&to_le_bytes(batch)))
    }

    fn storage_id(&self) -> Option<u64> {
        Some(self.0.as_ptr().addr() as u64)
    }
}
