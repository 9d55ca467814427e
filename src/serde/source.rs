//! Any serde format as a [`Source`]: types that map to tensors implement `Deserialize` with it.
//!
//! Everything here is generic only over the format and shared by all types, except the few lines of
//! [`deserialize_load`]. [`Request`] is the only visitor and the only seed, so a format's deserializer is compiled for
//! one type. Results go to borrowed places, and closures are behind `&mut dyn`.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Expected, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde_bytes::ByteBuf;

use super::de::{set_node, set_struct};
use super::error::{is_ours, to_de};
use super::sink::wrapped_metadata;
use super::{own, token};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    EachEntry, EachPart, FieldAttrs, FieldDef, FromTensors, KeyPart, LoadFrom, Loaded, MetadataKind, MetadataValue,
    Payload, Source, StructDef, TensorSpec, node_of, put,
};
use crate::tensor::{Buffer, DimOrder, Dtype, Element, InvalidTensor, Layout, Shape, TensorInfo};

/// Deserializes a value that maps to tensors: the `Deserialize` impl of all derived types.
///
/// # Errors
///
/// Errors of the deserializer, and a payload out of range for the type.
pub fn deserialize_load<'de, T: FromTensors<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let deserializer = match own::deserialize(deserializer) {
        Ok(deserialized) => return deserialized,
        Err(other) => other,
    };
    let mut value = None;
    set_node(is_ours::<D::Error>().then_some(node_of::<T>));
    let driven = drive(deserializer, &mut |source| put(&mut value, source, &FieldAttrs::NONE));
    // A call that did not take the node must not leave it to the next one.
    set_node(None);
    driven?;
    value.ok_or_else(|| to_de(message("a type loaded nothing")))
}

/// Calls `load` with the deserializer as a source.
// Not inlined, so that the copies in `compiled` are used.
#[inline(never)]
pub(super) fn drive<'de, D: Deserializer<'de>>(deserializer: D, load: LoadFrom<'_, 'de>) -> Result<(), D::Error> {
    drive_part(deserializer, true, load)
}

/// As [`drive`], for a part of a value. Items of a struct or of a list of tensors are not numbers of a list.
fn drive_part<'de, D: Deserializer<'de>>(
    deserializer: D,
    takes_numbers: bool,
    load: LoadFrom<'_, 'de>,
) -> Result<(), D::Error> {
    let mut source = SerdeSource::Open(deserializer, takes_numbers);
    match (load(&mut source), source) {
        (Err(_), SerdeSource::Failed(error)) => Err(error),
        (Err(error), _) => Err(to_de(error)),
        (Ok(()), SerdeSource::Done) => Ok(()),
        (Ok(()), _) => Err(to_de(message("a type loaded nothing"))),
    }
}

/// A serde deserializer, until it is used. Its error waits here while a marker goes up through the value.
enum SerdeSource<'de, D: Deserializer<'de>> {
    /// The deserializer, and whether a number may be a tensor.
    Open(D, bool),
    Done,
    Failed(D::Error),
}

impl<'de, D: Deserializer<'de>> SerdeSource<'de, D> {
    fn read(&mut self, part: Request<'_, 'de>) -> Result<()> {
        let Self::Open(deserializer, _) = std::mem::replace(self, Self::Done) else {
            return Err(message("a type loaded itself twice"));
        };
        part.deserialize(deserializer).map_err(|error| {
            *self = Self::Failed(error);
            message("an error of the serde format")
        })
    }
}

impl<'de, D: Deserializer<'de>> Source<'de> for SerdeSource<'de, D> {
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        let takes_numbers = matches!(self, Self::Open(_, true));
        let mut loaded = None;
        self.read(Request::Tensor(spec, &mut loaded, takes_numbers))?;
        loaded.ok_or_else(|| message("a serde format gave no tensor"))
    }

    fn fields(&mut self, def: &'static StructDef, each: EachPart<'_, 'de>) -> Result<()> {
        self.read(Request::Fields(def, each))
    }

    fn list(&mut self, each: EachPart<'_, 'de>) -> Result<()> {
        self.read(Request::List(None, each))
    }

    fn tuple(&mut self, len: usize, each: EachPart<'_, 'de>) -> Result<()> {
        self.read(Request::List(Some(len), each))
    }

    fn map(&mut self, key: KeyPart, each: EachEntry<'_, 'de>) -> Result<()> {
        self.read(Request::Map(key, each))
    }

    fn option(&mut self, some: EachPart<'_, 'de>) -> Result<()> {
        let takes_numbers = matches!(self, Self::Open(_, true));
        self.read(Request::Option(some, takes_numbers))
    }

    fn metadata(&mut self, kind: MetadataKind) -> Result<MetadataValue> {
        if is_ours::<D::Error>() {
            return Err(wrapped_metadata());
        }
        let mut value = None;
        self.read(Request::Metadata(kind, &mut value))?;
        value.ok_or_else(|| message("a serde format gave no value"))
    }
}

/// A source without a value.
struct Nothing {
    /// The enclosing struct skips unknown fields, and the requested ones may be among them.
    skips_unknown: bool,
}

impl Nothing {
    fn missing() -> Error {
        ErrorKind::Missing { name: String::new(), found: Vec::new(), others: 0, complete: false }.into()
    }
}

impl<'de> Source<'de> for Nothing {
    fn tensor(&mut self, _: &TensorSpec) -> Result<Loaded<'de>> {
        Err(Self::missing())
    }

    fn fields(&mut self, def: &'static StructDef, each: EachPart<'_, 'de>) -> Result<()> {
        let mut required = def.fields.iter().enumerate().filter(|(_, field)| !field.optional);
        required.try_for_each(|(index, _)| each(index, self))
    }

    fn list(&mut self, _: EachPart<'_, 'de>) -> Result<()> {
        if self.skips_unknown { Err(Self::missing()) } else { Ok(()) }
    }

    fn tuple(&mut self, len: usize, each: EachPart<'_, 'de>) -> Result<()> {
        (0..len).try_for_each(|index| each(index, self))
    }

    fn map(&mut self, _: KeyPart, _: EachEntry<'_, 'de>) -> Result<()> {
        if self.skips_unknown { Err(Self::missing()) } else { Ok(()) }
    }

    fn option(&mut self, _: EachPart<'_, 'de>) -> Result<()> {
        Ok(())
    }

    fn metadata(&mut self, _: MetadataKind) -> Result<MetadataValue> {
        Err(Self::missing())
    }
}

/// A requested part of a value, and the place for the result.
enum Request<'x, 'de> {
    /// A tensor; a number or a list of numbers is one too if the flag is set, and serde gives the value as it kept it.
    Tensor(&'x TensorSpec, &'x mut Option<Loaded<'de>>, bool),
    Fields(&'static StructDef, EachPart<'x, 'de>),
    /// Items, and their number if fixed by the type.
    List(Option<usize>, EachPart<'x, 'de>),
    Map(KeyPart, EachEntry<'x, 'de>),
    /// A value or none, and whether a number may be a tensor.
    Option(EachPart<'x, 'de>, bool),
    /// A field, with its number.
    Value(usize, EachPart<'x, 'de>),
    /// As [`Value`](Self::Value), for an item of a list.
    Item(usize, EachPart<'x, 'de>),
    /// The value of an entry of a map, with its key.
    Entry(&'x str, EachEntry<'x, 'de>),
    Key(KeyPart, &'x mut String),
    /// The number of a field. The field of this number is likely; the number of fields stands for a name to be skipped.
    FieldName(&'static StructDef, &'x mut usize),
    /// The number of a name in a list.
    Name(&'static [&'static str], &'x mut usize),
    Dtype(&'x mut Option<Dtype>),
    Layout(&'x mut Option<Layout>),
    Shape(&'x mut Option<Shape>),
    DimOrder(&'x mut Vec<u8>),
    Number(&'x mut u64),
    Byte(&'x mut u64),
    Payload(&'x TensorInfo, &'x mut Option<Loaded<'de>>),
    /// A payload before its header.
    EarlyPayload(&'x mut Option<ByteBuf>),
    /// A value of this kind, stored as metadata in tensor files.
    Metadata(MetadataKind, &'x mut Option<MetadataValue>),
    /// The name or the number of a variant.
    Variant(&'x mut Option<MetadataValue>),
    /// An item of a list of numbers that is a tensor.
    Element(&'x mut NumberList),
    /// A value of any kind, which is dropped.
    Ignored,
}

/// Numbers of one dtype, which a serde value held instead of a tensor.
#[derive(Default)]
struct NumberList {
    dtype: Option<Dtype>,
    len: usize,
    bytes: Vec<u8>,
}

impl NumberList {
    fn push<A: Element>(&mut self, number: A) -> Result<(), Error> {
        if *self.dtype.get_or_insert(A::DTYPE) != A::DTYPE {
            return Err(message("a list of numbers of several types is not a tensor"));
        }
        self.len += 1;
        self.bytes.extend_from_slice(&A::as_le_bytes(std::slice::from_ref(&number)));
        Ok(())
    }

    /// Keeps the numbers as a tensor.
    fn keep<'de>(
        self,
        shape: impl Into<Shape>,
        spec: &TensorSpec,
        place: &mut Option<Loaded<'de>>,
    ) -> Result<(), Error> {
        let dtype = self.dtype.ok_or_else(|| message("an empty list of numbers has no dtype"))?;
        let info = TensorInfo::new(dtype, shape);
        spec.check(&info)?;
        keep(place, &info, Payload::Owned(Buffer::try_from_slice(info.unit_bytes(), &self.bytes)?))
    }
}

impl<'de> DeserializeSeed<'de> for Request<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            // Around our own deserializer, it may be a value kept by serde, which can be more than a struct.
            Self::Tensor(..) if is_ours::<D::Error>() => {
                deserializer.deserialize_newtype_struct(token::ANY_TENSOR, self)
            }
            Self::Tensor(..) => deserializer.deserialize_struct(token::TENSOR, token::TENSOR_FIELDS, self),
            // Our own deserializer wants more of a field than its name.
            Self::Fields(def, _) => {
                let is_ours = is_ours::<D::Error>();
                if is_ours {
                    set_struct(def);
                }
                let name = if is_ours { token::DERIVED } else { def.name };
                deserializer.deserialize_struct(name, def.specs, self)
            }
            Self::List(None, _) | Self::Shape(_) | Self::DimOrder(_) => deserializer.deserialize_seq(self),
            Self::List(Some(len), _) => deserializer.deserialize_tuple(len, self),
            Self::Map(..) => deserializer.deserialize_map(self),
            Self::Option(..) => deserializer.deserialize_option(self),
            Self::Value(index, each) => drive(deserializer, &mut |source| each(index, source)),
            Self::Item(index, each) => drive_part(deserializer, false, &mut |source| each(index, source)),
            Self::Entry(key, each) => drive(deserializer, &mut |source| each(key, source)),
            // Our own deserializer must know how much of a name the key is.
            Self::Key(KeyPart::First, _) if is_ours::<D::Error>() => {
                deserializer.deserialize_newtype_struct(token::FIRST_SEGMENT, self)
            }
            Self::Key(KeyPart::BeforeLast, _) if is_ours::<D::Error>() => {
                deserializer.deserialize_newtype_struct(token::BEFORE_LAST, self)
            }
            Self::Key(KeyPart::BeforeIndex, _) if is_ours::<D::Error>() => {
                deserializer.deserialize_newtype_struct(token::BEFORE_INDEX, self)
            }
            Self::Key(..) => deserializer.deserialize_string(self),
            Self::FieldName(..) | Self::Name(..) | Self::Variant(_) => deserializer.deserialize_identifier(self),
            Self::Metadata(kind, _) => deserialize_metadata(deserializer, kind, self),
            // `ByteBuf` has its own visitor, which would be compiled for each format too, and takes strings for bytes.
            Self::Payload(..) => deserializer.deserialize_bytes(self),
            Self::EarlyPayload(_) => deserializer.deserialize_byte_buf(self),
            Self::Dtype(_) => deserializer.deserialize_enum(token::DTYPE, Dtype::NAMES, self),
            Self::Layout(_) => deserializer.deserialize_enum(token::LAYOUT, token::LAYOUTS, self),
            Self::Number(_) => deserializer.deserialize_u64(self),
            Self::Ignored => deserializer.deserialize_ignored_any(self),
            Self::Element(_) => deserializer.deserialize_any(self),
            Self::Byte(_) => deserializer.deserialize_u8(self),
        }
    }
}

fn deserialize_metadata<'de, D: Deserializer<'de>>(
    deserializer: D,
    kind: MetadataKind,
    part: Request<'_, 'de>,
) -> Result<(), D::Error> {
    // Few calls, because each one is compiled for every format of a program.
    match kind {
        MetadataKind::Any => deserializer.deserialize_any(part),
        MetadataKind::Bool => deserializer.deserialize_bool(part),
        MetadataKind::I8 | MetadataKind::I16 | MetadataKind::I32 | MetadataKind::I64 => {
            deserializer.deserialize_i64(part)
        }
        MetadataKind::U8 | MetadataKind::U16 | MetadataKind::U32 | MetadataKind::U64 => {
            deserializer.deserialize_u64(part)
        }
        MetadataKind::I128 => deserializer.deserialize_i128(part),
        MetadataKind::U128 => deserializer.deserialize_u128(part),
        MetadataKind::F32 => deserializer.deserialize_f32(part),
        MetadataKind::F64 => deserializer.deserialize_f64(part),
        MetadataKind::Char | MetadataKind::Text => deserializer.deserialize_string(part),
        MetadataKind::Variant { of, names } => deserializer.deserialize_enum(of, names, part),
    }
}

macro_rules! integers {
    ($($method:ident($integer:ty) => $wide:ident),*) => {$(
        fn $method<E: serde::de::Error>(self, number: $integer) -> Result<(), E> {
            if self.takes_numbers::<E>() {
                return self.element(number).map_err(to_de);
            }
            self.$wide(number.into())
        }
    )*};
}

impl<'de> Visitor<'de> for Request<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f)
    }

    fn visit_bool<E: serde::de::Error>(self, bool: bool) -> Result<(), E> {
        if self.takes_numbers::<E>() {
            return self.element(bool).map_err(to_de);
        }
        self.value(MetadataValue::Bool(bool), Unexpected::Bool(bool)).map_err(to_de)
    }

    integers! {
        visit_i8(i8) => visit_i64, visit_i16(i16) => visit_i64, visit_i32(i32) => visit_i64,
        visit_u8(u8) => visit_u64, visit_u16(u16) => visit_u64, visit_u32(u32) => visit_u64
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        if self.takes_numbers::<E>() {
            return self.element(number).map_err(to_de);
        }
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => self.negative(number).map_err(to_de),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        if self.takes_numbers::<E>() {
            return self.element(number).map_err(to_de);
        }
        self.number(number).map_err(to_de)
    }

    fn visit_f32<E: serde::de::Error>(self, number: f32) -> Result<(), E> {
        if self.takes_numbers::<E>() {
            return self.element(number).map_err(to_de);
        }
        self.value(MetadataValue::F32(number), Unexpected::Float(number.into())).map_err(to_de)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        if self.takes_numbers::<E>() {
            return self.element(number).map_err(to_de);
        }
        self.value(MetadataValue::F64(number), Unexpected::Float(number)).map_err(to_de)
    }

    fn visit_i128<E: serde::de::Error>(self, number: i128) -> Result<(), E> {
        self.value(MetadataValue::I128(number), Unexpected::Other("a number of 128 bits")).map_err(to_de)
    }

    fn visit_u128<E: serde::de::Error>(self, number: u128) -> Result<(), E> {
        self.value(MetadataValue::U128(number), Unexpected::Other("a number of 128 bits")).map_err(to_de)
    }

    fn visit_char<E: serde::de::Error>(self, char: char) -> Result<(), E> {
        self.visit_str(char.encode_utf8(&mut [0; 4]))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        match self {
            Self::Name(names, index) => {
                let found = names.iter().position(|name| *name == text);
                *index = found.ok_or_else(|| E::unknown_variant(text, names))?;
                Ok(())
            }
            part => part.text(text).map_err(to_de),
        }
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<(), E> {
        self.visit_str(text)
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<(), E> {
        self.visit_str(&text)
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<(), E> {
        match self {
            Self::FieldName(..) | Self::Name(..) | Self::Variant(_) => self.visit_str(&String::from_utf8_lossy(bytes)),
            _ => self.bytes(bytes).map_err(to_de),
        }
    }

    fn visit_borrowed_bytes<E: serde::de::Error>(self, bytes: &'de [u8]) -> Result<(), E> {
        match self {
            Self::Payload(info, place) => keep(place, info, Payload::Borrowed(bytes)).map_err(to_de),
            _ => self.visit_bytes(bytes),
        }
    }

    fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<(), E> {
        match self {
            Self::EarlyPayload(place) => {
                *place = Some(ByteBuf::from(bytes));
                Ok(())
            }
            _ => self.visit_bytes(&bytes),
        }
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        match self {
            Self::Option(..) => Ok(()),
            _ => self.refuse(Unexpected::Option).map_err(to_de),
        }
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        match self {
            Self::Option(..) => Ok(()),
            _ => self.refuse(Unexpected::Unit).map_err(to_de),
        }
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Self::Option(each, true) => Request::Value(0, each).deserialize(deserializer),
            Self::Option(each, false) => Request::Item(0, each).deserialize(deserializer),
            Self::Ignored => self.deserialize(deserializer),
            _ => self.refuse(Unexpected::Option).map_err(to_de),
        }
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Self::Key(_, text) => Request::Key(KeyPart::Whole, text).deserialize(deserializer),
            Self::Ignored | Self::Metadata(..) => self.deserialize(deserializer),
            // What serde kept, as it is.
            Self::Tensor(..) if is_ours::<D::Error>() => deserializer.deserialize_any(self),
            _ => self.refuse(Unexpected::NewtypeStruct).map_err(to_de),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let takes_numbers = self.takes_numbers::<A::Error>();
        let mut items = Access::new(seq);
        let read = if takes_numbers { self.read_numbers(&mut items) } else { self.read_items(&mut items) };
        items.end(read)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let mut entries = Access::new(map);
        let read = self.read_entries(&mut entries);
        entries.end(read)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<(), A::Error> {
        let mut index = 0;
        if let Self::Metadata(_, place) = self {
            return access.variant_seed(Request::Variant(place))?.1.unit_variant();
        }
        let names = match &self {
            Self::Dtype(_) => Dtype::NAMES,
            Self::Layout(_) => token::LAYOUTS,
            Self::Ignored => return access.variant_seed(Request::Ignored)?.1.newtype_variant_seed(Request::Ignored),
            _ => return self.refuse(Unexpected::Enum).map_err(to_de),
        };
        let ((), variant) = access.variant_seed(Request::Name(names, &mut index))?;
        let (mut order, mut entries) = (Vec::new(), 0);
        match self.variant_value(index, &mut order, &mut entries) {
            Some(value) => variant.newtype_variant_seed(value)?,
            None => variant.unit_variant()?,
        }
        self.set_variant(index, &order, entries).map_err(to_de)
    }
}

/// A reason why a value was not read.
enum Failure {
    /// An error of the format, waiting in [`Access`].
    Format,
    /// The list ends after this number of items. The string describes the value.
    Length(usize, String),
    Missing(&'static str),
    Twice(&'static str),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// The items of a list in any format. It is behind `&mut dyn`, so that its callers are compiled once.
trait DynSeqAccess<'de> {
    /// Reads an item, and returns `false` after the last one.
    fn next(&mut self, item: Request<'_, 'de>) -> Result<bool, Failure>;
}

/// The entries of a map in any format.
trait DynMapAccess<'de> {
    /// Reads a key, and returns `false` after the last one.
    fn next_key(&mut self, key: Request<'_, 'de>) -> Result<bool, Failure>;

    fn value(&mut self, value: Request<'_, 'de>) -> Result<(), Failure>;
}

/// serde's access to a list or a map, and its error.
struct Access<A, E> {
    access: A,
    error: Option<E>,
}

impl<A, E: serde::de::Error> Access<A, E> {
    fn new(access: A) -> Self {
        Self { access, error: None }
    }

    fn check<T>(&mut self, result: Result<T, E>) -> Result<T, Failure> {
        result.map_err(|error| {
            self.error = Some(error);
            Failure::Format
        })
    }

    /// Returns what was read, with the error as one of the format.
    fn end(self, read: Result<(), Failure>) -> Result<(), E> {
        read.map_err(|failure| match (failure, self.error) {
            (_, Some(error)) => error,
            (Failure::Length(index, expected), _) => E::invalid_length(index, &expected.as_str()),
            (Failure::Missing(field), _) => E::missing_field(field),
            (Failure::Twice(field), _) => E::duplicate_field(field),
            (Failure::Other(error), _) => to_de(error),
            (Failure::Format, None) => E::custom("an error of the serde format"),
        })
    }
}

impl<'de, A: SeqAccess<'de>> DynSeqAccess<'de> for Access<A, A::Error> {
    fn next(&mut self, item: Request<'_, 'de>) -> Result<bool, Failure> {
        let next = self.access.next_element_seed(item);
        self.check(next).map(|item| item.is_some())
    }
}

impl<'de, A: MapAccess<'de>> DynMapAccess<'de> for Access<A, A::Error> {
    fn next_key(&mut self, key: Request<'_, 'de>) -> Result<bool, Failure> {
        let next = self.access.next_key_seed(key);
        self.check(next).map(|key| key.is_some())
    }

    fn value(&mut self, value: Request<'_, 'de>) -> Result<(), Failure> {
        let value = self.access.next_value_seed(value);
        self.check(value)
    }
}

/// Methods not generic over the format, so that they are compiled once.
impl<'de> Request<'_, 'de> {
    /// Returns whether numbers, also in a list, are a tensor: behind our own deserializer, which gives numbers if it
    /// cannot know that a tensor is wanted.
    fn takes_numbers<E>(&self) -> bool {
        matches!(self, Self::Tensor(_, _, true) | Self::Element(_)) && is_ours::<E>()
    }

    /// Keeps a number: an item, or a tensor of rank 0.
    fn element<A: Element>(self, number: A) -> Result<(), Error> {
        match self {
            Self::Element(list) => list.push(number),
            Self::Tensor(spec, loaded, _) => {
                let mut list = NumberList::default();
                list.push(number)?;
                list.keep([], spec, loaded)
            }
            _ => Ok(()),
        }
    }

    /// Keeps a list of numbers as a tensor of rank 1.
    fn read_numbers(self, items: &mut dyn DynSeqAccess<'de>) -> Result<(), Failure> {
        let Self::Tensor(spec, loaded, _) = self else { return Ok(self.refuse(Unexpected::Seq)?) };
        let mut list = NumberList::default();
        while items.next(Request::Element(&mut list))? {}
        let len = list.len;
        Ok(list.keep([len], spec, loaded)?)
    }

    fn read_items(self, items: &mut dyn DynSeqAccess<'de>) -> Result<(), Failure> {
        match self {
            Self::Tensor(spec, loaded, _) => {
                let missing = |index| Failure::Length(index, "a tensor's dtype, shape, layout and data".to_owned());
                let mut header = TensorHeader::default();
                for index in 0..3 {
                    items.next(header.part(index))?.then_some(()).ok_or_else(|| missing(index))?;
                }
                let info = header.info()?;
                spec.check(&info).map_err(Error::from)?;
                items.next(Request::Payload(&info, loaded))?.then_some(()).ok_or_else(|| missing(3))?;
            }
            // Fields in order, from formats without names.
            Self::Fields(def, each) => {
                for (index, field) in def.fields.iter().enumerate() {
                    if !items.next(Request::Item(index, &mut *each))? && !field.optional {
                        return Err(Failure::Length(index, expected(&Request::Fields(def, each))));
                    }
                }
            }
            Self::List(len, each) => {
                let mut index = 0;
                while len != Some(index) {
                    match (items.next(Request::Item(index, &mut *each))?, len) {
                        (true, _) => index += 1,
                        (false, None) => break,
                        (false, Some(_)) => return Err(Failure::Length(index, expected(&Request::List(len, each)))),
                    }
                }
            }
            Self::Shape(shape) => {
                let (dims, mut dim) = (shape.get_or_insert_default(), 0);
                while items.next(Request::Number(&mut dim))? {
                    dims.push(as_usize(dim)?);
                }
            }
            Self::DimOrder(order) => {
                let mut dim = 0;
                while items.next(Request::Byte(&mut dim))? {
                    order.push(as_byte(dim)?);
                }
            }
            // Bytes one by one, from formats without bytes.
            Self::Payload(info, loaded) => {
                let (mut buffer, expected) = payload_buffer(info)?;
                let mut byte = 0;
                while items.next(Request::Byte(&mut byte))? {
                    append(&mut buffer, byte, expected)?;
                }
                keep(loaded, info, Payload::Owned(buffer))?;
            }
            Self::EarlyPayload(bytes) => {
                let (bytes, mut byte) = (bytes.get_or_insert_default(), 0);
                while items.next(Request::Byte(&mut byte))? {
                    bytes.push(as_byte(byte)?);
                }
            }
            Self::Ignored => while items.next(Request::Ignored)? {},
            _ => self.refuse(Unexpected::Seq)?,
        }
        Ok(())
    }

    fn read_entries(self, entries: &mut dyn DynMapAccess<'de>) -> Result<(), Failure> {
        match self {
            Self::Tensor(spec, loaded, _) => read_tensor(entries, spec, loaded)?,
            Self::Fields(def, each) => read_fields(entries, def, each)?,
            Self::Map(part, each) => {
                let mut key = String::new();
                while entries.next_key(Request::Key(part, &mut key))? {
                    entries.value(Request::Entry(&key, &mut *each))?;
                }
            }
            Self::Ignored => {
                while entries.next_key(Request::Ignored)? {
                    entries.value(Request::Ignored)?;
                }
            }
            _ => self.refuse(Unexpected::Map)?,
        }
        Ok(())
    }

    /// Returns the value of a variant of a layout, if it has one.
    fn variant_value<'x>(
        &self,
        index: usize,
        order: &'x mut Vec<u8>,
        entries: &'x mut u64,
    ) -> Option<Request<'x, 'de>> {
        match (self, token::LAYOUTS.get(index)) {
            (Self::Layout(_), Some(&token::DIM_ORDER)) => Some(Request::DimOrder(order)),
            (Self::Layout(_), Some(&token::COO)) => Some(Request::Number(entries)),
            _ => None,
        }
    }

    /// Keeps a dtype or a layout.
    fn set_variant(self, index: usize, order: &[u8], entries: u64) -> Result<()> {
        match self {
            Self::Dtype(dtype) => *dtype = Dtype::ALL.get(index).copied(),
            Self::Layout(layout) => {
                *layout = Some(match token::LAYOUTS[index] {
                    token::ROW_MAJOR => Layout::RowMajor,
                    token::BLOB => Layout::Blob,
                    token::DIM_ORDER => Layout::DimOrder(DimOrder::new(order)?),
                    _ => Layout::Coo { entries: as_usize(entries)? },
                });
            }
            _ => {}
        }
        Ok(())
    }
}

fn expected(part: &Request<'_, '_>) -> String {
    (part as &dyn Expected).to_string()
}

fn read_tensor<'de>(
    entries: &mut dyn DynMapAccess<'de>,
    spec: &TensorSpec,
    loaded: &mut Option<Loaded<'de>>,
) -> Result<(), Failure> {
    let (mut header, mut early, mut field) = (TensorHeader::default(), None, 0);
    while entries.next_key(Request::Name(token::TENSOR_FIELDS, &mut field))? {
        match token::TENSOR_FIELDS[field] {
            token::DATA if loaded.is_some() || early.is_some() => return Err(Failure::Twice(token::DATA)),
            token::DATA if header.is_complete() => {
                let info = header.info()?;
                spec.check(&info).map_err(Error::from)?;
                entries.value(Request::Payload(&info, loaded))?;
            }
            // A format with sorted keys gives the payload before its header.
            token::DATA => entries.value(Request::EarlyPayload(&mut early))?,
            _ if loaded.is_some() => return Err(message("a tensor has a field twice").into()),
            _ => entries.value(header.part(field))?,
        }
    }
    if loaded.is_some() {
        return Ok(());
    }
    if let Some(missing) = header.missing() {
        return Err(Failure::Missing(missing));
    }
    let info = header.info()?;
    spec.check(&info).map_err(Error::from)?;
    let bytes = early.ok_or(Failure::Missing(token::DATA))?;
    Ok(Request::Payload(&info, loaded).bytes(&bytes)?)
}

fn read_fields<'de>(
    entries: &mut dyn DynMapAccess<'de>,
    def: &'static StructDef,
    each: EachPart<'_, 'de>,
) -> Result<(), Failure> {
    let fields = def.fields;
    let mut given = vec![false; fields.len()];
    let mut index = 0;
    while entries.next_key(Request::FieldName(def, &mut index))? {
        match given.get_mut(index) {
            None => entries.value(Request::Ignored)?,
            Some(true) => return Err(Failure::Twice(fields[index].name)),
            Some(given) => {
                *given = true;
                entries.value(Request::Value(index, &mut *each))?;
            }
        }
        index += 1;
    }
    // Here the format still knows the place for its message.
    for (index, field) in fields.iter().enumerate().filter(|(index, field)| !given[*index] && !field.optional) {
        let nothing: &mut dyn Source<'de> = &mut Nothing { skips_unknown: def.allow_unknown };
        each(index, nothing).map_err(|error| match error.kind() {
            ErrorKind::Missing { .. } => Failure::Missing(field.name),
            _ => Failure::Other(error),
        })?;
    }
    Ok(())
}

/// A tensor's header, received field by field.
#[derive(Default)]
struct TensorHeader {
    dtype: Option<Dtype>,
    shape: Option<Shape>,
    layout: Option<Layout>,
}

impl TensorHeader {
    /// Returns the place for a field of [`token::TENSOR_FIELDS`], except the last.
    fn part<'x, 'de>(&'x mut self, field: usize) -> Request<'x, 'de> {
        match field {
            0 => Request::Dtype(&mut self.dtype),
            1 => {
                self.shape = None;
                Request::Shape(&mut self.shape)
            }
            _ => Request::Layout(&mut self.layout),
        }
    }

    fn is_complete(&self) -> bool {
        self.missing().is_none()
    }

    fn missing(&self) -> Option<&'static str> {
        let has = [self.dtype.is_some(), self.shape.is_some(), self.layout.is_some()];
        Some(token::TENSOR_FIELDS[has.iter().position(|has| !has)?])
    }

    /// A dim order has a dim for each of the shape's; row-major order is not one.
    fn info(&mut self) -> Result<TensorInfo, Error> {
        let Self { dtype: Some(dtype), shape: Some(shape), layout: Some(layout) } = std::mem::take(self) else {
            return Err(ErrorKind::Message("a tensor has a dtype, a shape and a layout".to_owned()).into());
        };
        let layout = match layout {
            Layout::DimOrder(order) if order.as_slice().len() != shape.rank() => {
                return Err(InvalidTensor::DimOrderRank { found: order.as_slice().len(), rank: shape.rank() }.into());
            }
            Layout::DimOrder(order) if order.is_row_major() => Layout::RowMajor,
            layout => layout,
        };
        Ok(TensorInfo { dtype, shape, layout })
    }
}

impl Request<'_, '_> {
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(spec, ..) => spec.expecting(f),
            Self::Fields(def, _) => write!(f, "struct {}", def.name),
            Self::List(Some(len), _) => write!(f, "{len} items"),
            Self::List(None, _) => f.write_str("a list of tensors"),
            Self::Map(..) => f.write_str("a map of tensors"),
            Self::Option(..) => f.write_str("tensors or nothing"),
            Self::Value(..) | Self::Item(..) | Self::Entry(..) => f.write_str("tensors"),
            Self::Key(..) => f.write_str("a name"),
            Self::FieldName(..) => f.write_str("field identifier"),
            Self::Name(names, _) => write!(f, "one of {}", names.join(", ")),
            Self::Dtype(_) => f.write_str("a dtype"),
            Self::Layout(_) => f.write_str("a layout"),
            Self::Shape(_) | Self::DimOrder(_) => f.write_str("a list of dims"),
            Self::Number(_) => f.write_str("a number"),
            Self::Element(_) => f.write_str("a number"),
            Self::Ignored => f.write_str("anything"),
            Self::Metadata(kind, _) => write!(f, "{kind}"),
            Self::Variant(_) => f.write_str("a variant"),
            Self::Payload(..) | Self::EarlyPayload(_) => f.write_str("the bytes of a tensor"),
            Self::Byte(_) => f.write_str("a byte"),
        }
    }

    /// Refuses a value of another kind, unless any is taken.
    fn refuse(&self, found: Unexpected<'_>) -> Result<(), Error> {
        match self {
            Self::Ignored => Ok(()),
            part => Err(message(format!("invalid type: {found}, expected {}", part as &dyn Expected))),
        }
    }

    /// Keeps a value that only metadata can have.
    fn value(self, value: MetadataValue, found: Unexpected<'_>) -> Result<(), Error> {
        match self {
            Self::Metadata(_, place) => {
                *place = Some(value);
                Ok(())
            }
            part => part.refuse(found),
        }
    }

    fn negative(self, number: i64) -> Result<(), Error> {
        let found = Unexpected::Signed(number);
        match self {
            Self::Metadata(_, place) => {
                *place = Some(MetadataValue::I64(number));
                Ok(())
            }
            Self::Byte(_) => Err(message(format!("{number} is not a byte"))),
            Self::Number(_) => Err(message(format!("invalid value: {found}, expected usize"))),
            part => part.refuse(found),
        }
    }

    fn number(self, number: u64) -> Result<(), Error> {
        match self {
            Self::Number(place) | Self::Byte(place) => *place = number,
            Self::Metadata(_, place) | Self::Variant(place) => *place = Some(MetadataValue::U64(number)),
            Self::FieldName(_, place) => *place = as_usize(number)?,
            Self::Name(names, place) => match as_usize(number)? {
                index if index < names.len() => *place = index,
                index => return Err(message(format!("{index} is not the number of one of {}", names.join(", ")))),
            },
            _ => return self.refuse(Unexpected::Unsigned(number)).map_err(to_de),
        }
        Ok(())
    }

    fn text(self, text: &str) -> Result<(), Error> {
        match self {
            Self::Key(_, place) => text.clone_into(place),
            Self::Metadata(_, place) | Self::Variant(place) => *place = Some(MetadataValue::Text(text.to_owned())),
            Self::FieldName(def, index) => {
                let fields = def.fields;
                if fields.get(*index).is_some_and(|field| field.name == text) {
                    return Ok(());
                }
                let is_named = |field: &FieldDef| field.name == text || field.aliases.contains(&text);
                *index = match fields.iter().position(is_named) {
                    Some(index) => index,
                    None if def.allow_unknown => fields.len(),
                    None => {
                        let expected = fields.iter().map(|field| field.name.to_owned()).collect();
                        return Err(ErrorKind::Unexpected { name: text.to_owned(), expected, complete: false }.into());
                    }
                };
            }
            _ => return self.refuse(Unexpected::Str(text)).map_err(to_de),
        }
        Ok(())
    }

    fn bytes(self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Self::Payload(info, place) => {
                info.check_payload(bytes.len() as u64)?;
                keep(place, info, Payload::Owned(Buffer::try_from_slice(info.unit_bytes(), bytes)?))?;
            }
            Self::EarlyPayload(place) => *place = Some(ByteBuf::from(bytes)),
            _ => return self.refuse(Unexpected::Bytes(bytes)).map_err(to_de),
        }
        Ok(())
    }
}

fn keep<'de>(place: &mut Option<Loaded<'de>>, info: &TensorInfo, payload: Payload<'de>) -> Result<(), Error> {
    *place = Some(Loaded::new(info.clone(), payload)?);
    Ok(())
}

/// Returns an empty buffer for the payload of a tensor, and the length of the payload.
fn payload_buffer(info: &TensorInfo) -> Result<(Buffer, usize), Error> {
    /// The memory allocated before the first piece arrives.
    const FIRST: usize = 1 << 20;

    let too_large = || InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() };
    let expected = info.payload_bytes().ok_or_else(too_large)?;
    Ok((Buffer::with_capacity(info.unit_bytes(), expected.min(FIRST)), expected))
}

fn append(buffer: &mut Buffer, byte: u64, expected: usize) -> Result<(), Error> {
    if buffer.len() == expected {
        return Err(message(format!("payload is longer than {expected} bytes")));
    }
    Ok(buffer.append(&[as_byte(byte)?], expected)?)
}

fn as_byte(number: u64) -> Result<u8, Error> {
    u8::try_from(number).map_err(|_| message(format!("{number} is not a byte")))
}

fn as_usize(number: u64) -> Result<usize, Error> {
    usize::try_from(number).map_err(|_| message(format!("{number} is too large")))
}

fn message(what: impl Into<String>) -> Error {
    ErrorKind::Message(what.into()).into()
}
