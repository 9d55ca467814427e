//! Our own tensor types as values of serde.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::Bytes;

use super::payload::{InPieces, serialize_tensor};
use super::receive::{Gathered, Receive, deserialize_tensor};
use super::{Adapt, FromTensors, Node, Slot, TensorFile};
use crate::error::{Error, ErrorKind, raise};
use crate::tensor::{
    Blob, Buffer, CooTensor, Dtype, Element, Layout, Tensor, TensorInfo, TensorMap, TensorView, to_le_bytes,
};

const ANY: Node = Node::Tensor(Slot::ANY);

/// serde's traits by ours.
macro_rules! serde_by_tensors {
    ($(<$de:lifetime $(: $view:lifetime)? $(, $param:ident: $bound:path)?> $type:ty;)*) => {$(
        impl<$($view,)? $($param: $bound)?> Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.store(serializer, &Adapt::NONE)
            }
        }

        impl<$de $(: $view, $view)? $(, $param: $bound)?> Deserialize<$de> for $type {
            fn deserialize<D: Deserializer<$de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::load(deserializer, &Adapt::NONE)
            }
        }
    )*};
}

serde_by_tensors! {
    <'de: 'a> TensorView<'a>;
    <'de> Tensor;
    <'de> TensorMap;
    <'de> Blob;
    <'de, A: Element> CooTensor<A>;
}

impl TensorFile for TensorView<'_> {
    fn node() -> Node {
        ANY
    }

    fn store<S: Serializer>(&self, serializer: S, _: &Adapt) -> Result<S::Ok, S::Error> {
        serialize_tensor(serializer, self.info(), Bytes::new(self.as_bytes()))
    }
}

impl<'de: 'a, 'a> FromTensors<'de> for TensorView<'a> {
    fn load<D: Deserializer<'de>>(deserializer: D, _: &Adapt) -> Result<Self, D::Error> {
        struct ReceiveView;

        impl<'de> Receive<'de> for ReceiveView {
            type Value = TensorView<'de>;
            type Bits = u8;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a tensor in memory")
            }

            fn accept(&self, _: &TensorInfo) -> Result<(), Error> {
                Ok(())
            }

            fn borrow(self, info: TensorInfo, payload: &'de [u8]) -> Result<TensorView<'de>, Error> {
                Ok(TensorView::of_checked(info, payload))
            }

            fn copy(self, _: TensorInfo, _: &[u8]) -> Result<TensorView<'de>, Error> {
                Err(cannot_borrow("a `Tensor`"))
            }
        }

        deserialize_tensor(deserializer, ReceiveView)
    }
}

/// The error for a borrowed tensor where there is nothing to borrow from.
pub(crate) fn cannot_borrow(owned: &str) -> Error {
    ErrorKind::Unsupported {
        what: "borrow from a stream".to_owned(),
        instead: format!("read the file into memory, or use {owned}"),
    }
    .into()
}

impl TensorFile for Tensor {
    fn node() -> Node {
        ANY
    }

    fn store<S: Serializer>(&self, serializer: S, _: &Adapt) -> Result<S::Ok, S::Error> {
        serialize_tensor(serializer, self.info(), Bytes::new(self.as_bytes()))
    }
}

impl<'de> FromTensors<'de> for Tensor {
    fn load<D: Deserializer<'de>>(deserializer: D, _: &Adapt) -> Result<Self, D::Error> {
        struct ReceiveTensor;

        impl<'de> Receive<'de> for ReceiveTensor {
            type Value = Tensor;
            type Bits = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a tensor")
            }

            fn accept(&self, _: &TensorInfo) -> Result<(), Error> {
                Ok(())
            }

            fn copy(self, info: TensorInfo, payload: &[u8]) -> Result<Tensor, Error> {
                Ok(Tensor::of_checked(info, Buffer::from_slice(payload)))
            }

            fn gathered(self, info: TensorInfo, payload: Gathered<u64>) -> Result<Tensor, Error> {
                Ok(Tensor::of_checked(info, payload.into_buffer()))
            }
        }

        deserialize_tensor(deserializer, ReceiveTensor)
    }
}

impl TensorFile for TensorMap {
    fn node() -> Node {
        Node::Map(Box::new(ANY))
    }

    fn store<S: Serializer>(&self, serializer: S, _: &Adapt) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, tensor) in self {
            map.serialize_entry(name, tensor)?;
        }
        map.end()
    }
}

impl<'de> FromTensors<'de> for TensorMap {
    fn load<D: Deserializer<'de>>(deserializer: D, _: &Adapt) -> Result<Self, D::Error> {
        struct MapVisitor;

        impl<'de> Visitor<'de> for MapVisitor {
            type Value = TensorMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("named tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<TensorMap, A::Error> {
                let (mut map, mut shared) = (TensorMap::new(), SharedBuffers::new());
                while let Some(name) = access.next_key::<String>()? {
                    let tensor = access.next_value_seed(LoadShared(&mut shared))?;
                    if map.get(&name).is_some() {
                        return Err(raise(ErrorKind::DuplicateName { name }));
                    }
                    map.insert(name, tensor);
                }
                Ok(map)
            }
        }

        deserializer.deserialize_map(MapVisitor)
    }
}

/// The bytes copied so far, by where they lie in the file and how many they are.
type SharedBuffers = HashMap<(usize, usize), Arc<Buffer>>;

/// Reads a tensor; bytes of a file in memory that were read before are shared, not copied again.
struct LoadShared<'a>(&'a mut SharedBuffers);

impl<'de> DeserializeSeed<'de> for LoadShared<'_> {
    type Value = Tensor;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tensor, D::Error> {
        deserialize_tensor(deserializer, self)
    }
}

impl<'de> Receive<'de> for LoadShared<'_> {
    type Value = Tensor;
    type Bits = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tensor")
    }

    fn accept(&self, _: &TensorInfo) -> Result<(), Error> {
        Ok(())
    }

    fn borrow(self, info: TensorInfo, payload: &'de [u8]) -> Result<Tensor, Error> {
        // Only what lives as long as the file is sure to be the same bytes where it has the same address.
        let place = (payload.as_ptr() as usize, payload.len());
        let buffer = self.0.entry(place).or_insert_with(|| Arc::new(Buffer::from_slice(payload)));
        Ok(Tensor::of_checked(info, Arc::clone(buffer)))
    }

    fn copy(self, info: TensorInfo, payload: &[u8]) -> Result<Tensor, Error> {
        Ok(Tensor::of_checked(info, Buffer::from_slice(payload)))
    }

    fn gathered(self, info: TensorInfo, payload: Gathered<u64>) -> Result<Tensor, Error> {
        Ok(Tensor::of_checked(info, payload.into_buffer()))
    }
}

impl TensorFile for Blob {
    fn node() -> Node {
        Node::Tensor(Slot::new(Dtype::U8, Some(vec![None]), accept_blob))
    }

    fn store<S: Serializer>(&self, serializer: S, _: &Adapt) -> Result<S::Ok, S::Error> {
        serialize_tensor(serializer, &TensorInfo::blob(self.0.len()), Bytes::new(&self.0))
    }
}

impl<'de> FromTensors<'de> for Blob {
    fn load<D: Deserializer<'de>>(deserializer: D, _: &Adapt) -> Result<Self, D::Error> {
        struct ReceiveBlob;

        impl<'de> Receive<'de> for ReceiveBlob {
            type Value = Blob;
            type Bits = u8;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a blob")
            }

            fn accept(&self, info: &TensorInfo) -> Result<(), Error> {
                Ok(accept_blob(info, None, &Adapt::NONE)?)
            }

            fn copy(self, _: TensorInfo, payload: &[u8]) -> Result<Blob, Error> {
                Ok(Blob(payload.to_vec()))
            }

            fn gathered(self, _: TensorInfo, payload: Gathered<u8>) -> Result<Blob, Error> {
                Ok(Blob(payload.into_bits()))
            }
        }

        deserialize_tensor(deserializer, ReceiveBlob)
    }
}

fn accept_blob(info: &TensorInfo, _: Option<&[Option<usize>]>, _: &Adapt) -> Result<(), ErrorKind> {
    match info.layout {
        Layout::Blob => Ok(()),
        _ => Err(ErrorKind::WrongLayout { found: info.clone(), expected: "a blob" }),
    }
}

impl<A: Element> TensorFile for CooTensor<A> {
    fn node() -> Node {
        Node::Tensor(Slot::new(A::DTYPE, None, accept_coo::<A>))
    }

    fn store<S: Serializer>(&self, serializer: S, _: &Adapt) -> Result<S::Ok, S::Error> {
        serialize_tensor(serializer, &self.info(), &InPieces(self.parts()))
    }
}

impl<'de, A: Element> FromTensors<'de> for CooTensor<A> {
    fn load<D: Deserializer<'de>>(deserializer: D, _: &Adapt) -> Result<Self, D::Error> {
        struct ReceiveCoo<A>(PhantomData<A>);

        impl<'de, A: Element> Receive<'de> for ReceiveCoo<A> {
            type Value = CooTensor<A>;
            type Bits = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a sparse {} tensor", A::DTYPE)
            }

            fn accept(&self, info: &TensorInfo) -> Result<(), Error> {
                Ok(accept_coo::<A>(info, None, &Adapt::NONE)?)
            }

            fn copy(self, info: TensorInfo, payload: &[u8]) -> Result<CooTensor<A>, Error> {
                Ok(CooTensor::from_view(&TensorView::of_checked(info, payload))?)
            }
        }

        deserialize_tensor(deserializer, ReceiveCoo::<A>(PhantomData))
    }
}

fn accept_coo<A: Element>(info: &TensorInfo, _: Option<&[Option<usize>]>, _: &Adapt) -> Result<(), ErrorKind> {
    if info.dtype != A::DTYPE {
        return Err(ErrorKind::WrongDtype { found: info.clone(), expected: A::DTYPE });
    }
    match info.layout {
        Layout::Coo { .. } => Ok(()),
        _ => Err(ErrorKind::WrongLayout { found: info.clone(), expected: "COO layout" }),
    }
}

/// Numbers, which are tensors of rank 0, and lists of them, which are tensors of rank 1.
macro_rules! scalars {
    ($($scalar:ty),*) => {$(
        impl TensorFile for $scalar {
            fn node() -> Node {
                numbers_node::<$scalar>(vec![])
            }

            fn store<S: Serializer>(&self, serializer: S, _: &Adapt) -> Result<S::Ok, S::Error> {
                store_numbers(std::slice::from_ref(self), &[], serializer)
            }

            fn list_node() -> Node {
                numbers_node::<$scalar>(vec![None])
            }

            fn array_node(len: usize) -> Node {
                numbers_node::<$scalar>(vec![Some(len)])
            }

            fn store_list<S: Serializer>(list: &[Self], serializer: S, _: &Adapt) -> Result<S::Ok, S::Error> {
                store_numbers(list, &[list.len()], serializer)
            }

            fn store_array<S: Serializer>(array: &[Self], serializer: S, _: &Adapt) -> Result<S::Ok, S::Error> {
                store_numbers(array, &[array.len()], serializer)
            }
        }

        impl<'de> FromTensors<'de> for $scalar {
            fn load<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Self, D::Error> {
                let numbers = deserialize_tensor(deserializer, ReceiveNumbers::new(&[], adapt))?;
                Ok(numbers[0])
            }

            fn load_list<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Vec<Self>, D::Error> {
                deserialize_tensor(deserializer, ReceiveNumbers::new(&[None], adapt))
            }

            fn load_array<D: Deserializer<'de>>(
                deserializer: D,
                len: usize,
                adapt: &Adapt,
            ) -> Result<Vec<Self>, D::Error> {
                deserialize_tensor(deserializer, ReceiveNumbers::new(&[Some(len)], adapt))
            }
        }

        impl super::Adaptable for $scalar {}
    )*};
}

use crate::tensor::{
    Bits16, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, QInt8, QInt32, QUint2x4, QUint4x2, QUint8, cast, from_le_bytes,
};
use half::{bf16, f16};

scalars! {
    bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64,
    F8E5M2, F8E4M3Fn, F8E5M2Fnuz, F8E4M3Fnuz, QInt8, QUint8, QInt32, QUint4x2, QUint2x4, Bits16
}

fn numbers_node<A: Element>(dims: Vec<Option<usize>>) -> Node {
    Node::Tensor(Slot::new(A::DTYPE, Some(dims), super::accept::<A>))
}

fn store_numbers<A: Element, S: Serializer>(numbers: &[A], shape: &[usize], serializer: S) -> Result<S::Ok, S::Error> {
    let info = TensorInfo::new(A::DTYPE, shape);
    serialize_tensor(serializer, &info, Bytes::new(&to_le_bytes(numbers)))
}

/// A tensor of known rank as a plain list of its elements.
struct ReceiveNumbers<'a, A> {
    dims: &'a [Option<usize>],
    adapt: &'a Adapt,
    element: PhantomData<A>,
}

impl<'a, A: Element> ReceiveNumbers<'a, A> {
    fn new(dims: &'a [Option<usize>], adapt: &'a Adapt) -> Self {
        Self { dims, adapt, element: PhantomData }
    }
}

impl<'de, A: Element> Receive<'de> for ReceiveNumbers<'_, A> {
    type Value = Vec<A>;
    type Bits = A::Bits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", A::DTYPE, super::adapt::dims_text(self.dims))
    }

    fn accept(&self, info: &TensorInfo) -> Result<(), Error> {
        Ok(super::adapt::accept::<A>(info, Some(self.dims), self.adapt)?)
    }

    fn copy(self, info: TensorInfo, payload: &[u8]) -> Result<Vec<A>, Error> {
        if info.dtype == A::DTYPE { Ok(from_le_bytes(payload)?) } else { Ok(cast(info.dtype, payload)?) }
    }

    fn gathered(self, info: TensorInfo, payload: Gathered<A::Bits>) -> Result<Vec<A>, Error> {
        if info.dtype == A::DTYPE { Ok(A::from_bits(payload.into_bits())?) } else { self.copy(info, payload.bytes()) }
    }
}
