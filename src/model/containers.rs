//! Collections of tensors: what they are made of says what they are.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeTuple};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Adapt, Adaptable, FromTensors, Node, TensorFile, token};
use crate::error::is_ours;

/// A borrowed [`TensorFile`] as serde sees it.
pub(crate) struct Stored<'a, T: ?Sized> {
    pub(crate) value: &'a T,
    pub(crate) adapt: &'a Adapt,
}

impl<T: TensorFile + ?Sized> Serialize for Stored<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.store(serializer, self.adapt)
    }
}

/// A field whose tensor is the same as another one of the file, for formats that store it once then.
pub(crate) struct Tied<T> {
    pub(crate) value: T,
    pub(crate) to: &'static str,
}

impl<T: Serialize> Serialize for Tied<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if is_ours::<S::Error>() {
            serializer.serialize_newtype_variant(token::TIED, 0, self.to, &self.value)
        } else {
            self.value.serialize(serializer)
        }
    }
}

/// A field whose tensors have the names that they would have without it.
pub(crate) struct Flattened<T>(pub(crate) T);

impl<T: Serialize> Serialize for Flattened<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(token::FLATTEN, &self.0)
    }
}

/// Reads a `T` with what the field's attributes ask.
pub(crate) struct Loaded<'a, T> {
    adapt: &'a Adapt,
    value: PhantomData<T>,
}

impl<'a, T> Loaded<'a, T> {
    pub(crate) fn new(adapt: &'a Adapt) -> Self {
        Self { adapt, value: PhantomData }
    }
}

impl<'de, T: FromTensors<'de>> DeserializeSeed<'de> for Loaded<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::load(deserializer, self.adapt)
    }
}

/// Reads items up to the end of a list, or up to a number of them.
pub(crate) struct ListVisitor<'a, T> {
    adapt: &'a Adapt,
    most: usize,
    value: PhantomData<T>,
}

impl<'a, T> ListVisitor<'a, T> {
    pub(crate) fn new(adapt: &'a Adapt) -> Self {
        Self::at_most(usize::MAX, adapt)
    }

    pub(crate) fn at_most(most: usize, adapt: &'a Adapt) -> Self {
        Self { adapt, most, value: PhantomData }
    }
}

impl<'de, T: FromTensors<'de>> Visitor<'de> for ListVisitor<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tensors")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while list.len() < self.most
            && let Some(item) = seq.next_element_seed(Loaded::new(self.adapt))?
        {
            list.push(item);
        }
        Ok(list)
    }
}

impl<T: TensorFile> TensorFile for Option<T> {
    fn node() -> Node {
        Node::Optional(Box::new(T::node()))
    }

    fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => serializer.serialize_some(&Stored { value, adapt }),
            None => serializer.serialize_none(),
        }
    }
}

impl<'de, T: FromTensors<'de>> FromTensors<'de> for Option<T> {
    fn load<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Self, D::Error> {
        struct OptionVisitor<'a, T>(Loaded<'a, T>);

        impl<'de, T: FromTensors<'de>> Visitor<'de> for OptionVisitor<'_, T> {
            type Value = Option<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tensors or nothing")
            }

            fn visit_none<E>(self) -> Result<Option<T>, E> {
                Ok(None)
            }

            fn visit_unit<E>(self) -> Result<Option<T>, E> {
                Ok(None)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
                self.0.deserialize(deserializer).map(Some)
            }
        }

        deserializer.deserialize_option(OptionVisitor(Loaded::new(adapt)))
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: TensorFile> TensorFile for Vec<T> {
    fn node() -> Node {
        T::list_node()
    }

    fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error> {
        T::store_list(self, serializer, adapt)
    }
}

impl<'de, T: FromTensors<'de>> FromTensors<'de> for Vec<T> {
    fn load<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Self, D::Error> {
        T::load_list(deserializer, adapt)
    }
}

impl<T: TensorFile> TensorFile for [T] {
    fn node() -> Node {
        T::list_node()
    }

    fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error> {
        T::store_list(self, serializer, adapt)
    }
}

impl<T: TensorFile, const N: usize> TensorFile for [T; N] {
    fn node() -> Node {
        T::array_node(N)
    }

    fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error> {
        T::store_array(self, serializer, adapt)
    }
}

impl<'de, T: FromTensors<'de>, const N: usize> FromTensors<'de> for [T; N] {
    fn load<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Self, D::Error> {
        let items = T::load_array(deserializer, N, adapt)?;
        let found = items.len();
        items.try_into().map_err(|_| D::Error::invalid_length(found, &format!("{N} items").as_str()))
    }
}

/// Pointers, which are what they point at.
macro_rules! pointers {
    ($($pointer:ident),*) => {$(
        impl<T: TensorFile + ?Sized> TensorFile for $pointer<T> {
            fn node() -> Node {
                T::node()
            }

            fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error> {
                (**self).store(serializer, adapt)
            }
        }

        impl<'de, T: FromTensors<'de>> FromTensors<'de> for $pointer<T> {
            fn load<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Self, D::Error> {
                T::load(deserializer, adapt).map(Self::new)
            }

            fn absent() -> Option<Self> {
                T::absent().map(Self::new)
            }
        }

        impl<T: Adaptable + ?Sized> Adaptable for $pointer<T> {}
    )*};
}

pointers!(Box, Rc, Arc);

impl<T: TensorFile + ?Sized> TensorFile for &T {
    fn node() -> Node {
        T::node()
    }

    fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error> {
        (**self).store(serializer, adapt)
    }
}

impl<T: TensorFile + ToOwned + ?Sized> TensorFile for Cow<'_, T> {
    fn node() -> Node {
        T::node()
    }

    fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error> {
        (**self).store(serializer, adapt)
    }
}

impl<T: Adaptable> Adaptable for Option<T> {}
impl<T: Adaptable> Adaptable for Vec<T> {}
impl<T: Adaptable, const N: usize> Adaptable for [T; N] {}
impl<T: Adaptable> Adaptable for [T] {}
impl<T: Adaptable + ?Sized> Adaptable for &T {}

fn store_map<'a, S: Serializer, K: Serialize + 'a, T: TensorFile + 'a>(
    serializer: S,
    entries: impl ExactSizeIterator<Item = (&'a K, &'a T)>,
    adapt: &Adapt,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(entries.len()))?;
    for (key, value) in entries {
        map.serialize_entry(key, &Stored { value, adapt })?;
    }
    map.end()
}

/// Reads a map into anything that collects pairs; two entries of one key are an error.
struct MapVisitor<'a, M, K, T> {
    adapt: &'a Adapt,
    map: PhantomData<(M, K, T)>,
}

/// The maps that we know how to fill.
trait Entries<K, T>: Default {
    /// Adds an entry; whether the key was new.
    fn add(&mut self, key: K, value: T) -> bool;
}

impl<'de, M, K, T> Visitor<'de> for MapVisitor<'_, M, K, T>
where
    M: Entries<K, T>,
    K: Deserialize<'de>,
    T: FromTensors<'de>,
{
    type Value = M;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<M, A::Error> {
        let mut map = M::default();
        while let Some((key, value)) = access.next_entry_seed(PhantomData, Loaded::new(self.adapt))? {
            if !map.add(key, value) {
                return Err(A::Error::custom("two entries of a map have the same key"));
            }
        }
        Ok(map)
    }
}

/// The maps of the standard library and of `indexmap`.
///
/// A `HashMap` is written in the order of its keys' names, so that the same value gives the same bytes.
macro_rules! maps {
    ($($map:ident <K: $key:ident $(+ $more:ident)*, T $(, $hasher:ident)?> by $this:ident => $order:expr;)*) => {$(
        impl<K: Serialize $(+ $more)* + $key, T: TensorFile $(, $hasher: BuildHasher)?> TensorFile for $map<K, T $(, $hasher)?> {
            fn node() -> Node {
                Node::Map(Box::new(T::node()))
            }

            fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error> {
                let $this = self;
                store_map(serializer, $order, adapt)
            }
        }

        impl<'de, K, T $(, $hasher)?> FromTensors<'de> for $map<K, T $(, $hasher)?>
        where
            K: Serialize + Deserialize<'de> $(+ $more)* + $key,
            T: FromTensors<'de>,
            $($hasher: BuildHasher + Default,)?
        {
            fn load<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Self, D::Error> {
                deserializer.deserialize_map(MapVisitor { adapt, map: PhantomData })
            }
        }

        impl<K: $key $(+ $more)*, T $(, $hasher: BuildHasher + Default)?> Entries<K, T> for $map<K, T $(, $hasher)?> {
            fn add(&mut self, key: K, value: T) -> bool {
                self.insert(key, value).is_none()
            }
        }

        impl<K, T: Adaptable $(, $hasher)?> Adaptable for $map<K, T $(, $hasher)?> {}
    )*};
}

maps! {
    BTreeMap<K: Ord, T> by map => map.iter();
    HashMap<K: Hash + Eq + Ord, T, H> by map => {
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        entries.into_iter()
    };
    IndexMap<K: Hash + Eq, T, H> by map => map.iter();
}

macro_rules! tuples {
    ($($len:literal: $($item:ident $at:tt),*;)*) => {$(
        impl<$($item: TensorFile),*> TensorFile for ($($item,)*) {
            fn node() -> Node {
                Node::Tuple(vec![$($item::node()),*])
            }

            fn store<S: Serializer>(&self, serializer: S, adapt: &Adapt) -> Result<S::Ok, S::Error> {
                let mut tuple = serializer.serialize_tuple($len)?;
                $(tuple.serialize_element(&Stored { value: &self.$at, adapt })?;)*
                tuple.end()
            }
        }

        impl<'de, $($item: FromTensors<'de>),*> FromTensors<'de> for ($($item,)*) {
            fn load<D: Deserializer<'de>>(deserializer: D, adapt: &Adapt) -> Result<Self, D::Error> {
                struct TupleVisitor<'a, $($item),*>(&'a Adapt, PhantomData<($($item,)*)>);

                impl<'de, $($item: FromTensors<'de>),*> Visitor<'de> for TupleVisitor<'_, $($item),*> {
                    type Value = ($($item,)*);

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "a tuple of {} parts", $len)
                    }

                    fn visit_seq<Q: SeqAccess<'de>>(self, mut seq: Q) -> Result<Self::Value, Q::Error> {
                        Ok(($(
                            seq.next_element_seed(Loaded::<$item>::new(self.0))?
                                .ok_or_else(|| Q::Error::invalid_length($at, &self))?,
                        )*))
                    }
                }

                deserializer.deserialize_tuple($len, TupleVisitor(adapt, PhantomData))
            }
        }

        impl<$($item: Adaptable),*> Adaptable for ($($item,)*) {}
    )*};
}

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
