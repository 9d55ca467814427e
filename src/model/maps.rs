//! Maps, and their keys.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};

use indexmap::IndexMap;
use smallvec::SmallVec;

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

/// A closure called with the text of a key and the value.
type Visit<'x> = &'x mut dyn FnMut(&str, &dyn Store) -> Result<()>;

/// Calls `visit` for each entry.
fn for_each_entry<'a, K: MapKey + 'a, T: Store + 'a>(
    entries: &mut dyn Iterator<Item = (&'a K, &'a T)>,
    visit: Visit<'_>,
) -> Result<()> {
    let mut text = String::new();
    for (key, value) in entries {
        text.clear();
        key.write_key(&mut text).map_err(|_| not_a_key())?;
        visit(&text, value)?;
    }
    Ok(())
}

/// Calls `visit` for each entry in the order of `compare`, which is that of the texts if there is none.
///
/// The texts are made once. Comparing keys all over the memory took half of the time to write 100,000 small tensors.
fn for_each_sorted(
    entries: &[(&dyn MapKey, &dyn Store)],
    compare: Option<&mut dyn FnMut(usize, usize) -> Ordering>,
    visit: Visit<'_>,
) -> Result<()> {
    /// The estimated length of a key.
    const KEY: usize = 16;

    let (mut texts, mut ends) = (String::with_capacity(KEY * entries.len()), SmallVec::<[usize; 8]>::new());
    for (key, _) in entries {
        key.write_key(&mut texts).map_err(|_| not_a_key())?;
        ends.push(texts.len());
    }
    let ends = ends.as_slice();
    let text = |i: usize| &texts[i.checked_sub(1).map_or(0, |before| ends[before])..ends[i]];
    let order = match compare {
        Some(compare) => sorted::positions(entries.len(), compare).into(),
        None => sorted::texts(entries.len(), &text),
    };
    order.into_iter().try_for_each(|i| visit(text(i), entries[i].1))
}

/// Returns whether keys are in the order of their texts. Other keys may be, too.
fn are_texts<K>() -> bool {
    [typeid::of::<String>(), typeid::of::<&str>()].contains(&typeid::of::<K>())
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
    ($($map:ident <K: $key:ident $(+ $more:ident)*, T $(, $hasher:ident)?> by $this:ident, $visit:ident => $each:expr, $remove:ident $(, $reserve:ident)?;)*) => {$(
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

            fn for_each(&self, $visit: &mut dyn FnMut(&str, &dyn Store) -> Result<()>) -> Result<()> {
                let $this = self;
                $each
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
    BTreeMap<K: Ord, T> by map, visit => for_each_entry(&mut map.iter(), visit), remove;
    HashMap<K: Hash + Eq + Ord, T, H> by map, visit => {
        if map.len() < 2 {
            return for_each_entry(&mut map.iter(), visit);
        }
        let entries: Vec<_> = map.iter().map(|(key, value)| (key as &dyn MapKey, value as &dyn Store)).collect();
        if are_texts::<K>() {
            return for_each_sorted(&entries, None, visit);
        }
        let keys: Vec<&K> = map.keys().collect();
        for_each_sorted(&entries, Some(&mut |one, other| keys[one].cmp(keys[other])), visit)
    }, remove, reserve;
    IndexMap<K: Hash + Eq, T, H> by map, visit => for_each_entry(&mut map.iter(), visit), swap_remove, reserve;
}
