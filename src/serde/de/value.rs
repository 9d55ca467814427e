use std::cell::Cell;

use super::parts::Parts;
use super::{Answer, Ask};
use crate::cast::Number;
use crate::error::{ErrorKind, Result};
use crate::find::Deserializer;
use crate::model::{KeyPart, Loaded, Payload};
use crate::serde::token;
use crate::tensor::{Dtype, Layout, TensorInfo};

/// A value as serde asks for it: at a place in the file, or a part of a tensor there.
pub(super) enum Value<'a, 'de> {
    /// The value at the place of the deserializer.
    Here(&'a mut Deserializer<'de>),
    /// One element of a tensor.
    Element(&'a TensorInfo, &'a [u8]),
    /// All elements of a tensor, in row-major order.
    Elements(Box<Loaded<'de>>),
    /// The header of a tensor, for types of ours.
    Header(&'a TensorInfo),
    Layout(&'a Layout),
    Dims(&'a [usize]),
    DimOrder(&'a [u8]),
    Payload(&'a mut Deserializer<'de>, usize),
    /// A part of a payload.
    Piece(&'a [u8]),
    Number(usize),
    Name(&'static str),
    Str(&'a str),
    /// A part of a name that is the key of a map. The cell receives the part that the type asks for.
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
            Self::Header(info) => Ok(Answer::ByteBuf(token::encode_header(info).to_vec())),
            Self::Layout(layout) => {
                let (name, value) = match layout {
                    Layout::RowMajor => (token::ROW_MAJOR, None),
                    Layout::Blob => (token::BLOB, None),
                    Layout::DimOrder(order) => (token::DIM_ORDER, Some(Value::DimOrder(order.as_slice()))),
                    Layout::Coo { entries } => (token::COO, Some(Value::Number(*entries))),
                };
                Ok(match (ask, &value) {
                    (Ask::Enum, _) => Answer::Enum(Parts::Variant { name, value }),
                    (_, Some(_)) => Answer::Map(Parts::Variant { name, value }),
                    (_, None) => Answer::Name(name),
                })
            }
            Self::Dims(dims) => Ok(Answer::Seq(Parts::Dims(dims))),
            Self::DimOrder(order) => Ok(Answer::Seq(Parts::DimOrder(order))),
            Self::Payload(de, at) => match ask {
                // Types of ours gather the pieces themselves, in memory that is aligned for the elements.
                Ask::Bytes => match de.reader.borrow(at) {
                    Some(bytes) => Ok(Answer::BorrowedBytes(bytes?)),
                    None => Ok(Answer::Seq(Parts::Pieces(Box::new(de.reader.pieces(at))))),
                },
                _ => de.payload(at),
            },
            Self::Piece(bytes) => Ok(Answer::Bytes(bytes)),
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

impl<'de> Deserializer<'de> {
    /// Gives the payload of a tensor as bytes in one run.
    pub(super) fn payload<'a>(&mut self, at: usize) -> Result<Answer<'a, 'de>> {
        Ok(match self.reader.payload(at)? {
            Payload::Borrowed(bytes) => Answer::BorrowedBytes(bytes),
            Payload::Owned(buffer) => Answer::ByteBuf(buffer.into_vec_u8()),
        })
    }
}

/// One element of a tensor. The type that is asked for must have the dtype of the tensor: no number is converted.
pub(super) fn number<'a, 'de>(info: &TensorInfo, element: &[u8], ask: Ask) -> Result<Answer<'a, 'de>> {
    if let Ask::Number(expected) = ask
        && expected != info.dtype
    {
        return Err(ErrorKind::WrongDtype { found: info.clone(), expected }.into());
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

/// A part of a name as a key: a string, or the number that it spells.
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
