//! Values that are made once, where a process may be forked meanwhile.

use std::sync::OnceLock;

/// Returns a value, made if it is not there.
///
/// The cell is not locked while the value is made, unlike by `get_or_init`: a process that `fork` makes at this moment
/// would wait for a thread that it does not have. Of two values, one is dropped.
pub(super) fn get_or_make<'c, T>(cell: &'c OnceLock<T>, make: &dyn Fn() -> T) -> &'c T {
    if cell.get().is_none() {
        let _ = cell.set(make());
    }
    cell.get().expect("it was set")
}
