//! Sorting through one function that is not generic.
//!
//! The standard library's sorts are compiled for each type and each comparison, and are large. `benches/compile` shows the
//! code of programs that load and save.

use std::cmp::Ordering;

/// Returns the positions from 0 to `len` in the order of a comparison. Positions that are equal keep their order.
pub(crate) fn positions(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&one, &other| compare(one, other));
    order
}

/// Sorts values. Those that are equal keep their order.
pub(crate) fn values<T>(values: Vec<T>, compare: &mut dyn FnMut(&T, &T) -> Ordering) -> Vec<T> {
    let order = positions(values.len(), &mut |one, other| compare(&values[one], &values[other]));
    let mut values: Vec<Option<T>> = values.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| values[at].take()).collect()
}
