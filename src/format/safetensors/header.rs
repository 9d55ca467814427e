use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

pub(super) use ::safetensors::tensor::{Dtype as Tag, TensorInfo as Record};
use serde::de::value::Error as ValueError;
use serde::de::{IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _, Serialize, Serializer as _};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::source::{ByteSource, Ranges, Storage};
use crate::tensor::Dtype;
use crate::wire::{self, Cursor};

/// Dtypes there and here; used in both directions, so they cannot drift apart.
const TAGS: &[(Tag, Dtype)] = &[
    (Tag::BOOL, Dtype::Bool),
    (Tag::U8, Dtype::U8),
    (Tag::I8, Dtype::I8),
    (Tag::F8_E5M2, Dtype::F8E5M2),
    (Tag::F8_E4M3, Dtype::F8E4M3Fn),
    (Tag::F8_E4M3FNUZ, Dtype::F8E4M3Fnuz),
    (Tag::F8_E5M2FNUZ, Dtype::F8E5M2Fnuz),
    (Tag::I16, Dtype::I16),
    (Tag::U16, Dtype::U16),
    (Tag::F16, Dtype::F16),
    (Tag::BF16, Dtype::Bf16),
    (Tag::I32, Dtype::I32),
    (Tag::U32, Dtype::U32),
    (Tag::F32, Dtype::F32),
    (Tag::F64, Dtype::F64),
    (Tag::I64, Dtype::I64),
    (Tag::U64, Dtype::U64),
];

/// The dtypes that the format can store.
pub const DTYPES: &[Dtype] = &{
    let mut dtypes = [Dtype::Bool; TAGS.len()];
    let mut at = 0;
    while at < TAGS.len() {
        dtypes[at] = TAGS[at].1;
        at += 1;
    }
    dtypes
};

/// The key that is no tensor's name.
pub(super) const METADATA: &str = "__metadata__";

/// The bytes of the length in front of the JSON.
pub(super) const LENGTH: u64 = 8;

/// The shortest JSON is `{}`.
const MIN_JSON: u64 = 2;

/// The most bytes of JSON, as the crate has it.
const MAX_JSON: u64 = 100_000_000;

/// How the JSON begins.
const OPENING: &[u8] = b"{";

/// Data begins at a multiple of this.
const ALIGNMENT: usize = 8;

/// The tag of a dtype that can be stored.
pub(super) fn tag(dtype: Dtype) -> Option<Tag> {
    TAGS.iter().find(|(_, known)| *known == dtype).map(|(tag, _)| *tag)
}

/// Reads the header's JSON, which begins at byte 8.
pub(super) fn read<'de, B: ByteSource<'de>>(source: &mut B) -> Result<String> {
    let mut cursor = Cursor::new(source, 0);
    let len = cursor.u64()?;
    if !(MIN_JSON..=MAX_JSON).contains(&len) {
        let expected = format!("{MIN_JSON} to {MAX_JSON}");
        return Err(Error::new(ErrorKind::BadNumber { what: "header length", found: len.into(), expected }).at(0));
    }
    if let Some(left) = cursor.left().filter(|left| *left < len) {
        return Err(Error::new(ErrorKind::Truncated { needed: len, left }).at(LENGTH));
    }
    let mut json = cursor.array::<1>()?.to_vec();
    if json != OPENING {
        return Err(Error::new(ErrorKind::BadMagic { found: json, expected: OPENING }).at(LENGTH));
    }
    cursor.append(len - 1, &mut json)?;
    String::from_utf8(json).map_err(|error| {
        let what = "the header is not UTF-8".to_owned();
        Error::new(ErrorKind::Malformed { what }).at(LENGTH + error.utf8_error().valid_up_to() as u64)
    })
}

/// Whether a file begins with a length that it has room for, and JSON of an object.
pub(super) fn looks_like(storage: &Storage) -> bool {
    let mut source = Ranges::new(storage);
    let mut cursor = Cursor::new(&mut source, 0);
    let (Ok(len), Ok(opening)) = (cursor.u64(), cursor.array::<1>()) else { return false };
    opening == OPENING && (MIN_JSON..=MAX_JSON.min(storage.len() - LENGTH)).contains(&len)
}

/// A part of the header's JSON, and where it begins in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    json: &'a str,
    pub(super) offset: u64,
}

impl<'a> Value<'a> {
    /// All of the header.
    pub(super) fn whole(json: &'a str) -> Self {
        Self { json, offset: LENGTH }
    }

    /// The members of an object in their order. Of two with one key it makes the error. There may be one more than the
    /// limit of `what`, as what a file says of itself stands among its tensors.
    pub(super) fn members(
        self,
        what: &'static str,
        limit: u64,
        twice: fn(String) -> ErrorKind,
    ) -> Result<Vec<(String, Value<'a>)>> {
        let mut json = serde_json::Deserializer::from_str(self.json);
        let members = json
            .deserialize_map(Members { most: limit.saturating_add(1) })
            .and_then(|members| json.end().map(|()| members));
        let members = members.map_err(|error| self.malformed(&error))?;
        let found = (members.len() as u64).saturating_sub(1);
        if found > limit {
            return Err(Error::new(ErrorKind::Limit { what, found, limit }).at(self.offset));
        }
        let place = |value: &RawValue| self.offset + (value.get().as_ptr().addr() - self.json.as_ptr().addr()) as u64;
        let mut keys = HashSet::with_capacity(members.len());
        if let Some((key, value)) = members.iter().find(|(key, _)| !keys.insert(key)) {
            return Err(Error::new(twice(key.clone())).at(place(value)));
        }
        let member = |(key, value)| (key, Value { json: RawValue::get(value), offset: place(value) });
        Ok(members.into_iter().map(member).collect())
    }

    pub(super) fn string(self) -> Result<String> {
        self.parse()
    }

    /// A tensor, of a dtype that is known here.
    pub(super) fn record(self) -> Result<(Dtype, Record)> {
        let unknown = |tag: String| Error::new(ErrorKind::UnknownDtype { tag }).at(self.offset);
        let record: Record = self.parse().map_err(|error| self.unknown_tag().map_or(error, unknown))?;
        let known = TAGS.iter().find(|(tag, _)| *tag == record.dtype);
        let (_, dtype) = known.ok_or_else(|| unknown(record.dtype.to_string()))?;
        Ok((*dtype, record))
    }

    /// The dtype of a tensor, if it is one that the crate does not know. Its own error would tell this in words only.
    fn unknown_tag(self) -> Option<String> {
        #[derive(Deserialize)]
        struct Told<'a> {
            #[serde(borrow)]
            dtype: Cow<'a, str>,
        }
        let Told { dtype } = self.parse().ok()?;
        let known: Result<Tag, ValueError> = Tag::deserialize((&*dtype).into_deserializer());
        known.is_err().then(|| dtype.into_owned())
    }

    fn parse<T: Deserialize<'a>>(self) -> Result<T> {
        serde_json::from_str(self.json).map_err(|error| self.malformed(&error))
    }

    fn malformed(self, error: &serde_json::Error) -> Error {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let what = format!("the header cannot be read: {}", message.strip_suffix(&place).unwrap_or(&message));
        let lines: usize = self.json.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let offset = self.offset + (lines + error.column().saturating_sub(1)) as u64;
        Error::new(ErrorKind::Malformed { what }).at(offset)
    }
}

/// The members of an object as they stand there, those of the same key too, up to one more than there may be.
struct Members {
    most: u64,
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while members.len() as u64 <= self.most
            && let Some(member) = map.next_entry()?
        {
            members.push(member);
        }
        // What is more is only passed over.
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(members)
    }
}

/// A member of the header.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Member<'a> {
    Metadata(&'a BTreeMap<String, String>),
    Tensor(Record),
}

/// The bytes before the data.
pub(super) fn write<'a>(members: impl Iterator<Item = (&'a str, Member<'a>)>) -> Result<Vec<u8>> {
    let mut json = Vec::new();
    let written = serde_json::Serializer::new(&mut json).collect_map(members);
    written.expect("keys are strings, and a vector takes every byte");
    json.resize(json.len().next_multiple_of(ALIGNMENT), b' ');
    check_length(json.len() as u64)?;
    Ok([&(json.len() as u64).to_le_bytes(), &json[..]].concat())
}

fn check_length(bytes: u64) -> Result<(), ErrorKind> {
    if bytes > MAX_JSON {
        let instead = format!("safetensors have headers of up to {MAX_JSON} bytes");
        return Err(wire::cannot_store(format!("a header of {bytes} bytes"), instead));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_no_reader_takes_are_refused() {
        assert!(check_length(MAX_JSON).is_ok());
        assert_eq!(
            check_length(MAX_JSON + 8).unwrap_err().to_string(),
            "cannot store a header of 100000008 bytes; safetensors have headers of up to 100000000 bytes"
        );
    }
}
