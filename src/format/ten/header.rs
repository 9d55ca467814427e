use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::source::ByteSource;
use crate::tensor::{Dtype, Shape, TensorInfo};
use crate::wire::Cursor;

/// What every chunk begins with.
pub(super) const MAGIC: [u8; 8] = *b"~TenBin~";

/// The contents of a chunk are padded to a multiple of this.
pub(super) const ALIGNMENT: u64 = 64;

/// The bytes of a chunk before its contents.
pub(super) const CHUNK: u64 = 16;

/// The most bytes of a name.
pub(super) const NAME: usize = 8;

/// The highest rank that the reference writers write.
pub(super) const MAX_RANK: usize = 9;

/// Names of the dtypes that the format can store; used in both directions, so they cannot drift apart.
const NAMES: &[(&[u8], Dtype)] = &[
    (b"f2", Dtype::F16),
    (b"f4", Dtype::F32),
    (b"f8", Dtype::F64),
    (b"i1", Dtype::I8),
    (b"i2", Dtype::I16),
    (b"i4", Dtype::I32),
    (b"i8", Dtype::I64),
    (b"u1", Dtype::U8),
    (b"u2", Dtype::U16),
    (b"u4", Dtype::U32),
    (b"u8", Dtype::U64),
];

/// The dtypes that the format can store.
pub const DTYPES: &[Dtype] = &{
    let mut dtypes = [Dtype::F16; NAMES.len()];
    let mut at = 0;
    while at < NAMES.len() {
        dtypes[at] = NAMES[at].1;
        at += 1;
    }
    dtypes
};

/// The name that the format has for a dtype.
pub(super) fn dtype_name(dtype: Dtype) -> Option<&'static [u8]> {
    NAMES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| *name)
}

/// A header chunk's contents.
pub(super) struct Header {
    pub(super) name: Option<String>,
    pub(super) info: TensorInfo,
    /// The bytes up to the next chunk.
    pub(super) padding: u64,
}

/// Reads the length of the chunk that begins at the cursor.
pub(super) fn read_length<'de, B: ByteSource<'de>>(cursor: &mut Cursor<'_, 'de, B>) -> Result<u64> {
    let offset = cursor.offset();
    let found = cursor.array()?;
    if found != MAGIC {
        return Err(Error::new(ErrorKind::BadMagic { found: found.to_vec(), expected: &MAGIC }).at(offset));
    }
    let length = cursor.i64()?;
    u64::try_from(length).map_err(|_| bad_number("chunk length", length, "0 or more").at(offset + 8))
}

/// Reads a header chunk up to its padding.
pub(super) fn read<'de, B: ByteSource<'de>>(cursor: &mut Cursor<'_, 'de, B>, limits: &Limits) -> Result<Header> {
    let start = cursor.offset();
    let length = read_length(cursor)?;
    if length < 24 || !length.is_multiple_of(8) {
        return Err(bad_number("header length", length, "8 × (3 + rank)").at(start + 8));
    }
    let dtype = read_dtype(cursor)?;
    let name = read_name(cursor)?;
    let offset = cursor.offset();
    let rank = cursor.i64()?;
    let rank = u64::try_from(rank).map_err(|_| bad_number("rank", rank, "0 or more").at(offset))?;
    if length / 8 - 3 != rank {
        let expected = format!("8 × (3 + rank), and the rank is {rank}");
        return Err(bad_number("header length", length, &expected).at(start + 8));
    }
    if rank > limits.rank {
        return Err(Error::new(ErrorKind::Limit { what: "rank", found: rank, limit: limits.rank }).at(offset));
    }
    let mut shape = Shape::default();
    for _ in 0..rank {
        shape.push(read_dim(cursor)?);
    }
    Ok(Header { name, info: TensorInfo::new(dtype, shape), padding: length.next_multiple_of(ALIGNMENT) - length })
}

fn read_dtype<'de, B: ByteSource<'de>>(cursor: &mut Cursor<'_, 'de, B>) -> Result<Dtype> {
    let offset = cursor.offset();
    let text = cursor.array::<8>()?;
    let text = trim(&text);
    let known = NAMES.iter().find(|(name, _)| *name == text).map(|(_, dtype)| *dtype);
    let tag = || format!("`{}`", text.escape_ascii());
    known.ok_or_else(|| Error::new(ErrorKind::UnknownDtype { tag: tag() }).at(offset))
}

/// The name, or `None` where all bytes are zero.
///
/// Go writes any bytes. What is not UTF-8 is read with escapes, `\xff`, so that it can be told apart and does not make
/// the file unreadable.
fn read_name<'de, B: ByteSource<'de>>(cursor: &mut Cursor<'_, 'de, B>) -> Result<Option<String>> {
    let bytes = cursor.array::<NAME>()?;
    Ok(match trim(&bytes) {
        [] => None,
        name => Some(str::from_utf8(name).map_or_else(|_| name.escape_ascii().to_string(), str::to_owned)),
    })
}

fn read_dim<'de, B: ByteSource<'de>>(cursor: &mut Cursor<'_, 'de, B>) -> Result<usize> {
    let offset = cursor.offset();
    let dim = cursor.i64()?;
    usize::try_from(dim).map_err(|_| bad_number("dim", dim, "0 or more").at(offset))
}

/// The reference readers strip NULs at both ends.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [0, rest @ ..] | [rest @ .., 0] = text {
        text = rest;
    }
    text
}

fn bad_number(what: &'static str, found: impl Into<i128>, expected: &str) -> Error {
    ErrorKind::BadNumber { what, found: found.into(), expected: expected.to_owned() }.into()
}

/// The bytes of both chunks, without the payload and its padding.
pub(super) fn bytes(info: &TensorInfo) -> u64 {
    CHUNK + contents_bytes(info).next_multiple_of(ALIGNMENT) + CHUNK
}

fn contents_bytes(info: &TensorInfo) -> u64 {
    8 * (3 + info.shape.rank() as u64)
}

/// Writes the header chunk and the beginning of the data chunk.
pub(super) fn write(name: &str, info: &TensorInfo, payload: usize, out: &mut Vec<u8>) {
    let contents = contents_bytes(info);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&contents.to_le_bytes());
    let padding = contents.next_multiple_of(ALIGNMENT) - contents;
    put_text(dtype_name(info.dtype).expect("the plan was checked"), out);
    put_text(name.as_bytes(), out);
    out.extend_from_slice(&(info.shape.rank() as u64).to_le_bytes());
    for dim in info.shape.iter() {
        out.extend_from_slice(&(*dim as u64).to_le_bytes());
    }
    out.resize(out.len() + usize::try_from(padding).expect("less than 64"), 0);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&(payload as u64).to_le_bytes());
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    let end = out.len() + 8;
    out.extend_from_slice(text);
    out.resize(end, 0);
}
