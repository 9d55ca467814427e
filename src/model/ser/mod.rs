//! The one serializer: it turns values into tensors with names, and leaves what to do with them to its [`TensorSink`].

mod compound;
mod head;
mod numbers;
mod payload;

use std::fmt::Display;

use serde::ser::{Impossible, Serialize};

pub(crate) use payload::{Memory, Payload};

use self::compound::{List, Map, Struct, StructKind};
use self::numbers::Numbers;
use super::path::{Mark, Path};
use super::{TensorSink, token};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Dtype, Element, Layout, Shape, TensorInfo, to_le_bytes};

/// A serde serializer that sends the tensors of a value to a sink.
#[derive(Debug)]
pub struct Serializer<S> {
    sink: S,
    path: Path,
    /// The place above, to which a flattened field goes back.
    parent: Mark,
    /// The numbers of the list that the next value is an item of, if it is one.
    numbers: Option<Numbers>,
    /// The dims of the list that comes next, where they are more than its length: ndarray's own representation tells
    /// them first.
    dims: Option<Shape>,
    /// Whether a tensor was refused, which must not be passed over.
    failed: bool,
    /// The number of tensors sent.
    sent: usize,
    /// The place of the last one.
    last: Mark,
    /// The name of the tensor that the value here is the same as.
    tied: Option<&'static str>,
}

impl<S: TensorSink> Serializer<S> {
    pub(crate) fn over(sink: S) -> Self {
        Self::under("", sink)
    }

    /// A serializer of a value that lies under `name`.
    pub(crate) fn under(name: &str, sink: S) -> Self {
        let mut path = Path::default();
        if !name.is_empty() {
            path.push(name);
        }
        Self {
            sink,
            path,
            parent: Mark::default(),
            numbers: None,
            dims: None,
            failed: false,
            sent: 0,
            last: Mark::default(),
            tied: None,
        }
    }

    /// The sink, with all tensors of the value.
    pub(crate) fn into_sink(self) -> Result<S> {
        match self.failed {
            true => {
                Err(Error::new(ErrorKind::Message("a tensor was refused, and the value passed over it".to_owned())))
            }
            false => Ok(self.sink),
        }
    }

    /// Serializes a part of the value; an error that it raises is about the place where it was raised.
    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut *self).map_err(|error| error.in_tensor(self.path.name()))
    }

    fn tensor<P: Serialize + ?Sized>(&mut self, info: TensorInfo, payload: &P) -> Result<()> {
        self.sent += 1;
        self.last = self.path.mark();
        let name = self.path.name();
        let sent = match info.layout {
            Layout::DimOrder(order) if !self.sink.keeps_dim_order() => {
                let info = TensorInfo { layout: Layout::RowMajor, ..info };
                self.sink.tensor(name, info.clone(), Payload::reordered(payload, info, order).tied(self.tied))
            }
            _ => self.sink.tensor(name, info, Payload::new(payload).tied(self.tied)),
        };
        self.failed |= sent.is_err();
        sent.map_err(|error| error.in_tensor(name))
    }

    /// A number is an item of the list that it stands in, or else a tensor of rank 0.
    fn number<A: Element>(&mut self, value: A) -> Result<()> {
        let bytes = to_le_bytes(std::slice::from_ref(&value));
        match &mut self.numbers {
            Some(numbers) => {
                numbers.push(A::DTYPE, &bytes).map_err(|kind| Error::new(kind).in_tensor(self.path.name()))
            }
            None => self.tensor(TensorInfo::new(A::DTYPE, []), serde_bytes::Bytes::new(&bytes)),
        }
    }

    /// Goes into a value that is more than a number.
    fn enter(&mut self) -> Result<()> {
        match self.numbers.take() {
            Some(numbers) if !numbers.is_empty() => Err(self.refuse("a list of numbers and something else")),
            _ => Ok(()),
        }
    }

    fn refuse(&self, found: &'static str) -> Error {
        let instead = "expected a tensor, a number, or a struct, map, list or tuple of them";
        Error::new(ErrorKind::NotATensor { found, instead }).in_tensor(self.path.name())
    }
}

macro_rules! numbers {
    ($($method:ident($number:ty)),*) => {$(
        fn $method(self, value: $number) -> Result<()> {
            self.number(value)
        }
    )*};
}

impl<'a, S: TensorSink> serde::Serializer for &'a mut Serializer<S> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'a, S>;
    type SerializeTuple = List<'a, S>;
    type SerializeTupleStruct = List<'a, S>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Map<'a, S>;
    type SerializeStruct = Struct<'a, S>;
    type SerializeStructVariant = Impossible<(), Error>;

    numbers! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_f32(f32), serialize_f64(f64)
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<()> {
        self.enter()?;
        self.tensor(TensorInfo::new(Dtype::U8, [bytes.len()]), serde_bytes::Bytes::new(bytes))
    }

    fn serialize_none(self) -> Result<()> {
        self.enter()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.enter()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.enter()
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<()> {
        if name == token::FLATTEN {
            self.path.back_to(self.parent);
        }
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a, S>> {
        self.enter()?;
        Ok(List::of_any_length(self))
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'a, S>> {
        self.enter()?;
        Ok(List::of_known_length(self))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<List<'a, S>> {
        self.serialize_tuple(len)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Map<'a, S>> {
        self.enter()?;
        Ok(Map::new(self))
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Struct<'a, S>> {
        self.enter()?;
        let kind = match name {
            token::TENSOR => StructKind::Tensor,
            token::NDARRAY if len == token::NDARRAY_FIELDS.len() => StructKind::Ndarray,
            _ => StructKind::Fields,
        };
        Ok(Struct::new(self, kind))
    }

    fn serialize_str(self, _: &str) -> Result<()> {
        Err(self.refuse("a string"))
    }

    fn serialize_char(self, _: char) -> Result<()> {
        Err(self.refuse("a char"))
    }

    fn serialize_i128(self, _: i128) -> Result<()> {
        Err(self.refuse("an i128"))
    }

    fn serialize_u128(self, _: u128) -> Result<()> {
        Err(self.refuse("a u128"))
    }

    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Result<()> {
        Err(self.refuse("a string"))
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<()> {
        Err(self.refuse("an enum"))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        if name == token::TIED {
            let outer = self.tied.replace(variant);
            value.serialize(&mut *self)?;
            self.tied = outer;
            return Ok(());
        }
        Err(self.refuse("an enum"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Error>> {
        Err(self.refuse("an enum"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Error>> {
        Err(self.refuse("an enum"))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
