//! The tensors that do not fit a map.

use indexmap::IndexMap;

use crate::error::{ErrorKind, Result};

/// The misfits of each kind: the first, and their number.
#[derive(Debug, Default)]
pub(super) struct Misfits(IndexMap<&'static str, (String, u64)>);

impl Misfits {
    /// Counts a misfit. `what` describes it, and is called for the first of a kind.
    pub(super) fn add(&mut self, kind: &'static str, what: impl FnOnce() -> String) {
        self.add_many(kind, 1, what);
    }

    pub(super) fn add_many(&mut self, kind: &'static str, count: u64, what: impl FnOnce() -> String) {
        let found = self.0.entry(kind).or_insert_with(|| (what(), 0));
        found.1 = found.1.saturating_add(count);
    }

    /// Returns an error if there are any.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let one = |(what, count): &(String, u64)| match count {
            1 => what.clone(),
            count => format!("{what} (and {} more)", count - 1),
        };
        let misfits = self.0.values().map(one).collect();
        let count = self.0.values().fold(0, |sum, (_, count)| count.saturating_add(sum));
        Err(ErrorKind::Unmapped { misfits, count }.into())
    }
}
