//! Recognizes our own serializer and deserializer behind serde's type parameters.
//!
//! Types that map to tensors reach `btf::to_writer` as `T: Serialize`, and serde has no call for passing an object. As
//! structs of bytes, as in other formats, small tensors take twice as many instructions. Here the type parameter is
//! compared with our types, and a match takes the direct way: [`Store::store`](crate::model::Store::store) and
//! [`FromTensors::load`].
#![expect(unsafe_code, reason = "a type parameter is cast to the type that it was found to be")]

use serde::{Deserializer, Serializer};

use super::de::Value;
use super::error::to_de;
use crate::error::Result;
use crate::model::{FieldAttrs, FromTensors, LoadFrom, Node, Sink, node_of, put};
use crate::{find, model};

/// Returns the serializer as a sink, if it is ours.
pub(super) fn sink<S: Serializer>(serializer: &mut S) -> Option<&mut (dyn Sink + '_)> {
    if typeid::of::<S>() != typeid::of::<&mut model::Serializer<'_>>() {
        return None;
    }
    // SAFETY: `S` is this type, because type ids differ otherwise. They ignore lifetimes, but a sink with a shorter
    // lifetime takes the same calls, and keeps nothing of its arguments.
    let ours = unsafe { &mut *std::ptr::from_mut(serializer).cast::<&mut model::Serializer<'_>>() };
    Some(&mut **ours)
}

/// Deserializes a value if the deserializer is ours. Otherwise returns the deserializer.
pub(super) fn deserialize<'de, T: FromTensors<'de>, D: Deserializer<'de>>(
    mut deserializer: D,
) -> Result<Result<T, D::Error>, D> {
    let mut value = None;
    match load(&mut deserializer, node_of::<T>, &mut |source| put(&mut value, source, &FieldAttrs::NONE)) {
        None => Err(deserializer),
        Some(loaded) => Ok(loaded.map_err(to_de).map(|()| value.expect("the value was loaded"))),
    }
}

fn load<'de, D: Deserializer<'de>>(
    deserializer: &mut D,
    node: fn() -> Node,
    load: LoadFrom<'_, 'de>,
) -> Option<Result<()>> {
    let id = typeid::of::<D>();
    if id == typeid::of::<&mut find::Deserializer<'de>>() {
        // SAFETY: `D` is this type, because type ids differ otherwise. They ignore lifetimes, but of all lifetimes in
        // its place only `'de` makes it a `Deserializer<'de>`, and the outer reference ends with this call.
        let ours = unsafe { &mut *std::ptr::from_mut(deserializer).cast::<&mut find::Deserializer<'de>>() };
        return Some(ours.load_with(node, load));
    }
    if id == typeid::of::<Value<'_, 'de>>() {
        // SAFETY: as above.
        let ours = unsafe { &mut *std::ptr::from_mut(deserializer).cast::<Value<'_, 'de>>() };
        if let Value::Here(ours) = ours {
            return Some(ours.load_with(node(), load));
        }
    }
    None
}
