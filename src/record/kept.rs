use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

use super::Encode;
use super::checked::Checked;
use crate::model::TensorData;
use crate::tensor::TensorInfo;

/// The payloads of a value of small tensors, copied while its file is planned: each in its record, if the format has
/// [records](Records), and one after the other otherwise.
///
/// Sending a small tensor takes longer than copying it, so such a value is sent only once. By default, none are kept.
#[derive(Default)]
pub struct KeptPayloads {
    /// Zeros in place of the beginning of the file, and then what is kept.
    bytes: Vec<u8>,
    /// The number of the zeros.
    begin: usize,
    /// The length of all payloads in bytes.
    payloads: usize,
    /// None was too long, and all could be read. Otherwise the others are not kept either.
    are_all: bool,
    records: Option<Records>,
    /// Memory for the file, if it is not made in place.
    buffer: Vec<u8>,
    /// The records of tensors with each info, by its number.
    of_info: SmallVec<[RecordOfInfo; 1]>,
}

/// The way in which a format stores small tensors, if no layout is made for them: each right after the one before, as a
/// header, the payload and padding.
#[derive(Debug, Clone, Copy)]
pub struct Records {
    /// The length of a payload with its padding is a multiple of this.
    pub(crate) alignment: u64,
    pub(crate) have_headers: bool,
    /// The length of what comes before the first one, and how much longer it is for each tensor. If it is not known before all
    /// tensors came, the file is made after them.
    pub(crate) begin_bytes: Option<(usize, usize)>,
}

struct RecordOfInfo {
    /// The place of the header of a tensor without a name.
    unnamed: Option<Range<usize>>,
    /// The length of the padding.
    padding: usize,
}

/// A tensor whose payload may be kept.
#[derive(Clone, Copy)]
pub(super) struct ToKeep<'a> {
    /// The name to store.
    pub(super) name: &'a str,
    pub(super) info: &'a TensorInfo,
    pub(super) info_number: u32,
    pub(super) payload_bytes: usize,
    pub(super) data: &'a dyn TensorData,
    pub(super) encode: &'a dyn Encode,
}

impl KeptPayloads {
    /// A longer payload is not kept.
    const MAX_PAYLOAD: usize = 2 << 10;

    /// The most bytes of payloads that are kept of a value.
    const MAX_BYTES: usize = 16 << 20;

    /// The length of the longest file that is made of them.
    pub(super) const MAX_FILE: u64 = 64 << 20;

    /// Nothing yet. The memory of `buffer` is used for the file.
    pub(super) fn in_buffer(mut buffer: Vec<u8>, records: Option<Records>) -> Self {
        buffer.clear();
        let mut kept = Self { buffer, are_all: true, records, ..Self::default() };
        if kept.is_in_place() {
            std::mem::swap(&mut kept.bytes, &mut kept.buffer);
        }
        kept.set_begin(kept.begin_bytes(0));
        kept
    }

    /// Copies the next payload, unless it is too long or cannot be read.
    // A part of what is done for each tensor.
    #[inline(always)]
    pub(super) fn add(&mut self, tensor: ToKeep<'_>) {
        let len = tensor.payload_bytes;
        let fits = len <= Self::MAX_PAYLOAD && self.payloads <= Self::MAX_BYTES - len;
        self.are_all &= fits;
        if self.are_all {
            self.payloads += len;
            self.add_record(tensor);
        }
    }

    /// Adds the list of names, which may be long.
    #[inline(never)]
    pub(super) fn add_embedded(&mut self, tensor: ToKeep<'_>) {
        if self.are_all {
            self.add_record(tensor);
        }
    }

    #[inline(always)]
    fn add_record(&mut self, tensor: ToKeep<'_>) {
        let padding = match self.records {
            Some(records) if records.have_headers || records.alignment > 1 => self.begin_record(tensor, records),
            _ => 0,
        };
        match tensor.data.as_bytes() {
            Some(bytes) if bytes.len() == tensor.payload_bytes => self.bytes.extend_from_slice(bytes),
            _ => self.gather(tensor.data, tensor.payload_bytes),
        }
        if padding > 0 {
            self.bytes.resize(self.bytes.len() + padding, 0);
        }
    }

    /// Adds the header of a tensor. Returns the length of the padding after its payload.
    #[inline(always)]
    fn begin_record(&mut self, tensor: ToKeep<'_>, records: Records) -> usize {
        self.are_all &= self.bytes.len() as u64 <= Self::MAX_FILE;
        let number = tensor.info_number as usize;
        if number >= self.of_info.len() {
            self.add_info(tensor.info, tensor.payload_bytes, records.alignment);
        }
        let Some(record) = self.of_info.get_mut(number) else {
            self.give_up();
            return 0;
        };
        match &record.unnamed {
            Some(header) if tensor.name.is_empty() => self.bytes.extend_from_within(header.clone()),
            _ if records.have_headers => {
                let start = self.bytes.len();
                tensor.encode.write_header(tensor.name, tensor.info, tensor.payload_bytes, &mut self.bytes);
                if tensor.name.is_empty() {
                    record.unnamed = Some(start..self.bytes.len());
                }
            }
            _ => {}
        }
        record.padding
    }

    #[cold]
    fn add_info(&mut self, info: &TensorInfo, len: usize, alignment: u64) {
        let padded = (len as u64).checked_next_multiple_of(alignment).map(usize::try_from);
        let padding = if let Some(Ok(padded)) = padded { padded - len } else { 0 };
        // The last payload of an unknown dtype has no padding.
        self.are_all &= padding == 0 || info.unknown_dtype().is_none();
        self.of_info.push(RecordOfInfo { unnamed: None, padding });
    }

    /// Copies a payload that is not in memory in one run, or not of this length.
    #[inline(never)]
    fn gather(&mut self, data: &dyn TensorData, len: usize) {
        self.are_all &= Checked { data, planned: len, digest: None }.write_to(&mut self.bytes).is_ok();
    }

    /// Takes memory for a file of `tensors` tensors. Those that come have as many bytes of payloads, and `around` bytes of
    /// all else.
    pub(super) fn expect(&mut self, tensors: usize, payloads: usize, around: usize) {
        if !self.are_all || payloads > Self::MAX_BYTES {
            return;
        }
        let around = if self.is_in_place() { around } else { 0 };
        // Only a guess, so it is no error if there is not that much memory.
        let has_room = self.bytes.try_reserve(payloads.saturating_add(around)).is_ok();
        let (begin, kept) = (self.begin_bytes(tensors), self.bytes.len() - self.begin);
        // The records so far are moved now or in the end.
        if has_room && begin as u64 <= Self::MAX_FILE && begin.saturating_sub(self.begin) >= kept {
            self.set_begin(begin);
        }
    }

    /// Returns the length of the beginning of a file.
    fn begin_bytes(&self, tensors: usize) -> usize {
        let (bytes, of_tensor) = self.records.and_then(|records| records.begin_bytes).unwrap_or_default();
        of_tensor.saturating_mul(tensors).saturating_add(bytes)
    }

    /// Makes the beginning so long.
    fn set_begin(&mut self, begin: usize) {
        let before = std::mem::replace(&mut self.begin, begin);
        if begin > before {
            let end = self.bytes.len();
            self.bytes.resize(end + (begin - before), 0);
            self.bytes.copy_within(before..end, begin);
            self.bytes[before..begin.min(end)].fill(0);
        } else {
            self.bytes.drain(begin..before);
        }
        for header in self.of_info.iter_mut().filter_map(|record| record.unnamed.as_mut()) {
            *header = header.start + begin - before..header.end + begin - before;
        }
    }

    /// Returns whether the file is made in the memory of the records.
    fn is_in_place(&self) -> bool {
        self.records.is_some_and(|records| records.begin_bytes.is_some())
    }

    /// Keeps none.
    pub(super) fn give_up(&mut self) {
        self.are_all = false;
    }

    /// Returns whether headers are among what is kept.
    #[inline]
    pub(super) fn has_headers(&self) -> bool {
        self.records.is_some_and(|records| records.have_headers)
    }

    /// Returns whether all were kept, in records.
    pub(super) fn are_records(&self) -> bool {
        self.are_all && self.records.is_some()
    }

    /// Takes the empty buffer.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        if self.is_in_place() {
            self.bytes.clear();
            std::mem::swap(&mut self.bytes, &mut self.buffer);
        }
        std::mem::take(&mut self.buffer)
    }

    /// Returns all payloads, one after the other, if all were kept and they are not in records.
    pub(super) fn all(&self) -> Option<&[u8]> {
        (self.are_all && self.records.is_none()).then_some(&self.bytes[..])
    }

    /// Returns all records or payloads, which are not in their places.
    pub(crate) fn records(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes an empty buffer for a file of about so many bytes, which is not made in place.
    #[cfg(any(feature = "ptd", feature = "safetensors"))]
    pub(crate) fn take_buffer_for(&mut self, file_bytes: u64) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        // Only a guess, so it is no error if there is not that much memory.
        let _ = usize::try_from(file_bytes).map(|bytes| buffer.try_reserve_exact(bytes));
        buffer
    }

    /// Returns the file of so many tensors, with zeros in place of its beginning.
    pub(crate) fn into_file(mut self, tensors: usize) -> Vec<u8> {
        self.set_begin(self.begin_bytes(tensors));
        self.bytes
    }
}

impl fmt::Debug for KeptPayloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptPayloads").field("bytes", &self.bytes.len()).field("are_all", &self.are_all).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;
    use crate::error::Result;
    use crate::record::{FileLayout, Format, Names, Plan};
    use crate::tensor::Dtype;

    /// Elements that are not in memory in one run.
    struct Gathered(usize);

    impl TensorData for Gathered {
        fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
            (0..self.0).try_for_each(|_| out.write_all(&[7]))
        }
    }

    /// Headers of so many bytes.
    #[derive(Debug)]
    struct Headers(usize);

    impl Encode for Headers {
        fn format(&self) -> &'static Format {
            unreachable!("nobody asks")
        }

        fn names(&self) -> Names {
            Names::Stored
        }

        fn lay_out(&self, _: &Plan) -> Result<FileLayout> {
            unreachable!("nobody asks")
        }

        fn write_header(&self, name: &str, _: &TensorInfo, _: usize, out: &mut Vec<u8>) {
            out.resize(out.len() + self.0, b'h');
            out.extend_from_slice(name.as_bytes());
        }
    }

    fn add(kept: &mut KeptPayloads, name: &str, data: &dyn TensorData, payload_bytes: usize, encode: &dyn Encode) {
        let info = TensorInfo::new(Dtype::U8, [payload_bytes]);
        kept.add(ToKeep { name, info: &info, info_number: 0, payload_bytes, data, encode });
    }

    /// Adds payloads. Returns what is kept of all of them.
    fn kept(payloads: &[(&dyn TensorData, usize)]) -> Option<Vec<u8>> {
        let mut kept = KeptPayloads::in_buffer(vec![9; 5], None);
        payloads.iter().for_each(|(data, len)| add(&mut kept, "", *data, *len, &Headers(0)));
        kept.all().map(<[u8]>::to_vec)
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

    #[test]
    fn records_follow_a_beginning_of_any_length() {
        for expected in [0, 1, 3, 5, 100] {
            let records = Records { alignment: 4, have_headers: true, begin_bytes: Some((1, 2)) };
            let mut kept = KeptPayloads::in_buffer(vec![9; 5], Some(records));
            for (at, name) in ["", "a", ""].into_iter().enumerate() {
                add(&mut kept, name, &&[7_u8; 3][..], 3, &Headers(2));
                if at == 1 {
                    kept.expect(expected, 3 * expected, 0);
                }
            }
            assert!(kept.are_records() && kept.all().is_none());
            let file = kept.into_file(3);
            assert_eq!(file, b"\0\0\0\0\0\0\0hh\x07\x07\x07\0hha\x07\x07\x07\0hh\x07\x07\x07\0", "{expected}");
        }
    }
}
