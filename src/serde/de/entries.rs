use std::cell::Cell;

use serde::de::{DeserializeSeed, MapAccess, Visitor};

use crate::error::{Error, ErrorKind, Result};
use crate::find::{At, Deserializer};
use crate::model::{KeyPart, Mark};
use crate::serde::token;

/// The entries of a map.
///
/// `a.b` is the key `a.b` of a map of tensors, but the key `a` of a map of structs. The type of the values shows only
/// when one is deserialized. So the value is read before its key if both are asked for at once, and a key that is asked
/// for alone is the whole name, unless the type names the part that it wants.
pub(super) struct EntriesAccess<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    /// The place of the map.
    place: Mark,
    is_present: bool,
    /// The part of the name that was the last key.
    part: KeyPart,
}

impl<'a, 'de> EntriesAccess<'a, 'de> {
    pub(super) fn new(de: &'a mut Deserializer<'de>, is_present: bool) -> Self {
        let place = de.path.mark();
        Self { de, place, is_present, part: KeyPart::Whole }
    }

    /// Returns the first tensor of the next entry. A tensor with the name of the map is not an entry of it.
    fn next(&mut self) -> Result<Option<usize>> {
        if !self.is_present {
            return Ok(None);
        }
        let next = self.de.next_here()?;
        Ok(next.filter(|at| self.de.path.is_root() || !self.de.path.is(self.de.reader.name(*at))))
    }

    /// Goes back to the map from an entry. One that did not read its first tensor must not come again.
    fn leave(&mut self, first: usize) -> Result<()> {
        self.de.path.back_to(self.place);
        if self.de.reader.is_read(first) { Ok(()) } else { self.de.unexpected(first) }
    }
}

impl<'de> MapAccess<'de> for EntriesAccess<'_, 'de> {
    type Error = Error;

    fn next_entry_seed<K: DeserializeSeed<'de>, V: DeserializeSeed<'de>>(
        &mut self,
        key: K,
        value: V,
    ) -> Result<Option<(K::Value, V::Value)>> {
        let Some(first) = self.next()? else { return Ok(None) };
        self.de.at = At::Entry(first);
        let value = self.de.value(value)?;
        let part = Cell::new(KeyPart::Whole);
        let key = key.deserialize(KeyDeserializer { text: self.de.path.since(self.place), part: &part })?;
        self.leave(first)?;
        Ok(Some((key, value)))
    }

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(next) = self.next()? else { return Ok(None) };
        let name = self.de.reader.name(next);
        let part = Cell::new(KeyPart::Whole);
        let key = KeyDeserializer { text: self.de.path.strip(name).unwrap_or(name), part: &part };
        let key = seed.deserialize(key)?;
        self.part = part.get();
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let next = self.next()?;
        if let Some(next) = next {
            self.de.enter_entry(next, self.part);
        }
        self.de.at = At::Here;
        let value = self.de.value(seed)?;
        match next {
            Some(first) => self.leave(first)?,
            None => self.de.path.back_to(self.place),
        }
        Ok(value)
    }
}

/// A part of a name as a key: a string, or the number that it spells.
pub(in crate::serde) struct KeyDeserializer<'a> {
    text: &'a str,
    /// Receives the part of the name that the type wants.
    part: &'a Cell<KeyPart>,
}

/// Reads a key from its text.
pub(in crate::serde) fn parse_key<'de, K: serde::Deserialize<'de>>(text: &str) -> Result<K> {
    K::deserialize(KeyDeserializer { text, part: &Cell::new(KeyPart::Whole) })
}

macro_rules! numbers {
    ($($method:ident by $visit:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match self.text.parse() {
                Ok(number) => visitor.$visit(number),
                Err(_) => {
                    let what = format!("the name `{}`, but the keys of the map are numbers", self.text);
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
        visitor.visit_str(self.text)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        let part = match name {
            token::FIRST_SEGMENT => KeyPart::First,
            token::BEFORE_INDEX => KeyPart::BeforeIndex,
            _ => self.part.get(),
        };
        self.part.set(part);
        visitor.visit_newtype_struct(Self { text: part.of(self.text), ..self })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(serde::de::value::StrDeserializer::new(self.text))
    }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 f64 str string bytes byte_buf option unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}
