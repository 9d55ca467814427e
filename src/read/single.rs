use std::ops::Range;

use crate::limits::Limits;
use crate::model::{TensorSpec, embedded_names};
use crate::tensor::{Dtype, Layout, TensorInfo, are_bools};

/// The only tensor of a file in memory, read without an index.
pub(crate) struct SingleTensor<'a> {
    pub(crate) info: TensorInfo,
    pub(crate) payload: &'a [u8],
}

/// A format's function that returns the tensor of a file that has only one.
///
/// It checks all that reading the index checks, except that the payload has the length of the tensor, which is checked
/// afterwards. `None` for any other file, a malformed one, and one that is not worth a way of its own: reading the index then
/// finds what it is.
pub(crate) type ReadSingle = for<'a> fn(&'a [u8], &Limits) -> Option<SingleTensor<'a>>;

/// The header of the tensor that comes next in a stream.
pub(crate) struct Message {
    /// The name; `""` if there is none.
    pub(crate) name: String,
    pub(crate) info: TensorInfo,
    pub(crate) header_bytes: usize,
    pub(crate) payload_bytes: usize,
    /// The length of the padding after the payload, in bytes.
    pub(crate) padding: usize,
}

/// A format's function that reads the header that bytes of a stream begin with, if all of it is there.
///
/// As for [`ReadSingle`], `None` is no error. The message is [empty](Message::EMPTY).
pub(crate) type ReadMessage = fn(&[u8], &Limits, &mut Message) -> Option<()>;

impl Message {
    /// A message to be filled in.
    pub(crate) const EMPTY: Self =
        Self { name: String::new(), info: TensorInfo::EMPTY, header_bytes: 0, payload_bytes: 0, padding: 0 };

    /// Returns whether an index would give the same tensor.
    pub(super) fn needs_no_index(&self, limits: &Limits) -> bool {
        self.info.takes_any(self.payload_bytes) && self.payload_bytes as u64 <= limits.payload && limits.tensors > 0
    }
}

impl<'a> SingleTensor<'a> {
    /// A tensor whose payload has a range of the file, in bytes from its start.
    #[inline]
    pub(crate) fn new(file: &'a [u8], info: TensorInfo, payload: Range<u64>) -> Option<Self> {
        let payload = usize::try_from(payload.start).ok()?..usize::try_from(payload.end).ok()?;
        Some(Self { info, payload: file.get(payload)? })
    }

    /// Returns whether an index would give the same tensor, and it fits.
    pub(super) fn fits(&self, limits: &Limits, spec: &TensorSpec) -> bool {
        self.needs_no_index(limits) && spec.passes(&self.info)
    }

    /// Returns whether an index would give the same tensor.
    #[inline]
    pub(crate) fn needs_no_index(&self, limits: &Limits) -> bool {
        // More than the index takes in memory, besides the dims.
        const ENOUGH: u64 = 1 << 10;
        let header_bytes = ENOUGH + size_of_val(self.info.shape.dims()) as u64;
        (self.info.takes_any(self.payload.len()) || self.is_dense())
            && !self.payload.starts_with(&embedded_names::MAGIC)
            && self.payload.len() as u64 <= limits.payload
            && limits.tensors > 0
            && limits.headers() >= header_bytes
            && limits.memory.unwrap_or(u64::MAX) >= self.payload.len() as u64
    }

    fn is_dense(&self) -> bool {
        matches!(self.info.layout, Layout::RowMajor | Layout::DimOrder(_))
            && self.info.check_payload(self.payload.len() as u64).is_ok()
            // Other bools are true or an error, which depends on the format.
            && (self.info.dtype != Dtype::Bool || are_bools(self.payload))
    }
}
