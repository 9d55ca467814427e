//! Reads ten streams: the header of each tensor, one after another.

use std::borrow::Cow;
use std::ops::Range;

use super::header::{self, HeaderChunk};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::read::{Cursor, Index, IndexReader, LastHeaders, Message, SmallIndex};
use crate::storage::ReadAt;
use crate::tensor::{InvalidTensor, TensorInfo};

/// Reads the headers of a stream of tensors in order.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The number of tensors so far.
    count: usize,
    /// The offset of the next one.
    offset: u64,
    /// The length of the last one.
    len: u64,
    /// The headers before this offset were looked for in advance, as far as they are where they were expected.
    expected: u64,
    /// Memory for the header of a tensor.
    memory: Vec<u8>,
}

/// The header chunk of a tensor of up to five dims and the beginning of its data chunk, as they are stored.
#[derive(Debug)]
struct CommonHeader {
    bytes: [u8; header::COMMON_BYTES],
    /// The length of the payload.
    payload: u64,
    /// The length of both chunks.
    chunks: u64,
}

/// The number of headers fetched at once from a slow disk.
const AHEAD: u64 = 64;

impl IndexReader for Reader {
    // WebDataset writes several tensors of one name: nothing in a stream is looked up by name.
    fn names_may_repeat(&self) -> bool {
        true
    }

    // Only the header of a tensor tells where the next one begins.
    fn is_chained(&self) -> bool {
        true
    }

    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        let (before, file_len) = (self.count, file.file_len());
        let mut last = LastHeaders::default();
        if file_len.is_none() {
            // Buffered messages are read without the index reader.
            (self.count, self.offset) = (index.count(), index.left_out.next_offset);
        }
        // The file may end between tensors, but not inside one or its padding.
        while !self.ends(file, index)? {
            let (number, start) = (self.count, self.offset);
            self.count += 1;
            let alike = file_len.and_then(|len| self.tensor_alike(&last, file, len, index));
            let read = alike.unwrap_or_else(|| self.tensor(file, limits, &mut last, index));
            read.map_err(|error| error.in_tensor(format!("#{number}")))?;
            let len = self.offset - start;
            if len == self.len {
                self.look_ahead(file)
            } else {
                (self.len, self.expected) = (len, 0)
            }
            // In a stream, the payload comes before the next tensor.
            if file_len.is_none() {
                index.left_out.next_offset = self.offset;
                break;
            }
        }
        Ok(self.count > before)
    }
}

/// Finds the tensors of a small file.
pub(super) fn small<'f>(file: &'f [u8], limits: &Limits, index: &mut SmallIndex<'f>) -> Option<()> {
    let mut rest = file;
    while !rest.is_empty() {
        let mut info = TensorInfo::EMPTY;
        let (name, len) = header::read_common(rest, limits, &mut info)?;
        let name = match header::text_of(name) {
            None => None,
            Some(Cow::Borrowed(name)) => Some(name),
            Some(Cow::Owned(_)) => return None,
        };
        let (payload, after) = rest[header::COMMON_BYTES..].split_at_checked(len)?;
        index.push(name, info, payload)?;
        rest = after.get(header::padding_of(len)?..)?;
    }
    Some(())
}

/// Reads the header at the start of buffered bytes, if it is complete.
pub(super) fn message(bytes: &[u8], limits: &Limits, message: &mut Message) -> Option<()> {
    let (name, payload_bytes) = header::read_common(bytes, limits, &mut message.info)?;
    message.name = header::text_of(name).unwrap_or_default().into_owned();
    message.header_bytes = header::COMMON_BYTES;
    message.payload_bytes = payload_bytes;
    message.padding = header::padding_of(payload_bytes)?;
    Some(())
}

impl Reader {
    /// Assumes equal lengths for the next tensors after two equal ones. The offset of each header depends on the one
    /// before it, so a slow disk would otherwise fetch one at a time.
    fn look_ahead(&mut self, file: &mut dyn ReadAt) {
        if self.offset < self.expected {
            return;
        }
        let (start, len) = (self.offset, self.len);
        let end = file.file_len().unwrap_or_default();
        let next = |number: u64| number.checked_mul(len)?.checked_add(start).filter(|offset| *offset < end);
        file.will_read(&mut (0..AHEAD).map_while(next));
        self.expected = next(AHEAD - 1).unwrap_or(end);
    }

    fn ends(&self, file: &mut dyn ReadAt, index: &Index) -> Result<bool> {
        // In a stream, the padding of the last tensor is missing, because the decoder has dropped it.
        file.ends_at(self.offset).map_err(|error| {
            error.in_tensor(match index.pushed().checked_sub(1) {
                Some(last) if index.has_name(last) => index.name(last).to_owned(),
                _ => format!("#{}", self.count.saturating_sub(1)),
            })
        })
    }

    /// Adds a tensor with a cached header, except for its name. Returns `None` if the header is new, or the payload
    /// passes the end of the file.
    fn tensor_alike(
        &mut self,
        last: &LastHeaders<CommonHeader>,
        file: &mut dyn ReadAt,
        file_len: u64,
        index: &mut Index,
    ) -> Option<Result<()>> {
        let start = self.offset.checked_add(header::COMMON_BYTES as u64)?;
        self.memory.clear();
        let (name, found) = header::split_name(file.bytes(self.offset..start, &mut self.memory).ok()?)?;
        let is_known =
            |known: &CommonHeader| header::split_name(&known.bytes).is_some_and(|(_, around)| around == found);
        let (known, alike) = last.iter().find(|(known, _)| is_known(known))?;
        self.offset = self.offset.checked_add(known.chunks).filter(|end| *end <= file_len)?;
        Some(index.push_alike(name.text().as_deref(), *alike, start..start + known.payload))
    }

    fn tensor(
        &mut self,
        file: &mut dyn ReadAt,
        limits: &Limits,
        last: &mut LastHeaders<CommonHeader>,
        index: &mut Index,
    ) -> Result<()> {
        let start = self.offset;
        let mut cursor = Cursor::new(file, start);
        cursor.read_ahead(header::COMMON_BYTES);
        let mut header = header::read(&mut cursor, limits)?;
        let payload = self.payload(&mut cursor, &mut header).map_err(|error| match header.name.text() {
            Some(name) => error.in_tensor(name),
            None => error,
        })?;
        if let Ok(bytes) = cursor.passed().try_into() {
            let (payload, chunks) = (payload.end - payload.start, self.offset - start);
            last.add(CommonHeader { bytes, payload, chunks }, index.pushed());
        }
        index.push_checked(header.name.text().as_deref(), header.info, payload)
    }

    /// Reads the beginning of a data chunk and finds its end.
    // Inlined into the loop over tensors.
    #[inline(always)]
    fn payload(
        &mut self,
        cursor: &mut Cursor<'_>,
        HeaderChunk { info, padding, .. }: &mut HeaderChunk,
    ) -> Result<Range<u64>> {
        cursor.skip(*padding)?;
        let offset = cursor.offset() + 8;
        let length = header::read_length(cursor)?;
        info.set_unknown_bytes(length);
        if info.payload_bytes().is_none_or(|expected| expected as u64 != length) {
            return Err(Error::from(InvalidTensor::Length { found: length, info: Box::new(info.clone()) }).at(offset));
        }
        cursor.catch_up()?;
        let payload = cursor.payload(info)?;
        self.offset = payload_end(cursor, length)?;
        Ok(payload)
    }
}

/// Returns the end of the padding after a payload starting at the cursor.
fn payload_end(cursor: &Cursor<'_>, length: u64) -> Result<u64> {
    let padded = length.checked_next_multiple_of(header::ALIGNMENT);
    let end = padded.and_then(|padded| cursor.offset().checked_add(padded));
    let truncated = |left: u64| {
        let padding = padded.map_or(0, |padded| padded - length);
        let start = cursor.offset().saturating_add(length);
        Error::new(ErrorKind::Truncated { needed: padding, left: left.saturating_sub(length) }).at(start)
    };
    match (end, cursor.left()) {
        (Some(end), Some(left)) if end - cursor.offset() > left => Err(truncated(left)),
        (Some(end), _) => Ok(end),
        (None, left) => Err(truncated(left.unwrap_or(length))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Slice;
    use crate::tensor::Tensor;

    /// Remembers the hinted offsets.
    struct Told<'a>(Slice<'a>, Vec<u64>);

    impl ReadAt for Told<'_> {
        fn file_len(&self) -> Option<u64> {
            self.0.file_len()
        }

        fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
            self.0.read_at(offset, bytes)
        }

        fn will_read(&mut self, offsets: &mut dyn Iterator<Item = u64>) {
            self.1.extend(offsets);
        }
    }

    #[test]
    fn headers_are_looked_for_while_tensors_are_of_one_length() {
        let tensor = |len: usize| Tensor::from_slice(&vec![1_u8; len], [len]).unwrap();
        // Of 160, 160, 224, and then 200 times 160 bytes.
        let tensors: Vec<Tensor> = [10, 10, 100].into_iter().chain([10; 200]).map(tensor).collect();
        let file = super::super::FORMAT.to_vec(&tensors, &crate::write::WriteOptions::new()).unwrap();
        let mut told = Told(Slice::new(&file), Vec::new());
        let (mut reader, mut index) = (Reader::default(), Index::default());
        while reader.read_on(&mut told, &Limits::default(), &mut index).unwrap() {}
        assert_eq!(index.pushed(), tensors.len());
        let beyond: Vec<u64> = told.1.iter().copied().filter(|offset| *offset >= file.len() as u64).collect();
        assert_eq!(beyond, Vec::<u64>::new());
        let headers: Vec<u64> = (0..200).map(|i| 160 + 160 + 224 + 160 * i).collect();
        let known = headers.iter().filter(|offset| told.1.contains(offset)).count();
        assert!(known >= 190, "{known} of 200 headers");
        assert!(told.1.len() < 330, "{} hints", told.1.len());
    }

    #[test]
    fn a_message_is_the_tensor_of_an_index() {
        let tensor = Tensor::from_slice(&[1.0_f32; 6], [2, 3]).unwrap();
        let file = super::super::FORMAT.to_vec(&[tensor], &crate::write::WriteOptions::new()).unwrap();
        let message_of = |bytes: &[u8], limits: &Limits| {
            let mut found = Message::EMPTY;
            message(bytes, limits, &mut found).map(|()| found)
        };
        let mut found = 0;
        for (i, byte) in (0..header::COMMON_BYTES).flat_map(|i| (0..=255).map(move |byte| (i, byte))) {
            let mut file = file.clone();
            file[i] = byte;
            let (limits, mut index) = (Limits::default().rank(4), Index::default());
            let read = Reader::default().read_on(&mut Slice::new(&file), &limits, &mut index);
            let mut found_small = SmallIndex::default();
            if found_small.read(small, &file, &limits).is_none() {
                continue;
            }
            let message = message_of(&file, &limits).unwrap();
            assert!(read.unwrap(), "byte {i} is {byte}");
            let entry = index.entry(0);
            let range = header::COMMON_BYTES as u64..(header::COMMON_BYTES + message.payload_bytes) as u64;
            assert_eq!((&message.info, range), (entry.info(), entry.range()));
            let end = header::COMMON_BYTES + message.payload_bytes + message.padding;
            assert_eq!((end, index.has_name(0)), (file.len(), !message.name.is_empty()));
            assert!(message.name.is_empty() || message.name == index.name(0));
            found += 1;
        }
        // At least all names and paddings.
        assert!(found > 256 * 8, "{found} of them");
        for len in 0..file.len() {
            let is_there = message_of(&file[..len], &Limits::default()).is_some();
            assert_eq!(is_there, len >= header::COMMON_BYTES, "{len} bytes");
        }
    }
}
