//! The entries before the tensors, as text.

use std::fmt::Write;

use indexmap::IndexMap;

use crate::error::{Error, ErrorKind, Result, Short};
use crate::limits::Limits;
use crate::model::{
    FilePart, MetadataChanges, MetadataKind, MetadataValue, PART_COUNT, PART_INDEX, PART_TENSORS, TypedEntry,
};
use crate::read::Cursor;

/// The default alignment of files, in bytes.
const ALIGNMENT: u64 = 32;

/// The key of the alignment, the only entry needed for reading tensors.
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";

/// The longest key, in bytes. Names of tensors have the same limit when they are read.
const MAX_KEY: usize = u16::MAX as usize;

/// The longest string in ggml, in bytes.
const MAX_STRING: u64 = 1 << 30;

/// The numbers of parts, of a model in several files. They are about the file, and not about the model.
pub(super) const PART_KEYS: [&str; 3] = [PART_INDEX, PART_COUNT, PART_TENSORS];

/// Longer arrays are skipped where nobody asks for their items.
const SHORT: u64 = 16;

/// Arrays in arrays are read up to this depth. ggml does not read them at all.
const MAX_DEPTH: u32 = 4;

// The types of values.
const U8: u32 = 0;
const I8: u32 = 1;
const U16: u32 = 2;
const I16: u32 = 3;
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const U64: u32 = 10;
const I64: u32 = 11;
const F64: u32 = 12;

/// Returns whether an entry with this key can be written.
pub(super) fn keeps(key: &str) -> bool {
    (1..=MAX_KEY).contains(&key.len()) && key.is_ascii()
}

/// A value as it is written: its type and its bytes.
#[derive(Debug, Clone)]
pub(super) struct TypedValue {
    kind: u32,
    bytes: Vec<u8>,
}

impl TypedValue {
    /// A string.
    pub(super) fn text(text: &str) -> Self {
        let mut bytes = Vec::with_capacity(8 + text.len());
        put_string(text, &mut bytes);
        Self { kind: STRING, bytes }
    }

    /// The value of a field, with its type if the format has it.
    pub(super) fn from_field(value: &MetadataValue) -> Self {
        let (kind, bytes) = match value {
            MetadataValue::Bool(value) => (BOOL, vec![u8::from(*value)]),
            MetadataValue::I8(value) => (I8, value.to_le_bytes().to_vec()),
            MetadataValue::I16(value) => (I16, value.to_le_bytes().to_vec()),
            MetadataValue::I32(value) => (I32, value.to_le_bytes().to_vec()),
            MetadataValue::I64(value) => (I64, value.to_le_bytes().to_vec()),
            MetadataValue::U8(value) => (U8, value.to_le_bytes().to_vec()),
            MetadataValue::U16(value) => (U16, value.to_le_bytes().to_vec()),
            MetadataValue::U32(value) => (U32, value.to_le_bytes().to_vec()),
            MetadataValue::U64(value) => (U64, value.to_le_bytes().to_vec()),
            MetadataValue::F32(value) => (F32, value.to_le_bytes().to_vec()),
            MetadataValue::F64(value) => (F64, value.to_le_bytes().to_vec()),
            other => return Self::text(&other.to_string()),
        };
        Self { kind, bytes }
    }

    /// Returns the bytes of a value of a type, if the text is one. Arrays cannot be parsed.
    fn parse(kind: u32, text: &str) -> Option<Vec<u8>> {
        Some(Self::from_field(&kind_of(kind)?.parse(text)?).bytes)
    }

    /// The value of an entry of another file.
    pub(super) fn from_typed(entry: &TypedEntry) -> Self {
        Self { kind: entry.kind, bytes: entry.bytes.clone() }
    }

    /// Returns the alignment stated by the value; otherwise its text.
    fn alignment(&self) -> Result<u64, String> {
        match (self.kind, &*self.bytes) {
            (U8, &[byte]) => Ok(byte.into()),
            (U16, &[one, two]) => Ok(u16::from_le_bytes([one, two]).into()),
            (U32, bytes) if bytes.len() == 4 => Ok(le_u64(bytes)),
            (U64, bytes) if bytes.len() == 8 => Ok(le_u64(bytes)),
            (STRING, bytes) => {
                let text = String::from_utf8_lossy(bytes.get(8..).unwrap_or_default());
                text.parse().map_err(|_| text.into_owned())
            }
            (kind, _) => Err(format!("a value of type {kind}")),
        }
    }
}

fn le_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Reads strings and values. The memory for them is limited.
pub(super) struct MetadataReader<'a, 'f> {
    pub(super) cursor: &'a mut Cursor<'f>,
    /// Numbers are big-endian.
    is_big_endian: bool,
    /// Long arrays are not read.
    skips_long: bool,
    /// Whether an array was skipped.
    has_skipped: bool,
    /// The number of string and text bytes that may still be kept.
    room: u64,
    limit: u64,
}

/// The metadata of a file.
#[derive(Debug)]
pub(super) struct HeaderMetadata {
    pub(super) entries: IndexMap<String, String>,
    pub(super) alignment: u64,
    /// All arrays were read.
    pub(super) is_whole: bool,
}

impl HeaderMetadata {
    /// Returns the file's part of a model, and removes the entries that state it.
    pub(super) fn take_part(&mut self) -> Option<FilePart> {
        let mut number = |key| self.entries.shift_remove(key)?.parse().ok();
        let [index, count, tensors]: [Option<u64>; 3] = PART_KEYS.map(&mut number);
        Some(FilePart { index: index?, count: count?, tensors }).filter(|part| part.count > 1)
    }
}

/// A closure called with each entry.
type Each<'x> = &'x mut dyn FnMut(&mut Cursor<'_>, u64, &str, &str) -> Result<()>;

impl<'a, 'f> MetadataReader<'a, 'f> {
    pub(super) fn new(cursor: &'a mut Cursor<'f>, is_big_endian: bool, limits: &Limits) -> Self {
        // In a file of known length, strings are no longer than the file.
        let limit = cursor.left().unwrap_or(0).saturating_add(limits.headers());
        Self { cursor, is_big_endian, skips_long: false, has_skipped: false, room: limit, limit }
    }

    /// Skips long arrays, because reading them takes longer than all tensors of a file.
    pub(super) fn skip_long(&mut self, skips: bool) {
        self.skips_long = skips;
    }

    /// Reads `count` entries.
    pub(super) fn entries(&mut self, count: u64, limits: &Limits) -> Result<HeaderMetadata> {
        self.each_entry(count, limits, &mut |_, _, _, _| Ok(()))
    }

    /// Reads `count` entries with their types. The whole of long arrays is read too.
    pub(super) fn typed_entries(&mut self, count: u64, limits: &Limits) -> Result<Vec<TypedEntry>> {
        /// More is not kept in memory. Vocabularies take some MiB.
        const LIMIT: u64 = 1 << 30;
        let (mut entries, mut total) = (Vec::new(), 0_u64);
        let is_big_endian = self.is_big_endian;
        self.each_entry(count, limits, &mut |cursor, offset, key, text| {
            let end = cursor.offset();
            cursor.go_to(offset);
            let kind = number(cursor.array()?, is_big_endian, u32::from_le_bytes);
            let len = end - cursor.offset();
            total = total.saturating_add(len);
            check_limit("metadata in bytes", total, LIMIT).map_err(|error| error.at(offset))?;
            let mut bytes = Vec::new();
            cursor.append(len, &mut bytes)?;
            if is_big_endian {
                swap_value(kind, &mut bytes);
            }
            entries.push(TypedEntry { key: key.to_owned(), text: text.to_owned(), kind, bytes });
            Ok(())
        })?;
        Ok(entries)
    }

    /// Reads `count` entries. Calls `each` after each, with the offset of its type, its key and its text.
    fn each_entry(&mut self, count: u64, limits: &Limits, each: Each<'_>) -> Result<HeaderMetadata> {
        /// The length of the shortest entry: a key of one byte, the type and a value of one byte.
        const SHORTEST: u64 = 8 + 1 + 4 + 1;
        let offset = self.cursor.offset();
        check_limit("number of entries of metadata", count, limits.tensors).map_err(|error| error.at(offset))?;
        self.check_fits(count, SHORTEST)?;
        let mut metadata = HeaderMetadata { entries: IndexMap::new(), alignment: ALIGNMENT, is_whole: true };
        for _ in 0..count {
            let offset = self.cursor.offset();
            let key = self.name("length of a key")?;
            if key.is_empty() {
                return Err(malformed("an entry of the metadata has an empty key".to_owned()).at(offset));
            }
            let place = self.cursor.offset();
            let value = match &*key {
                ALIGNMENT_KEY => {
                    metadata.alignment = self.alignment()?;
                    metadata.alignment.to_string()
                }
                _ => self.typed_value()?,
            };
            each(self.cursor, place, &key, &value)?;
            let key = match metadata.entries.entry(key) {
                indexmap::map::Entry::Vacant(vacant) => {
                    vacant.insert(value);
                    continue;
                }
                indexmap::map::Entry::Occupied(occupied) => occupied.key().clone(),
            };
            let what = format!("two entries of the metadata have the key `{}`", Short(&key));
            return Err(malformed(what).at(offset));
        }
        metadata.is_whole = !self.has_skipped;
        Ok(metadata)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.number(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.number(u64::from_le_bytes)
    }

    fn number<T, const N: usize>(&mut self, of_bytes: fn([u8; N]) -> T) -> Result<T> {
        Ok(number(self.cursor.array()?, self.is_big_endian, of_bytes))
    }

    /// Checks that the file has room for `count` items of at least `size` bytes.
    pub(super) fn check_fits(&self, count: u64, size: u64) -> Result<()> {
        let needed = count.saturating_mul(size);
        match self.cursor.left().filter(|left| *left < needed) {
            Some(left) => Err(Error::new(ErrorKind::Truncated { needed, left }).at(self.cursor.offset())),
            None => Ok(()),
        }
    }

    /// Reads a key, or the name of a tensor.
    pub(super) fn name(&mut self, what: &'static str) -> Result<String> {
        let bytes = self.string(what, MAX_KEY as u64)?;
        let start = self.cursor.offset() - bytes.len() as u64;
        String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to() as u64;
            malformed("a name is not UTF-8".to_owned()).at(start + valid)
        })
    }

    fn string(&mut self, what: &'static str, most: u64) -> Result<Vec<u8>> {
        let len = self.length(what, most)?;
        self.take_room(len)?;
        self.check_fits(len, 1)?;
        let mut bytes = Vec::new();
        self.cursor.append(len, &mut bytes)?;
        Ok(bytes)
    }

    /// Charges for bytes to be kept.
    fn take_room(&mut self, bytes: u64) -> Result<()> {
        match self.room.checked_sub(bytes) {
            Some(room) => self.room = room,
            None => {
                let found = (self.limit - self.room).saturating_add(bytes);
                let kind = ErrorKind::Limit { what: "strings of the header in bytes", found, limit: self.limit };
                return Err(Error::new(kind).at(self.cursor.offset()));
            }
        }
        Ok(())
    }

    fn length(&mut self, what: &'static str, most: u64) -> Result<u64> {
        let offset = self.cursor.offset();
        match self.u64()? {
            len if len <= most => Ok(len),
            len => Err(bad_number(what, len, format!("at most {most}")).at(offset)),
        }
    }

    fn alignment(&mut self) -> Result<u64> {
        let offset = self.cursor.offset();
        let kind = self.u32()?;
        if kind != U32 {
            return Err(bad_number("type of the alignment", kind.into(), format!("{U32}, an integer")).at(offset));
        }
        let offset = self.cursor.offset();
        match self.u32()? {
            alignment if alignment.is_power_of_two() => Ok(alignment.into()),
            other => Err(bad_number("alignment", other.into(), "a power of two".to_owned()).at(offset)),
        }
    }

    fn typed_value(&mut self) -> Result<String> {
        match self.kind()? {
            STRING => Ok(String::from_utf8_lossy(&self.string("length of a string", MAX_STRING)?).into_owned()),
            kind => {
                let mut text = String::new();
                self.value(kind, 0, &mut text)?;
                Ok(text)
            }
        }
    }

    /// Reads the type of a value.
    fn kind(&mut self) -> Result<u32> {
        let offset = self.cursor.offset();
        match self.u32()? {
            kind if kind <= F64 => Ok(kind),
            kind => Err(bad_number("type of metadata", kind.into(), format!("{U8} to {F64}")).at(offset)),
        }
    }

    /// Appends the text of a value in an array of this depth. Strings in arrays are in quotes.
    fn value(&mut self, kind: u32, depth: u32, text: &mut String) -> Result<()> {
        let written = match kind {
            U8 => write!(text, "{}", self.number(u8::from_le_bytes)?),
            I8 => write!(text, "{}", self.number(i8::from_le_bytes)?),
            U16 => write!(text, "{}", self.number(u16::from_le_bytes)?),
            I16 => write!(text, "{}", self.number(i16::from_le_bytes)?),
            U32 => write!(text, "{}", self.number(u32::from_le_bytes)?),
            I32 => write!(text, "{}", self.number(i32::from_le_bytes)?),
            U64 => write!(text, "{}", self.number(u64::from_le_bytes)?),
            I64 => write!(text, "{}", self.number(i64::from_le_bytes)?),
            // In short: `Display` has all zeros of 1e300.
            F32 => write!(text, "{:?}", self.number(f32::from_le_bytes)?),
            F64 => write!(text, "{:?}", self.number(f64::from_le_bytes)?),
            BOOL => {
                let offset = self.cursor.offset();
                text.push_str(match self.cursor.array()? {
                    [0] => "false",
                    [1] => "true",
                    [other] => return Err(bad_number("bool", other.into(), "0 or 1".to_owned()).at(offset)),
                });
                Ok(())
            }
            STRING => {
                let bytes = self.string("length of a string", MAX_STRING)?;
                write!(text, "{:?}", String::from_utf8_lossy(&bytes))
            }
            _ => return self.array(depth, text),
        };
        written.expect("a string takes all text");
        Ok(())
    }

    fn array(&mut self, depth: u32, text: &mut String) -> Result<()> {
        let (kind, count) = self.array_header(depth)?;
        // Long arrays of bools are read, because bools must be checked.
        if self.skips_long && count > SHORT && kind != BOOL {
            self.has_skipped = true;
            return self.skip(kind, count, depth + 1);
        }
        text.push('[');
        for index in 0..count {
            text.push_str(if index > 0 { ", " } else { "" });
            let before = text.len();
            self.value(kind, depth + 1, text)?;
            // Items of nested arrays are counted already.
            if kind != ARRAY {
                self.take_room((text.len() - before) as u64)?;
            }
        }
        text.push(']');
        Ok(())
    }

    /// Reads the type and the number of items.
    fn array_header(&mut self, depth: u32) -> Result<(u32, u64)> {
        if depth == MAX_DEPTH {
            let limit = u64::from(MAX_DEPTH);
            let kind = ErrorKind::Limit { what: "depth of arrays", found: limit + 1, limit };
            return Err(Error::new(kind).at(self.cursor.offset()));
        }
        let (kind, count) = (self.kind()?, self.u64()?);
        self.check_fits(count, least_size(kind))?;
        Ok((kind, count))
    }

    /// Skips values in an array of this depth.
    fn skip(&mut self, kind: u32, count: u64, depth: u32) -> Result<()> {
        match kind {
            STRING => (0..count).try_for_each(|_| {
                let len = self.length("length of a string", MAX_STRING)?;
                self.cursor.pass(len)
            }),
            ARRAY => (0..count).try_for_each(|_| {
                let (kind, count) = self.array_header(depth)?;
                self.skip(kind, count, depth + 1)
            }),
            _ => self.cursor.pass(count.saturating_mul(least_size(kind))),
        }
    }
}

fn number<T, const N: usize>(mut bytes: [u8; N], is_big_endian: bool, of_bytes: fn([u8; N]) -> T) -> T {
    if is_big_endian {
        bytes.reverse();
    }
    of_bytes(bytes)
}

/// Converts a checked big-endian value to little-endian in place. Returns the bytes after it.
fn swap_value(kind: u32, bytes: &mut [u8]) -> &mut [u8] {
    /// Swaps the number at the beginning. Returns it and the bytes after it.
    fn swap(bytes: &mut [u8], size: usize) -> (u64, &mut [u8]) {
        let (number, rest) = bytes.split_at_mut(size.min(bytes.len()));
        number.reverse();
        (le_u64(number), rest)
    }
    match kind {
        STRING => {
            let (len, rest) = swap(bytes, 8);
            let end = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
            &mut rest[end..]
        }
        ARRAY => {
            let (kind, rest) = swap(bytes, 4);
            let (count, mut rest) = swap(rest, 8);
            let kind = u32::try_from(kind).unwrap_or(U8);
            for _ in 0..count {
                rest = swap_value(kind, rest);
            }
            rest
        }
        kind => swap(bytes, usize::try_from(least_size(kind)).unwrap_or(usize::MAX)).1,
    }
}

/// Returns the size of a value in bytes, the least if they differ.
fn least_size(kind: u32) -> u64 {
    match kind {
        U8 | I8 | BOOL => 1,
        U16 | I16 => 2,
        U32 | I32 | F32 => 4,
        ARRAY => 12,
        _ => 8,
    }
}

pub(super) fn check_limit(what: &'static str, found: u64, limit: u64) -> Result<()> {
    if found > limit { Err(ErrorKind::Limit { what, found, limit }.into()) } else { Ok(()) }
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}

pub(super) fn bad_number(what: &'static str, found: u64, expected: String) -> Error {
    ErrorKind::BadNumber { what, found: found.into(), expected }.into()
}

/// Metadata to write.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    entries: &'a IndexMap<String, TypedValue>,
    part: Option<FilePart>,
    pub(super) alignment: u64,
}

impl<'a> Writing<'a> {
    /// Checks the keys and the alignment: `None` for the alignment in the entries, or else the default. As in
    /// llama.cpp, only the first part of a model has the entries.
    pub(super) fn new(
        entries: &'a IndexMap<String, TypedValue>,
        alignment: Option<u64>,
        part: Option<FilePart>,
    ) -> Result<Self> {
        if let Some(key) = entries.keys().find(|key| !keeps(key)) {
            let what = format!("write metadata of the key `{}`", Short(key));
            let instead = format!("a key is 1 to {MAX_KEY} bytes of ASCII");
            return Err(ErrorKind::Unsupported { what, instead }.into());
        }
        let alignment = match (alignment, entries.get(ALIGNMENT_KEY)) {
            (Some(alignment), _) => Ok(alignment),
            (None, Some(value)) => value.alignment(),
            (None, None) => Ok(ALIGNMENT),
        };
        let checked = alignment.and_then(|bytes| match u32::try_from(bytes) {
            Ok(number) if number.is_power_of_two() => Ok(bytes),
            _ => Err(bytes.to_string()),
        });
        let alignment = checked.map_err(|found| ErrorKind::Unsupported {
            what: format!("align tensors to {} bytes", Short(&found)),
            instead: "an alignment is a power of two below 2^32".to_owned(),
        })?;
        Ok(Self { entries, part, alignment })
    }

    /// Appends the number of the entries, and the entries.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let states_alignment = self.alignment != ALIGNMENT;
        let is_own = |key: &str| key == ALIGNMENT_KEY || self.part.is_some() && PART_KEYS.contains(&key);
        let has_entries = self.part.is_none_or(|part| part.index == 0);
        let others = || self.entries.iter().filter(|(key, _)| has_entries && !is_own(key));
        let part = self.part.map(part_entries);
        let parts = part.as_ref().map_or(0, |entries| entries.len());
        let count = others().count() as u64 + u64::from(states_alignment) + parts as u64;
        out.extend_from_slice(&count.to_le_bytes());
        if states_alignment {
            put_string(ALIGNMENT_KEY, out);
            out.extend_from_slice(&U32.to_le_bytes());
            out.extend_from_slice(&u32::try_from(self.alignment).expect("it was checked").to_le_bytes());
        }
        for (key, value) in others() {
            put_entry(key, value.kind, &value.bytes, out);
        }
        for (key, value) in part.iter().flatten() {
            put_entry(key, value.kind, &value.bytes, out);
        }
    }
}

/// Returns the entries of a part, with the types expected by llama.cpp.
fn part_entries(part: FilePart) -> [(&'static str, TypedValue); 3] {
    let short = |number: u64| MetadataValue::U16(u16::try_from(number).unwrap_or(u16::MAX));
    let tensors = MetadataValue::I32(i32::try_from(part.tensors.unwrap_or(0)).unwrap_or(i32::MAX));
    let values = [short(part.index), short(part.count), tensors];
    let [index, count, tensors] = values.each_ref().map(TypedValue::from_field);
    [(PART_INDEX, index), (PART_COUNT, count), (PART_TENSORS, tensors)]
}

pub(super) fn put_entry(key: &str, kind: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_string(key, out);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Changes entries. Existing entries keep their types; new ones are strings.
pub(super) fn changed(entries: Vec<TypedEntry>, changes: &MetadataChanges) -> Result<Vec<TypedEntry>> {
    if changes.unset.contains(ALIGNMENT_KEY) || changes.set.contains_key(ALIGNMENT_KEY) {
        let what = format!("change the metadata `{ALIGNMENT_KEY}`");
        let instead = "it is the alignment of the tensors, which stay where they are".to_owned();
        return Err(ErrorKind::Unsupported { what, instead }.into());
    }
    let mut set = changes.set.clone();
    let mut changed = Vec::with_capacity(entries.len() + set.len());
    for mut entry in entries {
        if changes.unset.contains(&entry.key) {
            continue;
        }
        if let Some(text) = set.shift_remove(&entry.key) {
            entry.bytes = TypedValue::parse(entry.kind, &text).ok_or_else(|| {
                let what = format!("set the metadata `{}` to `{}`", Short(&entry.key), Short(&text));
                let instead = match entry.kind {
                    ARRAY => "it is an array in the file, which can only be removed".to_owned(),
                    kind => {
                        format!("it is {} in the file", kind_of(kind).map_or(String::new(), |kind| kind.to_string()))
                    }
                };
                ErrorKind::Unsupported { what, instead }
            })?;
        }
        changed.push(entry);
    }
    let new =
        |(key, text): (String, String)| TypedEntry { kind: STRING, bytes: TypedValue::text(&text).bytes, key, text };
    changed.extend(set.into_iter().map(new));
    Ok(changed)
}

/// Returns the type of a number, unless it is the type of arrays.
fn kind_of(kind: u32) -> Option<MetadataKind> {
    Some(match kind {
        U8 => MetadataKind::U8,
        I8 => MetadataKind::I8,
        U16 => MetadataKind::U16,
        I16 => MetadataKind::I16,
        U32 => MetadataKind::U32,
        I32 => MetadataKind::I32,
        F32 => MetadataKind::F32,
        BOOL => MetadataKind::Bool,
        STRING => MetadataKind::Text,
        U64 => MetadataKind::U64,
        I64 => MetadataKind::I64,
        F64 => MetadataKind::F64,
        _ => return None,
    })
}

pub(super) fn put_string(string: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(string.len() as u64).to_le_bytes());
    out.extend_from_slice(string.as_bytes());
}
