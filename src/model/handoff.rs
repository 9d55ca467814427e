//! The schema that a derived struct tells our deserializer, beside serde, whose signatures have no room for it.
//!
//! It lies in a slot of the thread from the call of `deserialize_struct` to its first statement.

use std::cell::Cell;

use super::Node;
use crate::error::is_ours;

thread_local! {
    static SCHEMA: Cell<Option<fn() -> Node>> = const { Cell::new(None) };
}

/// Calls `read`, whose first call of a deserializer, if that is ours, finds the schema.
pub(crate) fn with_schema<E, T>(schema: fn() -> Node, read: impl FnOnce() -> T) -> T {
    SCHEMA.set(is_ours::<E>().then_some(schema));
    let value = read();
    // What did not ask for it must not leave it to the next one.
    SCHEMA.take();
    value
}

/// The schema that [`with_schema`] told.
pub(crate) fn take_schema() -> Option<fn() -> Node> {
    SCHEMA.take()
}
