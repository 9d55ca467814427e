use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, SerializeTupleStruct};

use super::Serializer;
use super::head::Head;
use super::numbers::Numbers;
use crate::error::{Error, ErrorKind, Result};
use crate::model::path::Mark;
use crate::model::{TensorSink, token};
use crate::tensor::{Shape, TensorInfo};

/// Items numbered from 0, or numbers that are one tensor.
#[derive(Debug)]
pub struct List<'a, S> {
    serializer: &'a mut Serializer<S>,
    /// The dims that the numbers have if there are any; `None` for as many as there are.
    dims: Option<Shape>,
    numbers: Numbers,
    /// Items that were no numbers.
    others: usize,
    /// Whether the type tells the length.
    tells_length: bool,
}

impl<'a, S: TensorSink> List<'a, S> {
    /// A list whose length the type does not tell: each item must hold a tensor, or the length would be lost.
    pub(super) fn of_any_length(serializer: &'a mut Serializer<S>) -> Self {
        Self { tells_length: false, ..Self::of_known_length(serializer) }
    }

    pub(super) fn of_known_length(serializer: &'a mut Serializer<S>) -> Self {
        let dims = serializer.dims.take();
        Self { serializer, dims, numbers: Numbers::default(), others: 0, tells_length: true }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let place = self.serializer.path.push_index(self.others);
        self.serializer.parent = place;
        // A number puts itself here; anything else takes the place away.
        self.serializer.numbers = Some(std::mem::take(&mut self.numbers));
        let sent = self.serializer.sent;
        self.serializer.value(value)?;
        match self.serializer.numbers.take() {
            Some(numbers) => self.numbers = numbers,
            None if self.serializer.sent == sent && !self.tells_length => {
                let what = "store a list with an item that holds no tensor".to_owned();
                let instead = "its length could not be told".to_owned();
                let name = self.serializer.path.name();
                return Err(Error::new(ErrorKind::Unsupported { what, instead }).in_tensor(name));
            }
            None => self.others += 1,
        }
        self.serializer.path.back_to(place);
        if self.others > 0 && !self.numbers.is_empty() {
            return Err(self.serializer.refuse("a list of numbers and something else"));
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let Self { serializer, dims, numbers, .. } = self;
        match numbers.dtype() {
            Some(dtype) => {
                let info = TensorInfo::new(dtype, dims.unwrap_or_else(|| [numbers.len].into()));
                info.check_payload(numbers.bytes.len() as u64)?;
                serializer.tensor(info, serde_bytes::Bytes::new(&numbers.bytes))
            }
            None if dims.is_some() => {
                let instead = "its dtype cannot be told; `#[serde(with = \"tensorfile::array\")]` tells it";
                let found = "an empty array in ndarray's own representation";
                Err(Error::new(ErrorKind::NotATensor { found, instead }).in_tensor(serializer.path.name()))
            }
            None => Ok(()),
        }
    }
}

macro_rules! list {
    ($($kind:ident::$method:ident),*) => {$(
        impl<S: TensorSink> $kind for List<'_, S> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.item(value)
            }

            fn end(self) -> Result<()> {
                self.finish()
            }
        }
    )*};
}

list!(SerializeSeq::serialize_element, SerializeTuple::serialize_element, SerializeTupleStruct::serialize_field);

/// Values under the names that are their keys.
#[derive(Debug)]
pub struct Map<'a, S> {
    serializer: &'a mut Serializer<S>,
    place: Mark,
}

impl<'a, S> Map<'a, S> {
    pub(super) fn new(serializer: &'a mut Serializer<S>) -> Self {
        let place = serializer.path.mark();
        Self { serializer, place }
    }
}

impl<S: TensorSink> SerializeMap for Map<'_, S> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        let pushed = self.serializer.path.push_display(KeyText(key));
        self.place = pushed.map_err(|_| self.serializer.refuse("a map key that is no string and no number"))?;
        self.serializer.parent = self.place;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let sent = self.serializer.sent;
        self.serializer.value(value)?;
        let is_tensor = self.serializer.last == self.serializer.path.mark();
        let key = self.serializer.path.since(self.place);
        if self.serializer.sent > sent && !is_tensor && (key.is_empty() || key.contains('.')) {
            let what = format!("store a map with the key `{key}` for more than one tensor");
            let instead = "names could not tell it from a map in a map".to_owned();
            let name = self.serializer.path.name();
            return Err(Error::new(ErrorKind::Unsupported { what, instead }).in_tensor(name));
        }
        self.serializer.path.back_to(self.place);
        Ok(())
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}

/// Prints a key by serde's own serializer into a formatter, which takes strings and numbers.
struct KeyText<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> fmt::Display for KeyText<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(f)
    }
}

/// A struct of named fields, or one that is a tensor.
#[derive(Debug)]
pub struct Struct<'a, S> {
    serializer: &'a mut Serializer<S>,
    kind: StructKind,
    head: Head,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StructKind {
    Fields,
    /// The fields of [`token::TENSOR_FIELDS`].
    Tensor,
    /// The fields of [`token::NDARRAY_FIELDS`].
    Ndarray,
}

impl<'a, S> Struct<'a, S> {
    pub(super) fn new(serializer: &'a mut Serializer<S>, kind: StructKind) -> Self {
        Self { serializer, kind, head: Head::default() }
    }
}

impl<S: TensorSink> SerializeStruct for Struct<'_, S> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
        match (self.kind, name) {
            (StructKind::Tensor, token::DATA) => self.serializer.tensor(self.head.take_info()?, value),
            (StructKind::Tensor, _) => self.head.set(name, value),
            (StructKind::Ndarray, "v") => self.head.set(name, value),
            (StructKind::Ndarray, "dim") => self.head.set(token::SHAPE, value),
            (StructKind::Ndarray, "data") => {
                self.serializer.dims = Some(self.head.take_shape());
                value.serialize(&mut *self.serializer)
            }
            _ => {
                let place = self.serializer.path.push(name);
                self.serializer.parent = place;
                self.serializer.value(value)?;
                self.serializer.path.back_to(place);
                Ok(())
            }
        }
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}
