//! serde's traits for the types of this crate.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde::{Deserialize, Deserializer};

use super::de::parse_key;
use super::error::to_ser;
use super::sink::serialize_tensor;
use super::{deserialize_load, serialize_store};
use crate::error::{ErrorKind, Result};
use crate::model::{FromMapKey, TensorRecord, TensorSink, Tensors};
use crate::tensor::{Blob, CooTensor, Element, Tensor, TensorMap, TensorView};

macro_rules! tensors {
    ($(<$de:lifetime $(: $view:lifetime)? $(, $element:ident)?> $ty:ty;)*) => {$(
        impl<$($view,)? $($element: Element)?> Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serialize_store(self, serializer)
            }
        }

        impl<$de $(: $view, $view)? $(, $element: Element)?> Deserialize<$de> for $ty {
            fn deserialize<D: Deserializer<$de>>(deserializer: D) -> Result<Self, D::Error> {
                deserialize_load(deserializer)
            }
        }
    )*};
}

tensors! {
    <'de> Tensor;
    <'de: 'a> TensorView<'a>;
    <'de> TensorMap;
    <'de> Blob;
    <'de, A> CooTensor<A>;
}

/// A map of tensors by name.
impl Serialize for dyn Tensors + '_ {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut count = TensorCounter(0);
        self.send(&mut count).map_err(to_ser)?;
        let mut entries = MapSink { map: serializer.serialize_map(Some(count.0))?, error: None };
        let sent = self.send(&mut entries);
        match (entries.error, sent) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(to_ser(error)),
            (None, Ok(())) => entries.map.end(),
        }
    }
}

struct TensorCounter(usize);

impl TensorSink for TensorCounter {
    fn tensor(&mut self, _: &TensorRecord<'_>) -> Result<()> {
        self.0 += 1;
        Ok(())
    }
}

/// A map of serde that takes tensors.
struct MapSink<M: SerializeMap> {
    map: M,
    error: Option<M::Error>,
}

impl<M: SerializeMap> TensorSink for MapSink<M> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.map.serialize_entry(tensor.name, &TensorValue(tensor)).map_err(|error| {
            self.error = Some(error);
            ErrorKind::Message("an error of the serde format".to_owned()).into()
        })
    }
}

struct TensorValue<'a>(&'a TensorRecord<'a>);

impl Serialize for TensorValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_tensor(serializer, self.0.info, self.0.data)
    }
}

/// Any key serde can read from a string, a number or the name of a unit variant.
impl<'de, K: Deserialize<'de>> FromMapKey<'de> for K {
    fn from_key(text: &str) -> Result<Self> {
        parse_key(text)
    }
}
