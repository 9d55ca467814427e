use std::fmt;
use std::ops::Range;

use hashbrown::HashSet;
use indexmap::IndexMap;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::FORMAT;
use crate::error::{Error, ErrorKind, Result, Short, cannot_store};
use crate::read::{Cursor, json_message};
use crate::storage::ReadAt;
use crate::tensor::{Dtype, TensorInfo, dtypes, sorted, tags_of};
use crate::write::{Planned, PlannedIter};

/// The names of the supported dtypes, in the order in which the crate sorts them: narrow ones first.
pub(super) const TAGS: &[(&str, Dtype)] = &[
    ("BOOL", Dtype::Bool),
    ("F4", Dtype::F4),
    ("F6_E2M3", Dtype::F6E2M3),
    ("F6_E3M2", Dtype::F6E3M2),
    ("U8", Dtype::U8),
    ("I8", Dtype::I8),
    ("F8_E5M2", Dtype::F8E5M2),
    ("F8_E4M3", Dtype::F8E4M3Fn),
    ("F8_E8M0", Dtype::F8E8M0),
    ("F8_E4M3FNUZ", Dtype::F8E4M3Fnuz),
    ("F8_E5M2FNUZ", Dtype::F8E5M2Fnuz),
    ("I16", Dtype::I16),
    ("U16", Dtype::U16),
    ("F16", Dtype::F16),
    ("BF16", Dtype::Bf16),
    ("I32", Dtype::I32),
    ("U32", Dtype::U32),
    ("F32", Dtype::F32),
    ("C64", Dtype::C64),
    ("F64", Dtype::F64),
    ("I64", Dtype::I64),
    ("U64", Dtype::U64),
];

/// The supported dtypes.
pub const DTYPES: &[Dtype] = &dtypes::<_, { TAGS.len() }>(TAGS);

const TAG_OF: [Option<&str>; Dtype::ALL.len()] = tags_of(TAGS);

/// Returns the position of a dtype in the crate's order, if the dtype is known.
pub(super) fn rank(info: &TensorInfo) -> Option<usize> {
    let is_known = info.unknown_dtype().is_none();
    TAGS.iter().position(|(_, dtype)| is_known && *dtype == info.dtype)
}

/// The key of the metadata, which is not the name of a tensor.
pub(super) const METADATA: &str = "__metadata__";

/// The size of the header's length, in bytes.
pub(super) const LENGTH: u64 = 8;

/// The length of the shortest JSON, `{}`.
const MIN_JSON: u64 = 2;

/// The length of the longest JSON in the crate, in bytes.
const MAX_JSON: u64 = 100_000_000;

/// The first byte of the JSON.
const OPENING: &[u8] = b"{";

/// Data begins at a multiple of this.
const ALIGNMENT: usize = 8;

/// Refuses the key of the metadata as the name of a tensor.
pub(super) fn check_name(name: &str) -> Result<(), ErrorKind> {
    if name == METADATA {
        Err(cannot_store(format!("a tensor named `{METADATA}`"), "safetensors keeps this name for metadata"))
    } else {
        Ok(())
    }
}

/// Reads the header's JSON, which begins at byte 8.
pub(super) fn read<'a>(file: &'a mut dyn ReadAt, memory: &'a mut Vec<u8>) -> Result<&'a str> {
    let mut cursor = Cursor::new(file, 0);
    let len = cursor.u64()?;
    if !(MIN_JSON..=MAX_JSON).contains(&len) {
        let expected = format!("{MIN_JSON} to {MAX_JSON}");
        return Err(Error::new(ErrorKind::BadNumber { what: "header length", found: len.into(), expected }).at(0));
    }
    if let Some(left) = cursor.left().filter(|left| *left < len) {
        return Err(Error::new(ErrorKind::Truncated { needed: len, left }).at(LENGTH));
    }
    let mut opening = [0];
    file.peek_at(LENGTH, &mut opening)?;
    if opening != OPENING {
        return Err(Error::new(ErrorKind::BadMagic { found: opening.to_vec(), expected: OPENING }).at(LENGTH));
    }
    str::from_utf8(file.bytes(LENGTH..LENGTH + len, memory)?).map_err(|error| {
        let what = "the header is not UTF-8".to_owned();
        Error::new(ErrorKind::Malformed { what }).at(LENGTH + error.valid_up_to() as u64)
    })
}

/// Returns the header's JSON and the data of a file in memory, if there is a header.
pub(super) fn split(file: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = file.split_first_chunk()?;
    let len = u64::from_le_bytes(*len);
    let is_long_enough = (MIN_JSON..=MAX_JSON).contains(&len);
    let (json, data) = rest.split_at_checked(usize::try_from(len).ok().filter(|_| is_long_enough)?)?;
    let json = str::from_utf8(json).ok().filter(|json| json.as_bytes().starts_with(OPENING))?;
    Some((json, data))
}

/// Returns whether a file begins with the length of a header, not past the end of the file, and a JSON object.
pub(super) fn looks_like(file: &mut dyn ReadAt) -> bool {
    let Some(longest) = file.file_len().and_then(|len| len.checked_sub(LENGTH)) else { return false };
    let mut cursor = Cursor::new(file, 0);
    let (Ok(len), Ok(opening)) = (cursor.u64(), cursor.array::<1>()) else { return false };
    opening == OPENING && (MIN_JSON..=MAX_JSON.min(longest)).contains(&len)
}

/// A part of the header's JSON, and its offset in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonValue<'a> {
    json: &'a str,
    pub(super) offset: u64,
}

impl<'a> JsonValue<'a> {
    /// The whole header.
    pub(super) fn whole(json: &'a str) -> Self {
        Self { json, offset: LENGTH }
    }

    /// A part of the header.
    pub(super) fn part(json: &'a str, range: Range<usize>) -> Self {
        Self { offset: LENGTH + range.start as u64, json: &json[range] }
    }

    /// Returns the members of an object in their order. `duplicate` makes the error for two members of one key.
    ///
    /// One more than `limit` is allowed: the metadata is a member next to the tensors.
    pub(super) fn members(
        self,
        what: &'static str,
        limit: u64,
        duplicate: fn(String) -> ErrorKind,
    ) -> Result<Vec<(String, JsonValue<'a>)>> {
        let mut json = serde_json::Deserializer::from_str(self.json);
        let members = json
            .deserialize_map(Members { most: limit.saturating_add(1) })
            .and_then(|members| json.end().map(|()| members));
        let members = members.map_err(|error| self.malformed(&error))?;
        let found = (members.len() as u64).saturating_sub(1);
        if found > limit {
            return Err(Error::new(ErrorKind::Limit { what, found, limit }).at(self.offset));
        }
        let offset = |value: &RawValue| self.offset + (value.get().as_ptr().addr() - self.json.as_ptr().addr()) as u64;
        let mut keys = HashSet::with_capacity(members.len());
        if let Some((key, value)) = members.iter().find(|(key, _)| !keys.insert(key)) {
            return Err(Error::new(duplicate(key.clone())).at(offset(value)));
        }
        drop(keys);
        let member = |(key, value)| (key, JsonValue { json: RawValue::get(value), offset: offset(value) });
        Ok(members.into_iter().map(member).collect())
    }

    /// Returns whether the value is `null`.
    pub(super) fn is_null(self) -> bool {
        self.json.trim() == "null"
    }

    pub(super) fn string(self) -> Result<String> {
        self.parse()
    }

    /// Parses a tensor.
    pub(super) fn record(self) -> Result<HeaderTensor> {
        self.parse()
    }

    fn parse<T: Deserialize<'a>>(self) -> Result<T> {
        serde_json::from_str(self.json).map_err(|error| self.malformed(&error))
    }

    fn malformed(self, error: &serde_json::Error) -> Error {
        let message = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        // The message quotes the file, and may be long.
        let message = json_message(message.strip_suffix(&position).unwrap_or(&message));
        let what = format!("the header cannot be read: {}", Short(&message));
        let lines: usize = self.json.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let offset = self.offset + (lines + error.column().saturating_sub(1)) as u64;
        Error::new(ErrorKind::Malformed { what }).at(offset)
    }
}

/// Collects the members of an object in order, duplicates included, up to one more than `most`.
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
        // Members beyond the limit are not collected.
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(members)
    }
}

/// A tensor in the header.
#[derive(Debug)]
pub(super) struct HeaderTensor {
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
    pub(super) data_offsets: (usize, usize),
}

impl<'de> Deserialize<'de> for HeaderTensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderTensorVisitor;

        impl<'de> Visitor<'de> for HeaderTensorVisitor {
            type Value = HeaderTensor;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of dtype, shape and data_offsets")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeaderTensor, A::Error> {
                let (mut dtype, mut shape, mut data_offsets) = (None, None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match &*key {
                        "dtype" => set("dtype", &mut dtype, &mut map)?,
                        "shape" => set("shape", &mut shape, &mut map)?,
                        "data_offsets" => set("data_offsets", &mut data_offsets, &mut map)?,
                        // The crate ignores other keys, too.
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(HeaderTensor {
                    dtype: dtype.ok_or_else(|| A::Error::missing_field("dtype"))?,
                    shape: shape.ok_or_else(|| A::Error::missing_field("shape"))?,
                    data_offsets: data_offsets.ok_or_else(|| A::Error::missing_field("data_offsets"))?,
                })
            }
        }

        fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
            key: &'static str,
            field: &mut Option<T>,
            map: &mut A,
        ) -> Result<(), A::Error> {
            if field.is_some() {
                return Err(A::Error::duplicate_field(key));
            }
            *field = Some(map.next_value()?);
            Ok(())
        }

        deserializer.deserialize_map(HeaderTensorVisitor)
    }
}

/// The header as it is written, after room for its length.
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// The range of the text of each info, from the end of the name up to the offsets. It is empty until the first
    /// tensor with the info is written.
    infos: SmallVec<[Range<usize>; 1]>,
    /// The end of the data of the last tensor.
    end: Decimal,
    /// No name of a tensor has a character to escape.
    has_plain_names: bool,
}

/// A number as text.
#[derive(Clone, Copy)]
struct Decimal {
    number: u64,
    /// The digits of a short number, then zeros.
    digits: u64,
    /// The number of digits of a short number, otherwise zero.
    len: usize,
}

impl Decimal {
    const MOST_DIGITS: usize = size_of::<u64>();
    const TOO_LONG: u64 = 100_000_000;

    /// Splits a short number into halves until each byte is a digit, the first one in the lowest byte.
    fn new(number: u64) -> Self {
        if number >= Self::TOO_LONG {
            return Self { number, digits: 0, len: 0 };
        }
        let fours = (number / 10_000) | (number % 10_000) << 32;
        // Numbers below 10,000 divided by 100, then numbers below 100 divided by 10.
        let hundreds = (fours * 10_486) >> 20 & 0x0000_007f_0000_007f;
        let twos = hundreds | (fours - 100 * hundreds) << 16;
        let tens = (twos * 103) >> 10 & 0x000f_000f_000f_000f;
        let ones = tens | (twos - 10 * tens) << 8;
        let zeros = (ones.trailing_zeros() as usize / 8).min(Self::MOST_DIGITS - 1);
        let digits = (ones | 0x3030_3030_3030_3030) >> (8 * zeros);
        Self { number, digits, len: Self::MOST_DIGITS - zeros }
    }
}

impl Writer {
    /// Returns a header with metadata, in an empty buffer. With `empty`, it states metadata without entries too.
    pub(super) fn new(buffer: Vec<u8>, metadata: &IndexMap<String, String>, empty: bool) -> Self {
        let mut writer = Self::in_buffer(buffer);
        if metadata.is_empty() {
            if empty {
                writer.key(METADATA);
                writer.text("{}");
            }
            return writer;
        }
        let sorted = sorted::values(metadata.iter().collect(), &mut |one, other| one.0.cmp(other.0));
        writer.metadata(sorted.into_iter());
        writer
    }

    /// A header with room for `tensors` tensors.
    pub(super) fn empty(tensors: usize) -> Self {
        Self::in_buffer(Vec::with_capacity(Self::expected_bytes(tensors)))
    }

    /// Returns the length of a header of `tensors` tensors of short names.
    pub(super) fn expected_bytes(tensors: usize) -> usize {
        16 + 80 * tensors
    }

    fn in_buffer(buffer: Vec<u8>) -> Self {
        let mut writer = Self { bytes: buffer, infos: SmallVec::new(), end: Decimal::new(0), has_plain_names: false };
        writer.bytes.extend_from_slice(&0_u64.to_le_bytes());
        writer.bytes.push(b'{');
        writer
    }

    /// Adds metadata, if there is any.
    pub(super) fn metadata<'a>(&mut self, entries: impl ExactSizeIterator<Item = (&'a String, &'a String)>) {
        if entries.len() == 0 {
            return;
        }
        self.key(METADATA);
        self.bytes.push(b'{');
        for (key, value) in entries {
            self.key(key);
            self.string(value);
        }
        self.bytes.push(b'}');
    }

    /// Adds a member of another header.
    pub(super) fn member(&mut self, name: &str, value: JsonValue<'_>) {
        self.key(name);
        self.text(value.json);
    }

    /// Adds tensors without gaps between their data, in `order` or else in their own order.
    pub(super) fn tensors(&mut self, tensors: PlannedIter<'_>, order: Option<&[usize]>) {
        // Names are checked all at once: most are short, and a check of each takes longer.
        self.has_plain_names = is_plain(tensors.all_names());
        let Some(order) = order else {
            return tensors.for_each(|tensor| self.tensor(&tensor, self.end.number));
        };
        let tensors: SmallVec<[Planned<'_>; 8]> = tensors.collect();
        order.iter().for_each(|index| self.tensor(&tensors[*index], self.end.number));
    }

    pub(super) fn tensor(&mut self, tensor: &Planned<'_>, start: u64) {
        self.separator();
        self.open_string(tensor.name, self.has_plain_names);
        match self.infos.get(tensor.info_number) {
            Some(text) if !text.is_empty() => self.bytes.extend_from_within(text.clone()),
            _ => self.info(tensor.info, tensor.info_number),
        }
        // Most often, data begins at the end of the last tensor.
        let start = if self.end.number == start { self.end } else { Decimal::new(start) };
        self.end = Decimal::new(start.number + tensor.payload_bytes as u64);
        self.decimal(start);
        self.bytes.push(b',');
        self.decimal(self.end);
        self.bytes.extend_from_slice(b"]}");
    }

    /// Writes the description of a tensor, from the end of its name up to its offsets.
    fn info(&mut self, info: &TensorInfo, number: usize) {
        let start = self.bytes.len();
        match info.unknown_stored(FORMAT.name) {
            Some(dtype) => {
                self.text(r#"":{"dtype":"#);
                self.string(str::from_utf8(dtype).expect("it was a str"));
            }
            None => {
                self.text(r#"":{"dtype":""#);
                self.text(TAG_OF[info.dtype as usize].expect("the plan was checked"));
                self.text("\"");
            }
        }
        self.text(r#","shape":["#);
        for (index, dim) in info.shape.iter().enumerate() {
            if index > 0 {
                self.bytes.push(b',');
            }
            self.decimal(Decimal::new(*dim as u64));
        }
        self.text(r#"],"data_offsets":["#);
        let text = start..self.bytes.len();
        match self.infos.get_mut(number) {
            Some(later) => *later = text,
            // In the order of the value, infos come in the order of their numbers.
            None => {
                while self.infos.len() < number {
                    self.infos.push(0..0);
                }
                self.infos.push(text);
            }
        }
    }

    #[inline]
    fn decimal(&mut self, decimal: Decimal) {
        if decimal.len == 0 {
            return self.text(itoa::Buffer::new().format(decimal.number));
        }
        let end = self.bytes.len() + decimal.len;
        self.bytes.extend_from_slice(&decimal.digits.to_le_bytes());
        self.bytes.truncate(end);
    }

    fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn separator(&mut self) {
        if !self.bytes.ends_with(b"{") {
            self.bytes.push(b',');
        }
    }

    fn key(&mut self, key: &str) {
        self.separator();
        self.string(key);
        self.bytes.push(b':');
    }

    fn string(&mut self, string: &str) {
        self.open_string(string, false);
        self.bytes.push(b'"');
    }

    /// Writes a string without the quote after it.
    fn open_string(&mut self, string: &str, known_as_plain: bool) {
        if known_as_plain || is_plain(string) {
            self.bytes.push(b'"');
            return self.text(string);
        }
        serde_json::to_writer(&mut self.bytes, string).expect("a vector takes every byte");
        self.bytes.pop();
    }

    /// Returns all bytes before the data.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.bytes.push(b'}');
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), b' ');
        let len = self.bytes.len() as u64 - LENGTH;
        check_length(len)?;
        self.bytes[..size_of::<u64>()].copy_from_slice(&len.to_le_bytes());
        Ok(self.bytes)
    }
}

/// Returns whether a text has no character to escape.
fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |is_plain, byte| is_plain & !matches!(byte, 0..b' ' | b'"' | b'\\'))
}

fn check_length(bytes: u64) -> Result<(), ErrorKind> {
    if bytes > MAX_JSON {
        let instead = format!("safetensors have headers of up to {MAX_JSON} bytes");
        return Err(cannot_store(format!("a header of {bytes} bytes"), instead));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        let near = (0..20).flat_map(|power| [10_u64.pow(power) - 1, 10_u64.pow(power), 10_u64.pow(power) + 1]);
        for number in (0..=10_000).chain((0..10_000).map(|index| index * 10_007)).chain(near).chain([u64::MAX]) {
            let mut writer = Writer::empty(0);
            let start = writer.bytes.len();
            writer.decimal(Decimal::new(number));
            assert_eq!(str::from_utf8(&writer.bytes[start..]).unwrap(), number.to_string());
        }
    }

    #[test]
    fn headers_that_no_reader_takes_are_refused() {
        assert!(check_length(MAX_JSON).is_ok());
        assert_eq!(
            check_length(MAX_JSON + 8).unwrap_err().to_string(),
            "cannot store a header of 100000008 bytes; safetensors have headers of up to 100000000 bytes"
        );
    }
}
