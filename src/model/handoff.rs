//! The schema that a derived struct tells our deserializer, beside serde, whose signatures have no room for it.
//!
//! It lies in a slot of the thread from the call of `deserialize_struct` to its first statement.

use std::cell::Cell;

use super::Node;
use crate::error::is_ours;

thread_local! {
    static SCHEMA: Cell<Option<fn() -> Node>> = const { Cell::new(None) };
}

/// Tells the schema to the deserializer that is called next, if it is ours: if its error is.
pub(crate) fn offer_schema<E>(schema: fn() -> Node) {
    if is_ours::<E>() {
        SCHEMA.set(Some(schema));
    }
}

/// The schema that [`offer_schema`] told.
pub(crate) fn take_schema() -> Option<fn() -> Node> {
    SCHEMA.take()
}
