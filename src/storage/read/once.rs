//! Values made once, safe even if the process forks meanwhile.

use std::sync::OnceLock;

/// Returns the value of a cell, and makes it first if the cell is empty.
///
/// Unlike `get_or_init`, this does not lock the cell while the value is made. A child forked at this moment would wait
/// for a thread it does not have. If two threads make a value, one is dropped.
pub(super) fn get_or_make<'c, T>(cell: &'c OnceLock<T>, make: &dyn Fn() -> T) -> &'c T {
    if cell.get().is_none() {
        let _ = cell.set(make());
    }
    cell.get().expect("it was set")
}
