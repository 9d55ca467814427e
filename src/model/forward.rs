//! A sink in front of another.

use super::{MetadataValue, TensorRecord, TensorSink};
use crate::error::Result;

/// Takes a tensor on its way to the next sink.
type OnTensor<'s> = &'s mut dyn FnMut(&TensorRecord<'_>, &mut dyn TensorSink) -> Result<()>;

/// Returns a sink that calls `each` with every tensor and the next sink. Metadata and announcements are forwarded.
///
/// A view is a call of it: see [`Tensors`](super::Tensors).
pub fn forward<'s>(next: &'s mut dyn TensorSink, each: OnTensor<'s>) -> impl TensorSink + 's {
    Forward { next, each }
}

struct Forward<'s> {
    next: &'s mut dyn TensorSink,
    each: OnTensor<'s>,
}

impl TensorSink for Forward<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        (self.each)(tensor, self.next)
    }

    fn expect(&mut self, tensors: usize) -> Result<()> {
        self.next.expect(tensors)
    }

    fn omits_names(&self) -> bool {
        self.next.omits_names()
    }

    fn needs_names(&mut self) {
        self.next.needs_names();
    }

    fn metadata(&mut self, key: &str, value: &MetadataValue) -> Result<()> {
        self.next.metadata(key, value)
    }
}
