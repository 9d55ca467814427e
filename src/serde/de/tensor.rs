use serde::de::value::{
    BytesDeserializer, MapAccessDeserializer, MapDeserializer, SeqAccessDeserializer, SeqDeserializer, StrDeserializer,
    U32Deserializer,
};
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::NumbersAccess;
use crate::error::{Error, Result};
use crate::find::Deserializer;
use crate::model::{Loaded, Payload};
use crate::record::Pieces;
use crate::serde::token;
use crate::tensor::{Dtype, Layout};

/// The header of a tensor as bytes, then its payload: for types of ours.
pub(super) struct HeaderAndPayload<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    at: usize,
    part: usize,
}

impl<'a, 'de> HeaderAndPayload<'a, 'de> {
    pub(super) fn new(de: &'a mut Deserializer<'de>, at: usize) -> Self {
        Self { de, at, part: 0 }
    }
}

impl<'de> SeqAccess<'de> for HeaderAndPayload<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        self.part += 1;
        match self.part {
            1 => {
                let header = token::encode_header(self.de.reader.info(self.at));
                seed.deserialize(BytesDeserializer::new(&header)).map(Some)
            }
            2 => seed.deserialize(PayloadDeserializer { de: &mut *self.de, at: self.at }).map(Some),
            _ => Ok(None),
        }
    }
}

/// The fields of a tensor with their names, for types that take anything.
pub(super) struct TensorFields<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    at: usize,
    field: usize,
}

impl<'a, 'de> TensorFields<'a, 'de> {
    pub(super) fn new(de: &'a mut Deserializer<'de>, at: usize) -> Self {
        Self { de, at, field: 0 }
    }
}

impl<'de> MapAccess<'de> for TensorFields<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(field) = token::TENSOR_FIELDS.get(self.field) else { return Ok(None) };
        seed.deserialize(StrDeserializer::new(field)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let field = token::TENSOR_FIELDS[self.field];
        self.field += 1;
        let info = self.de.reader.info(self.at);
        match field {
            token::DTYPE => seed.deserialize(DtypeDeserializer(info.dtype)),
            token::SHAPE => seed.deserialize(SeqDeserializer::new(info.shape.iter().copied())),
            token::LAYOUT => match &info.layout {
                Layout::RowMajor => seed.deserialize(StrDeserializer::new(token::ROW_MAJOR)),
                Layout::Blob => seed.deserialize(StrDeserializer::new(token::BLOB)),
                Layout::DimOrder(order) => seed.deserialize(variant(token::DIM_ORDER, order.as_slice().to_vec())),
                Layout::Coo { entries } => seed.deserialize(variant(token::COO, *entries)),
            },
            _ => seed.deserialize(PayloadDeserializer { de: &mut *self.de, at: self.at }),
        }
    }
}

/// A variant of an enum with a value.
fn variant<'de, T: IntoDeserializer<'de, Error>>(
    name: &'static str,
    value: T,
) -> MapAccessDeserializer<MapDeserializer<'de, std::iter::Once<(&'static str, T)>, Error>> {
    MapAccessDeserializer::new(MapDeserializer::new(std::iter::once((name, value))))
}

/// Gives the payload of a tensor as bytes in one run.
pub(super) fn visit_payload<'de, V: Visitor<'de>>(
    de: &mut Deserializer<'de>,
    at: usize,
    visitor: V,
) -> Result<V::Value> {
    match de.reader.payload(at)? {
        Payload::Borrowed(bytes) => visitor.visit_borrowed_bytes(bytes),
        Payload::Owned(buffer) => visitor.visit_byte_buf(buffer.into_vec_u8()),
    }
}

/// The payload of a tensor.
struct PayloadDeserializer<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    at: usize,
}

impl<'de> serde::Deserializer<'de> for PayloadDeserializer<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visit_payload(self.de, self.at, visitor)
    }

    /// Types of ours gather the pieces themselves, in memory that is aligned for the elements.
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.de.reader.borrow(self.at) {
            Some(bytes) => visitor.visit_borrowed_bytes(bytes?),
            None => visitor.visit_seq(PiecesAccess(self.de.reader.pieces(self.at))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The payload of a tensor, piece by piece.
struct PiecesAccess<'a, 'de>(Pieces<'a, 'de>);

impl<'de> SeqAccess<'de> for PiecesAccess<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.0.next()? {
            Some(piece) => seed.deserialize(BytesDeserializer::new(piece)).map(Some),
            None => Ok(None),
        }
    }
}

/// A dtype: its number for an enum, and its name for anything else.
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

/// A tensor in the representation of ndarray's own serde support: [`token::NDARRAY_FIELDS`].
pub(super) struct NdarrayAccess<'a> {
    tensor: &'a Loaded<'a>,
    field: usize,
}

impl<'a> NdarrayAccess<'a> {
    pub(super) fn new(tensor: &'a Loaded<'a>) -> Self {
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
            "dim" => seed.deserialize(SeqDeserializer::new(self.tensor.info().shape.iter().copied())),
            _ => {
                let mut numbers = NumbersAccess::new(self.tensor.info(), self.tensor.as_bytes());
                let value = seed.deserialize(SeqAccessDeserializer::new(&mut numbers))?;
                numbers.end()?;
                Ok(value)
            }
        }
    }
}
