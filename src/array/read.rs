use std::fmt;
use std::marker::PhantomData;

use ndarray::{ArcArray, Array, ArrayView, CowArray, Dimension};
use serde::Deserializer;

use super::{array_too_large, strided};
use crate::model::{Adapt, Gathered, Receive, accept, cannot_borrow, deserialize_tensor};
use crate::tensor::{Element, TensorInfo, cast, from_le_bytes, view_le_bytes};
use crate::{ErrorKind, FromTensors, Result};

/// Owned, borrowed, and borrowed where possible: the three ways to take an array over.
macro_rules! readable {
    ($(<$de:lifetime $(: $view:lifetime)?, $a:ident, $d:ident> $array:ty => $take:ty;)*) => {$(
        impl<$de $(: $view, $view)?, $a: Element, $d: Dimension> FromTensors<$de> for $array {
            fn load<Z: Deserializer<$de>>(deserializer: Z, adapt: &Adapt) -> Result<Self, Z::Error> {
                let receiver = ReceiveArray::<$take, $a, $d> { adapt, array: PhantomData };
                let array = deserialize_tensor(deserializer, receiver)?;
                Ok(if adapt.transpose { array.reversed_axes() } else { array })
            }
        }
    )*};
}

readable! {
    <'de, A, D> Array<A, D> => Owned;
    <'de, A, D> ArcArray<A, D> => Shared;
    <'de: 'a, A, D> ArrayView<'a, A, D> => Borrowed;
    <'de: 'a, A, D> CowArray<'a, A, D> => BorrowedOrOwned;
}

struct Owned;
struct Shared;
struct Borrowed;
struct BorrowedOrOwned;

/// How an array comes to its elements.
trait Take<'de, A: Element, D: Dimension> {
    type Array;

    fn borrow(info: &TensorInfo, payload: &'de [u8]) -> Result<Self::Array>;

    fn own(array: Array<A, D>) -> Result<Self::Array>;
}

impl<'de, A: Element, D: Dimension> Take<'de, A, D> for Owned {
    type Array = Array<A, D>;

    fn borrow(info: &TensorInfo, payload: &'de [u8]) -> Result<Self::Array> {
        owned(info, from_le_bytes(payload)?)
    }

    fn own(array: Array<A, D>) -> Result<Self::Array> {
        Ok(array)
    }
}

impl<'de, A: Element, D: Dimension> Take<'de, A, D> for Shared {
    type Array = ArcArray<A, D>;

    fn borrow(info: &TensorInfo, payload: &'de [u8]) -> Result<Self::Array> {
        Owned::borrow(info, payload).map(Array::into_shared)
    }

    fn own(array: Array<A, D>) -> Result<Self::Array> {
        Ok(array.into_shared())
    }
}

impl<'de, A: Element, D: Dimension> Take<'de, A, D> for Borrowed {
    type Array = ArrayView<'de, A, D>;

    fn borrow(info: &TensorInfo, payload: &'de [u8]) -> Result<Self::Array> {
        view(info, payload)
    }

    fn own(_: Array<A, D>) -> Result<Self::Array> {
        Err(cannot_borrow("an owned array"))
    }
}

impl<'de, A: Element, D: Dimension> Take<'de, A, D> for BorrowedOrOwned {
    type Array = CowArray<'de, A, D>;

    fn borrow(info: &TensorInfo, payload: &'de [u8]) -> Result<Self::Array> {
        match view(info, payload) {
            Ok(view) => Ok(view.into()),
            Err(error) if matches!(error.kind(), ErrorKind::Misaligned { .. }) => {
                Owned::borrow(info, payload).map(CowArray::from)
            }
            Err(error) => Err(error),
        }
    }

    fn own(array: Array<A, D>) -> Result<Self::Array> {
        Ok(array.into())
    }
}

struct ReceiveArray<'a, T, A, D> {
    adapt: &'a Adapt,
    array: PhantomData<(T, A, D)>,
}

impl<'de, T: Take<'de, A, D>, A: Element, D: Dimension> Receive<'de> for ReceiveArray<'_, T, A, D> {
    type Value = T::Array;
    type Bits = A::Bits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match D::NDIM {
            Some(rank) => write!(f, "an array of {} and rank {rank}", A::DTYPE),
            None => write!(f, "an array of {}", A::DTYPE),
        }
    }

    fn accept(&self, info: &TensorInfo) -> Result<()> {
        let dims = D::NDIM.map(|rank| &ANY_DIMS[..rank]);
        Ok(accept::<A>(info, dims, self.adapt)?)
    }

    fn borrow(self, info: TensorInfo, payload: &'de [u8]) -> Result<T::Array> {
        if info.dtype == A::DTYPE { T::borrow(&info, payload) } else { self.copy(info, payload) }
    }

    fn copy(self, info: TensorInfo, payload: &[u8]) -> Result<T::Array> {
        let elements = if info.dtype == A::DTYPE { from_le_bytes(payload)? } else { cast(info.dtype, payload)? };
        T::own(owned(&info, elements)?)
    }

    fn gathered(self, info: TensorInfo, payload: Gathered<A::Bits>) -> Result<T::Array> {
        if info.dtype != A::DTYPE {
            return self.copy(info, payload.bytes());
        }
        T::own(owned(&info, A::from_bits(payload.into_bits())?)?)
    }
}

/// Dims of which nothing is known, as many as an array of static rank can have.
const ANY_DIMS: [Option<usize>; 6] = [None; 6];

/// An array over elements that it owns.
pub(super) fn owned<A: Element, D: Dimension>(info: &TensorInfo, elements: Vec<A>) -> Result<Array<A, D>> {
    Array::from_shape_vec(strided(info), elements).map_err(|_| array_too_large(info))
}

/// An array over elements that it borrows.
pub(super) fn view<'a, A: Element, D: Dimension>(info: &TensorInfo, payload: &'a [u8]) -> Result<ArrayView<'a, A, D>> {
    let misaligned = ErrorKind::Misaligned { dtype: A::DTYPE, alignment: align_of::<A>() };
    let elements = view_le_bytes(payload).ok_or(misaligned)??;
    ArrayView::from_shape(strided(info), elements).map_err(|_| array_too_large(info))
}
