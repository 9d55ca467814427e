//! The index: its JSON, read and written.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Component, Path};

use indexmap::IndexMap;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};

/// The end of an index's file name, after the name of the file that is in shards.
pub(super) const EXTENSION: &str = ".index.json";
/// The entry of the metadata that tells how many bytes the tensors take.
pub(super) const TOTAL: &str = "total_size";

/// The maximum length of an index in bytes. 100,000 tensors take about 10 MB.
pub(super) const MAX_BYTES: u64 = 1 << 27;

const METADATA: &str = "metadata";
pub(super) const WEIGHT_MAP: &str = "weight_map";

/// The file of each tensor, and metadata.
#[derive(Debug, Default)]
pub(in crate::file) struct ShardIndex {
    /// The text of each value, which may be any JSON.
    pub(super) metadata: IndexMap<String, Box<RawValue>>,
    /// The file of each tensor.
    pub(super) weight_map: BTreeMap<String, String>,
}

impl ShardIndex {
    pub(super) fn parse(json: &[u8]) -> Result<Self> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let index = Self::deserialize(&mut deserializer).and_then(|index| deserializer.end().map(|()| index));
        let index = index.map_err(|error| malformed(format!("the index of shards is malformed: {error}")))?;
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

    /// The files, in the order of their names, each with its tensors.
    pub(in crate::file) fn shards(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut shards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (tensor, shard) in &self.weight_map {
            shards.entry(shard).or_default().push(tensor);
        }
        shards
    }
}

/// Returns whether a name is that of a file in the same folder, on this and on other systems.
fn is_file_name(name: &str) -> bool {
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
        let metadata: BTreeMap<_, _> = self.metadata.iter().collect();
        index.serialize_field(METADATA, &metadata)?;
        index.serialize_field(WEIGHT_MAP, &self.weight_map)?;
        index.end()
    }
}

impl<'de> Deserialize<'de> for ShardIndex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IndexVisitor;

        impl<'de> Visitor<'de> for IndexVisitor {
            type Value = ShardIndex;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object with `{WEIGHT_MAP}`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ShardIndex, A::Error> {
                let (mut metadata, mut weight_map) = (None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        METADATA if metadata.is_none() => metadata = Some(map.next_value_seed(Entries::new())?),
                        WEIGHT_MAP if weight_map.is_none() => weight_map = Some(map.next_value_seed(Entries::new())?),
                        METADATA | WEIGHT_MAP => return Err(twice(&key)),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                let weight_map = weight_map.ok_or_else(|| A::Error::missing_field(WEIGHT_MAP))?;
                Ok(ShardIndex { metadata: metadata.unwrap_or_default(), weight_map: weight_map.into_iter().collect() })
            }
        }

        deserializer.deserialize_map(IndexVisitor)
    }
}

/// An object with distinct keys.
struct Entries<V>(PhantomData<V>);

impl<V> Entries<V> {
    fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, V: Deserialize<'de>> DeserializeSeed<'de> for Entries<V> {
    type Value = IndexMap<String, V>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
    type Value = IndexMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = IndexMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if entries.contains_key(&key) {
                return Err(twice(&key));
            }
            entries.insert(key, map.next_value()?);
        }
        Ok(entries)
    }
}

fn twice<E: serde::de::Error>(key: &str) -> E {
    E::custom(format_args!("`{key}` is there twice"))
}
