//! The names of the tensors that a view sent so far, for ties.

use std::collections::HashMap;

use crate::error::Result;
use crate::model::{TensorRecord, TensorSink, Tensors};

/// Finds the earlier tensors that a tensor is tied to.
///
/// Only the types of values tie tensors, and files have none. So the names are listed when the first tie is seen, by
/// another pass over the tensors, and a file of a million tensors is sent without a copy of each name.
pub(super) struct SentNames<'t> {
    tensors: &'t dyn Tensors,
    positions: Option<HashMap<String, Vec<usize>>>,
}

impl<'t> SentNames<'t> {
    pub(super) fn new(tensors: &'t dyn Tensors) -> Self {
        Self { tensors, positions: None }
    }

    /// Returns the position of the last tensor with a name before another tensor.
    pub(super) fn last_before(&mut self, position: usize, name: &str) -> Result<Option<usize>> {
        Ok(self.before(position, name)?.last().copied())
    }

    /// Returns whether a tensor with a name before another tensor is at one of some positions.
    pub(super) fn any_before(&mut self, position: usize, name: &str, is_one: &dyn Fn(usize) -> bool) -> Result<bool> {
        Ok(self.before(position, name)?.iter().any(|at| is_one(*at)))
    }

    fn before(&mut self, position: usize, name: &str) -> Result<&[usize]> {
        let positions = match &mut self.positions {
            Some(positions) => positions,
            none => {
                let mut names = PositionsByName { next: 0, positions: HashMap::new() };
                self.tensors.send(&mut names)?;
                none.insert(names.positions)
            }
        };
        let found = positions.get(name).map_or(&[][..], Vec::as_slice);
        Ok(&found[..found.partition_point(|at| *at < position)])
    }
}

struct PositionsByName {
    next: usize,
    positions: HashMap<String, Vec<usize>>,
}

impl TensorSink for PositionsByName {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.positions.entry(tensor.name.to_owned()).or_default().push(self.next);
        self.next += 1;
        Ok(())
    }
}
