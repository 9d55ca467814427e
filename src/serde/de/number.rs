use serde::de::{DeserializeSeed, SeqAccess, Visitor};

use crate::cast::Number;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Dtype, TensorInfo};

/// One element of a tensor. The type that is asked for must have the dtype of the tensor: no number is converted.
pub(super) struct NumberDeserializer<'a> {
    info: &'a TensorInfo,
    bytes: &'a [u8],
}

impl<'a> NumberDeserializer<'a> {
    pub(super) fn new(info: &'a TensorInfo, bytes: &'a [u8]) -> Self {
        Self { info, bytes }
    }

    fn visit<'de, V: Visitor<'de>>(self, expected: Dtype, visitor: V) -> Result<V::Value> {
        if self.info.dtype != expected {
            return Err(ErrorKind::WrongDtype { found: self.info.clone(), expected }.into());
        }
        serde::Deserializer::deserialize_any(self, visitor)
    }
}

macro_rules! numbers {
    ($($method:ident($dtype:ident)),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            self.visit(Dtype::$dtype, visitor)
        }
    )*};
}

impl<'de> serde::Deserializer<'de> for NumberDeserializer<'_> {
    type Error = Error;

    numbers! {
        deserialize_bool(Bool), deserialize_f32(F32), deserialize_f64(F64),
        deserialize_i8(I8), deserialize_i16(I16), deserialize_i32(I32), deserialize_i64(I64),
        deserialize_u8(U8), deserialize_u16(U16), deserialize_u32(U32), deserialize_u64(U64)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match Number::from_le_bytes(self.info.dtype, self.bytes) {
            // The detour would change the bits of a NaN.
            Some(_) if self.info.dtype == Dtype::F32 => visitor.visit_f32(f32::from_le_bytes(four(self.bytes))),
            Some(Number::Float(float)) => visitor.visit_f64(float),
            Some(Number::Integer(integer)) => match (i64::try_from(integer), u64::try_from(integer)) {
                (Ok(integer), _) => visitor.visit_i64(integer),
                (_, Ok(integer)) => visitor.visit_u64(integer),
                _ => visitor.visit_i128(integer),
            },
            None if self.info.dtype == Dtype::Bool && self.bytes[0] <= 1 => visitor.visit_bool(self.bytes[0] == 1),
            None => {
                let instead = "its elements are not numbers; `Tensor` reads it";
                Err(ErrorKind::NotATensor { found: "an element of an opaque dtype", instead }.into())
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct enum
        identifier ignored_any
    }
}

fn four(bytes: &[u8]) -> [u8; 4] {
    bytes.try_into().expect("an `f32` has four bytes")
}

/// The error for a list of other length than the type takes.
pub(super) fn wrong_length(found: &TensorInfo, taken: usize) -> Error {
    ErrorKind::WrongShape { found: found.clone(), expected: format!("[{taken}]") }.into()
}

/// The elements of a tensor in row-major order.
pub(super) struct NumbersAccess<'a> {
    info: &'a TensorInfo,
    bytes: &'a [u8],
}

impl<'a> NumbersAccess<'a> {
    pub(super) fn new(info: &'a TensorInfo, bytes: &'a [u8]) -> Self {
        Self { info, bytes }
    }

    /// Checks that the type took every element.
    pub(super) fn end(self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let left = self.bytes.len() / self.info.dtype.block_bytes();
        Err(wrong_length(self.info, self.info.shape.elements().unwrap_or(0) - left))
    }
}

impl<'de> SeqAccess<'de> for &mut NumbersAccess<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some((element, rest)) = self.bytes.split_at_checked(self.info.dtype.block_bytes()) else { return Ok(None) };
        self.bytes = rest;
        seed.deserialize(NumberDeserializer::new(self.info, element)).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.bytes.len() / self.info.dtype.block_bytes())
    }
}
