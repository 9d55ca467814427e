use crate::limits::Limits;
use crate::tensor::TensorInfo;

/// The header of the next tensor in a stream.
pub(crate) struct Message {
    /// The name; `""` if there is none.
    pub(crate) name: String,
    pub(crate) info: TensorInfo,
    pub(crate) header_bytes: usize,
    pub(crate) payload_bytes: usize,
    /// The length of the padding after the payload, in bytes.
    pub(crate) padding: usize,
}

/// A format's function that reads the header at the start of buffered bytes, if it is complete.
///
/// `None` is not an error: the index reader then takes over. The message is [empty](Message::EMPTY).
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
