use super::checked::Checked;
use crate::model::TensorData;

/// The payloads of a value of small tensors, copied while its file is planned.
///
/// Sending a small tensor takes longer than copying it, so such a value is sent only once. By default, none are kept.
#[derive(Default)]
pub(super) struct KeptPayloads {
    /// All payloads, one after the other.
    bytes: Vec<u8>,
    /// None was too long, and all could be read. Otherwise the others are not kept either.
    are_all: bool,
}

impl KeptPayloads {
    /// A longer payload is not kept.
    const MAX_PAYLOAD: usize = 2 << 10;

    /// The most bytes that are kept of a value.
    const MAX_BYTES: usize = 16 << 20;

    /// Nothing yet. The memory of `buffer` is used.
    pub(super) fn in_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { bytes: buffer, are_all: true }
    }

    /// Copies the next payload, of `len` bytes, unless it is too long or cannot be read.
    // A part of what is done for each tensor.
    #[inline(always)]
    pub(super) fn add(&mut self, data: &dyn TensorData, len: usize) {
        let fits = len <= Self::MAX_PAYLOAD && self.bytes.len() <= Self::MAX_BYTES - len;
        self.are_all &= fits;
        if self.are_all {
            match data.as_bytes() {
                Some(bytes) if bytes.len() == len => self.bytes.extend_from_slice(bytes),
                _ => self.gather(data, len),
            }
        }
    }

    /// Copies a payload that is not in memory in one run, or not of this length.
    #[inline(never)]
    fn gather(&mut self, data: &dyn TensorData, len: usize) {
        self.are_all = Checked { data, planned: len, digest: None }.write_to(&mut self.bytes).is_ok();
    }

    /// Takes memory for payloads of as many bytes, `times` times, and for their headers, as the file is made in the same
    /// memory.
    pub(super) fn expect_more(&mut self, payloads: usize, headers: usize, times: usize) {
        if self.are_all && payloads.saturating_mul(times) <= Self::MAX_BYTES {
            // Only a guess, so it is no error if there is not that much memory.
            let _ = self.bytes.try_reserve(payloads.saturating_add(headers).saturating_mul(times));
        }
    }

    /// Keeps none.
    pub(super) fn give_up(&mut self) {
        self.are_all = false;
    }

    /// Returns the payloads, if all were kept.
    pub(super) fn all(&self) -> Option<&[u8]> {
        self.are_all.then_some(&self.bytes[..])
    }

    /// Returns the payloads, or else the empty buffer.
    pub(super) fn into_all(mut self) -> Result<Vec<u8>, Vec<u8>> {
        if self.are_all {
            return Ok(self.bytes);
        }
        self.bytes.clear();
        Err(self.bytes)
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

    fn kept(payloads: &[(&dyn TensorData, usize)]) -> Option<Vec<u8>> {
        let mut kept = KeptPayloads::in_buffer(vec![9; 5]);
        payloads.iter().for_each(|(data, len)| kept.add(*data, *len));
        let all = kept.all().map(<[u8]>::to_vec);
        assert_eq!(kept.into_all().ok(), all);
        all
    }

    #[test]
    fn keeps_small_payloads_until_they_are_many() {
        const MANY: usize = KeptPayloads::MAX_BYTES / KeptPayloads::MAX_PAYLOAD;

        let payload = [7; KeptPayloads::MAX_PAYLOAD + 1];
        let (long, small, one, empty) = (&payload[..], &payload[1..], &payload[..1], &payload[..0]);
        assert_eq!(kept(&[(&long, long.len())]), None, "it is too long");
        let mut payloads: Vec<(&dyn TensorData, usize)> = vec![(&small, small.len()); MANY];
        assert_eq!(kept(&payloads).map(|bytes| bytes.len()), Some(KeptPayloads::MAX_BYTES));
        payloads.push((&empty, 0));
        assert!(kept(&payloads).is_some());
        payloads.push((&one, 1));
        assert_eq!(kept(&payloads), None, "all of them are too long");
    }

    #[test]
    fn keeps_payloads_of_the_planned_length_only() {
        let (three, gathered) = (&[7_u8; 3][..], Gathered(3));
        for data in [&three as &dyn TensorData, &gathered] {
            assert_eq!(kept(&[(data, 3)]), Some(vec![7; 3]));
            for len in [2, 4] {
                assert_eq!(kept(&[(data, len), (data, 3)]), None);
            }
        }
    }
}
