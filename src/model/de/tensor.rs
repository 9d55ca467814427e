use std::fmt;

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer, StrDeserializer, U32Deserializer};
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::number::NumbersAccess;
use crate::error::{Error, Result};
use crate::model::handoff::{take_info, with_info};
use crate::model::{TensorSource, token};
use crate::tensor::{Dtype, Layout, Tensor, TensorInfo};

/// The fields of a tensor, in the order of [`token::TENSOR_FIELDS`].
pub(super) struct TensorAccess<'a, S> {
    source: &'a mut S,
    at: usize,
    info: TensorInfo,
    field: usize,
}

/// The number of the field that is the payload.
const DATA: usize = 3;

impl<'a, 'de, S: TensorSource<'de>> TensorAccess<'a, S> {
    pub(super) fn new(source: &'a mut S, at: usize) -> Self {
        let info = source.info(at).clone();
        Self { source, at, info, field: 0 }
    }

    /// Gives a type of ours the head at once and the payload; other types find the fields as usual.
    pub(super) fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        with_info(self.info.clone(), || visitor.visit_seq(HandedOver(self)))
    }

    fn field<T: DeserializeSeed<'de>>(&mut self, field: &str, seed: T) -> Result<T::Value> {
        match field {
            token::DTYPE => seed.deserialize(DtypeDeserializer(self.info.dtype)),
            token::SHAPE => seed.deserialize(SeqDeserializer::new(self.info.shape.iter().copied())),
            token::LAYOUT => match &self.info.layout {
                Layout::RowMajor => seed.deserialize(StrDeserializer::new(token::ROW_MAJOR)),
                Layout::Blob => seed.deserialize(StrDeserializer::new(token::BLOB)),
                Layout::DimOrder(order) => seed.deserialize(variant(token::DIM_ORDER, order.as_slice().to_vec())),
                Layout::Coo { entries } => seed.deserialize(variant(token::COO, *entries)),
            },
            _ => seed.deserialize(PayloadDeserializer { source: &mut *self.source, at: self.at }),
        }
    }
}

/// The fields of a tensor whose head waits to be picked up. Where it is gone at the first question, the question is for
/// the payload.
struct HandedOver<'a, S>(TensorAccess<'a, S>);

impl<'de, S: TensorSource<'de>> SeqAccess<'de> for HandedOver<'_, S> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.0.field == 0 && take_info().is_none() {
            self.0.field = DATA;
        }
        self.0.next_element_seed(seed)
    }
}

/// An enum's variant with a value.
fn variant<'de, T: IntoDeserializer<'de, Error>>(
    name: &'static str,
    value: T,
) -> MapAccessDeserializer<MapDeserializer<'de, std::iter::Once<(&'static str, T)>, Error>> {
    MapAccessDeserializer::new(MapDeserializer::new(std::iter::once((name, value))))
}

impl<'de, S: TensorSource<'de>> SeqAccess<'de> for TensorAccess<'_, S> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(field) = token::TENSOR_FIELDS.get(self.field) else { return Ok(None) };
        self.field += 1;
        self.field(field, seed).map(Some)
    }
}

/// The fields with their names, for a type that takes anything.
pub(super) struct TensorFields<'a, S>(TensorAccess<'a, S>);

impl<'a, S> TensorFields<'a, S> {
    pub(super) fn new(tensor: TensorAccess<'a, S>) -> Self {
        Self(tensor)
    }
}

impl<'de, S: TensorSource<'de>> MapAccess<'de> for TensorFields<'_, S> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(field) = token::TENSOR_FIELDS.get(self.0.field) else { return Ok(None) };
        seed.deserialize(StrDeserializer::new(field)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let field = token::TENSOR_FIELDS[self.0.field];
        self.0.field += 1;
        self.0.field(field, seed)
    }
}

/// The payload of a tensor, whatever it is asked for as.
struct PayloadDeserializer<'a, S> {
    source: &'a mut S,
    at: usize,
}

impl<'de, S: TensorSource<'de>> serde::Deserializer<'de> for PayloadDeserializer<'_, S> {
    type Error = Error;

    /// Whoever takes anything does not know what to do with pieces.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.source.payload(self.at, BytesVisitor(visitor))
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.source.payload(self.at, visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A dtype as its number where one is asked for, and by its name elsewhere.
struct DtypeDeserializer(Dtype);

impl<'de> serde::Deserializer<'de> for DtypeDeserializer {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.0.name())
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(U32Deserializer::new(self.0 as u32))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Gathers the pieces of a payload for a visitor that takes bytes whole.
pub(super) struct BytesVisitor<V>(pub(super) V);

impl<'de, V: Visitor<'de>> Visitor<'de> for BytesVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_borrowed_bytes<E: serde::de::Error>(self, bytes: &'de [u8]) -> Result<V::Value, E> {
        self.0.visit_borrowed_bytes(bytes)
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<V::Value, E> {
        self.0.visit_bytes(bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pieces: A) -> Result<V::Value, A::Error> {
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next_element::<serde_bytes::ByteBuf>()? {
            bytes.extend_from_slice(&piece);
        }
        self.0.visit_byte_buf(bytes)
    }
}

/// A tensor in the representation of ndarray's own serde support: [`token::NDARRAY_FIELDS`].
pub(super) struct NdarrayAccess<'a> {
    tensor: &'a Tensor,
    field: usize,
}

impl<'a> NdarrayAccess<'a> {
    pub(super) fn new(tensor: &'a Tensor) -> Self {
        Self { tensor, field: 0 }
    }
}

impl<'de> MapAccess<'de> for NdarrayAccess<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(field) = token::NDARRAY_FIELDS.get(self.field) else { return Ok(None) };
        self.field += 1;
        seed.deserialize(StrDeserializer::new(field)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        match token::NDARRAY_FIELDS[self.field - 1] {
            "v" => seed.deserialize(1_u8.into_deserializer()),
            "dim" => seed.deserialize(SeqDeserializer::new(self.tensor.shape().iter().copied())),
            _ => {
                let mut numbers = NumbersAccess::new(self.tensor.info(), self.tensor.as_bytes());
                let value = seed.deserialize(serde::de::value::SeqAccessDeserializer::new(&mut numbers))?;
                numbers.end()?;
                Ok(value)
            }
        }
    }
}
