use serde::de::{Deserializer, Visitor};

use crate::error::{Error, Result};

/// Hands a piece to whoever collects them.
pub(crate) struct Piece<'a>(pub(crate) &'a [u8]);

impl<'de> Deserializer<'de> for Piece<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_bytes(self.0)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
