use std::ops::Range;

use super::header::{self, Header};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::source::ByteSource;
use crate::tensor::InvalidTensor;
use crate::wire::{Cursor, Entry};

/// Reads the headers of a stream of tensors, one after the other.
#[derive(Debug, Default)]
pub struct Walk {
    /// The tensors so far.
    count: usize,
    /// Where the next one begins.
    offset: u64,
}

impl crate::wire::Walk for Walk {
    const FORMAT: &'static str = "ten";

    fn next<'de, B: ByteSource<'de>>(&mut self, source: &mut B, limits: &Limits) -> Result<Option<Entry>> {
        // Between tensors the file may end; inside one, its padding included, it may not.
        if self.ends(source)? {
            return Ok(None);
        }
        let label = self.count;
        self.count += 1;
        self.tensor(source, limits).map(Some).map_err(|error| error.in_tensor(format!("#{label}")))
    }
}

impl Walk {
    fn ends<'de, B: ByteSource<'de>>(&self, source: &mut B) -> Result<bool> {
        source.ends_at(self.offset).map_err(|error| error.in_tensor(format!("#{}", self.count.saturating_sub(1))))
    }

    fn tensor<'de, B: ByteSource<'de>>(&mut self, source: &mut B, limits: &Limits) -> Result<Entry> {
        let mut cursor = Cursor::new(source, self.offset);
        let header = header::read(&mut cursor, limits)?;
        let payload = self.payload(cursor, &header).map_err(|error| match &header.name {
            Some(name) => error.in_tensor(name),
            None => error,
        })?;
        Ok(Entry::new(header.name, header.info, payload))
    }

    /// Reads the head of a data chunk and finds the end of the chunk.
    fn payload<'de, B: ByteSource<'de>>(
        &mut self,
        mut cursor: Cursor<'_, 'de, B>,
        Header { info, padding, .. }: &Header,
    ) -> Result<Range<u64>> {
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

/// Where the padding of a payload ends, which begins at the cursor.
fn payload_end<'de, B: ByteSource<'de>>(cursor: &Cursor<'_, 'de, B>, length: u64) -> Result<u64> {
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
