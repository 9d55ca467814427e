//! Names embedded in a file of a format without names: an extra tensor at the end, seen as bytes by other readers.

use crate::error::{Error, ErrorKind, Result, Short, cannot_store};

/// The beginning of the list. The names follow, each with a NUL after it.
pub(crate) const MAGIC: [u8; 20] = *b"tensorfile.names.v1\0";

/// Returns the payload for a list of names. `text` is their concatenation.
pub(crate) fn payload<'a>(text: &str, names: impl ExactSizeIterator<Item = &'a str>) -> Result<Vec<u8>> {
    // Most names are short, and one search through all of them takes less time than one per name.
    let has_nul = text.contains('\0');
    let mut bytes = Vec::with_capacity(MAGIC.len() + text.len() + names.len());
    bytes.extend_from_slice(&MAGIC);
    for name in names {
        if has_nul && name.contains('\0') {
            let escaped = name.escape_default().to_string();
            let kind = cannot_store(format!("the name `{}`", Short(&escaped)), "embedded names end with a NUL");
            return Err(Error::new(kind).in_tensor(name));
        }
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    Ok(bytes)
}

/// The maximum length of the list in bytes: names of 64 bytes for the default limit of tensors.
pub(crate) const LONGEST: u64 = 1 << 28;

/// Parses the names of `count` tensors.
pub(crate) fn parse(payload: &[u8], count: usize) -> Result<impl Iterator<Item = &str>> {
    let malformed = |what: String| ErrorKind::Malformed { what };
    let text = std::str::from_utf8(&payload[MAGIC.len()..])
        .map_err(|_| malformed("the list of names is not UTF-8".to_owned()))?;
    if !text.is_empty() && !text.ends_with('\0') {
        return Err(malformed("the list of names does not end with a NUL".to_owned()).into());
    }
    // Counted before they are copied, as a name takes more memory than a NUL.
    let (chunks, rest) = text.as_bytes().as_chunks::<32>();
    let count_in = |bytes: &[u8]| usize::from(bytes.iter().map(|byte| u8::from(*byte == 0)).sum::<u8>());
    let found = chunks.iter().map(|chunk| count_in(chunk)).sum::<usize>() + count_in(rest);
    if found != count {
        return Err(malformed(format!("the list of names has {found}, but the file has {count} tensors")).into());
    }
    let mut start = 0;
    Ok(std::iter::from_fn(move || {
        let end = start + find_nul(&text.as_bytes()[start..])?;
        text.get(std::mem::replace(&mut start, end + 1)..end)
    }))
}

/// Returns the position of the first NUL. Names are short, so a search with a longer step would take longer to begin.
pub(crate) fn find_nul(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let (words, rest) = bytes.as_chunks();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The high bit of each zero byte, up to and including the first one.
        let zeros = word.wrapping_sub(ONES) & !word & (0x80 * ONES);
        if zeros != 0 {
            return Some(index * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    Some(bytes.len() - rest.len() + rest.iter().position(|byte| *byte == 0)?)
}
