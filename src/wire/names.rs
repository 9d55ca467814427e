//! Names embedded in a file of a format that has none: one more tensor, the last, that any other reader takes for
//! bytes.

use std::fmt;

use serde::de::{SeqAccess, Visitor};

use super::cannot_store;
use crate::error::{Error, ErrorKind, Result};

/// How the list begins; the names follow, each with a NUL behind it.
pub(crate) const MAGIC: [u8; 20] = *b"tensorfile.names.v1\0";

/// The payload that holds `names`.
pub(crate) fn payload<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    for name in names {
        if name.contains('\0') {
            let kind = cannot_store(format!("the name `{}`", name.escape_default()), "embedded names end with a NUL");
            return Err(Error::new(kind).in_tensor(name));
        }
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    Ok(bytes)
}

/// The longest list that is read, in bytes: names of 64 bytes for as many tensors as the default limits allow.
pub(crate) const LONGEST: u64 = 1 << 28;

/// The names of `count` tensors.
pub(crate) fn parse(payload: &[u8], count: usize) -> Result<Vec<String>> {
    let malformed = |what: String| ErrorKind::Malformed { what };
    let text = std::str::from_utf8(&payload[MAGIC.len()..])
        .map_err(|_| malformed("the list of names is not UTF-8".to_owned()))?;
    if !text.is_empty() && !text.ends_with('\0') {
        return Err(malformed("the list of names does not end with a NUL".to_owned()).into());
    }
    // Counted before they are copied, as a name takes more memory than a NUL.
    let found = text.bytes().filter(|byte| *byte == 0).count();
    if found != count {
        return Err(malformed(format!("the list of names has {found}, but the file has {count} tensors")).into());
    }
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

/// Takes bytes whole, however they come.
pub(crate) struct WholeBytes;

impl<'de> Visitor<'de> for WholeBytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pieces: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next_element::<serde_bytes::ByteBuf>()? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}
