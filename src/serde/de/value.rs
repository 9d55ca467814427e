//! The answers of a deserializer to a visitor, as one type.

use std::cell::Cell;

use serde::de::{DeserializeSeed, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor};

use super::entries::MapEntries;
use super::items::{ListItems, check_all_taken};
use super::{Answer, Ask};
use crate::cast::Number;
use crate::error::{Error, ErrorKind, Result};
use crate::find::{FieldKey, FieldsWalk, Finder};
use crate::model::{Copies, KeyPart, Loaded, Mark, Payload};
use crate::serde::token;
use crate::tensor::{Dtype, Layout, TensorInfo};

/// A value as serde asks for it: at a place in the file, or a part of a tensor there.
pub(in crate::serde) enum Value<'a, 'de> {
    /// The value at the place of the deserializer.
    Here(&'a mut Finder<'de>),
    /// One element of a tensor.
    Element(&'a TensorInfo, &'a [u8]),
    /// All elements of a tensor, in row-major order.
    Elements(Box<Loaded<'de>>),
    Layout(&'a Layout),
    Dims(&'a [usize]),
    DimOrder(&'a [u8]),
    Payload(&'a mut Finder<'de>, usize),
    Number(usize),
    Name(&'static str),
    Str(&'a str),
    /// The key of a map, as part of a name. The cell receives the part requested by the type.
    Key(&'a str, &'a Cell<KeyPart>),
}

impl<'a, 'de> Value<'a, 'de> {
    pub(super) fn answer(self, ask: Ask) -> Result<Answer<'a, 'de>> {
        match self {
            Self::Here(de) => de.answer(ask),
            Self::Element(info, element) => match ask {
                Ask::Option => Ok(Answer::Some(self)),
                Ask::Newtype(_) => Ok(Answer::Newtype(self)),
                _ => number(info, element, ask),
            },
            Self::Elements(tensor) => Ok(Answer::Seq(Parts::Elements { tensor, taken: 0 })),
            Self::Layout(layout) => {
                let (name, value) = match layout {
                    Layout::RowMajor => (token::ROW_MAJOR, None),
                    Layout::Blob => (token::BLOB, None),
                    Layout::DimOrder(order) => (token::DIM_ORDER, Some(Value::DimOrder(order.as_slice()))),
                    Layout::Coo { entries } => (token::COO, Some(Value::Number(*entries))),
                    Layout::Unknown(unknown) => {
                        let what = format!("read elements of dtype {}", unknown.tag());
                        let instead = "it is unknown; `File::load` of a `TensorMap` holds the bytes".to_owned();
                        return Err(ErrorKind::Unsupported { what, instead }.into());
                    }
                };
                Ok(match (ask, &value) {
                    (Ask::Enum, _) => Answer::Enum(Parts::Variant { name, value }),
                    (_, Some(_)) => Answer::Map(Parts::Variant { name, value }),
                    (_, None) => Answer::Name(name),
                })
            }
            Self::Dims(dims) => Ok(Answer::Seq(Parts::Dims(dims))),
            Self::DimOrder(order) => Ok(Answer::Seq(Parts::DimOrder(order))),
            Self::Payload(de, at) => de.payload(at),
            Self::Number(number) => Ok(Answer::U64(number as u64)),
            Self::Name(name) => match ask {
                Ask::Enum => Ok(Answer::Enum(Parts::Variant { name, value: None })),
                _ => Ok(Answer::Name(name)),
            },
            Self::Str(text) => Ok(Answer::Str(text)),
            Self::Key(text, part) => key(text, part, ask),
        }
    }
}

impl<'de> Finder<'de> {
    /// Gives the payload of a tensor as bytes in one run.
    pub(super) fn payload<'a>(&mut self, at: usize) -> Result<Answer<'a, 'de>> {
        Ok(match self.reader.payload(at, Copies::Shared)? {
            Payload::Borrowed(bytes) => Answer::BorrowedBytes(bytes),
            Payload::Owned(buffer) => Answer::ByteBuf(buffer.into_vec_u8()),
        })
    }
}

/// One element of a tensor. The requested type must match the dtype: numbers are not converted.
pub(super) fn number<'a, 'de>(info: &TensorInfo, element: &[u8], ask: Ask) -> Result<Answer<'a, 'de>> {
    if let Ask::Number(expected) = ask
        && expected != info.dtype
    {
        return Err(ErrorKind::WrongDtype { found: info.clone(), expected }.into());
    }
    if let Ask::Any = ask
        && let Some(answer) = exact_number(info.dtype, element)
    {
        return Ok(answer);
    }
    match Number::from_le_bytes(info.dtype, element) {
        // The detour would change the bits of a NaN.
        Some(_) if info.dtype == Dtype::F32 => {
            Ok(Answer::F32(f32::from_le_bytes(element.try_into().expect("an `f32` has four bytes"))))
        }
        Some(Number::Float(float)) => Ok(Answer::F64(float)),
        Some(Number::Integer(integer)) => Ok(match i64::try_from(integer) {
            Ok(integer) => Answer::I64(integer),
            Err(_) => Answer::U64(u64::try_from(integer).expect("no dtype has larger integers")),
        }),
        None if info.dtype == Dtype::Bool && element[0] <= 1 => Ok(Answer::Bool(element[0] == 1)),
        None => {
            let instead = "its elements are not numbers; `Tensor` reads it";
            Err(ErrorKind::NotATensor { found: "an element of an opaque dtype", instead }.into())
        }
    }
}

/// Returns an element as the number it is, if serde has numbers of its dtype. The caller may want to know the dtype.
fn exact_number<'a, 'de>(dtype: Dtype, element: &[u8]) -> Option<Answer<'a, 'de>> {
    macro_rules! answer {
        ($($variant:ident($number:ty)),*) => {
            match dtype {
                $(Dtype::$variant => Some(Answer::$variant(<$number>::from_le_bytes(element.try_into().ok()?))),)*
                _ => None,
            }
        };
    }
    answer!(I8(i8), I16(i16), I32(i32), I64(i64), U8(u8), U16(u16), U32(u32), U64(u64), F32(f32), F64(f64))
}

/// The key of a map as a string, or as the number it spells.
fn key<'a, 'de>(text: &'a str, part: &'a Cell<KeyPart>, ask: Ask) -> Result<Answer<'a, 'de>> {
    let answer = match ask {
        Ask::Number(Dtype::Bool) => text.parse().ok().map(Answer::Bool),
        Ask::Number(Dtype::I8) => text.parse::<i8>().ok().map(|number| Answer::I64(number.into())),
        Ask::Number(Dtype::I16) => text.parse::<i16>().ok().map(|number| Answer::I64(number.into())),
        Ask::Number(Dtype::I32) => text.parse::<i32>().ok().map(|number| Answer::I64(number.into())),
        Ask::Number(Dtype::I64) => text.parse().ok().map(Answer::I64),
        Ask::Number(Dtype::U8) => text.parse::<u8>().ok().map(|number| Answer::U64(number.into())),
        Ask::Number(Dtype::U16) => text.parse::<u16>().ok().map(|number| Answer::U64(number.into())),
        Ask::Number(Dtype::U32) => text.parse::<u32>().ok().map(|number| Answer::U64(number.into())),
        Ask::Number(Dtype::U64) => text.parse().ok().map(Answer::U64),
        Ask::Char => text.parse().ok().map(Answer::Char),
        Ask::Newtype(name) => {
            match name {
                token::FIRST_SEGMENT => part.set(KeyPart::First),
                token::BEFORE_LAST => part.set(KeyPart::BeforeLast),
                token::BEFORE_INDEX => part.set(KeyPart::BeforeIndex),
                _ => {}
            }
            Some(Answer::Newtype(Value::Key(part.get().of(text), part)))
        }
        Ask::Enum => Some(Answer::Enum(Parts::Variant { name: text, value: None })),
        _ => Some(Answer::Str(text)),
    };
    answer.ok_or_else(|| {
        let what = format!("the name `{text}`, but the keys of the map are numbers");
        ErrorKind::Malformed { what }.into()
    })
}

/// Returns one element of a tensor in row-major order.
fn element<'a, 'de>(tensor: &'a Loaded<'_>, at: usize) -> Option<Value<'a, 'de>> {
    let element = tensor.as_bytes().chunks_exact(tensor.info().dtype.block_bytes()).nth(at)?;
    Some(Value::Element(tensor.info(), element))
}

/// The parts of a list, a map or an enum.
pub(super) enum Parts<'a, 'de> {
    Fields(StructFields<'a, 'de>),
    Items(ListItems<'a, 'de>),
    Entries(MapEntries<'a, 'de>),
    /// The fields of a tensor with their names.
    TensorFields {
        de: &'a mut Finder<'de>,
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
    /// A variant of an enum, or a map of one entry.
    Variant {
        name: &'a str,
        value: Option<Value<'a, 'de>>,
    },
}

/// The fields of a struct.
pub(super) struct StructFields<'a, 'de> {
    pub(super) de: &'a mut Finder<'de>,
    pub(super) place: Mark,
    /// The number of flattened structs around, and whether the last of them skips unknown tensors.
    pub(super) outer: (usize, bool),
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
            Self::Fields(StructFields { de, order: FieldOrder::ByPosition { left }, .. }) => {
                let Some(now) = left.checked_sub(1) else { return Ok(None) };
                *left = now;
                de.path.push("");
                Ok(Some(de.begin_part()))
            }
            Self::Items(items) => {
                if !items.go_to_item()? {
                    return Ok(None);
                }
                if items.elements().is_none() {
                    return Ok(Some(items.deserializer().begin_part()));
                }
                Ok(items.elements().and_then(|(tensor, at)| element(tensor, at)))
            }
            Self::Elements { tensor, taken } => Ok(element(tensor, *taken).inspect(|_| *taken += 1)),
            Self::Dims(dims) => Ok(dims.split_off_first().map(|dim| Value::Number(*dim))),
            Self::DimOrder(order) => Ok(order.split_off_first().map(|dim| Value::Number(usize::from(*dim)))),
            _ => Err(Error::custom("a map was read as a list")),
        }
    }

    /// Goes back from an item.
    fn end_item(&mut self) -> Result<()> {
        match self {
            Self::Fields(StructFields { de, place, .. }) => {
                de.end_part(*place);
                Ok(())
            }
            Self::Items(items) => items.end_item(),
            _ => Ok(()),
        }
    }

    /// Goes to the next key of a map.
    fn go_to_key(&mut self) -> Result<Option<Value<'_, 'de>>> {
        match self {
            Self::Fields(StructFields { de, order: FieldOrder::ByName { walk, unknown }, .. }) => {
                Ok(match walk.advance(de)? {
                    None => None,
                    Some(FieldKey::Field(field)) => Some(Value::Name(walk.name(field))),
                    Some(FieldKey::Unknown(name)) => {
                        *unknown = name;
                        Some(Value::Str(unknown))
                    }
                })
            }
            Self::Entries(entries) => Ok(entries.go_to_key()?.map(|(text, part)| Value::Key(text, part))),
            Self::TensorFields { next, .. } => Ok(token::TENSOR_FIELDS.get(*next).copied().map(Value::Name)),
            Self::Ndarray { next, .. } => Ok(token::NDARRAY_FIELDS.get(*next).copied().map(Value::Name)),
            Self::Variant { name, value } => Ok(value.is_some().then_some(Value::Str(name))),
            _ => Err(Error::custom("a list was read as a map")),
        }
    }

    /// Goes to the value of the key.
    fn go_to_value(&mut self) -> Result<Value<'_, 'de>> {
        match self {
            Self::Fields(StructFields { de, order: FieldOrder::ByName { walk, .. }, .. }) => {
                walk.enter(de);
                Ok(de.begin_part())
            }
            Self::Entries(entries) => {
                entries.go_to_value()?;
                Ok(entries.deserializer().begin_part())
            }
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
            Self::Fields(StructFields { de, place, .. }) => {
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
            (visited, Self::Fields(StructFields { de, place, outer, order })) => {
                (de.scope.flattened, de.scope.skips_unknown) = outer;
                visited.map_err(|error| {
                    if let FieldOrder::ByName { walk, .. } = &order {
                        de.required = de.required.or_else(|| walk.fields().required_by(&error));
                    }
                    de.complete(error, place)
                })
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
        if !entries.go_to_value_before_key()? {
            return Ok(None);
        }
        let value = value.deserialize(entries.deserializer().begin_part())?;
        let (text, part) = entries.key();
        let key = key.deserialize(Value::Key(text, part))?;
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
