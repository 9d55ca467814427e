//! Any serde format as a [`Source`]: types that map to tensors implement `Deserialize` with it.
//!
//! Everything here is generic over the format only and shared by all types, except the few lines of
//! [`deserialize_load`]. Visitors and seeds hold closures behind `&mut dyn`.

use serde::de::{DeserializeSeed, Deserializer};

use super::de::set_node;
use super::error::{is_ours, to_de};
use super::visit::Part;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Adapt, EachEntry, EachPart, FromTensors, KeyPart, LoadFrom, Loaded, Source, StructDef, TensorSpec, node_of, put,
};

/// Deserializes a value that maps to tensors: `impl Deserialize` of all derived types.
///
/// # Errors
///
/// Errors of the deserializer, and those of a payload that the type cannot hold.
pub fn deserialize_load<'de, T: FromTensors<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let mut value = None;
    set_node(is_ours::<D::Error>().then_some(node_of::<T>));
    let driven = drive(deserializer, &mut |source| put(&mut value, source, &Adapt::NONE));
    // Not every call takes it.
    set_node(None);
    driven?;
    value.ok_or_else(|| to_de(misused("a type loaded nothing")))
}

/// Calls `load` with the deserializer as a source.
pub(super) fn drive<'de, D: Deserializer<'de>>(deserializer: D, load: LoadFrom<'_, 'de>) -> Result<(), D::Error> {
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
    fn read(&mut self, part: Part<'_, 'de>) -> Result<()> {
        let Self::Open(deserializer) = std::mem::replace(self, Self::Done) else {
            return Err(misused("a type loaded itself twice"));
        };
        part.deserialize(deserializer).map_err(|error| {
            *self = Self::Failed(error);
            misused("an error of the serde format")
        })
    }
}

impl<'de, D: Deserializer<'de>> Source<'de> for SerdeSource<'de, D> {
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        let mut loaded = None;
        self.read(Part::Tensor(spec, &mut loaded))?;
        loaded.ok_or_else(|| misused("a serde format gave no tensor"))
    }

    fn fields(&mut self, def: &'static StructDef, each: EachPart<'_, 'de>) -> Result<()> {
        self.read(Part::Fields(def, each))
    }

    fn list(&mut self, each: EachPart<'_, 'de>) -> Result<()> {
        self.read(Part::List(None, each))
    }

    fn tuple(&mut self, len: usize, each: EachPart<'_, 'de>) -> Result<()> {
        self.read(Part::List(Some(len), each))
    }

    fn map(&mut self, key: KeyPart, each: EachEntry<'_, 'de>) -> Result<()> {
        self.read(Part::Map(key, each))
    }

    fn option(&mut self, some: EachPart<'_, 'de>) -> Result<()> {
        self.read(Part::Option(some))
    }
}

/// A source without a value.
pub(super) struct Nothing;

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
