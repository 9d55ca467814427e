//! The header of a ten message: reading, writing, and the escapes in names.

use std::borrow::Cow;

use super::FORMAT;
use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::limits::Limits;
use crate::read::Cursor;
use crate::tensor::{Dtype, Shape, TensorInfo, dtypes, tags_of};

/// The first bytes of every chunk.
pub(super) const MAGIC: [u8; 8] = *b"~TenBin~";

/// The contents of a chunk are padded to a multiple of this.
pub(super) const ALIGNMENT: u64 = 64;

/// The length of a header chunk of up to five dims, and of the beginning of the data chunk.
pub(super) const COMMON_BYTES: usize = 16 + 64 + 16;

/// The length of the longest name in bytes.
pub(super) const NAME: usize = 8;

/// The highest rank written by the reference writers.
pub(super) const MAX_RANK: usize = 9;

/// The largest dim: dims are signed numbers.
pub(super) const MAX_DIM: u64 = i64::MAX as u64;

/// The names of the supported dtypes.
const NAMES: &[([u8; 2], Dtype)] = &[
    (*b"f2", Dtype::F16),
    (*b"f4", Dtype::F32),
    (*b"f8", Dtype::F64),
    (*b"i1", Dtype::I8),
    (*b"i2", Dtype::I16),
    (*b"i4", Dtype::I32),
    (*b"i8", Dtype::I64),
    (*b"u1", Dtype::U8),
    (*b"u2", Dtype::U16),
    (*b"u4", Dtype::U32),
    (*b"u8", Dtype::U64),
];

/// The supported dtypes.
pub const DTYPES: &[Dtype] = &dtypes::<_, { NAMES.len() }>(NAMES);

static NAME_OF: [Option<[u8; 2]>; Dtype::ALL.len()] = tags_of(NAMES);

/// The contents of a header chunk.
pub(super) struct HeaderChunk {
    pub(super) name: StoredName,
    /// Of an unknown dtype, the length of the data chunk is not known yet.
    pub(super) info: TensorInfo,
    /// The number of bytes up to the next chunk.
    pub(super) padding: u64,
}

/// A name as stored. It may be any bytes, because Go's writer does not check them.
pub(super) struct StoredName([u8; NAME]);

impl StoredName {
    /// Returns the text, or `None` if all bytes are zero.
    #[inline]
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        text_of(&self.0)
    }
}

/// Returns the text of a name as it is stored, or `None` if all bytes are zero.
#[inline]
pub(super) fn text_of(name: &[u8; NAME]) -> Option<Cow<'_, str>> {
    if *name == [0; NAME] { None } else { some_text_of(name) }
}

fn some_text_of(name: &[u8; NAME]) -> Option<Cow<'_, str>> {
    let name = trim(name);
    match str::from_utf8(name) {
        Ok("") => None,
        Ok(text) if !name.contains(&b'\\') => Some(Cow::Borrowed(text)),
        _ => Some(name_of(name)),
    }
}

/// The bytes of a common header before and after the name.
pub(super) type AroundName<'a> = (&'a [u8; 24], &'a [u8; COMMON_BYTES - 24 - NAME]);

/// Splits the bytes of a header of the common length into the name and the rest.
pub(super) fn split_name(bytes: &[u8]) -> Option<(StoredName, AroundName<'_>)> {
    let (before, rest) = bytes.split_first_chunk()?;
    let (name, after) = rest.split_first_chunk()?;
    Some((StoredName(*name), (before, after.try_into().ok()?)))
}

/// Reads the length of the chunk starting at the cursor.
pub(super) fn read_length(cursor: &mut Cursor<'_>) -> Result<u64> {
    let offset = cursor.offset();
    let found = cursor.array()?;
    if found != MAGIC {
        return Err(Error::new(ErrorKind::BadMagic { found: found.to_vec(), expected: &MAGIC }).at(offset));
    }
    let length = cursor.i64()?;
    u64::try_from(length).map_err(|_| bad_number("chunk length", length, "0 or more").at(offset + 8))
}

/// Reads a header chunk up to its padding.
pub(super) fn read(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<HeaderChunk> {
    let start = cursor.offset();
    let length = read_length(cursor)?;
    if length < 24 || !length.is_multiple_of(8) {
        return Err(bad_number("header length", length, "8 × (3 + rank)").at(start + 8));
    }
    let stored = cursor.array::<8>()?;
    let dtype = known_dtype(&stored);
    let name = StoredName(cursor.array()?);
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
    let info = match dtype {
        Some(dtype) => TensorInfo::new(dtype, shape),
        None => unknown(&stored, shape),
    };
    Ok(HeaderChunk { name, info, padding: length.next_multiple_of(ALIGNMENT) - length })
}

/// Reads a common form of header from the start of `bytes`, and returns the name of the tensor and the length of its
/// payload. `info` is a reused row-major tensor without dims: a struct just written takes long to move.
///
/// Returns `None` for everything refused by [`read`], and for uncommon headers. The length of the payload is checked
/// against the tensor afterwards.
#[inline]
pub(super) fn read_common<'b>(
    bytes: &'b [u8],
    limits: &Limits,
    info: &mut TensorInfo,
) -> Option<(&'b [u8; NAME], usize)> {
    const DIMS: usize = 5;
    const { assert!(8 * (3 + DIMS) as u64 == ALIGNMENT) };

    let words = bytes.first_chunk::<COMMON_BYTES>()?;
    let [magic, length, dtype, name, rank, dims @ .., payload_magic, payload] = words.as_chunks().0 else {
        return None;
    };
    let rank = u64::from_le_bytes(*rank);
    let is_common = *magic == MAGIC && *payload_magic == MAGIC && rank <= limits.rank;
    let dims = dims.get(..usize::try_from(rank).ok()?).filter(|dims| is_common && dims.len() <= DIMS)?;
    if u64::from_le_bytes(*length) != 8 * (3 + rank) {
        return None;
    }
    info.dtype = known_dtype(dtype)?;
    for dim in dims {
        info.shape.push(i64::from_le_bytes(*dim).try_into().ok()?);
    }
    Some((name, i64::from_le_bytes(*payload).try_into().ok()?))
}

/// Returns the length of the padding after a payload.
#[inline]
pub(super) fn padding_of(len: usize) -> Option<usize> {
    let len = len as u64;
    usize::try_from(len.checked_next_multiple_of(ALIGNMENT)? - len).ok()
}

fn known_dtype(stored: &[u8; 8]) -> Option<Dtype> {
    // Writers put the name of the dtype before the zeros.
    let name = match *stored {
        [a, b, ref rest @ ..] if *rest == [0; 6] => [a, b],
        _ => trim(stored).try_into().ok()?,
    };
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}

/// Describes a tensor of an unknown dtype, of no bytes.
#[cold]
fn unknown(stored: &[u8; 8], shape: Shape) -> TensorInfo {
    let tag = format!("`{}`", trim(stored).escape_ascii());
    TensorInfo::unknown_in(FORMAT.name, &tag, stored, shape, 0)
}

/// Refuses a name that readers take for a different one.
pub(super) fn check_name(name: &str) -> Result<(), ErrorKind> {
    // A NUL at the end may also be an escape, which begins with a backslash and ends with a zero.
    match name.as_bytes() {
        [] => {
            let instead = "ten cannot tell it from no name; `Options::embed_names` keeps it";
            return Err(cannot_store("an empty name", instead));
        }
        // A name of one byte is never an escape sequence, which is longer.
        [1..=u8::MAX] => return Ok(()),
        [first, .., last] if !matches!(first, 0 | b'\\') && !matches!(last, 0 | b'0') => return Ok(()),
        _ => {}
    }
    let stored = bytes_of(name);
    if stored.starts_with(b"\0") || stored.ends_with(b"\0") {
        Err(cannot_store("a name with NUL at its end", "readers of ten strip them"))
    } else {
        Ok(())
    }
}

/// Returns the text for a name: the name itself, or with escapes such as `\xff` if it is not UTF-8. To keep all names
/// distinct, names that look like escapes are escaped too. [`bytes_of`] is the inverse.
fn name_of(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(name) if unescape(name).is_none() => Cow::Borrowed(name),
        _ => Cow::Owned(bytes.escape_ascii().to_string()),
    }
}

/// Returns the bytes for a name with possible escapes.
pub(super) fn bytes_of(name: &str) -> Cow<'_, [u8]> {
    unescape(name).map_or(Cow::Borrowed(name.as_bytes()), Cow::Owned)
}

/// Returns the bytes of a name whose escapes were added by [`name_of`].
#[inline]
fn unescape(name: &str) -> Option<Vec<u8>> {
    // Names are short.
    if name.bytes().all(|byte| byte != b'\\') { None } else { unescape_some(name) }
}

fn unescape_some(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                (16 * digit(high)? + digit(low)?, after)
            }
            (b'\\', [b't', after @ ..]) => (b'\t', after),
            (b'\\', [b'r', after @ ..]) => (b'\r', after),
            (b'\\', [b'n', after @ ..]) => (b'\n', after),
            (b'\\', [byte @ (b'\\' | b'\'' | b'"'), after @ ..]) => (*byte, after),
            _ => (first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    // A name counts as escaped only if escaping gives the same bytes again.
    (bytes.len() < name.len() && name_of(&bytes) == name).then_some(bytes)
}

fn read_dim(cursor: &mut Cursor<'_>) -> Result<usize> {
    let offset = cursor.offset();
    let dim = cursor.i64()?;
    usize::try_from(dim).map_err(|_| bad_number("dim", dim, "0 or more").at(offset))
}

/// Strips NULs at both ends, as the reference readers do.
fn trim(text: &[u8; 8]) -> &[u8] {
    // The first byte is in the lowest bits.
    let bits = u64::from_le_bytes(*text);
    let (start, end) = (bits.trailing_zeros() / u8::BITS, (u64::BITS - bits.leading_zeros()).div_ceil(u8::BITS));
    text.get(start as usize..end as usize).unwrap_or_default()
}

fn bad_number(what: &'static str, found: impl Into<i128>, expected: &str) -> Error {
    ErrorKind::BadNumber { what, found: found.into(), expected: expected.to_owned() }.into()
}

/// Writes the header chunk and the beginning of the data chunk.
pub(super) fn write(name: &str, info: &TensorInfo, payload_bytes: usize, out: &mut Vec<u8>) {
    /// The words of the longest contents, after the beginning of the chunk.
    const WORDS: usize = (3 + MAX_RANK).next_multiple_of(LINE);
    const LINE: usize = 64 / size_of::<u64>();
    const { assert!((8 * LINE) as u64 == ALIGNMENT) };

    let known = || {
        let [a, b] = NAME_OF[info.dtype as usize].expect("the plan was checked");
        [a, b, 0, 0, 0, 0, 0, 0]
    };
    let dims = info.shape.dims();
    let contents = 3 + dims.len();
    let mut words = [[0; 8]; 2 + WORDS + 2];
    words[0] = MAGIC;
    words[1] = (8 * contents as u64).to_le_bytes();
    words[2] = info.unknown_stored(FORMAT.name).map_or_else(known, text);
    if !name.is_empty() {
        words[3] = name_bytes(name);
    }
    words[4] = (dims.len() as u64).to_le_bytes();
    for (index, dim) in dims.iter().enumerate() {
        words[5 + index] = (*dim as u64).to_le_bytes();
    }
    let end = 2 + contents.next_multiple_of(LINE);
    words[end] = MAGIC;
    words[end + 1] = (payload_bytes as u64).to_le_bytes();
    out.extend_from_slice(words[..end + 2].as_flattened());
}

/// Returns the eight bytes in a header for a name with possible escapes.
#[inline]
fn name_bytes(name: &str) -> [u8; 8] {
    const ONES: u64 = u64::MAX / 0xff;

    let mut bytes = [0; 8];
    if let Some(place) = bytes.get_mut(..name.len()) {
        place.copy_from_slice(name.as_bytes());
        // The high bit of some byte is set if any is a backslash.
        let others = u64::from_le_bytes(bytes) ^ (u64::from(b'\\') * ONES);
        if others.wrapping_sub(ONES) & !others & (0x80 * ONES) == 0 {
            return bytes;
        }
    }
    text(&bytes_of(name))
}

/// Returns a text as the eight bytes of a header.
fn text(text: &[u8]) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (index, byte) in text.iter().enumerate() {
        bytes[index] = *byte;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_nul_at_an_end_are_refused() {
        for name in ["", "\0", "\0a", "a\0", "\0\0", r"\x00\xff", r"\xff\x00"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["a", "0", "10", "\\", "a\0b", "a\\", r"\x00", r"\xff\x00\xff"] {
            assert_eq!(check_name(name).map_err(|error| format!("{error:?}")), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn nuls_are_stripped_at_both_ends() {
        for (stored, stripped) in [
            (*b"\0\0\0\0\0\0\0\0", &b""[..]),
            (*b"\0\0\0\0\0\0\0a", b"a"),
            (*b"a\0\0\0\0\0\0\0", b"a"),
            (*b"\0\x80\0b\x01\0\0\0", b"\x80\0b\x01"),
            (*b"\xff2345678", b"\xff2345678"),
        ] {
            assert_eq!(trim(&stored), stripped, "{stored:?}");
        }
    }

    #[test]
    fn every_name_survives_as_text() {
        let mut names = vec![b"plain".to_vec(), "ä".into(), br"\xff".to_vec(), br"\\xff".to_vec(), br"\xf".to_vec()];
        names.extend(
            [&b"\xff\xfe"[..], b"a\xff", b"\xff\\", b"\\", br"\n", br"\\", b"\xff'", br"\\\xff"].map(<[u8]>::to_vec),
        );
        let mut texts: Vec<String> = names.iter().map(|name| name_of(name).into_owned()).collect();
        for (name, text) in names.iter().zip(&texts) {
            assert_eq!(*bytes_of(text), **name, "{text}");
        }
        assert_eq!(texts[..4], ["plain", "ä", r"\\xff", r"\\\\xff"]);
        assert_eq!(texts[5], r"\xff\xfe");
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), names.len());
    }
}
