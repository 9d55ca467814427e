//! [`Deserializer`] as serde's: plain serde values take their tensors from a file.
//!
//! A visitor asks a [`Value`] for something and is given an [`Answer`]. Visitors belong to users, so code generic over
//! them is recompiled in their crates. Here it is a single `match` from answers to visits, for one type of deserializer
//! and one of lists, maps and enums; non-generic functions find the answers.

mod entries;
mod items;
mod place;
mod value;

use std::cell::Cell;

use serde::de::Visitor;

pub(super) use self::place::{set_node, set_struct};
use self::value::Parts;
pub(super) use self::value::Value;
use crate::error::{Error, Result};
use crate::find::Deserializer;
use crate::model::KeyPart;
use crate::tensor::Dtype;

/// A question of a visitor.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Any,
    Number(Dtype),
    Bytes,
    ByteBuf,
    Option,
    Unit,
    Newtype(&'static str),
    /// A list, or a tuple of a known length.
    Seq(Option<usize>),
    Map,
    Struct(&'static str, &'static [&'static str]),
    Enum,
    Char,
    Str,
    Identifier,
    Ignored,
}

/// The answer to an [`Ask`].
enum Answer<'a, 'de> {
    Unit,
    None,
    Some(Value<'a, 'de>),
    Newtype(Value<'a, 'de>),
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
    Char(char),
    Str(&'a str),
    Name(&'static str),
    BorrowedBytes(&'de [u8]),
    ByteBuf(Vec<u8>),
    Seq(Parts<'a, 'de>),
    Map(Parts<'a, 'de>),
    Enum(Parts<'a, 'de>),
}

impl<'de> Answer<'_, 'de> {
    fn give<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            Self::Unit => visitor.visit_unit(),
            Self::None => visitor.visit_none(),
            Self::Some(value) => visitor.visit_some(value),
            Self::Newtype(value) => visitor.visit_newtype_struct(value),
            Self::Bool(bool) => visitor.visit_bool(bool),
            Self::I8(number) => visitor.visit_i8(number),
            Self::I16(number) => visitor.visit_i16(number),
            Self::I32(number) => visitor.visit_i32(number),
            Self::I64(number) => visitor.visit_i64(number),
            Self::U8(number) => visitor.visit_u8(number),
            Self::U16(number) => visitor.visit_u16(number),
            Self::U32(number) => visitor.visit_u32(number),
            Self::U64(number) => visitor.visit_u64(number),
            Self::F32(number) => visitor.visit_f32(number),
            Self::F64(number) => visitor.visit_f64(number),
            Self::Char(char) => visitor.visit_char(char),
            Self::Str(text) => visitor.visit_str(text),
            Self::Name(name) => visitor.visit_borrowed_str(name),
            Self::BorrowedBytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Self::ByteBuf(bytes) => visitor.visit_byte_buf(bytes),
            Self::Seq(mut parts) => {
                let visited = visitor.visit_seq(&mut parts);
                parts.finish(visited)
            }
            Self::Map(mut parts) => {
                let visited = visitor.visit_map(&mut parts);
                parts.finish(visited)
            }
            Self::Enum(parts) => visitor.visit_enum(parts),
        }
    }
}

impl<'de> Value<'_, 'de> {
    fn visit<V: Visitor<'de>>(self, ask: Ask, visitor: V) -> Result<V::Value> {
        match self {
            // The error of a type is about the tensor it read last.
            Self::Here(de) => {
                let visited = de.answer(ask).and_then(|answer| answer.give(visitor));
                visited.map_err(|error| de.blame(error))
            }
            value => value.answer(ask)?.give(visitor),
        }
    }
}

macro_rules! methods {
    ($this:ident => $value:expr; $($method:ident($($argument:ident: $type:ty),*) => $ask:expr;)*) => {
        type Error = Error;

        $(
            fn $method<V: Visitor<'de>>($this, $($argument: $type,)* visitor: V) -> Result<V::Value> {
                $value.visit($ask, visitor)
            }
        )*
    };
}

macro_rules! deserializer {
    ($this:ident => $value:expr) => {
        methods! {
            $this => $value;
            deserialize_any() => Ask::Any;
            deserialize_bool() => Ask::Number(Dtype::Bool);
            deserialize_i8() => Ask::Number(Dtype::I8);
            deserialize_i16() => Ask::Number(Dtype::I16);
            deserialize_i32() => Ask::Number(Dtype::I32);
            deserialize_i64() => Ask::Number(Dtype::I64);
            deserialize_u8() => Ask::Number(Dtype::U8);
            deserialize_u16() => Ask::Number(Dtype::U16);
            deserialize_u32() => Ask::Number(Dtype::U32);
            deserialize_u64() => Ask::Number(Dtype::U64);
            deserialize_f32() => Ask::Number(Dtype::F32);
            deserialize_f64() => Ask::Number(Dtype::F64);
            deserialize_char() => Ask::Char;
            deserialize_str() => Ask::Str;
            deserialize_string() => Ask::Str;
            deserialize_identifier() => Ask::Identifier;
            deserialize_bytes() => Ask::Bytes;
            deserialize_byte_buf() => Ask::ByteBuf;
            deserialize_option() => Ask::Option;
            deserialize_unit() => Ask::Unit;
            deserialize_unit_struct(_name: &'static str) => Ask::Unit;
            deserialize_newtype_struct(name: &'static str) => Ask::Newtype(name);
            deserialize_seq() => Ask::Seq(None);
            deserialize_tuple(len: usize) => Ask::Seq(Some(len));
            deserialize_tuple_struct(_name: &'static str, len: usize) => Ask::Seq(Some(len));
            deserialize_map() => Ask::Map;
            deserialize_struct(name: &'static str, fields: &'static [&'static str]) => Ask::Struct(name, fields);
            deserialize_enum(_name: &'static str, _variants: &'static [&'static str]) => Ask::Enum;
            deserialize_ignored_any() => Ask::Ignored;
        }
    };
}

impl<'de> serde::Deserializer<'de> for &mut Deserializer<'de> {
    deserializer!(self => Value::Here(self.finder_for_serde()));

    fn is_human_readable(&self) -> bool {
        false
    }
}

impl<'de> serde::Deserializer<'de> for Value<'_, 'de> {
    deserializer!(self => self);

    fn is_human_readable(&self) -> bool {
        matches!(self, Value::Key(..))
    }
}

/// Reads the key of a map from its text.
pub(super) fn parse_key<'de, K: serde::Deserialize<'de>>(text: &str) -> Result<K> {
    K::deserialize(Value::Key(text, &Cell::new(KeyPart::Whole)))
}
