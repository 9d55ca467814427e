use super::header;
use crate::error::{Error, ErrorKind, Result, Warning, WarningKind};
use crate::limits::Limits;
use crate::model::FileMetadata;
use crate::read::{Cursor, Index, IndexReader, trailing_bytes};
use crate::storage::ReadAt;

/// Reads the header of the first array.
#[derive(Debug, Default)]
pub(super) struct Reader {
    is_read: bool,
    warnings: Vec<Warning>,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(false);
        }
        let end = array(file, limits, index).map_err(|error| error.in_tensor("#0"))?;
        // A stream ends with the array: what follows is left to be read.
        self.warnings.extend(file.file_len().and_then(|len| rest(file, end, len)));
        Ok(true)
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        Some(FileMetadata { warnings: std::mem::take(&mut self.warnings), ..FileMetadata::default() })
    }
}

/// Reads the header again, for the warnings.
pub(super) fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    let mut reader = Reader::default();
    reader.read_on(file, limits, &mut Index::default())?;
    Ok(reader.metadata().unwrap_or_default())
}

/// Adds the array to the index. Returns the offset of its end.
fn array(file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<u64> {
    let mut offset = 0;
    let mut read = |bytes: &mut [u8]| {
        file.read_at(offset, bytes)?;
        offset += bytes.len() as u64;
        Ok(())
    };
    let mut magic = [0; header::MAGIC.len()];
    read(&mut magic)?;
    if magic != *header::MAGIC {
        let found = magic.to_vec();
        return Err(Error::new(ErrorKind::BadMagic { found, expected: header::MAGIC }).at(0));
    }
    let header = header::read(&mut read, limits).and_then(|header| Ok(header?));
    let mut header = header.map_err(|error| error.at(0))?;
    if let Some(tag) = header.info.unknown_dtype() {
        // The file has nothing after the array.
        let rest = || file.file_len()?.checked_sub(header.len.into());
        let unknown = || Error::new(ErrorKind::UnknownDtype { tag: tag.to_owned() }).at(0);
        let bytes = header.payload.or_else(rest).ok_or_else(unknown)?;
        header.info.set_unknown_bytes(bytes);
    }
    let payload = Cursor::new(file, header.len.into()).payload(&header.info)?;
    let (end, codec) = (payload.end, header.codec());
    index.push_coded(None, header.info, payload, codec)?;
    Ok(end)
}

/// Returns a warning about bytes after the first array of a file of `len` bytes.
fn rest(file: &mut dyn ReadAt, end: u64, len: u64) -> Option<Warning> {
    let mut magic = [0; header::MAGIC.len()];
    if file.read_at(end, &mut magic).is_ok() && magic == *header::MAGIC {
        let text = format!("the file has another array at byte {end}, which is left out, as numpy does");
        return Some(Warning::new(WarningKind::LeftOut, text).at(end));
    }
    trailing_bytes(end, Some(len))
}
