//! Any serde format as a [`Source`]: types that map to tensors implement `Deserialize` with it.
//!
//! Everything here is generic over the format only and shared by all types, except the few lines of
//! [`deserialize_load`]. Visitors and seeds hold closures behind `&mut dyn`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::de::set_node;
use super::error::{is_ours, to_de};
use super::tensor::TensorVisitor;
use super::token;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Adapt, EachEntry, EachPart, FromTensors, KeyPart, Loaded, Source, StructDef, TensorSpec, node_of};

/// Deserializes a value that maps to tensors: `impl Deserialize` of all derived types.
///
/// # Errors
///
/// Errors of the deserializer, and those of a payload that the type cannot hold.
pub fn deserialize_load<'de, T: FromTensors<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let mut value = None;
    set_node(is_ours::<D::Error>().then_some(node_of::<T>));
    let driven = drive(deserializer, &mut |source| {
        value = Some(T::load(source, &Adapt::NONE)?);
        Ok(())
    });
    // Not every call takes it.
    set_node(None);
    driven?;
    value.ok_or_else(|| to_de(misused("a type loaded nothing")))
}

type Load<'x, 'de> = &'x mut (dyn FnMut(&mut (dyn Source<'de> + '_)) -> Result<()> + 'x);

/// Calls `load` with the deserializer as a source.
fn drive<'de, D: Deserializer<'de>>(deserializer: D, load: Load<'_, 'de>) -> Result<(), D::Error> {
    let mut source = SerdeSource::Open(deserializer);
    match (load(&mut source), source) {
        (Err(_), SerdeSource::Failed(error)) => Err(error),
        (Err(error), _) => Err(to_de(error)),
        (Ok(()), SerdeSource::Done) => Ok(()),
        (Ok(()), _) => Err(to_de(misused("a type loaded nothing"))),
    }
}

fn misused(what: &str) -> Error {
    ErrorKind::Message(what.to_owned()).into()
}

/// A serde deserializer, until it is used. An error of its own waits here while a marker goes up through the value.
enum SerdeSource<'de, D: Deserializer<'de>> {
    Open(D),
    Done,
    Failed(D::Error),
}

impl<'de, D: Deserializer<'de>> SerdeSource<'de, D> {
    fn run<T>(&mut self, read: impl FnOnce(D) -> Result<T, D::Error>) -> Result<T> {
        let Self::Open(deserializer) = std::mem::replace(self, Self::Done) else {
            return Err(misused("a type loaded itself twice"));
        };
        read(deserializer).map_err(|error| {
            *self = Self::Failed(error);
            misused("an error of the serde format")
        })
    }
}

impl<'de, D: Deserializer<'de>> Source<'de> for SerdeSource<'de, D> {
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        self.run(|deserializer| {
            deserializer.deserialize_struct(token::TENSOR, token::TENSOR_FIELDS, TensorVisitor(spec))
        })
    }

    fn fields(&mut self, def: &'static StructDef, each: EachPart<'_, 'de>) -> Result<()> {
        let name = if is_ours::<D::Error>() { token::DERIVED } else { def.name };
        self.run(|deserializer| deserializer.deserialize_struct(name, def.specs, FieldsVisitor { def, each }))
    }

    fn list(&mut self, each: EachPart<'_, 'de>) -> Result<()> {
        self.run(|deserializer| deserializer.deserialize_seq(ListVisitor { len: None, each }))
    }

    fn tuple(&mut self, len: usize, each: EachPart<'_, 'de>) -> Result<()> {
        self.run(|deserializer| deserializer.deserialize_tuple(len, ListVisitor { len: Some(len), each }))
    }

    fn map(&mut self, key: KeyPart, each: EachEntry<'_, 'de>) -> Result<()> {
        self.run(|deserializer| deserializer.deserialize_map(MapVisitor { key, each }))
    }

    fn option(&mut self, some: EachPart<'_, 'de>) -> Result<()> {
        self.run(|deserializer| deserializer.deserialize_option(OptionVisitor(some)))
    }
}

/// A source without a value.
struct Nothing;

impl Nothing {
    fn missing() -> Error {
        ErrorKind::Missing { name: String::new(), found: Vec::new(), complete: false }.into()
    }
}

impl<'de> Source<'de> for Nothing {
    fn tensor(&mut self, _: &TensorSpec) -> Result<Loaded<'de>> {
        Err(Self::missing())
    }

    fn fields(&mut self, def: &'static StructDef, each: EachPart<'_, 'de>) -> Result<()> {
        let mut required = def.fields.iter().enumerate().filter(|(_, field)| !field.optional);
        required.try_for_each(|(at, _)| each(at, &mut Self))
    }

    fn list(&mut self, _: EachPart<'_, 'de>) -> Result<()> {
        Ok(())
    }

    fn tuple(&mut self, len: usize, each: EachPart<'_, 'de>) -> Result<()> {
        (0..len).try_for_each(|at| each(at, &mut Self))
    }

    fn map(&mut self, _: KeyPart, _: EachEntry<'_, 'de>) -> Result<()> {
        Ok(())
    }

    fn option(&mut self, _: EachPart<'_, 'de>) -> Result<()> {
        Ok(())
    }
}

/// A part of a value, with its number.
struct Part<'x, 'y, 'de>(usize, &'x mut EachPart<'y, 'de>);

impl<'de> DeserializeSeed<'de> for Part<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        drive(deserializer, &mut |source| (self.1)(self.0, source))
    }
}

struct FieldsVisitor<'x, 'de> {
    def: &'static StructDef,
    each: EachPart<'x, 'de>,
}

impl<'de> Visitor<'de> for FieldsVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "struct {}", self.def.name)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let fields = self.def.fields;
        let mut given = vec![false; fields.len()];
        let mut likely = 0;
        while let Some(at) = map.next_key_seed(FieldName { def: self.def, likely })? {
            match given.get_mut(at) {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(true) => return Err(A::Error::duplicate_field(fields[at].name)),
                Some(given) => {
                    *given = true;
                    map.next_value_seed(Part(at, &mut self.each))?;
                }
            }
            likely = at + 1;
        }
        // Here the format still knows the place for its message.
        for (at, field) in fields.iter().enumerate().filter(|(at, field)| !given[*at] && !field.optional) {
            (self.each)(at, &mut Nothing).map_err(|error| match error.kind() {
                ErrorKind::Missing { .. } => A::Error::missing_field(field.name),
                _ => to_de(error),
            })?;
        }
        Ok(())
    }

    /// Fields in order, from formats without names.
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        for (at, field) in self.def.fields.iter().enumerate() {
            if seq.next_element_seed(Part(at, &mut self.each))?.is_none() && !field.optional {
                return Err(A::Error::invalid_length(at, &self));
            }
        }
        Ok(())
    }
}

/// Finds a name among the fields. The number after the last is that of any name that may be skipped.
struct FieldName {
    def: &'static StructDef,
    likely: usize,
}

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de> Visitor<'de> for FieldName {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("field identifier")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<usize, E> {
        let fields = self.def.fields;
        if fields.get(self.likely).is_some_and(|field| field.name == name) {
            return Ok(self.likely);
        }
        match fields.iter().position(|field| field.name == name || field.aliases.contains(&name)) {
            Some(at) => Ok(at),
            None if self.def.allow_unknown => Ok(fields.len()),
            None => {
                let expected = fields.iter().map(|field| field.name.to_owned()).collect();
                Err(to_de(ErrorKind::Unexpected { name: name.to_owned(), expected, complete: false }.into()))
            }
        }
    }

    fn visit_bytes<E: serde::de::Error>(self, name: &[u8]) -> Result<usize, E> {
        self.visit_str(&String::from_utf8_lossy(name))
    }

    fn visit_u64<E: serde::de::Error>(self, at: u64) -> Result<usize, E> {
        usize::try_from(at).map_err(E::custom)
    }
}

struct ListVisitor<'x, 'de> {
    /// The number of items, if the type tells it.
    len: Option<usize>,
    each: EachPart<'x, 'de>,
}

impl<'de> Visitor<'de> for ListVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            Some(len) => write!(f, "{len} items"),
            None => f.write_str("a list of tensors"),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let mut at = 0;
        while self.len != Some(at) {
            match (seq.next_element_seed(Part(at, &mut self.each))?, self.len) {
                (Some(()), _) => at += 1,
                (None, None) => break,
                (None, Some(_)) => return Err(A::Error::invalid_length(at, &self)),
            }
        }
        Ok(())
    }
}

struct MapVisitor<'x, 'de> {
    key: KeyPart,
    each: EachEntry<'x, 'de>,
}

impl<'de> Visitor<'de> for MapVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key(self.key))? {
            map.next_value_seed(Entry(key, &mut self.each))?;
        }
        Ok(())
    }
}

/// A key of a map. Our own deserializer must know how much of a name it is.
struct Key(KeyPart);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        match self.0 {
            KeyPart::First if is_ours::<D::Error>() => {
                deserializer.deserialize_newtype_struct(token::FIRST_SEGMENT, self)
            }
            KeyPart::BeforeIndex if is_ours::<D::Error>() => {
                deserializer.deserialize_newtype_struct(token::BEFORE_INDEX, self)
            }
            _ => deserializer.deserialize_string(self),
        }
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<String, E> {
        Ok(key.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, key: String) -> Result<String, E> {
        Ok(key)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_string(self)
    }
}

/// The value of an entry, with its key.
struct Entry<'x, 'y, 'de>(String, &'x mut EachEntry<'y, 'de>);

impl<'de> DeserializeSeed<'de> for Entry<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self(mut key, each) = self;
        drive(deserializer, &mut |source| each(std::mem::take(&mut key), source))
    }
}

struct OptionVisitor<'x, 'de>(EachPart<'x, 'de>);

impl<'de> Visitor<'de> for OptionVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensors or nothing")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<(), D::Error> {
        Part(0, &mut self.0).deserialize(deserializer)
    }
}
