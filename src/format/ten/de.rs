use std::ops::Range;

use super::header::{self, Header};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::record::{Cursor, Entry, IndexReader};
use crate::storage::ReadAt;
use crate::tensor::InvalidTensor;

/// Reads the headers of a stream of tensors, one after the other.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The number of tensors so far.
    count: usize,
    /// The offset of the next one.
    offset: u64,
}

impl IndexReader for Reader {
    fn names_may_repeat(&self) -> bool {
        true
    }

    fn next(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Option<Entry>> {
        // The file may end between tensors, but not inside one or its padding.
        if self.ends(file)? {
            return Ok(None);
        }
        let number = self.count;
        self.count += 1;
        self.tensor(file, limits).map(Some).map_err(|error| error.in_tensor(format!("#{number}")))
    }
}

impl Reader {
    fn ends(&self, file: &mut dyn ReadAt) -> Result<bool> {
        file.ends_at(self.offset).map_err(|error| error.in_tensor(format!("#{}", self.count.saturating_sub(1))))
    }

    fn tensor(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Entry> {
        let mut cursor = Cursor::new(file, self.offset);
        let header = header::read(&mut cursor, limits)?;
        let payload = self.payload(cursor, &header).map_err(|error| match &header.name {
            Some(name) => error.in_tensor(name),
            None => error,
        })?;
        Ok(Entry::new(header.name, header.info, payload))
    }

    /// Reads the beginning of a data chunk and finds its end.
    fn payload(&mut self, mut cursor: Cursor<'_>, Header { info, padding, .. }: &Header) -> Result<Range<u64>> {
        cursor.skip(*padding)?;
        let offset = cursor.offset() + 8;
        let length = header::read_length(&mut cursor)?;
        if info.payload_bytes().is_none_or(|expected| expected as u64 != length) {
            return Err(Error::from(InvalidTensor::Length { found: length, info: Box::new(info.clone()) }).at(offset));
        }
        let payload = cursor.payload(info)?;
        self.offset = payload_end(&cursor, length)?;
        Ok(payload)
    }
}

/// Returns the end of the padding of a payload that begins at the cursor.
fn payload_end(cursor: &Cursor<'_>, length: u64) -> Result<u64> {
    let padded = length.checked_next_multiple_of(header::ALIGNMENT);
    let end = padded.and_then(|padded| cursor.offset().checked_add(padded));
    let truncated = |left: u64| {
        let padding = padded.map_or(0, |padded| padded - length);
        let start = cursor.offset() + length;
        Error::new(ErrorKind::Truncated { needed: padding, left: left - length }).at(start)
    };
    match (end, cursor.left()) {
        (Some(end), Some(left)) if end - cursor.offset() > left => Err(truncated(left)),
        (Some(end), _) => Ok(end),
        (None, left) => Err(truncated(left.unwrap_or(length))),
    }
}
