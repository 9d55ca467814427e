use serde::de::{DeserializeSeed, MapAccess, Visitor};

use super::{At, Deserializer};
use crate::error::{Error, ErrorKind, Result};
use crate::model::TensorSource;
use crate::model::path::Mark;

/// The entries of a map.
///
/// `a.b` is the key `a.b` of a map of tensors, but the key `a` of a map of structs. What the values are shows when one
/// is asked for; so, where both are asked for at once, the value is read before its key.
pub(super) struct EntriesAccess<'a, S> {
    de: &'a mut Deserializer<S>,
    /// The map's place.
    place: Mark,
    absent: bool,
}

impl<'a, 'de, S: TensorSource<'de>> EntriesAccess<'a, S> {
    pub(super) fn new(de: &'a mut Deserializer<S>, absent: bool) -> Self {
        let place = de.path.mark();
        Self { de, place, absent }
    }

    fn next(&mut self) -> Result<Option<usize>> {
        if self.absent {
            return Ok(None);
        }
        // A tensor that has the name of the map is no entry of it.
        let is_entry = |de: &Deserializer<S>, at| de.path.is_root() || !de.path.is(de.source.name(at));
        Ok(self.de.next_under()?.filter(|at| is_entry(self.de, *at)))
    }
}

impl<'de, S: TensorSource<'de>> MapAccess<'de> for EntriesAccess<'_, S> {
    type Error = Error;

    fn next_entry_seed<K: DeserializeSeed<'de>, V: DeserializeSeed<'de>>(
        &mut self,
        key: K,
        value: V,
    ) -> Result<Option<(K::Value, V::Value)>> {
        let Some(first) = self.next()? else { return Ok(None) };
        self.de.at = At::Entry(first);
        let value = value.deserialize(&mut *self.de)?;
        let key = key.deserialize(KeyDeserializer(self.de.path.since(self.place)))?;
        self.de.path.back_to(self.place);
        Ok(Some((key, value)))
    }

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(next) = self.next()? else { return Ok(None) };
        let name = self.de.source.name(next);
        let text = self.de.path.strip(name).unwrap_or(name);
        seed.deserialize(KeyDeserializer(text)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        if let Some(next) = self.next()? {
            self.de.enter_entry(next, |rest| rest);
        }
        self.de.at = At::Here;
        let value = seed.deserialize(&mut *self.de)?;
        self.de.path.back_to(self.place);
        Ok(value)
    }
}

/// A part of a name as a key: a string, or the number that it spells.
struct KeyDeserializer<'a>(&'a str);

macro_rules! numbers {
    ($($method:ident by $visit:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match self.0.parse() {
                Ok(number) => visitor.$visit(number),
                Err(_) => {
                    let what = format!("the name `{}`, but the keys of the map are numbers", self.0);
                    Err(ErrorKind::Malformed { what }.into())
                }
            }
        }
    )*};
}

impl<'de> serde::Deserializer<'de> for KeyDeserializer<'_> {
    type Error = Error;

    numbers! {
        deserialize_bool by visit_bool, deserialize_char by visit_char,
        deserialize_i8 by visit_i8, deserialize_i16 by visit_i16, deserialize_i32 by visit_i32, deserialize_i64 by visit_i64,
        deserialize_u8 by visit_u8, deserialize_u16 by visit_u16, deserialize_u32 by visit_u32, deserialize_u64 by visit_u64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_str(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(serde::de::value::StrDeserializer::new(self.0))
    }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 f64 str string bytes byte_buf option unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}
