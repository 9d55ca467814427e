use ndarray::{ArrayBase, ArrayView, Axis, Data, Dimension};
use serde::Serializer;
use serde_bytes::Bytes;

use crate::TensorFile;
use crate::model::{Adapt, Adaptable, InPieces, Node, Pieces, Slot, serialize_tensor};
use crate::tensor::{Element, TensorInfo, to_le_bytes};

impl<A, S, D> TensorFile for ArrayBase<S, D>
where
    A: Element,
    S: Data<Elem = A>,
    D: Dimension,
{
    fn node() -> Node {
        Node::Tensor(Slot { dtype: Some(A::DTYPE), dims: D::NDIM.map(|rank| vec![None; rank]) })
    }

    fn store<Z: Serializer>(&self, serializer: Z, adapt: &Adapt) -> Result<Z::Ok, Z::Error> {
        let array = if adapt.transpose { self.view().reversed_axes() } else { self.view() };
        let info = TensorInfo::new(A::DTYPE, array.shape());
        match array.as_slice() {
            Some(elements) if cfg!(target_endian = "little") => {
                serialize_tensor(serializer, &info, Bytes::new(&to_le_bytes(elements)))
            }
            _ => serialize_tensor(serializer, &info, &InPieces(RowMajor(array))),
        }
    }
}

impl<A, S: Data<Elem = A>, D> Adaptable for ArrayBase<S, D> {}

/// The elements of an array of any memory order, in row-major order.
struct RowMajor<'a, A, D>(ArrayView<'a, A, D>);

impl<A: Element, D: Dimension> Pieces for RowMajor<'_, A, D> {
    fn for_each<E>(&self, take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut batch = Batch { elements: Vec::with_capacity(BATCH), take };
        let last = self.0.ndim().checked_sub(1).map(Axis);
        if last.is_some_and(|last| self.0.stride_of(last) == 1) {
            // Rows that lie in one run are copied as runs.
            self.0.rows().into_iter().try_for_each(|row| batch.run(row.to_slice().unwrap_or_default()))?;
        } else {
            self.0.iter().try_for_each(|element| batch.push(*element))?;
        }
        batch.pass_on()
    }
}

/// Elements gathered before they are passed on.
struct Batch<A, F> {
    elements: Vec<A>,
    take: F,
}

/// The elements of a full batch: 64 KiB of the largest.
const BATCH: usize = 8192;

impl<A: Element, E, F: FnMut(&[u8]) -> Result<(), E>> Batch<A, F> {
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
            (self.take)(&to_le_bytes(&self.elements))?;
            self.elements.clear();
        }
        Ok(())
    }
}
