use ndarray::{ArrayBase, ArrayView, Data, Dimension};
use serde::Serializer;
use serde_bytes::Bytes;

use crate::TensorFile;
use crate::error::{ErrorKind, is_ours, raise_ser};
use crate::model::{Adapt, Adaptable, InPieces, Node, Pieces, Slot, accept, dims_text, serialize_tensor};
use crate::tensor::{DimOrder, Element, Layout, TensorInfo, in_row_major, to_le_bytes};

impl<A, S, D> TensorFile for ArrayBase<S, D>
where
    A: Element,
    S: Data<Elem = A>,
    D: Dimension,
{
    fn node() -> Node {
        Node::Tensor(Slot::new(A::DTYPE, D::NDIM.map(|rank| vec![None; rank]), accept::<A>))
    }

    fn store<Z: Serializer>(&self, serializer: Z, adapt: &Adapt) -> Result<Z::Ok, Z::Error> {
        check_shape(self.shape(), adapt)?;
        let array = if adapt.transpose { self.view().reversed_axes() } else { self.view() };
        let mut info = TensorInfo::new(A::DTYPE, array.shape());
        if cfg!(target_endian = "little") {
            if let Some(elements) = array.as_slice() {
                return serialize_tensor(serializer, &info, Bytes::new(&to_le_bytes(elements)));
            }
            // Our formats are offered the memory as it is; those that store no dim order put it into row-major order.
            if is_ours::<Z::Error>()
                && let Some((order, elements)) = memory_order(&array)
            {
                info.layout = Layout::DimOrder(order);
                return serialize_tensor(serializer, &info, Bytes::new(&to_le_bytes(elements)));
            }
        }
        serialize_tensor(serializer, &info, &InPieces(RowMajor(array)))
    }
}

impl<A, S: Data<Elem = A>, D> Adaptable for ArrayBase<S, D> {}

/// Refuses an array that the field's attribute would refuse when it is read.
fn check_shape<E: serde::ser::Error>(found: &[usize], adapt: &Adapt) -> Result<(), E> {
    let Some(dims) = adapt.shape else { return Ok(()) };
    if found.len() == dims.len() && found.iter().zip(dims).all(|(found, dim)| dim.is_none_or(|dim| dim == *found)) {
        return Ok(());
    }
    let (what, dims) = (format!("store an array of shape {found:?}"), dims_text(dims));
    Err(raise_ser(ErrorKind::Unsupported { what, instead: format!("its field says `shape = {dims}`") }))
}

/// The elements in the order of memory, where they lie there without gaps and forwards.
fn memory_order<'a, A, D: Dimension>(array: &'a ArrayView<'_, A, D>) -> Option<(DimOrder, &'a [A])> {
    let elements = array.as_slice_memory_order()?;
    let mut order: Vec<u8> = (0..array.ndim()).map(u8::try_from).collect::<Result<_, _>>().ok()?;
    order.sort_by_key(|&dim| std::cmp::Reverse(array.strides()[usize::from(dim)]));
    let order = DimOrder::new(&order).ok()?;
    let strides = order.strides(&array.shape().into());
    // The stride of a dim of one element tells nothing.
    let fits = |(dim, stride): (usize, &usize)| array.shape()[dim] == 1 || array.strides()[dim] == stride.cast_signed();
    strides.iter().enumerate().all(fits).then_some((order, elements))
}

/// The elements of an array of any memory order, in row-major order.
struct RowMajor<'a, A, D>(ArrayView<'a, A, D>);

impl<A: Element, D: Dimension> Pieces for RowMajor<'_, A, D> {
    fn for_each<E>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        in_row_major(&self.0, |batch| take(&to_le_bytes(batch)))
    }
}
