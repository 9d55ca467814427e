use super::checked::Checked;
use crate::model::TensorData;

/// The payloads of a value of small tensors, copied while its file is planned.
///
/// Sending a small tensor takes longer than copying it, so such a value is sent only once.
#[derive(Default)]
pub(super) struct KeptPayloads {
    /// All payloads, one after the other.
    bytes: Vec<u8>,
}

impl KeptPayloads {
    /// A longer payload is not kept.
    const MAX_PAYLOAD: usize = 1 << 10;

    /// The most bytes that are kept of a value.
    const MAX_BYTES: usize = 16 << 20;

    /// Copies the next payload, of `len` bytes. Returns `false` if it is too long, or cannot be read.
    pub(super) fn add(&mut self, data: &dyn TensorData, len: usize) -> bool {
        if len > Self::MAX_PAYLOAD || self.bytes.len() > Self::MAX_BYTES - len {
            return false;
        }
        match data.as_bytes() {
            Some(bytes) if bytes.len() == len => {
                self.bytes.extend_from_slice(bytes);
                true
            }
            _ => Checked { data, planned: len, digest: None }.write_to(&mut self.bytes).is_ok(),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
