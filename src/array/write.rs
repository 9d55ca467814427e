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

/// Elements gathered before they are passed on: 64 KiB of the largest.
const PIECE: usize = 8192;

impl<A: Element, D: Dimension> Pieces for RowMajor<'_, A, D> {
    fn for_each<E>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut piece = Vec::with_capacity(PIECE);
        let mut pass = |elements: &mut dyn Iterator<Item = A>| {
            for element in elements {
                piece.push(element);
                if piece.len() == PIECE {
                    take(&to_le_bytes(&piece))?;
                    piece.clear();
                }
            }
            Ok(())
        };
        let last = self.0.ndim().checked_sub(1).map(Axis);
        match last {
            // Rows that lie in one run are copied as runs.
            Some(last) if self.0.stride_of(last) == 1 => {
                for row in self.0.rows() {
                    let mut row = row.to_slice().unwrap_or_default();
                    while !row.is_empty() {
                        let (now, later) = row.split_at(row.len().min(PIECE - piece.len()));
                        piece.extend_from_slice(now);
                        row = later;
                        if piece.len() == PIECE {
                            take(&to_le_bytes(&piece))?;
                            piece.clear();
                        }
                    }
                }
            }
            _ => pass(&mut self.0.iter().copied())?,
        }
        if piece.is_empty() { Ok(()) } else { take(&to_le_bytes(&piece)) }
    }
}
