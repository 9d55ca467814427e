//! The footer of a tensorbuffers file, the tags of the dtypes, and the ids of names.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::read::Cursor;
use crate::storage::ReadAt;
use crate::tensor::{Dtype, dtypes, tags_of};

/// The tags of the supported dtypes.
const TAGS: &[(i8, Dtype)] = &[
    (1, Dtype::F32),
    (2, Dtype::F64),
    (3, Dtype::I8),
    (4, Dtype::I16),
    (5, Dtype::I32),
    (6, Dtype::I64),
    (7, Dtype::U8),
    (8, Dtype::U16),
    (9, Dtype::U32),
    (10, Dtype::U64),
];

/// The supported dtypes.
pub const DTYPES: &[Dtype] = &dtypes::<_, { TAGS.len() }>(TAGS);

const TAG_OF: [Option<i8>; Dtype::ALL.len()] = tags_of(TAGS);

/// The first and the last bytes of a file.
pub(super) const MAGIC: [u8; 4] = *b"TBS1";

/// The first offset of a tensor.
pub(super) const DATA: u64 = MAGIC.len() as u64;

/// The number of bytes after the metadata: its length, and the magic.
const FOOTER: u64 = 4 + MAGIC.len() as u64;

/// The length of the longest flatbuffer: some of its offsets are signed.
pub(super) const MAX_METADATA: u64 = i32::MAX as u64;

/// The length of the longest file without unused bytes: the last tensor begins below 2³² and is as long, and so is
/// the metadata.
pub(super) const MAX_FILE: u64 = 3 << 32;

/// Returns the tag of a supported dtype.
pub(super) fn tag(dtype: Dtype) -> i8 {
    TAG_OF[dtype as usize].expect("the plan was checked")
}

/// Returns the dtype of a tag.
pub(super) fn dtype(tag: i8) -> Option<Dtype> {
    TAGS.iter().find(|(known, _)| *known == tag).map(|(_, dtype)| *dtype)
}

/// Returns the id of a tensor name. The reference reader looks tensors up by id, and operations refer to it.
///
/// It is the 64-bit FNV-1a hash of the name's bytes and one byte `0xff`.
///
/// ```
/// assert_eq!(tensorfile::tensorbuffers::id("1"), 0x07f7_c907_b4b8_b319);
/// ```
#[must_use]
pub fn id(name: &str) -> u64 {
    let bytes = name.bytes().chain([0xff]);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Checks the first bytes of a file.
pub(super) fn read_magic(file: &mut dyn ReadAt) -> Result<()> {
    check_magic(Cursor::new(file, 0).array()?, 0)
}

/// Reads the footer of a file of `len` bytes. Returns the range of its metadata.
pub(super) fn read_footer(file: &mut dyn ReadAt, len: u64) -> Result<Range<u64>> {
    let Some(end) = len.checked_sub(FOOTER).filter(|end| *end >= DATA) else {
        return Err(Error::new(ErrorKind::Truncated { needed: FOOTER, left: len.saturating_sub(DATA) }).at(DATA));
    };
    let mut cursor = Cursor::new(file, end);
    let (size, magic) = (cursor.array()?, cursor.array()?);
    check_magic(magic, end + 4)?;
    let size = u64::from(u32::from_le_bytes(size));
    let most = (end - DATA).min(MAX_METADATA);
    if size > most {
        let expected = format!("at most {most}");
        return Err(Error::new(ErrorKind::BadNumber { what: "metadata size", found: size.into(), expected }).at(end));
    }
    Ok(end - size..end)
}

fn check_magic(found: [u8; 4], offset: u64) -> Result<()> {
    if found == MAGIC {
        return Ok(());
    }
    Err(Error::new(ErrorKind::BadMagic { found: found.to_vec(), expected: &MAGIC }).at(offset))
}

/// Adds the metadata, which begin at `start` of a buffer, and the footer to a file.
pub(super) fn add_metadata(mut buffer: Vec<u8>, start: usize, file: &mut Vec<u8>) {
    let len = buffer.len() - start;
    let size = u32::try_from(len).expect("its length was checked");
    if file.is_empty() {
        // The metadata of a million tensors are in memory once.
        buffer.drain(..start);
        *file = buffer;
    } else {
        file.reserve_exact(len + size_of::<u32>() + MAGIC.len());
        file.extend_from_slice(&buffer[start..]);
    }
    file.extend_from_slice([size.to_le_bytes(), MAGIC].as_flattened());
}

#[cfg(test)]
mod tests {
    use super::id;

    #[test]
    fn ids_are_those_of_the_reference() {
        assert_eq!(id("1"), 0x07f7_c907_b4b8_b319);
        assert_eq!(id(""), 0xaf64_724c_8602_eb6e);
    }
}
