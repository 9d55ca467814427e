use serde::de::{DeserializeSeed, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor};

use super::entries::Entries;
use super::items::{Items, check_all_taken, element};
use super::value::Value;
use crate::error::{Error, Result};
use crate::find::{Deserializer, FieldKey, FieldsWalk};
use crate::model::{Loaded, Mark};
use crate::record::Pieces;
use crate::serde::token;

/// The parts of a value that is a list, a map or an enum.
pub(super) enum Parts<'a, 'de> {
    Fields(Fields<'a, 'de>),
    Items(Items<'a, 'de>),
    Entries(Entries<'a, 'de>),
    /// The header of a tensor as bytes, then its payload: for types of ours.
    Tensor {
        de: &'a mut Deserializer<'de>,
        at: usize,
        next: usize,
    },
    /// The fields of a tensor with their names, for types that take anything.
    TensorFields {
        de: &'a mut Deserializer<'de>,
        at: usize,
        next: usize,
    },
    /// A tensor in the representation of ndarray's own serde support: [`token::NDARRAY_FIELDS`].
    Ndarray {
        tensor: Option<Box<Loaded<'de>>>,
        next: usize,
    },
    /// The elements of a tensor in row-major order.
    Elements {
        tensor: Box<Loaded<'de>>,
        taken: usize,
    },
    /// The dims of a shape.
    Dims(&'a [usize]),
    DimOrder(&'a [u8]),
    /// The payload of a tensor.
    Pieces(Box<Pieces<'a, 'de>>),
    /// A variant of an enum, which is also a map of one entry.
    Variant {
        name: &'a str,
        value: Option<Value<'a, 'de>>,
    },
}

/// The fields of a struct.
pub(super) struct Fields<'a, 'de> {
    pub(super) de: &'a mut Deserializer<'de>,
    pub(super) place: Mark,
    /// The number of flattened structs around.
    pub(super) outer: usize,
    pub(super) order: FieldOrder,
}

pub(super) enum FieldOrder {
    ByPosition { left: usize },
    ByName { walk: Box<FieldsWalk>, unknown: String },
}

impl<'de> Parts<'_, 'de> {
    /// Goes to the next item of a list.
    fn go_to_item(&mut self) -> Result<Option<Value<'_, 'de>>> {
        match self {
            Self::Fields(Fields { de, order: FieldOrder::ByPosition { left }, .. }) => {
                let Some(now) = left.checked_sub(1) else { return Ok(None) };
                *left = now;
                de.path.push("");
                Ok(Some(de.begin_part()))
            }
            Self::Items(items) => items.next(),
            Self::Tensor { de, at, next } => {
                *next += 1;
                Ok(match *next {
                    1 => Some(Value::Header(de.reader.info(*at))),
                    2 => Some(Value::Payload(de, *at)),
                    _ => None,
                })
            }
            Self::Elements { tensor, taken } => Ok(element(tensor, *taken).inspect(|_| *taken += 1)),
            Self::Dims(dims) => Ok(dims.split_off_first().map(|dim| Value::Number(*dim))),
            Self::DimOrder(order) => Ok(order.split_off_first().map(|dim| Value::Number(usize::from(*dim)))),
            Self::Pieces(pieces) => Ok(pieces.next()?.map(Value::Piece)),
            _ => Err(Error::custom("a map was read as a list")),
        }
    }

    /// Goes back from an item.
    fn end_item(&mut self) -> Result<()> {
        match self {
            Self::Fields(Fields { de, place, .. }) => {
                de.end_part(*place);
                Ok(())
            }
            Self::Items(items) => items.end(),
            _ => Ok(()),
        }
    }

    /// Goes to the next key of a map.
    fn go_to_key(&mut self) -> Result<Option<Value<'_, 'de>>> {
        match self {
            Self::Fields(Fields { de, order: FieldOrder::ByName { walk, unknown }, .. }) => {
                Ok(match walk.advance(de)? {
                    None => None,
                    Some(FieldKey::Field(field)) => Some(Value::Name(walk.name(field))),
                    Some(FieldKey::Unknown(name)) => {
                        *unknown = name;
                        Some(Value::Str(unknown))
                    }
                })
            }
            Self::Entries(entries) => entries.next_key(),
            Self::TensorFields { next, .. } => Ok(token::TENSOR_FIELDS.get(*next).copied().map(Value::Name)),
            Self::Ndarray { next, .. } => Ok(token::NDARRAY_FIELDS.get(*next).copied().map(Value::Name)),
            Self::Variant { name, value } => Ok(value.is_some().then_some(Value::Str(name))),
            _ => Err(Error::custom("a list was read as a map")),
        }
    }

    /// Goes to the value of the key.
    fn go_to_value(&mut self) -> Result<Value<'_, 'de>> {
        match self {
            Self::Fields(Fields { de, order: FieldOrder::ByName { walk, .. }, .. }) => {
                walk.enter(de);
                Ok(de.begin_part())
            }
            Self::Entries(entries) => entries.next_value(),
            Self::TensorFields { de, at, next } => {
                let field = token::TENSOR_FIELDS[*next];
                *next += 1;
                if field == token::DATA {
                    return Ok(Value::Payload(de, *at));
                }
                let info = de.reader.info(*at);
                Ok(match field {
                    token::DTYPE => Value::Name(info.dtype.name()),
                    token::SHAPE => Value::Dims(info.shape.dims()),
                    _ => Value::Layout(&info.layout),
                })
            }
            Self::Ndarray { tensor, next } => {
                *next += 1;
                if *next == 3 {
                    return tensor.take().map(Value::Elements).ok_or_else(|| Error::custom("no more elements"));
                }
                match tensor {
                    Some(tensor) if *next == 2 => Ok(Value::Dims(tensor.info().shape.dims())),
                    _ => Ok(Value::Number(1)),
                }
            }
            Self::Variant { value, .. } => value.take().ok_or_else(|| Error::custom("a variant without a value")),
            _ => Err(Error::custom("a list was read as a map")),
        }
    }

    /// Goes back from a value of a map.
    fn end_value(&mut self) -> Result<()> {
        match self {
            Self::Fields(Fields { de, place, .. }) => {
                de.end_part(*place);
                Ok(())
            }
            Self::Entries(entries) => entries.end_value(),
            _ => Ok(()),
        }
    }

    /// Leaves the value after a visitor has seen its parts.
    pub(super) fn finish<T>(self, visited: Result<T>) -> Result<T> {
        match (visited, self) {
            (visited, Self::Fields(Fields { de, place, outer, .. })) => {
                de.flattened = outer;
                visited.map_err(|error| de.complete(error, place))
            }
            (Ok(value), Self::Elements { tensor, taken }) => check_all_taken(tensor.info(), taken).map(|()| value),
            (visited, _) => visited,
        }
    }
}

impl<'de> SeqAccess<'de> for &mut Parts<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(value) = self.go_to_item()? else { return Ok(None) };
        let item = seed.deserialize(value)?;
        self.end_item()?;
        Ok(Some(item))
    }

    fn size_hint(&self) -> Option<usize> {
        match self {
            Parts::Elements { tensor, taken } => Some(tensor.info().shape.elements()? - taken),
            _ => None,
        }
    }
}

impl<'de> MapAccess<'de> for &mut Parts<'_, 'de> {
    type Error = Error;

    fn next_entry_seed<K: DeserializeSeed<'de>, V: DeserializeSeed<'de>>(
        &mut self,
        key: K,
        value: V,
    ) -> Result<Option<(K::Value, V::Value)>> {
        let Parts::Entries(entries) = self else {
            let Some(key) = self.next_key_seed(key)? else { return Ok(None) };
            return Ok(Some((key, self.next_value_seed(value)?)));
        };
        let Some(first) = entries.next_before_key()? else { return Ok(None) };
        let value = value.deserialize(first)?;
        let key = key.deserialize(entries.key())?;
        entries.end_value()?;
        Ok(Some((key, value)))
    }

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(key) = self.go_to_key()? else { return Ok(None) };
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let value = seed.deserialize(self.go_to_value()?)?;
        self.end_value()?;
        Ok(value)
    }
}

impl<'de> EnumAccess<'de> for Parts<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        let Self::Variant { name, .. } = self else { return Err(Error::custom("not an enum")) };
        Ok((seed.deserialize(Value::Str(name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Parts<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value> {
        seed.deserialize(self.go_to_value()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        Err(Error::invalid_type(Unexpected::UnitVariant, &visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        Err(Error::invalid_type(Unexpected::UnitVariant, &visitor))
    }
}
