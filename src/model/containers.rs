//! Containers of tensors: lists, arrays, tuples, maps, options and pointers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;

use super::{Adapt, Adaptable, Entries, FromTensors, Lent, Node, Sink, Source, Store, TensorFile, TensorSpec, node_of};
use crate::error::{Error, ErrorKind, Result};
use crate::sorted;

impl<T: TensorFile> TensorFile for Option<T> {
    const NODE: Node = Node::Option(node_of::<T>);
    const IS_TENSOR: bool = T::IS_TENSOR;
    const RANKS: u64 = T::RANKS;
}

impl<T: Store> Store for Option<T> {
    fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
        sink.option(self.as_ref().map(|value| value as &dyn Store), adapt)
    }

    fn lend<'a>(&'a self, lent: &mut Lent<'a>) {
        if let Some(value) = self {
            value.lend(lent);
        }
    }
}

impl<'de, T: FromTensors<'de>> FromTensors<'de> for Option<T> {
    fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
        let mut value = None;
        source.option(&mut |_, source| {
            value = Some(T::load(source, adapt)?);
            Ok(())
        })?;
        Ok(value)
    }
}

/// Returns the ranks of a container: those of its items, if it is not a tensor itself.
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
    fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
        T::store_list(self, sink, adapt)
    }

    fn lend<'a>(&'a self, lent: &mut Lent<'a>) {
        T::lend_list(self, lent);
    }
}

impl<'de, T: FromTensors<'de>> FromTensors<'de> for Vec<T> {
    fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
        T::load_list(source, adapt)
    }
}

impl<T: TensorFile> TensorFile for [T] {
    const NODE: Node = list_node::<T>();
    const RANKS: u64 = ranks_of::<T>(Self::NODE);
}

impl<T: Store> Store for [T] {
    fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
        T::store_list(self, sink, adapt)
    }

    fn lend<'a>(&'a self, lent: &mut Lent<'a>) {
        T::lend_list(self, lent);
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
    fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
        T::store_array(self, sink, adapt)
    }

    fn lend<'a>(&'a self, lent: &mut Lent<'a>) {
        T::lend_list(self, lent);
    }
}

impl<'de, T: FromTensors<'de>, const N: usize> FromTensors<'de> for [T; N] {
    fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
        let items = T::load_array(source, Self::NODE, N, adapt)?;
        items.try_into().map_err(|items: Vec<T>| too_few(items.len(), N))
    }
}

/// The error if a source gave fewer parts than the type has.
#[cold]
pub(crate) fn too_few(found: usize, expected: usize) -> Error {
    ErrorKind::WrongCount { found: found as u64, expected: expected.to_string() }.into()
}

macro_rules! pointers {
    ($($pointer:ident),*) => {$(
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
        }

        impl<T: Adaptable + ?Sized> Adaptable for $pointer<T> {}
    )*};
}

pointers!(Box, Rc, Arc);

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

impl<T: Adaptable> Adaptable for Option<T> {}
impl<T: Adaptable> Adaptable for Vec<T> {}
impl<T: Adaptable, const N: usize> Adaptable for [T; N] {}
impl<T: Adaptable> Adaptable for [T] {}
impl<T: Adaptable + ?Sized> Adaptable for &T {}

/// A key of a map, as a part of a tensor's name. Any string, number or unit variant that serde knows is one.
pub trait MapKey {
    /// Appends the key to a name.
    ///
    /// # Errors
    ///
    /// If the key is anything else.
    fn write_key(&self, name: &mut String) -> fmt::Result;
}

/// A [`MapKey`] that can be read from a name.
pub trait FromMapKey<'de>: Sized {
    /// Parses a key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] if the text is not a key of this type.
    fn from_key(text: &str) -> Result<Self>;
}

/// Calls `visit` with the text of each key.
fn for_each_entry<'a, K: MapKey + 'a, T: Store + 'a>(
    entries: &mut dyn Iterator<Item = (&'a K, &'a T)>,
    visit: &mut dyn FnMut(&str, &dyn Store) -> Result<()>,
) -> Result<()> {
    let mut text = String::new();
    for (key, value) in entries {
        text.clear();
        key.write_key(&mut text).map_err(|_| not_a_key())?;
        visit(&text, value)?;
    }
    Ok(())
}

#[cold]
pub(crate) fn not_a_key() -> Error {
    let instead = "expected a tensor, a number, or a struct, map, list or tuple of them";
    ErrorKind::NotATensor { found: "a map key that is no string and no number", instead }.into()
}

#[cold]
fn same_key() -> Error {
    ErrorKind::Message("two entries of a map have the same key".to_owned()).into()
}

/// Maps of the standard library and of `indexmap`.
///
/// A `HashMap` is written in the order of its keys, so that the same value gives the same bytes.
macro_rules! maps {
    ($($map:ident <K: $key:ident $(+ $more:ident)*, T $(, $hasher:ident)?> by $this:ident => $entries:expr;)*) => {$(
        impl<K: MapKey $(+ $more)* + $key, T: TensorFile $(, $hasher: BuildHasher)?> TensorFile for $map<K, T $(, $hasher)?> {
            const NODE: Node = Node::Map(node_of::<T>);
            const RANKS: u64 = T::RANKS;
        }

        impl<K: MapKey $(+ $more)* + $key, T: Store $(, $hasher: BuildHasher)?> Store for $map<K, T $(, $hasher)?> {
            fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
                sink.map(self, adapt)
            }

            fn lend<'a>(&'a self, lent: &mut Lent<'a>) {
                self.values().for_each(|value| value.lend(lent));
            }
        }

        impl<K: MapKey $(+ $more)* + $key, T: Store $(, $hasher: BuildHasher)?> Entries for $map<K, T $(, $hasher)?> {
            fn len(&self) -> usize {
                self.len()
            }

            fn for_each(&self, visit: &mut dyn FnMut(&str, &dyn Store) -> Result<()>) -> Result<()> {
                let $this = self;
                for_each_entry(&mut $entries, visit)
            }
        }

        impl<'de, K, T $(, $hasher)?> FromTensors<'de> for $map<K, T $(, $hasher)?>
        where
            K: MapKey + FromMapKey<'de> $(+ $more)* + $key,
            T: FromTensors<'de>,
            $($hasher: BuildHasher + Default,)?
        {
            fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
                let mut map = Self::default();
                source.map(T::NODE.key_part(), &mut |key, source| {
                    let value = T::load(source, adapt)?;
                    match map.insert(K::from_key(&key)?, value) {
                        None => Ok(()),
                        Some(_) => Err(same_key()),
                    }
                })?;
                Ok(map)
            }
        }

        impl<K, T: Adaptable $(, $hasher)?> Adaptable for $map<K, T $(, $hasher)?> {}
    )*};
}

maps! {
    BTreeMap<K: Ord, T> by map => map.iter();
    HashMap<K: Hash + Eq + Ord, T, H> by map => {
        let entries = map.iter().collect();
        sorted::values(entries, &mut |(one, _): &(&K, &T), (other, _)| one.cmp(other)).into_iter()
    };
    IndexMap<K: Hash + Eq, T, H> by map => map.iter();
}

macro_rules! tuples {
    ($($len:literal: $($item:ident $at:tt),*;)*) => {$(
        impl<$($item: TensorFile),*> TensorFile for ($($item,)*) {
            const NODE: Node = Node::Tuple(&[$(node_of::<$item>),*]);
            const RANKS: u64 = $($item::RANKS)|*;
        }

        impl<$($item: Store),*> Store for ($($item,)*) {
            fn store(&self, sink: &mut dyn Sink, adapt: &Adapt) -> Result<()> {
                sink.tuple(&[$(&self.$at as &dyn Store),*], adapt)
            }

            fn lend<'a>(&'a self, lent: &mut Lent<'a>) {
                $(self.$at.lend(lent);)*
            }
        }

        impl<'de, $($item: FromTensors<'de>),*> FromTensors<'de> for ($($item,)*) {
            fn load(source: &mut dyn Source<'de>, adapt: &Adapt) -> Result<Self> {
                let mut parts: ($(Option<$item>,)*) = Default::default();
                source.tuple($len, &mut |at, source| {
                    match at {
                        $($at => parts.$at = Some($item::load(source, adapt)?),)*
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

        impl<$($item: Adaptable),*> Adaptable for ($($item,)*) {}
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
