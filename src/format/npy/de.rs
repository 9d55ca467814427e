use super::header;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::source::ByteSource;
use crate::wire::{Coding, Cursor, Entry};

/// Reads the head of the one array.
#[derive(Debug, Default)]
pub struct Walk {
    /// Where the array ends, once its head is read.
    end: Option<u64>,
}

impl crate::wire::Walk for Walk {
    const FORMAT: &'static str = "npy";
    const EMBEDS_NAMES: bool = false;

    fn next<'de, B: ByteSource<'de>>(&mut self, source: &mut B, limits: &Limits) -> Result<Option<Entry>> {
        match self.end {
            None => self.array(source, limits).map(Some).map_err(|error| error.in_tensor("#0")),
            Some(end) if source.ends_at(end)? => Ok(None),
            Some(end) => {
                let what = "the file goes on behind its array, but npy has one".to_owned();
                Err(Error::new(ErrorKind::Malformed { what }).at(end))
            }
        }
    }
}

impl Walk {
    fn array<'de, B: ByteSource<'de>>(&mut self, source: &mut B, limits: &Limits) -> Result<Entry> {
        let mut offset = 0;
        let read = |bytes: &mut [u8]| {
            source.read_at(offset, bytes)?;
            offset += bytes.len() as u64;
            Ok(())
        };
        let head = header::read(read, limits).map_err(|error| error.at(0))?;
        if head.big_endian.is_some() {
            source.keep_rest(limits.payload)?;
        }
        let payload = Cursor::new(source, head.len).payload(&head.info)?;
        self.end = Some(payload.end);
        Ok(Entry::new(None, head.info, payload).coded(head.big_endian.map(Coding::big_endian)))
    }
}
