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
        let checked = Checked { data, planned: len, digest: None };
        match checked.as_bytes() {
            Some(bytes) => {
                self.bytes.extend_from_slice(bytes);
                true
            }
            None => checked.write_to(&mut self.bytes).is_ok(),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;

    /// Elements that are not in memory in one run.
    struct Gathered(usize);

    impl TensorData for Gathered {
        fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
            (0..self.0).try_for_each(|_| out.write_all(&[7]))
        }
    }

    #[test]
    fn keeps_small_payloads_until_they_are_many() {
        let payload = [7; KeptPayloads::MAX_PAYLOAD + 1];
        let small = &payload[..KeptPayloads::MAX_PAYLOAD];
        let mut kept = KeptPayloads::default();
        assert!(!kept.add(&&payload[..], payload.len()), "it is too long");
        for _ in 0..KeptPayloads::MAX_BYTES / small.len() {
            assert!(kept.add(&small, small.len()));
        }
        assert_eq!(kept.as_bytes().len(), KeptPayloads::MAX_BYTES);
        assert!(!kept.add(&&payload[..1], 1), "all of them are too long");
        assert!(kept.add(&&payload[..0], 0));
    }

    #[test]
    fn keeps_payloads_of_the_planned_length_only() {
        let add = |data: &dyn TensorData, len| {
            let mut kept = KeptPayloads::default();
            kept.add(data, len).then(|| kept.as_bytes().to_vec())
        };
        assert_eq!(add(&&[7; 3][..], 3), Some(vec![7; 3]));
        assert_eq!(add(&Gathered(3), 3), Some(vec![7; 3]));
        for len in [2, 4] {
            assert_eq!(add(&&[7; 3][..], len), None);
            assert_eq!(add(&Gathered(3), len), None);
        }
    }
}
