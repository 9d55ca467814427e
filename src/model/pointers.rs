//! Pointers, stored as the values they point to.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use super::{Adapt, Adaptable, FromTensors, Lent, Node, Sink, Source, Store, TensorFile};
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
            fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
                (**self).store(sink, adapt)
            }

            fn lend<'a>(&'a self, lent: &mut Lent<'a>) {
                (**self).lend(lent);
            }
        }

        impl<'de, T: FromTensors<'de>> FromTensors<'de> for $pointer<T> {
            fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
                T::load(source, adapt).map(Self::new)
            }

            fn reload(&mut self, source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<()> {
                let alone: fn(&mut Self) -> Option<&mut T> = $get_mut;
                match alone(self) {
                    Some(value) => value.reload(source, adapt),
                    None => {
                        *self = Self::load(source, adapt)?;
                        Ok(())
                    }
                }
            }
        }

        impl<'de, T: FromTensors<'de>> FromTensors<'de> for $pointer<[T]> {
            fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
                T::load_list(source, adapt).map(Self::from)
            }
        }

        impl<T: Adaptable + ?Sized> Adaptable for $pointer<T> {}
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
    fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
        (**self).store(sink, adapt)
    }

    fn lend<'a>(&'a self, lent: &mut Lent<'a>) {
        (**self).lend(lent);
    }
}

impl<T: TensorFile + ToOwned + ?Sized> TensorFile for Cow<'_, T> {
    const NODE: Node = T::NODE;
    const IS_TENSOR: bool = T::IS_TENSOR;
    const RANKS: u64 = T::RANKS;
}

impl<T: Store + ToOwned + ?Sized> Store for Cow<'_, T> {
    fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
        (**self).store(sink, adapt)
    }

    fn lend<'a>(&'a self, lent: &mut Lent<'a>) {
        (**self).lend(lent);
    }
}

/// Borrows the elements from the file if it is in memory and they are aligned; else copies them.
impl<'de: 'a, 'a, A: Element + TensorFile> FromTensors<'de> for Cow<'a, [A]> {
    fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
        let Node::Tensor(spec) = <[A]>::NODE else { unreachable!("a list of numbers is one tensor") };
        let tensor = source.tensor(&spec.adapted(adapt))?;
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
    fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
        T::Owned::load(source, adapt).map(Self::Owned)
    }
}

impl<T: Adaptable + ?Sized> Adaptable for &T {}
impl<T: Adaptable + ToOwned + ?Sized> Adaptable for Cow<'_, T> {}
