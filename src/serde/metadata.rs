//! Fields with `#[tensor(metadata)]`: any serde type of a single value, stored as a metadata entry.
//!
//! The type's `Serialize` and `Deserialize` are compiled only for [`ValueSerializer`] and [`ValueDeserializer`], in
//! every format. Both are short; a value crosses sinks and sources as a [`MetadataValue`].

use std::fmt;

use serde::de::value::{StringDeserializer, U32Deserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::ser::{Impossible, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    AskMetadata, FieldAttrs, MetadataKind, MetadataOf, MetadataValue, Node, Sink, Source, Store, store_or,
    stores_nothing,
};

/// A field as a value to write.
pub struct MetadataField<'a>(&'a dyn Write);

/// Returns a field as a value to write.
pub fn metadata_field<T: Serialize>(value: &T) -> MetadataField<'_> {
    MetadataField(value)
}

/// A type of one value.
trait Write {
    fn write(&self) -> Result<Written>;
}

impl<T: Serialize> Write for T {
    fn write(&self) -> Result<Written> {
        self.serialize(ValueSerializer)
    }
}

impl Store for MetadataField<'_> {
    fn store(&self, sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
        match self.0.write()? {
            Written::None => sink.option(None, &FieldAttrs::NONE),
            Written::Some(value) => sink.option(Some(&value), &FieldAttrs::NONE),
            Written::Value(value) => sink.metadata(&value),
        }
    }
}

/// Returns a field with a default as a value to write.
pub fn metadata_field_or<T: Serialize>(value: &T, default: fn() -> T) -> MetadataFieldOr<'_, T> {
    MetadataFieldOr { value, default }
}

/// A field with a default, as [`FieldOr`](crate::model::FieldOr).
pub struct MetadataFieldOr<'a, T> {
    value: &'a T,
    default: fn() -> T,
}

impl<T: Serialize> Store for MetadataFieldOr<'_, T> {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        let default_is_nothing = || stores_nothing(&metadata_field(&(self.default)()), attrs);
        store_or(sink, attrs, &metadata_field(self.value), &default_is_nothing)
    }
}

impl<T> fmt::Debug for MetadataFieldOr<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataFieldOr").finish_non_exhaustive()
    }
}

impl fmt::Debug for MetadataField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataField").finish_non_exhaustive()
    }
}

/// Loads a field into the place for it.
pub fn put_metadata<T: DeserializeOwned>(place: &mut Option<T>, source: &mut (dyn Source<'_> + '_)) -> Result<()> {
    *place = Some(T::deserialize(ValueDeserializer(&mut MetadataOf(source)))?);
    Ok(())
}

/// Loads a field, replacing its value.
pub fn reload_metadata<T: DeserializeOwned>(field: &mut T, source: &mut (dyn Source<'_> + '_)) -> Result<()> {
    *field = T::deserialize(ValueDeserializer(&mut MetadataOf(source)))?;
    Ok(())
}

/// Returns the node of a field.
#[must_use]
pub fn metadata_node<T: DeserializeOwned>() -> Node {
    Node::Metadata(try_metadata::<T>)
}

fn try_metadata<T: DeserializeOwned>(source: &mut dyn AskMetadata) -> Result<()> {
    T::deserialize(ValueDeserializer(source)).map(drop)
}

/// Returns the node of a write-only field.
#[must_use]
pub fn unread_metadata_node() -> Node {
    Node::Metadata(|_| Ok(()))
}

/// Fails to compile if a field cannot be written or read.
pub const fn check_metadata<T: Serialize + DeserializeOwned>() {}

/// Fails to compile if a field cannot be written.
pub const fn check_written_metadata<T: Serialize>() {}

/// A value, as its type serialized it.
enum Written {
    None,
    Some(MetadataValue),
    Value(MetadataValue),
}

/// Makes a [`MetadataValue`] of a value.
struct ValueSerializer;

fn refuse<T>(found: &str) -> Result<T> {
    let instead = "expected a string, char, bool, number or variant without a value, or an `Option` or newtype of one";
    Err(ErrorKind::Message(format!("{found} cannot be metadata; {instead}")).into())
}

macro_rules! values {
    ($($method:ident($type:ty) => $variant:ident),*) => {$(
        fn $method(self, value: $type) -> Result<Written> {
            Ok(Written::Value(MetadataValue::$variant(value)))
        }
    )*};
}

impl Serializer for ValueSerializer {
    type Ok = Written;
    type Error = Error;
    type SerializeSeq = Impossible<Written, Error>;
    type SerializeTuple = Impossible<Written, Error>;
    type SerializeTupleStruct = Impossible<Written, Error>;
    type SerializeTupleVariant = Impossible<Written, Error>;
    type SerializeMap = Impossible<Written, Error>;
    type SerializeStruct = Impossible<Written, Error>;
    type SerializeStructVariant = Impossible<Written, Error>;

    values! {
        serialize_bool(bool) => Bool,
        serialize_i8(i8) => I8,
        serialize_i16(i16) => I16,
        serialize_i32(i32) => I32,
        serialize_i64(i64) => I64,
        serialize_i128(i128) => I128,
        serialize_u8(u8) => U8,
        serialize_u16(u16) => U16,
        serialize_u32(u32) => U32,
        serialize_u64(u64) => U64,
        serialize_u128(u128) => U128,
        serialize_f32(f32) => F32,
        serialize_f64(f64) => F64,
        serialize_char(char) => Char
    }

    fn serialize_str(self, text: &str) -> Result<Written> {
        Ok(Written::Value(MetadataValue::Text(text.to_owned())))
    }

    fn serialize_unit_variant(self, of: &'static str, index: u32, name: &'static str) -> Result<Written> {
        Ok(Written::Value(MetadataValue::Variant { of, index, name }))
    }

    fn serialize_none(self) -> Result<Written> {
        Ok(Written::None)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Written> {
        match value.serialize(self)? {
            Written::Value(value) => Ok(Written::Some(value)),
            Written::None | Written::Some(_) => refuse("an `Option` in an `Option`"),
        }
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Written> {
        value.serialize(self)
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<Written> {
        refuse("a list of bytes")
    }

    fn serialize_unit(self) -> Result<Written> {
        refuse("`()`")
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<Written> {
        refuse(name)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        of: &'static str,
        _: u32,
        name: &'static str,
        _: &T,
    ) -> Result<Written> {
        refuse(&format!("{of}::{name}, which has a value,"))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq> {
        refuse("a list")
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple> {
        refuse("a tuple or an array")
    }

    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Result<Self::SerializeTupleStruct> {
        refuse(&format!("the struct {name}"))
    }

    fn serialize_tuple_variant(
        self,
        of: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        refuse(&format!("{of}::{name}, which has values,"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap> {
        refuse("a map")
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Self::SerializeStruct> {
        refuse(&format!("the struct {name}"))
    }

    fn serialize_struct_variant(
        self,
        of: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        refuse(&format!("{of}::{name}, which has fields,"))
    }
}

/// Passes a value of a source to the requesting type.
struct ValueDeserializer<'x>(&'x mut (dyn AskMetadata + 'x));

impl ValueDeserializer<'_> {
    fn answer<'de, V: Visitor<'de>>(self, kind: MetadataKind, visitor: V) -> Result<V::Value> {
        match self.0.metadata(kind)? {
            MetadataValue::Bool(value) => visitor.visit_bool(value),
            MetadataValue::I8(value) => visitor.visit_i8(value),
            MetadataValue::I16(value) => visitor.visit_i16(value),
            MetadataValue::I32(value) => visitor.visit_i32(value),
            MetadataValue::I64(value) => visitor.visit_i64(value),
            MetadataValue::I128(value) => visitor.visit_i128(value),
            MetadataValue::U8(value) => visitor.visit_u8(value),
            MetadataValue::U16(value) => visitor.visit_u16(value),
            MetadataValue::U32(value) => visitor.visit_u32(value),
            MetadataValue::U64(value) => visitor.visit_u64(value),
            MetadataValue::U128(value) => visitor.visit_u128(value),
            MetadataValue::F32(value) => visitor.visit_f32(value),
            MetadataValue::F64(value) => visitor.visit_f64(value),
            MetadataValue::Char(value) => visitor.visit_char(value),
            MetadataValue::Text(value) => visitor.visit_string(value),
            MetadataValue::Variant { name, .. } => visitor.visit_str(name),
        }
    }
}

macro_rules! kinds {
    ($($method:ident => $kind:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            self.answer(MetadataKind::$kind, visitor)
        }
    )*};
}

macro_rules! refused {
    ($($method:ident($($argument:ty),*) => $found:literal),*) => {$(
        fn $method<V: Visitor<'de>>(self, $(_: $argument,)* _: V) -> Result<V::Value> {
            refuse($found)
        }
    )*};
}

impl<'de> Deserializer<'de> for ValueDeserializer<'_> {
    type Error = Error;

    kinds! {
        deserialize_any => Any,
        deserialize_ignored_any => Any,
        deserialize_identifier => Text,
        deserialize_bool => Bool,
        deserialize_i8 => I8,
        deserialize_i16 => I16,
        deserialize_i32 => I32,
        deserialize_i64 => I64,
        deserialize_i128 => I128,
        deserialize_u8 => U8,
        deserialize_u16 => U16,
        deserialize_u32 => U32,
        deserialize_u64 => U64,
        deserialize_u128 => U128,
        deserialize_f32 => F32,
        deserialize_f64 => F64,
        deserialize_char => Char,
        deserialize_str => Text,
        deserialize_string => Text
    }

    refused! {
        deserialize_bytes() => "a list of bytes",
        deserialize_byte_buf() => "a list of bytes",
        deserialize_unit() => "`()`",
        deserialize_unit_struct(&'static str) => "a struct",
        deserialize_seq() => "a list",
        deserialize_tuple(usize) => "a tuple or an array",
        deserialize_tuple_struct(&'static str, usize) => "a struct",
        deserialize_map() => "a map",
        deserialize_struct(&'static str, &'static [&'static str]) => "a struct"
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let (mut visitor, mut value) = (Some(visitor), None);
        self.0.option(&mut |source| {
            if let Some(visitor) = visitor.take() {
                value = Some(visitor.visit_some(ValueDeserializer(source))?);
            }
            Ok(())
        })?;
        match (value, visitor) {
            (Some(value), _) => Ok(value),
            (None, Some(visitor)) => visitor.visit_none(),
            (None, None) => Err(ErrorKind::Message("a source gave no value".to_owned()).into()),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        of: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.0.metadata(MetadataKind::Variant { of, names })? {
            // The number of the variant, from formats without names.
            MetadataValue::U64(index) => {
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                let index: U32Deserializer<Error> = index.into_deserializer();
                visitor.visit_enum(index)
            }
            name => {
                let name: StringDeserializer<Error> = name.to_string().into_deserializer();
                visitor.visit_enum(name)
            }
        }
    }
}
