//! Maps, and their keys.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};

use indexmap::IndexMap;

use super::{
    ArrayField, BorrowedPayloads, Entries, FieldAttrs, FromTensors, KeyPart, Node, Sink, Source, Store, TensorFile,
    node_of,
};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::sorted;

/// A key of a map, as a part of a tensor's name: any string, number or unit variant in serde's sense.
pub trait MapKey {
    /// Appends the key to a name.
    ///
    /// # Errors
    ///
    /// If the key is anything else.
    fn write_key(&self, name: &mut String) -> fmt::Result;
}

/// A [`MapKey`] parsed from a name.
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
    ErrorKind::Message("map keys must be strings or numbers".to_owned()).into()
}

#[cold]
fn same_key() -> Error {
    ErrorKind::Message("two entries of a map have the same key".to_owned()).into()
}

/// Maps of the standard library and of `indexmap`.
///
/// A `HashMap` is written in key order, so that equal values give equal bytes.
macro_rules! maps {
    ($($map:ident <K: $key:ident $(+ $more:ident)*, T $(, $hasher:ident)?> by $this:ident => $entries:expr, $remove:ident $(, $reserve:ident)?;)*) => {$(
        impl<K: MapKey $(+ $more)* + $key, T: TensorFile $(, $hasher: BuildHasher)?> TensorFile for $map<K, T $(, $hasher)?> {
            const NODE: Node = Node::Map(node_of::<T>);
            const RANKS: u64 = T::RANKS;
        }

        impl<K: MapKey $(+ $more)* + $key, T: Store $(, $hasher: BuildHasher)?> Store for $map<K, T $(, $hasher)?> {
            fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
                sink.map(self, attrs)
            }

            fn borrow_payloads<'a>(&'a self, payloads: &mut BorrowedPayloads<'a>) {
                self.values().for_each(|value| value.borrow_payloads(payloads));
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
            fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
                let mut map = Self::default();
                source.map(T::NODE.key_part(), &mut |key, source| {
                    $(if map.is_empty() && T::NODE.key_part() == KeyPart::Whole {
                        // Growing rehashes all keys, which takes a sixth of the time.
                        map.$reserve(source.expected_entries());
                    })?
                    let value = T::load(source, attrs)?;
                    match map.insert(K::from_key(key)?, value) {
                        None => Ok(()),
                        Some(_) => Err(same_key()),
                    }
                })?;
                Ok(map)
            }

            fn reload(&mut self, source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<()> {
                let mut old = std::mem::take(self);
                source.map(T::NODE.key_part(), &mut |key, source| {
                    let key = K::from_key(key)?;
                    let value = match old.$remove(&key) {
                        Some(mut value) => value.reload(source, attrs).map(|()| value)?,
                        None => T::load(source, attrs)?,
                    };
                    match self.insert(key, value) {
                        None => Ok(()),
                        Some(_) => Err(same_key()),
                    }
                })
            }
        }

        impl<K, T: ArrayField $(, $hasher)?> ArrayField for $map<K, T $(, $hasher)?> {}
    )*};
}

maps! {
    BTreeMap<K: Ord, T> by map => map.iter(), remove;
    HashMap<K: Hash + Eq + Ord, T, H> by map => {
        let entries = map.iter().collect();
        sorted::values(entries, &mut |(one, _): &(&K, &T), (other, _)| one.cmp(other)).into_iter()
    }, remove, reserve;
    IndexMap<K: Hash + Eq, T, H> by map => map.iter(), swap_remove, reserve;
}
