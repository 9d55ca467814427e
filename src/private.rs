//! What the code that `#[derive(TensorFile)]` writes calls. Not for people: it changes with the macro.

use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeStruct;

pub use serde;

pub use crate::model::{Adapt, Adaptable, Field, Node};
use crate::model::{Flattened, Loaded, Stored, Tied, token, with_schema};
use crate::{FromTensors, TensorFile};

/// The names and types of a struct `T`.
pub fn struct_node<T: TensorFile + ?Sized, const N: usize>(fields: fn() -> [Field; N], allow_unknown: bool) -> Node {
    Node::of_struct::<T>(|| fields().into(), allow_unknown, T::node)
}

/// Writes a field under `name`.
pub fn store_field<S: SerializeStruct, T: TensorFile + ?Sized>(
    state: &mut S,
    name: &'static str,
    value: &T,
    adapt: &'static Adapt,
) -> Result<(), S::Error> {
    let value = Stored { value, adapt };
    match adapt.tied {
        Some(to) => state.serialize_field(name, &Tied { value, to }),
        None => state.serialize_field(name, &value),
    }
}

/// Writes the tensors of a field under the names that they would have without the field.
///
/// `key` is the field's name in formats that have no tensors.
pub fn store_flattened<S: SerializeStruct, T: TensorFile + ?Sized>(
    state: &mut S,
    key: &'static str,
    value: &T,
) -> Result<(), S::Error> {
    state.serialize_field(key, &Flattened(Stored { value, adapt: &Adapt::NONE }))
}

/// Reads a derived struct; `fields` holds the texts that `token::FieldSpec` describes.
pub fn load_struct<'de, T, D, V>(deserializer: D, fields: &'static [&'static str], visitor: V) -> Result<T, D::Error>
where
    T: TensorFile,
    D: Deserializer<'de>,
    V: Visitor<'de, Value = T>,
{
    with_schema::<D::Error, _>(T::node, || deserializer.deserialize_struct(token::DERIVED, fields, visitor))
}

/// Reads the value of the key that `map` gave last.
pub fn next_value<'de, T: FromTensors<'de>, A: MapAccess<'de>>(
    map: &mut A,
    adapt: &'static Adapt,
) -> Result<T, A::Error> {
    map.next_value_seed(Loaded::<T>::new(adapt))
}

/// Passes over the value of a key that the struct does not know.
pub fn skip_value<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}

/// Reads the next field of a format that has no field names; `None` where there are no more.
pub fn next_element<'de, T: FromTensors<'de>, A: SeqAccess<'de>>(
    seq: &mut A,
    adapt: &'static Adapt,
) -> Result<Option<T>, A::Error> {
    seq.next_element_seed(Loaded::<T>::new(adapt))
}

/// The value of a field that the file does not have: `None` of an `Option`, else an error.
pub fn missing<'de, T: FromTensors<'de>, E: serde::de::Error>(name: &'static str) -> Result<T, E> {
    T::absent().ok_or_else(|| E::missing_field(name))
}

/// The error for a struct of a format without field names that ends too early.
pub fn too_few<'de, A: SeqAccess<'de>>(found: usize, visitor: &dyn serde::de::Expected) -> A::Error {
    A::Error::invalid_length(found, visitor)
}

/// Fails to compile where an attribute stands on something that is no array.
pub const fn check_adaptable<T: Adaptable + ?Sized>() {}
