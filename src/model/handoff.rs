//! What our types and our formats tell each other beside serde, whose signatures have no room for it.
//!
//! A thing that is handed over lies in a slot of the thread for the length of one call, at the start of which the other
//! side picks it up. Whether the other side is ours is asked of the compiler; see [`is_ours`]. What nobody picks up is
//! thrown away when the call returns.

use std::cell::Cell;

use super::Node;
use crate::error::is_ours;
use crate::tensor::TensorInfo;

thread_local! {
    static SCHEMA: Cell<Option<fn() -> Node>> = const { Cell::new(None) };
    static INFO: Cell<Option<TensorInfo>> = const { Cell::new(None) };
    static PLACE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Calls `read`, which begins with a call of a deserializer. If that is ours, it finds the schema.
pub(crate) fn with_schema<E, T>(schema: fn() -> Node, read: impl FnOnce() -> T) -> T {
    SCHEMA.set(is_ours::<E>().then_some(schema));
    let value = read();
    SCHEMA.take();
    value
}

/// The schema of [`with_schema`].
pub(crate) fn take_schema() -> Option<fn() -> Node> {
    SCHEMA.take()
}

/// Calls `pass`, which begins by asking for the head of a tensor. It finds it here whole, which is faster than field by
/// field.
pub(crate) fn with_info<T>(info: TensorInfo, pass: impl FnOnce() -> T) -> T {
    INFO.set(Some(info));
    let value = pass();
    INFO.take();
    value
}

/// The head of [`with_info`].
pub(crate) fn take_info() -> Option<TensorInfo> {
    INFO.take()
}

/// Tells where a payload lies, right before its first piece is offered.
pub(crate) fn offer_place(place: Option<u64>) {
    PLACE.set(place);
}

/// The place that `look` was told by [`offer_place`].
pub(crate) fn with_place<T>(look: impl FnOnce() -> T) -> (T, Option<u64>) {
    PLACE.take();
    let value = look();
    (value, PLACE.take())
}
