//! The JSON index of shards, read and written.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Component, Path};

use indexmap::IndexMap;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::read::json_message;
use crate::tensor::sorted;

/// The maximum length of an index in bytes. 100,000 tensors take about 10 MB.
pub(super) const MAX_BYTES: u64 = 1 << 27;

const METADATA: &str = "metadata";
pub(super) const WEIGHT_MAP: &str = "weight_map";

/// The file of each tensor, and metadata.
#[derive(Debug, Default)]
pub(super) struct ShardIndex {
    /// The JSON text of each value.
    pub(super) metadata: IndexMap<String, Box<RawValue>>,
    /// The file of each tensor.
    pub(super) weight_map: IndexMap<String, String>,
}

impl ShardIndex {
    pub(super) fn parse(json: &[u8], limits: &Limits) -> Result<Self> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let counted = deserializer.deserialize_map(IndexVisitor { most: limits.tensors });
        let counted = counted.and_then(|counted| deserializer.end().map(|()| counted));
        let counted = counted.map_err(|error| {
            let error = json_message(&error.to_string());
            malformed(format!("the index of shards is malformed: {error}"))
        })?;
        let Counted { index, entries, tensors } = counted;
        let limit = limits.tensors;
        for (what, found) in [("number of tensors", tensors), ("number of entries of metadata", entries)] {
            if found > limit {
                return Err(ErrorKind::Limit { what, found, limit }.into());
            }
        }
        match index.weight_map.iter().find(|(_, shard)| !is_file_name(shard)) {
            Some((tensor, shard)) => {
                let shard = shard.escape_debug();
                Err(malformed(format!(
                    "`{tensor}` is said to be in `{shard}`, which is not the name of a file next to the index"
                )))
            }
            None if index.weight_map.is_empty() => Err(malformed("the index of shards lists no tensors".to_owned())),
            None => Ok(index),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("maps of strings and values are JSON");
        json.push(b'\n');
        json
    }

    /// Returns the file of a tensor.
    pub(super) fn shard_of(&self, tensor: &str) -> Option<&str> {
        self.weight_map.get(tensor).map(String::as_str)
    }

    /// The files, in the order of their names, each with its tensors.
    pub(super) fn shards(&self) -> Vec<(&str, Vec<&str>)> {
        let mut shards: Vec<(&str, Vec<&str>)> = Vec::new();
        let entries = self.weight_map.iter().map(|(tensor, shard)| (shard.as_str(), tensor.as_str())).collect();
        for (shard, tensor) in sorted::values(entries, &mut Ord::cmp) {
            match shards.last_mut() {
                Some((last, tensors)) if *last == shard => tensors.push(tensor),
                _ => shards.push((shard, vec![tensor])),
            }
        }
        shards
    }
}

/// Returns whether a name is a plain file name, on this system and on others.
pub(in crate::file::checkpoint) fn is_file_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let is_one = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    is_one && !name.contains(['/', '\\', '\0'])
}

pub(super) fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}

impl Serialize for ShardIndex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut index = serializer.serialize_struct("ShardIndex", 2)?;
        index.serialize_field(METADATA, &Sorted(&self.metadata))?;
        index.serialize_field(WEIGHT_MAP, &Sorted(&self.weight_map))?;
        index.end()
    }
}

/// Serializes a map in the order of its keys.
struct Sorted<'a, V>(&'a IndexMap<String, V>);

impl<V: Serialize> Serialize for Sorted<'_, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(sorted::values(self.0.iter().collect(), &mut |one, other| one.0.cmp(other.0)))
    }
}

/// An index, and the number of entries in its JSON. The maps hold no more entries than the limit.
struct Counted {
    index: ShardIndex,
    entries: u64,
    tensors: u64,
}

struct IndexVisitor {
    most: u64,
}

impl<'de> Visitor<'de> for IndexVisitor {
    type Value = Counted;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with `{WEIGHT_MAP}`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counted, A::Error> {
        let (mut metadata, mut weight_map) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                METADATA if metadata.is_none() => metadata = Some(map.next_value_seed(LimitedMap::up_to(self.most))?),
                WEIGHT_MAP if weight_map.is_none() => {
                    weight_map = Some(map.next_value_seed(LimitedMap::up_to(self.most))?);
                }
                METADATA | WEIGHT_MAP => return Err(twice(&key)),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let (weight_map, tensors) = weight_map.ok_or_else(|| A::Error::missing_field(WEIGHT_MAP))?;
        let (metadata, entries) = metadata.unwrap_or_default();
        Ok(Counted { index: ShardIndex { metadata, weight_map }, entries, tensors })
    }
}

/// An object with distinct keys. The first `most` entries are collected, and all are counted.
struct LimitedMap<V> {
    most: u64,
    values: PhantomData<V>,
}

impl<V> LimitedMap<V> {
    fn up_to(most: u64) -> Self {
        Self { most, values: PhantomData }
    }
}

impl<'de, V: Deserialize<'de>> DeserializeSeed<'de> for LimitedMap<V> {
    type Value = (IndexMap<String, V>, u64);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, V: Deserialize<'de>> Visitor<'de> for LimitedMap<V> {
    type Value = (IndexMap<String, V>, u64);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut entries, mut count) = (IndexMap::new(), 0);
        while count < self.most
            && let Some(key) = map.next_key::<String>()?
        {
            if entries.contains_key(&key) {
                return Err(twice(&key));
            }
            entries.insert(key, map.next_value()?);
            count += 1;
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok((entries, count))
    }
}

fn twice<E: serde::de::Error>(key: &str) -> E {
    E::custom(format_args!("`{key}` is there twice"))
}
