//! The tensors that recognition looks at: names and headers, and what else their place knows.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::Config;
use crate::read::Index;
use crate::tensor::TensorInfo;

/// The tensors of a file or of another collection.
pub(crate) trait Observed {
    fn len(&self) -> usize;

    /// Returns the name and the header of a tensor.
    fn tensor(&self, position: usize) -> (&str, &TensorInfo);

    /// Returns the position of a name.
    fn position(&self, name: &str) -> Option<usize>;

    /// Returns the payload of a small tensor that describes itself; `None` if payloads are not at hand.
    fn description(&self, _position: usize) -> Option<Vec<u8>> {
        None
    }

    /// Returns an entry of the file's metadata.
    fn metadata(&self, _key: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// Returns the configuration of the model.
    fn config(&self) -> &Config {
        Config::NONE
    }
}

impl Observed for Index {
    fn len(&self) -> usize {
        self.len()
    }

    fn tensor(&self, position: usize) -> (&str, &TensorInfo) {
        (self.name(position), self.entry(position).info())
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.position(name)
    }
}

/// Names and headers, collected from tensors that are passed one by one.
#[derive(Debug, Default)]
pub(crate) struct TensorHeaders {
    list: Vec<(String, TensorInfo)>,
    positions: HashMap<String, usize>,
}

impl TensorHeaders {
    pub(crate) fn push(&mut self, name: &str, info: &TensorInfo) {
        self.positions.entry_ref(name).or_insert(self.list.len());
        self.list.push((name.to_owned(), info.clone()));
    }
}

impl Observed for TensorHeaders {
    fn len(&self) -> usize {
        self.list.len()
    }

    fn tensor(&self, position: usize) -> (&str, &TensorInfo) {
        let (name, info) = &self.list[position];
        (name, info)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }
}
