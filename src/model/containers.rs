//! Options, lists, arrays and tuples.

use std::collections::VecDeque;
use std::marker::PhantomData;

use super::{
    ArrayField, BorrowedPayloads, FieldAttrs, FromTensors, Node, Sink, Source, Store, TensorFile, TensorSpec, node_of,
};
use crate::error::{Error, ErrorKind, Result};

impl<T: TensorFile> TensorFile for Option<T> {
    const NODE: Node = Node::Option(node_of::<T>);
    const IS_TENSOR: bool = T::IS_TENSOR;
    const RANKS: u64 = T::RANKS;
}

impl<T: Store> Store for Option<T> {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        sink.option(self.as_ref().map(|value| value as &dyn Store), attrs)
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        if let Some(value) = self {
            value.borrow_payloads(payloads);
        }
    }
}

impl<'de, T: FromTensors<'de>> FromTensors<'de> for Option<T> {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        let mut value = None;
        source.option(&mut |_, source| {
            value = Some(T::load(source, attrs)?);
            Ok(())
        })?;
        Ok(value)
    }

    fn reload(&mut self, source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<()> {
        let mut old = self.take();
        source.option(&mut |_, source| {
            *self = Some(match old.take() {
                Some(mut value) => value.reload(source, attrs).map(|()| value)?,
                None => T::load(source, attrs)?,
            });
            Ok(())
        })
    }
}

/// Returns the ranks of a container: the ranks of its items, unless it is a tensor itself.
const fn ranks_of<T: TensorFile>(container: Node) -> u64 {
    match container {
        Node::Tensor(_) => container.ranks(),
        _ => T::RANKS,
    }
}

/// A list of numbers is one tensor of rank 1; a list of anything else has numbered items.
const fn list_node<T: TensorFile>() -> Node {
    match T::NUMBER {
        Some(dtype) => Node::Tensor(TensorSpec::dense(dtype, Some(&[None]))),
        None => Node::List(node_of::<T>),
    }
}

impl<T: TensorFile> TensorFile for Vec<T> {
    const NODE: Node = list_node::<T>();
    const RANKS: u64 = ranks_of::<T>(Self::NODE);
}

impl<T: Store> Store for Vec<T> {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        T::store_list(self, sink, attrs)
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        T::borrow_list(self, payloads);
    }
}

impl<'de, T: FromTensors<'de>> FromTensors<'de> for Vec<T> {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        T::load_list(source, attrs)
    }

    fn reload(&mut self, source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<()> {
        T::reload_list(self, source, attrs)
    }
}

impl<T: TensorFile> TensorFile for [T] {
    const NODE: Node = list_node::<T>();
    const RANKS: u64 = ranks_of::<T>(Self::NODE);
}

impl<T: Store> Store for [T] {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        T::store_list(self, sink, attrs)
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        T::borrow_list(self, payloads);
    }
}

impl<T: TensorFile> TensorFile for VecDeque<T> {
    const NODE: Node = list_node::<T>();
    const RANKS: u64 = ranks_of::<T>(Self::NODE);
}

impl<T: Store> Store for VecDeque<T> {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        match self.as_slices() {
            (list, []) => T::store_list(list, sink, attrs),
            (front, back) => T::store_halves(front, back, sink, attrs),
        }
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        let (front, back) = self.as_slices();
        T::borrow_list(front, payloads);
        T::borrow_list(back, payloads);
    }
}

impl<'de, T: FromTensors<'de>> FromTensors<'de> for VecDeque<T> {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        T::load_list(source, attrs).map(Self::from)
    }
}

impl<T: TensorFile, const N: usize> TensorFile for [T; N] {
    const NODE: Node = match T::NUMBER {
        Some(dtype) => Node::Tensor(TensorSpec::dense(dtype, Some(&[Some(N)]))),
        None => Node::Array(node_of::<T>, N),
    };
    const RANKS: u64 = ranks_of::<T>(Self::NODE);
}

impl<T: Store, const N: usize> Store for [T; N] {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        T::store_array(self, sink, attrs)
    }

    fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
        T::borrow_list(self, payloads);
    }
}

impl<'de, T: FromTensors<'de>, const N: usize> FromTensors<'de> for [T; N] {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        let items = T::load_array(source, Self::NODE, N, attrs)?;
        items.try_into().map_err(|items: Vec<T>| too_few(items.len(), N))
    }
}

/// The error if a source gave fewer parts than the type has.
#[cold]
pub(crate) fn too_few(found: usize, expected: usize) -> Error {
    ErrorKind::WrongCount { found: found as u64, expected: expected.to_string() }.into()
}

impl<T: ArrayField> ArrayField for Option<T> {}
impl<T: ArrayField> ArrayField for Vec<T> {}
impl<T: ArrayField> ArrayField for VecDeque<T> {}
impl<T: ArrayField, const N: usize> ArrayField for [T; N] {}
impl<T: ArrayField> ArrayField for [T] {}

macro_rules! tuples {
    ($($len:literal: $($item:ident $index:tt),*;)*) => {$(
        impl<$($item: TensorFile),*> TensorFile for ($($item,)*) {
            const NODE: Node = Node::Tuple(&[$(node_of::<$item>),*]);
            const RANKS: u64 = $($item::RANKS)|*;
        }

        impl<$($item: Store),*> Store for ($($item,)*) {
            fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
                sink.tuple(&[$(&self.$index as &dyn Store),*], attrs)
            }

            fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
                $(self.$index.borrow_payloads(payloads);)*
            }
        }

        impl<'de, $($item: FromTensors<'de>),*> FromTensors<'de> for ($($item,)*) {
            fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
                let mut parts: ($(Option<$item>,)*) = Default::default();
                source.tuple($len, &mut |index, source| {
                    match index {
                        $($index => parts.$index = Some($item::load(source, attrs)?),)*
                        _ => {}
                    }
                    Ok(())
                })?;
                match parts {
                    ($(Some($item),)*) => Ok(($($item,)*)),
                    _ => Err(too_few(0, $len)),
                }
            }
        }

        impl<$($item: ArrayField),*> ArrayField for ($($item,)*) {}
    )*};
}

#[allow(non_snake_case, reason = "the parts of a tuple are named after their types")]
mod tuples {
    use super::*;

    tuples! {
        1: A 0;
        2: A 0, B 1;
        3: A 0, B 1, C 2;
        4: A 0, B 1, C 2, E 3;
        5: A 0, B 1, C 2, E 3, F 4;
        6: A 0, B 1, C 2, E 3, F 4, G 5;
        7: A 0, B 1, C 2, E 3, F 4, G 5, H 6;
        8: A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7;
    }
}

/// Implements the traits for types without data, which take no place in a file.
macro_rules! empty {
    ($(<$($generic:ident)?> $empty:ty = $value:expr;)*) => {$(
        impl$(<$generic: ?Sized>)? TensorFile for $empty {
            const NODE: Node = Node::Tuple(&[]);
        }

        impl$(<$generic: ?Sized>)? Store for $empty {
            fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
                let nothing: &[&dyn Store] = &[];
                sink.tuple(&nothing, attrs)
            }
        }

        impl<'de, $($generic: ?Sized)?> FromTensors<'de> for $empty {
            fn load(source: &mut dyn Source<'de>, _: &FieldAttrs) -> Result<Self> {
                source.tuple(0, &mut |_, _| Ok(()))?;
                Ok($value)
            }
        }

        impl$(<$generic: ?Sized>)? ArrayField for $empty {}
    )*};
}

empty! {
    <> () = ();
    <T> PhantomData<T> = PhantomData;
}
