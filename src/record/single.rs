use std::ops::Range;

use super::names;
use crate::limits::Limits;
use crate::tensor::{Layout, TensorInfo};

/// The only tensor of a file in memory, read without an index.
pub(crate) struct SingleTensor<'a> {
    pub(crate) info: TensorInfo,
    pub(crate) payload: &'a [u8],
}

/// A format's function that returns the tensor of a file that has only one.
///
/// It checks all that reading the index checks. `None` for any other file, a malformed one, and one that is not worth a way
/// of its own: reading the index then finds what it is.
pub(crate) type ReadSingle = for<'a> fn(&'a [u8], &Limits) -> Option<SingleTensor<'a>>;

impl<'a> SingleTensor<'a> {
    /// A tensor whose payload has a range of the file, in bytes from its start.
    #[inline]
    pub(crate) fn new(file: &'a [u8], info: TensorInfo, payload: Range<u64>) -> Option<Self> {
        let payload = usize::try_from(payload.start).ok()?..usize::try_from(payload.end).ok()?;
        Some(Self { info, payload: file.get(payload)? })
    }

    /// Returns whether an index would give the same tensor.
    pub(super) fn needs_no_index(&self, limits: &Limits) -> bool {
        // More than the index takes in memory, besides the dims.
        const ENOUGH: u64 = 1 << 10;
        let header_bytes = ENOUGH + size_of_val(self.info.shape.dims()) as u64;
        matches!(self.info.layout, Layout::RowMajor | Layout::DimOrder(_))
            && self.info.check_payload(self.payload.len() as u64).is_ok()
            && !self.payload.starts_with(&names::MAGIC)
            && limits.tensors > 0
            && limits.shared >= header_bytes
    }
}
