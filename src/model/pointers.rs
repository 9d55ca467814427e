//! Pointers, stored as the values they point to.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use super::{ArrayField, BorrowedPayloads, FieldAttrs, FromTensors, Node, Sink, Source, Store, TensorFile};
use crate::error::Result;
use crate::tensor::Element;

macro_rules! pointers {
    ($($pointer:ident by $get_mut:expr;)*) => {$(
        impl<T: TensorFile + ?Sized> TensorFile for $pointer<T> {
            const NODE: Node = T::NODE;
            const IS_TENSOR: bool = T::IS_TENSOR;
            const RANKS: u64 = T::RANKS;
        }

        impl<T: Store + ?Sized> Store for $pointer<T> {
            fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
                (**self).store(sink, attrs)
            }

            fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
                (**self).borrow_payloads(payloads);
            }
        }

        impl<'de, T: FromTensors<'de>> FromTensors<'de> for $pointer<T> {
            fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
                T::load(source, attrs).map(Self::new)
            }

            fn reload(&mut self, source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<()> {
                let alone: fn(&mut Self) -> Option<&mut T> = $get_mut;
                match alone(self) {
                    Some(value) => value.reload(source, attrs),
                    None => {
                        *self = Self::load(source, attrs)?;
                        Ok(())
                    }
                }
            }
        }

        impl<'de, T: FromTensors<'de>> FromTensors<'de> for $pointer<[T]> {
            fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
                T::load_list(source, attrs).map(Self::from)
            }
        }

        impl<T: ArrayField + ?Sized> ArrayField for $pointer<T> {}
    )*};
}

pointers! {
    Box by |pointer| Some(pointer);
    Rc by Rc::get_mut;
    Arc by Arc::get_mut;
}

impl<T: TensorFile + ?Sized> TensorFile for &T {
    const NODE: Node = T::NODE;
    const IS_TENSOR: bool = T::IS_TENSOR;
    const RANKS: u64 = T::RANKS;
}

impl<T: Store + ?Sized> Store for &T {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        (**self).store(sink, attrs)
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        (**self).borrow_payloads(payloads);
    }
}

impl<T: TensorFile + ToOwned + ?Sized> TensorFile for Cow<'_, T> {
    const NODE: Node = T::NODE;
    const IS_TENSOR: bool = T::IS_TENSOR;
    const RANKS: u64 = T::RANKS;
}

impl<T: Store + ToOwned + ?Sized> Store for Cow<'_, T> {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        (**self).store(sink, attrs)
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        (**self).borrow_payloads(payloads);
    }
}

/// Borrows the elements from the file if it is in memory and they are aligned; else copies them.
impl<'de: 'a, 'a, A: Element + TensorFile> FromTensors<'de> for Cow<'a, [A]> {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        let Node::Tensor(spec) = <[A]>::NODE else { unreachable!("a list of numbers is one tensor") };
        let tensor = source.tensor(&spec.with_attrs(attrs))?;
        Ok(if tensor.can_be_borrowed_as::<A>() {
            Self::Borrowed(tensor.as_slice_of_file()?)
        } else {
            Self::Owned(tensor.into_vec()?)
        })
    }
}

/// Reads an owned value.
impl<'de, T: TensorFile + ToOwned> FromTensors<'de> for Cow<'_, T>
where
    T::Owned: FromTensors<'de>,
{
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        T::Owned::load(source, attrs).map(Self::Owned)
    }
}

impl<T: ArrayField + ?Sized> ArrayField for &T {}
impl<T: ArrayField + ToOwned + ?Sized> ArrayField for Cow<'_, T> {}
