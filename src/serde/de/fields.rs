use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, MapAccess};

use crate::error::{Error, Result};
use crate::find::{Deserializer, FieldKey, FieldsWalk};

/// The fields of a struct that is read by name.
pub(super) struct FieldsAccess<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    walk: FieldsWalk,
}

impl<'a, 'de> FieldsAccess<'a, 'de> {
    pub(super) fn new(de: &'a mut Deserializer<'de>, walk: FieldsWalk) -> Self {
        Self { de, walk }
    }
}

impl<'de> MapAccess<'de> for FieldsAccess<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        match self.walk.advance(self.de)? {
            None => Ok(None),
            Some(FieldKey::Field(field)) => {
                seed.deserialize(BorrowedStrDeserializer::new(self.walk.name(field))).map(Some)
            }
            Some(FieldKey::Unknown(name)) => seed.deserialize(StringDeserializer::new(name)).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        self.walk.enter(self.de);
        let value = self.de.value(seed)?;
        self.walk.leave(self.de);
        Ok(value)
    }
}
