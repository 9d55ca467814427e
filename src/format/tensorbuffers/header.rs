use std::ops::Range;

use super::generated::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Dtype;

/// Tags of the dtypes that the format can store; used in both directions, so they cannot drift apart.
const TAGS: &[(DataType, Dtype)] = &[
    (DataType::Float32, Dtype::F32),
    (DataType::Float64, Dtype::F64),
    (DataType::Int8, Dtype::I8),
    (DataType::Int16, Dtype::I16),
    (DataType::Int32, Dtype::I32),
    (DataType::Int64, Dtype::I64),
    (DataType::UInt8, Dtype::U8),
    (DataType::UInt16, Dtype::U16),
    (DataType::UInt32, Dtype::U32),
    (DataType::UInt64, Dtype::U64),
];

/// The dtypes that the format can store.
pub const DTYPES: &[Dtype] = &{
    let mut dtypes = [Dtype::F32; TAGS.len()];
    let mut at = 0;
    while at < TAGS.len() {
        dtypes[at] = TAGS[at].1;
        at += 1;
    }
    dtypes
};

/// How files begin and end.
pub(super) const MAGIC: [u8; 4] = *b"TBS1";

/// Where tensors may begin.
pub(super) const DATA: u64 = MAGIC.len() as u64;

/// The bytes behind the metadata: their number, and the magic.
const FOOTER: u64 = 4 + MAGIC.len() as u64;

/// The most bytes that a flatbuffer can be of: some of its offsets are signed.
pub(super) const MAX_METADATA: u64 = i32::MAX as u64;

/// The longest file that has a use for all its bytes: the last tensor begins below 2³² and is as long, and so is the
/// metadata.
pub(super) const MAX_FILE: u64 = 3 << 32;

/// The tag of a dtype that can be stored.
pub(super) fn tag(dtype: Dtype) -> Option<DataType> {
    TAGS.iter().find(|(_, known)| *known == dtype).map(|(tag, _)| *tag)
}

/// The dtype of a tag.
pub(super) fn dtype(tag: DataType) -> Result<Dtype> {
    let dtype = TAGS.iter().find(|(known, _)| *known == tag).map(|(_, dtype)| *dtype);
    dtype.ok_or_else(|| ErrorKind::UnknownDtype { tag: tag.0.to_string() }.into())
}

/// The id of the tensor of that name, by which the reference reader looks tensors up and operations refer to them.
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

/// Checks how a file begins.
pub(super) fn read_magic(mut read: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<()> {
    let mut magic = [0; MAGIC.len()];
    read(0, &mut magic)?;
    check_magic(magic, 0)
}

/// Reads how a file of `len` bytes ends: where its metadata lies.
pub(super) fn read_footer(len: u64, mut read: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<Range<u64>> {
    let Some(end) = len.checked_sub(FOOTER).filter(|end| *end >= DATA) else {
        return Err(Error::new(ErrorKind::Truncated { needed: FOOTER, left: len.saturating_sub(DATA) }).at(DATA));
    };
    let (mut size, mut magic) = ([0; 4], [0; MAGIC.len()]);
    read(end, &mut size)?;
    read(end + 4, &mut magic)?;
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

/// The end of a file with that metadata.
pub(super) fn write_end(metadata: &[u8]) -> Vec<u8> {
    let size = u32::try_from(metadata.len()).expect("the metadata was measured");
    [metadata, &size.to_le_bytes(), &MAGIC].concat()
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
