//! Tensors, collections of them and numbers as values.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::loaded::{Payload, cannot_borrow};
use super::{
    ArrayField, BorrowedPayloads, Entries, FieldAttrs, FromTensors, Node, Sink, Source, Store, TemporaryBytes,
    TensorFile, TensorSpec,
};
use crate::error::{ErrorKind, Result};
use crate::tensor::checked_io::write_all;
use crate::tensor::{Blob, Buffer, CooTensor, Element, Tensor, TensorInfo, TensorMap, TensorView, for_each_dtype};

impl TensorFile for TensorView<'_> {
    const NODE: Node = Node::Tensor(TensorSpec::ANY);
}

impl Store for TensorView<'_> {
    fn store(&self, sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
        sink.tensor(self.info(), &self.as_bytes())
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        payloads.bytes(self.as_bytes().into());
    }
}

impl<'de: 'a, 'a> FromTensors<'de> for TensorView<'a> {
    fn load(source: &mut dyn Source<'de>, _: &FieldAttrs) -> Result<Self> {
        match source.tensor(&TensorSpec::ANY)?.into_parts() {
            (info, Payload::Borrowed(bytes)) => Ok(TensorView::from_checked(Cow::Owned(info), bytes)),
            (info, Payload::Owned(_)) => Err(cannot_borrow(info.dtype, "a `Tensor`")),
        }
    }
}

impl TensorFile for Tensor {
    const NODE: Node = Node::Tensor(TensorSpec::ANY);
}

impl Store for Tensor {
    fn store(&self, sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
        sink.tensor(self.info(), &self.as_bytes())
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        payloads.bytes(self.as_bytes().into());
    }
}

impl<'de> FromTensors<'de> for Tensor {
    fn load(source: &mut dyn Source<'de>, _: &FieldAttrs) -> Result<Self> {
        load_tensor(source, &TensorSpec::ANY.owned(), &mut |bytes, info| copy(info, bytes))
    }
}

/// Makes or finds the memory for bytes of a tensor.
type Share<'s, 'de> = dyn FnMut(&'de [u8], &TensorInfo) -> Result<Arc<Buffer>> + 's;

/// Loads a tensor. `share` makes or finds the memory for borrowed bytes.
fn load_tensor<'de>(
    source: &mut (dyn Source<'de> + '_),
    spec: &TensorSpec,
    share: &mut Share<'_, 'de>,
) -> Result<Tensor> {
    let (info, payload) = source.tensor(spec)?.into_parts();
    let bytes = match payload {
        Payload::Borrowed(bytes) => share(bytes, &info)?,
        Payload::Owned(buffer) => Arc::new(buffer),
    };
    Ok(Tensor::from_checked(info, bytes))
}

fn copy(info: &TensorInfo, bytes: &[u8]) -> Result<Arc<Buffer>> {
    Ok(Arc::new(Buffer::try_from_slice(info.unit_bytes(), bytes)?))
}

impl TensorFile for TensorMap {
    const NODE: Node = Node::Map(super::node_of::<Tensor>);
}

impl Store for TensorMap {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        sink.map(self, attrs)
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        self.iter().for_each(|(_, tensor)| tensor.borrow_payloads(payloads));
    }
}

impl Entries for TensorMap {
    fn len(&self) -> usize {
        self.len()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&str, &dyn Store) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|(name, tensor)| visit(name, tensor))
    }
}

impl<'de> FromTensors<'de> for TensorMap {
    /// Tensors with shared bytes in a file in memory share them in the map too.
    fn load(source: &mut dyn Source<'de>, _: &FieldAttrs) -> Result<Self> {
        let mut map = Self::new();
        let mut shared: HashMap<(usize, usize), Arc<Buffer>> = HashMap::new();
        source.map(Tensor::NODE.key_part(), &mut |name, source| {
            if map.is_empty() {
                map.reserve(source.expected_entries());
            }
            let tensor = load_tensor(source, &TensorSpec::ANY.shared(), &mut |bytes, info| {
                // Bytes with the lifetime of the file are equal if their addresses are.
                let place = (bytes.as_ptr().addr(), bytes.len());
                Ok(match shared.entry(place) {
                    Entry::Occupied(known) => Arc::clone(known.get()),
                    Entry::Vacant(vacant) => Arc::clone(vacant.insert(copy(info, bytes)?)),
                })
            })?;
            match map.insert(name, tensor) {
                None => Ok(()),
                Some(_) => Err(ErrorKind::DuplicateName { name: name.to_owned() }.into()),
            }
        })?;
        Ok(map)
    }
}

impl TensorFile for Blob {
    const NODE: Node = Node::Tensor(TensorSpec::BLOB);
}

impl Store for Blob {
    fn store(&self, sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
        sink.tensor(&TensorInfo::blob(self.0.len()), &&*self.0)
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        payloads.bytes(self.0.as_slice().into());
    }
}

impl<'de> FromTensors<'de> for Blob {
    fn load(source: &mut dyn Source<'de>, _: &FieldAttrs) -> Result<Self> {
        match source.tensor(&TensorSpec::BLOB.owned())?.into_parts() {
            (info, Payload::Borrowed(bytes)) => {
                Ok(Blob(Buffer::try_from_slice(info.unit_bytes(), bytes)?.into_vec_u8()))
            }
            (_, Payload::Owned(buffer)) => Ok(Blob(buffer.into_vec_u8())),
        }
    }
}

impl<A: Element> TensorFile for CooTensor<A> {
    const NODE: Node = Node::Tensor(TensorSpec::coo(A::DTYPE));
}

impl<A: Element> Store for CooTensor<A> {
    fn store(&self, sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
        struct Parts<'a>([Cow<'a, [u8]>; 3]);

        impl super::TensorData for Parts<'_> {
            fn write_to(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
                self.0.iter().try_for_each(|part| write_all(out, part))
            }
        }

        sink.tensor(&self.info(), &Parts(self.parts()))
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        self.parts().into_iter().for_each(|part| payloads.bytes(part));
    }
}

impl<'de, A: Element> FromTensors<'de> for CooTensor<A> {
    fn load(source: &mut dyn Source<'de>, _: &FieldAttrs) -> Result<Self> {
        let loaded = source.tensor(&TensorSpec::coo(A::DTYPE).owned())?;
        Ok(CooTensor::from_view(&TensorView::from_checked(Cow::Borrowed(loaded.info()), loaded.as_bytes()))?)
    }
}

/// Implements the traits for numbers, as tensors of rank 0. Lists of numbers are tensors of rank 1.
macro_rules! numbers {
    ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
        $(number!($class $scalar);)*
    };
}

macro_rules! number {
    (Block $scalar:ty) => {};
    ($class:ident $scalar:ty) => {
        impl TensorFile for $scalar {
            const NODE: Node = Node::Tensor(TensorSpec::dense(<$scalar>::DTYPE, Some(&[])));
            const NUMBER: Option<crate::tensor::Dtype> = Some(<$scalar>::DTYPE);
        }

        impl Store for $scalar {
            fn store(&self, sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
                // Types that store a number which they compute have it in one place of the stack, one after the other.
                store_temporary(std::slice::from_ref(self), &[], sink)
            }

            fn store_list(list: &[Self], sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
                store_numbers(list, &[list.len()], sink)
            }

            fn store_array(array: &[Self], sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
                store_numbers(array, &[array.len()], sink)
            }

            fn store_halves(front: &[Self], back: &[Self], sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
                store_temporary(&[front, back].concat(), &[front.len() + back.len()], sink)
            }

            fn borrow_list<'a>(list: &'a [Self], payloads: &mut BorrowedPayloads<'a>) {
                payloads.bytes(Element::as_le_bytes(list));
            }
        }

        impl<'de> FromTensors<'de> for $scalar {
            fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
                load_numbers(source, &TensorSpec::dense(<$scalar>::DTYPE, Some(&[])).with_attrs(attrs))
                    .map(|numbers| numbers[0])
            }

            fn load_list(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Vec<Self>> {
                load_numbers(source, &TensorSpec::dense(<$scalar>::DTYPE, Some(&[None])).with_attrs(attrs))
            }

            fn reload_list(list: &mut Vec<Self>, source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<()> {
                *list = Self::load_list(source, attrs)?;
                Ok(())
            }

            fn load_array(source: &mut dyn Source<'de>, node: Node, _: usize, attrs: &FieldAttrs) -> Result<Vec<Self>> {
                let Node::Tensor(spec) = node else { unreachable!("an array of numbers is one tensor") };
                load_numbers(source, &spec.with_attrs(attrs))
            }
        }

        impl ArrayField for $scalar {}
    };
}

for_each_dtype!(numbers);

fn store_numbers<A: Element>(numbers: &[A], shape: &[usize], sink: &mut (dyn Sink + '_)) -> Result<()> {
    sink.tensor(&TensorInfo::new(A::DTYPE, shape), &Element::as_le_bytes(numbers))
}

/// Stores numbers whose memory is not theirs for longer than this call.
fn store_temporary<A: Element>(numbers: &[A], shape: &[usize], sink: &mut (dyn Sink + '_)) -> Result<()> {
    sink.tensor(&TensorInfo::new(A::DTYPE, shape), &TemporaryBytes(&Element::as_le_bytes(numbers)))
}

fn load_numbers<'de, A: Element>(source: &mut (dyn Source<'de> + '_), spec: &TensorSpec) -> Result<Vec<A>> {
    source.tensor(&spec.owned())?.into_vec()
}
