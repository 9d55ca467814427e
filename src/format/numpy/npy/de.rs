use super::header;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::record::{Codec, Cursor, Index, IndexReader};
use crate::storage::ReadAt;

/// Reads the header of the only array.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The end of the array, once its header is read.
    end: Option<u64>,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        match self.end {
            None => self.array(file, limits, index).map(|()| true).map_err(|error| error.in_tensor("#0")),
            Some(end) if file.ends_at(end)? => Ok(false),
            Some(end) => {
                let what = "the file continues after its array, but npy stores one".to_owned();
                Err(Error::new(ErrorKind::Malformed { what }).at(end))
            }
        }
    }

    fn embeds_names(&self) -> bool {
        false
    }
}

impl Reader {
    fn array(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<()> {
        let mut offset = 0;
        let mut read = |bytes: &mut [u8]| {
            file.read_at(offset, bytes)?;
            offset += bytes.len() as u64;
            Ok(())
        };
        let mut header = header::read(&mut read, limits).map_err(|error| error.at(0))?;
        if let Some(tag) = header.info.unknown_dtype() {
            // The array is all that the file has.
            let rest = || file.file_len()?.checked_sub(header.len.into());
            let unknown = || Error::new(ErrorKind::UnknownDtype { tag: tag.to_owned() }).at(0);
            let bytes = header.payload.or_else(rest).ok_or_else(unknown)?;
            header.info.set_unknown_bytes(bytes);
        }
        if header.big_endian.is_some() {
            file.keep_rest(limits.most_held())?;
        }
        let payload = Cursor::new(file, header.len.into()).payload(&header.info)?;
        self.end = Some(payload.end);
        index.push_coded(None, header.info, payload, header.big_endian.map(Codec::BigEndian))
    }
}
