//! [`Serializer`] as serde's: plain serde values become named tensors.
//!
//! The generic methods are recompiled for each user type, so they only call `value.serialize(&mut Serializer)` and
//! non-generic methods.

use std::fmt::{self, Display, Write as _};

use serde::ser::{
    Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, SerializeTupleStruct,
};

use super::token;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    HeaderField, MapKey, Mark, Numbers, SentCounts, Serializer, Sink, TemporaryBytes, not_a_key, not_bytes,
};
use crate::tensor::{Dtype, Element, Layout, Shape, TensorInfo};

impl<'s> Serializer<'s> {
    /// Takes a number: part of a header, an item of the enclosing list, or else a tensor of rank 0.
    fn number<A: Element>(&mut self, value: A) -> Result<()> {
        self.number_bytes(A::DTYPE, &A::as_le_bytes(std::slice::from_ref(&value)))
    }

    fn number_bytes(&mut self, dtype: Dtype, bytes: &[u8]) -> Result<()> {
        if let Some(header) = &mut self.serde.header {
            let number = as_usize(dtype, bytes).ok_or_else(not_ours)?;
            header.numbers.push(number);
            return Ok(());
        }
        match &mut self.serde.numbers {
            Some(numbers) => numbers.push(dtype, bytes).map_err(|kind| Error::new(kind).in_tensor(self.path.name())),
            None => self.tensor(&TensorInfo::new(dtype, []), &TemporaryBytes(bytes)),
        }
    }

    /// Enters a value other than a number.
    fn enter(&mut self) -> Result<()> {
        match self.serde.numbers.take() {
            Some(numbers) if numbers.len > 0 => Err(self.refuse("a list of numbers and something else")),
            _ => Ok(()),
        }
    }

    fn refuse(&self, found: &'static str) -> Error {
        let instead = "expected a tensor, a number, or a struct, map, list or tuple of them";
        Error::new(ErrorKind::NotATensor { found, instead }).in_tensor(self.path.name())
    }

    /// Refuses a part of a value that stores nothing, if its place is told by position: the next part would be read
    /// instead of it. The value itself may be nothing.
    fn check_nothing(&mut self, what: &str) -> Result<()> {
        // An item of a list is refused with and without names.
        if self.path.is_root() || self.serde.item == Some(self.path.mark()) {
            return Ok(());
        }
        if !self.omits_names() {
            self.need_names();
            return Ok(());
        }
        let instead = "the next value would be read in its place; embed names, by `Options::embed_names`";
        Err(self.no_tensor(&format!("{what} without names"), instead))
    }

    /// Returns the numbers of what was stored, and of the numbers of the list around.
    fn before_some(&self) -> (SentCounts, usize) {
        (self.sent_so_far(), self.serde.numbers.as_ref().map_or(0, |numbers| numbers.len))
    }

    fn after_some(&self, (before, numbers): (SentCounts, usize)) -> Result<()> {
        match &self.serde.numbers {
            Some(list) if list.len > numbers => Ok(()),
            _ if self.serde.header.is_some() => Ok(()),
            _ => self.check_some(before),
        }
    }

    fn list(&mut self, has_fixed_len: bool) -> Result<ListSerializer<'_, 's>> {
        if self.serde.payload.is_some() {
            return Err(not_bytes());
        }
        if self.serde.header.is_some() {
            return Ok(ListSerializer::new(self, None, ListKind::Raw));
        }
        self.enter()?;
        let dims = self.serde.dims.take();
        let kind = if has_fixed_len { ListKind::FixedLen } else { ListKind::AnyLen };
        Ok(ListSerializer::new(self, dims, kind))
    }
}

/// Returns an integer of any width.
fn as_usize(dtype: Dtype, bytes: &[u8]) -> Option<usize> {
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let is_signed = matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
    let is_negative = is_signed && bytes.last().is_some_and(|last| *last >= 0x80);
    (dtype.is_integer() && !is_negative).then(|| usize::try_from(u64::from_le_bytes(wide)).ok())?
}

impl Numbers {
    fn push(&mut self, dtype: Dtype, bytes: &[u8]) -> Result<(), ErrorKind> {
        if *self.dtype.get_or_insert(dtype) != dtype {
            let instead = "a list of numbers is a tensor when they are all of one type";
            return Err(ErrorKind::NotATensor { found: "a list of numbers of several types", instead });
        }
        self.len += 1;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

macro_rules! numbers {
    ($($method:ident($number:ty)),*) => {$(
        fn $method(self, value: $number) -> Result<()> {
            self.number(value)
        }
    )*};
}

impl<'a, 's> serde::Serializer for &'a mut Serializer<'s> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = ListSerializer<'a, 's>;
    type SerializeTuple = ListSerializer<'a, 's>;
    type SerializeTupleStruct = ListSerializer<'a, 's>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = MapSerializer<'a, 's>;
    type SerializeStruct = StructSerializer<'a, 's>;
    type SerializeStructVariant = Impossible<(), Error>;

    numbers! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_f32(f32), serialize_f64(f64)
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<()> {
        if let Some(info) = self.serde.payload.take() {
            return self.tensor(&info, &TemporaryBytes(bytes));
        }
        self.enter()?;
        self.tensor(&TensorInfo::new(Dtype::U8, [bytes.len()]), &TemporaryBytes(bytes))
    }

    fn serialize_none(self) -> Result<()> {
        self.enter()?;
        self.check_nothing("`None`")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        let before = self.before_some();
        value.serialize(&mut *self)?;
        self.after_some(before)
    }

    fn serialize_unit(self) -> Result<()> {
        self.enter()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.enter()
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<()> {
        if name == token::FLATTEN {
            self.path.back_to(self.serde.parent);
        }
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ListSerializer<'a, 's>> {
        self.list(false)
    }

    fn serialize_tuple(self, _: usize) -> Result<ListSerializer<'a, 's>> {
        self.list(true)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<ListSerializer<'a, 's>> {
        self.list(true)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<MapSerializer<'a, 's>> {
        self.enter()?;
        if len == Some(0) {
            self.check_nothing("an empty map")?;
        }
        let is_flattened = len.is_none();
        let map = self.path.mark();
        Ok(MapSerializer { serializer: self, map, is_flattened })
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<StructSerializer<'a, 's>> {
        self.enter()?;
        let kind = match name {
            token::TENSOR => StructKind::Tensor,
            token::NDARRAY if len == token::NDARRAY_FIELDS.len() => {
                if self.serde.flattened == Some(self.path.mark()) {
                    let what = "ndarray's own representation in a struct with `#[serde(flatten)]`";
                    return Err(self.no_tensor(what, "`#[serde(with = \"tensorfile::array\")]` stores the array"));
                }
                StructKind::Ndarray
            }
            _ => StructKind::Fields,
        };
        Ok(StructSerializer { serializer: self, kind, dtype: None, shape: Shape::default(), layout: Layout::RowMajor })
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

    fn serialize_unit_variant(self, name: &'static str, index: u32, variant: &'static str) -> Result<()> {
        let Some(header) = &mut self.serde.header else { return Err(self.refuse("an enum")) };
        match name {
            token::DTYPE => header.dtype = Dtype::ALL.get(index as usize).copied(),
            _ => header.variant = Some(variant),
        }
        Ok(())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        let outer = self.tied;
        match (&mut self.serde.header, name) {
            (_, token::TIED) => self.tied = Some(variant),
            (Some(header), _) => header.variant = Some(variant),
            (None, _) => return Err(self.refuse("an enum")),
        }
        value.serialize(&mut *self)?;
        self.tied = outer;
        Ok(())
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

/// Items numbered from 0, or numbers forming one tensor.
pub struct ListSerializer<'a, 's> {
    serializer: &'a mut Serializer<'s>,
    /// The dims of the numbers, if there are any; `None` for a list.
    dims: Option<Shape>,
    numbers: Numbers,
    /// The number of items other than numbers.
    others: usize,
    kind: ListKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ListKind {
    /// The length is fixed by the type.
    FixedLen,
    /// Each item must hold a tensor, or the length would be lost.
    AnyLen,
    /// Not a value: a part of a header.
    Raw,
}

impl<'a, 's> ListSerializer<'a, 's> {
    fn new(serializer: &'a mut Serializer<'s>, dims: Option<Shape>, kind: ListKind) -> Self {
        Self { serializer, dims, numbers: Numbers::default(), others: 0, kind }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let begun = self.begin_item();
        let stored = value.serialize(&mut *self.serializer);
        self.end_item(begun, stored)
    }

    /// Returns the place of the list, and what was sent before the item.
    fn begin_item(&mut self) -> Option<(Mark, SentCounts)> {
        if self.kind == ListKind::Raw {
            return None;
        }
        let mark = self.serializer.path.push_index(self.others);
        self.serializer.serde.parent = mark;
        self.serializer.serde.item = (self.kind == ListKind::AnyLen).then(|| self.serializer.path.mark());
        // A number adds itself. Any other value removes the list.
        self.serializer.serde.numbers = Some(std::mem::take(&mut self.numbers));
        Some((mark, self.serializer.sent_so_far()))
    }

    fn end_item(&mut self, begun: Option<(Mark, SentCounts)>, stored: Result<()>) -> Result<()> {
        let Some((mark, before)) = begun else { return stored };
        self.serializer.serde.item = None;
        stored.map_err(|error| self.serializer.in_part(error))?;
        match self.serializer.serde.numbers.take() {
            Some(numbers) => self.numbers = numbers,
            None => {
                if self.kind == ListKind::AnyLen {
                    self.serializer.check_item(before)?;
                }
                self.serializer.check_metadata(before)?;
                self.others += 1;
            }
        }
        self.serializer.path.back_to(mark);
        if self.others > 0 && self.numbers.len > 0 {
            return Err(self.serializer.refuse("a list of numbers and something else"));
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let Self { serializer, dims, numbers, others, kind } = self;
        match numbers.dtype {
            Some(dtype) => {
                let info = TensorInfo::new(dtype, dims.unwrap_or_else(|| [numbers.len].into()));
                info.check_payload(numbers.bytes.len() as u64)?;
                serializer.tensor(&info, &TemporaryBytes(&numbers.bytes))
            }
            None if dims.is_some() => {
                let instead = "its dtype cannot be told; `#[serde(with = \"tensorfile::array\")]` tells it";
                let found = "an empty array in ndarray's own representation";
                Err(Error::new(ErrorKind::NotATensor { found, instead }).in_tensor(serializer.path.name()))
            }
            None if kind == ListKind::AnyLen && others == 0 => serializer.check_nothing("an empty list"),
            None => Ok(()),
        }
    }
}

macro_rules! list {
    ($($kind:ident::$method:ident),*) => {$(
        impl $kind for ListSerializer<'_, '_> {
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

/// Values under their keys.
pub struct MapSerializer<'a, 's> {
    serializer: &'a mut Serializer<'s>,
    map: Mark,
    /// The map is a struct with `#[serde(flatten)]`, whose length serde does not tell, or looks like one.
    is_flattened: bool,
}

impl SerializeMap for MapSerializer<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        let mut text = String::new();
        let written = key.write_key(&mut text);
        written.map_err(|_| self.serializer.in_part(not_a_key()))?;
        self.map = self.serializer.path.push(&text);
        self.serializer.serde.parent = self.map;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let (before, outer) = self.begin_value();
        let stored = value.serialize(&mut *self.serializer);
        self.end_value(before, outer, stored)
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}

impl MapSerializer<'_, '_> {
    /// Returns what was sent before the value, and the entry of a flattened map around.
    fn begin_value(&mut self) -> (SentCounts, Option<Mark>) {
        let here = self.is_flattened.then(|| self.serializer.path.mark());
        let outer = std::mem::replace(&mut self.serializer.serde.flattened, here);
        (self.serializer.sent_so_far(), outer)
    }

    fn end_value(&mut self, before: SentCounts, outer: Option<Mark>, stored: Result<()>) -> Result<()> {
        let serializer = &mut *self.serializer;
        stored.map_err(|error| serializer.in_part(error))?;
        serializer.check_entry(self.map, before)?;
        serializer.serde.flattened = outer;
        // serde asks for names and values without a type, so only whole names can be keys.
        let is_one_tensor = serializer.sent == before.tensors + 1 && serializer.last == serializer.path.mark();
        if self.is_flattened && !is_one_tensor {
            let what = "a value of several tensors in a struct with `#[serde(flatten)]`, or in a map of unknown length";
            let instead = "it could not be read again; `#[derive(TensorFile)]` has `#[tensor(flatten)]`";
            return Err(serializer.no_tensor(what, instead));
        }
        serializer.path.back_to(self.map);
        Ok(())
    }
}

/// Any key accepted by serde's own serializer for formatters: strings, numbers and unit variants.
impl<K: Serialize + ?Sized> MapKey for K {
    fn write_key(&self, name: &mut String) -> fmt::Result {
        struct KeyText<'a, T: ?Sized>(&'a T);

        impl<T: Serialize + ?Sized> Display for KeyText<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.serialize(f)
            }
        }

        write!(name, "{}", KeyText(self))
    }
}

/// A struct of named fields, or a tensor in the form of a struct.
pub struct StructSerializer<'a, 's> {
    serializer: &'a mut Serializer<'s>,
    kind: StructKind,
    dtype: Option<Dtype>,
    shape: Shape,
    layout: Layout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StructKind {
    Fields,
    /// The fields of [`token::TENSOR_FIELDS`].
    Tensor,
    /// The fields of [`token::NDARRAY_FIELDS`].
    Ndarray,
}

impl StructSerializer<'_, '_> {
    /// Returns the place of the struct.
    fn begin_field(&mut self, name: &'static str) -> Result<Mark> {
        match (self.kind, name) {
            (StructKind::Fields, _) => {
                let place = self.serializer.path.push(name);
                self.serializer.serde.parent = place;
                return Ok(place);
            }
            (StructKind::Tensor, token::DATA) => self.serializer.serde.payload = Some(self.take_info()?),
            (StructKind::Ndarray, "data") => self.serializer.serde.dims = Some(std::mem::take(&mut self.shape)),
            _ => self.serializer.serde.header = Some(HeaderField::default()),
        }
        Ok(self.serializer.path.mark())
    }

    fn end_field(&mut self, name: &'static str, place: Mark, stored: Result<()>) -> Result<()> {
        match (self.kind, name) {
            (StructKind::Fields, _) => {
                stored.map_err(|error| self.serializer.in_part(error))?;
                self.serializer.path.back_to(place);
                Ok(())
            }
            (StructKind::Tensor, token::DATA) => match self.serializer.serde.payload.take() {
                Some(_) => Err(not_bytes()),
                None => stored,
            },
            (StructKind::Ndarray, "data") => stored,
            _ => self.end_header(name, stored),
        }
    }

    /// Stores a field of a received header.
    fn end_header(&mut self, name: &'static str, stored: Result<()>) -> Result<()> {
        let header = self.serializer.serde.header.take().unwrap_or_default();
        stored?;
        match name {
            token::DTYPE => self.dtype = header.dtype,
            token::SHAPE | "dim" => self.shape = header.numbers,
            token::LAYOUT => self.layout = layout(header)?,
            // Only ndarray's own struct has a number here.
            "v" if header.numbers == [1] => {}
            _ => return Err(not_ours()),
        }
        Ok(())
    }

    fn take_info(&mut self) -> Result<TensorInfo> {
        Ok(TensorInfo {
            dtype: self.dtype.ok_or_else(not_ours)?,
            shape: std::mem::take(&mut self.shape),
            layout: std::mem::take(&mut self.layout),
        })
    }
}

fn layout(header: HeaderField) -> Result<Layout> {
    match header.variant {
        Some(token::ROW_MAJOR) => Ok(Layout::RowMajor),
        Some(token::BLOB) => Ok(Layout::Blob),
        Some(token::DIM_ORDER) => {
            let order: Option<Vec<u8>> = header.numbers.iter().map(|&dim| u8::try_from(dim).ok()).collect();
            Ok(Layout::from_dim_order(&order.ok_or_else(not_ours)?)?)
        }
        Some(token::COO) => Ok(Layout::Coo { entries: *header.numbers.first().ok_or_else(not_ours)? }),
        _ => Err(not_ours()),
    }
}

/// The error for a struct with our private name, or ndarray's, and other contents.
fn not_ours() -> Error {
    let instead = "a struct `Array` of three fields is taken for ndarray's own, so give it another name";
    ErrorKind::NotATensor { found: "a struct that is named like a tensor but has other fields", instead }.into()
}

impl SerializeStruct for StructSerializer<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn skip_field(&mut self, name: &'static str) -> Result<()> {
        let place = self.serializer.path.push(name);
        let checked = self.serializer.check_nothing("a skipped field");
        self.serializer.path.back_to(place);
        checked
    }

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
        let place = self.begin_field(name)?;
        let stored = value.serialize(&mut *self.serializer);
        self.end_field(name, place, stored)
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for ListSerializer<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListSerializer").finish_non_exhaustive()
    }
}

impl fmt::Debug for MapSerializer<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapSerializer").finish_non_exhaustive()
    }
}

impl fmt::Debug for StructSerializer<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StructSerializer").finish_non_exhaustive()
    }
}
