use std::ops::Range;

use indexmap::IndexMap;

use super::FORMAT;
use super::header::{self, JsonValue, METADATA, TAGS, Writer};
use super::scan::{JsonHeader, scan, scan_tensors};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::limits::Limits;
use crate::model::{FileMetadata, MetadataChanges, Rewritten};
use crate::read::{Index, IndexReader, SmallIndex, payload_at};
use crate::storage::ReadAt;
use crate::tensor::TensorInfo;

/// Reads the header. The tensors are in the order of their data.
#[derive(Debug, Default)]
pub(super) struct Reader {
    metadata: FileMetadata,
    /// The end of the last tensor, once the header is read.
    end: Option<u64>,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        let Some(end) = self.end else {
            let (metadata, end) = read(file, limits, index)?;
            (self.metadata, self.end) = (metadata, Some(end));
            return Ok(true);
        };
        if file.ends_at(end)? {
            Ok(false)
        } else {
            let what = "the file continues after the data of its last tensor".to_owned();
            Err(Error::new(ErrorKind::Malformed { what }).at(end))
        }
    }

    fn is_in_file_order(&self) -> bool {
        true
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        Some(std::mem::take(&mut self.metadata))
    }
}

/// Reads a header, and adds its tensors to the index. Returns the metadata and the end of the last tensor.
pub(in crate::format) fn read(
    file: &mut dyn ReadAt,
    limits: &Limits,
    index: &mut Index,
) -> Result<(FileMetadata, u64)> {
    let (len, mut memory) = (file.file_len(), Vec::new());
    let json = header::read(file, &mut memory)?;
    let (metadata, mut places) = match scan(json, limits, index) {
        Some(header) => header,
        None => {
            *index = Index::default();
            parse(json, limits, index)?
        }
    };
    let is_stated = metadata.as_ref().is_some_and(|value| !value.is_null());
    let entries = metadata.map(|value| read_metadata(value, limits)).transpose()?.unwrap_or_default();
    // Empty tensors come before any other tensor at the same offset.
    if let Some(order) = index.sort() {
        places = order.into_iter().map(|i| places[i]).collect();
    }
    let data = header::LENGTH + json.len() as u64;
    let mut end = data;
    // The header and the length of the previous tensor.
    let mut last = (None, 0);
    for (i, place) in places.into_iter().enumerate() {
        let offsets = index.entry(i).range();
        let (info, bytes) = (index.entries().info_number(i), offsets.end.wrapping_sub(offsets.start));
        // `place_tensor` reports an end past the file, or past 2^64.
        let stop = end.checked_add(bytes).filter(|stop| len.is_some_and(|len| *stop <= len));
        let range = match stop {
            Some(stop) if last == (Some(info), bytes) && offsets.start == end - data => end..stop,
            _ => {
                let placed = place_tensor(len, index, i, end - data, place, data);
                placed.map_err(|error| error.in_tensor(index.label(i)))?
            }
        };
        last = (Some(info), bytes);
        index.entries_mut().set_range(i, &range);
        end = range.end;
    }
    let has_no_entries = is_stated && entries.is_empty();
    Ok((FileMetadata { entries, has_no_entries, ..FileMetadata::default() }, end))
}

/// Finds the tensors of a small file without metadata.
pub(super) fn small<'f>(file: &'f [u8], limits: &Limits, index: &mut SmallIndex<'f>) -> Option<()> {
    let (json, data) = header::split(file)?;
    let mut end = 0;
    let metadata = scan_tensors(json, limits, &mut |name, header, offsets, _| {
        let payload = data.get(end..usize::try_from(offsets.end).ok()?)?;
        let start = end;
        end += payload.len();
        if offsets.start == start as u64 { index.push_read(name, header, payload) } else { None }
    })?;
    (end == data.len() && metadata.is_none()).then_some(())
}

/// Reads the metadata and checks the whole header.
pub(super) fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    let (mut reader, mut index) = (Reader::default(), Index::default());
    while reader.read_on(file, limits, &mut index)? {}
    Ok(reader.metadata().unwrap_or_default())
}

/// Returns a header with other metadata. The index of the file was read before.
pub(super) fn rewrite_metadata(file: &mut dyn ReadAt, limits: &Limits, changes: &MetadataChanges) -> Result<Rewritten> {
    let (len, mut memory) = (file.file_len(), Vec::new());
    let json = header::read(file, &mut memory)?;
    let members = members(json, limits)?;
    let mut entries = IndexMap::new();
    if let Some((_, value)) = members.iter().find(|(name, _)| name == METADATA) {
        entries = read_metadata(*value, limits)?;
    }
    let has_no_entries = entries.is_empty();
    changes.apply(&mut entries);
    let mut header = Writer::empty(members.len());
    if !members.iter().any(|(name, _)| name == METADATA) {
        header.metadata(entries.iter());
    }
    for (name, value) in &members {
        match &**name {
            // As it was, `{}` or `null`.
            METADATA if has_no_entries && entries.is_empty() => header.member(name, *value),
            METADATA => header.metadata(entries.iter()),
            _ => header.member(name, *value),
        }
    }
    let data = header::LENGTH + json.len() as u64;
    let end = len.unwrap_or(data);
    Ok(Rewritten { begin: header.finish()?, kept: data..end, end: Vec::new() })
}

/// Returns the members of the header.
fn members<'a>(json: &'a str, limits: &Limits) -> Result<Vec<(String, JsonValue<'a>)>> {
    // The crate takes the last of two entries of one name. The file does not say which one was meant.
    JsonValue::whole(json).members("number of tensors", limits.tensors, |name| ErrorKind::DuplicateName { name })
}

/// Parses a header of any form. Adds its tensors to the index. Their ranges count from the end of the header.
fn parse<'a>(json: &'a str, limits: &Limits, index: &mut Index) -> Result<JsonHeader<'a>> {
    let (mut metadata, mut places) = (None, Vec::new());
    for (name, value) in members(json, limits)? {
        if name == METADATA {
            metadata = Some(value);
        } else {
            let (info, offsets) = tensor(value, limits).map_err(|error| error.in_tensor(&name))?;
            index.push_checked(Some(&name), info, offsets)?;
            places.push(value.offset);
        }
    }
    Ok((metadata, places))
}

fn read_metadata(value: JsonValue<'_>, limits: &Limits) -> Result<IndexMap<String, String>> {
    // As in the crate, `null` is no metadata.
    if value.is_null() {
        return Ok(IndexMap::new());
    }
    let duplicate = |key: String| ErrorKind::Malformed {
        what: format!("two entries of the metadata have the key `{}`", Short(&key)),
    };
    value
        .members("number of entries of metadata", limits.tensors, duplicate)?
        .into_iter()
        .map(|(key, value)| Ok((key, value.string()?)))
        .collect()
}

/// Returns the header of a tensor and its data offsets, which may be in the wrong order.
fn tensor(value: JsonValue<'_>, limits: &Limits) -> Result<(TensorInfo, Range<u64>)> {
    let record = value.record()?;
    let (place, rank) = (value.offset, record.shape.len() as u64);
    if rank > limits.rank {
        return Err(Error::new(ErrorKind::Limit { what: "rank", found: rank, limit: limits.rank }).at(place));
    }
    // From a slice, because the vector has more capacity than most shapes need.
    let (start, end) = record.data_offsets;
    let info = match TAGS.iter().find(|(tag, _)| *tag == record.dtype) {
        Some((_, dtype)) => TensorInfo::new(*dtype, &*record.shape),
        None => {
            let (dtype, bytes) = (&record.dtype, end.saturating_sub(start));
            TensorInfo::unknown_in(FORMAT.name, dtype, dtype.as_bytes(), &*record.shape, bytes)
        }
    };
    Ok((info, start as u64..end as u64))
}

/// Checks the data offsets of a tensor: they begin at `end`, the end of the previous tensor, and have the length of its
/// payload. Returns its range in the file of length `len`. `place` is the offset of its description.
fn place_tensor(len: Option<u64>, index: &Index, i: usize, end: u64, place: u64, data: u64) -> Result<Range<u64>> {
    let entry = index.entry(i);
    let Range { start, end: stop } = entry.range();
    let bad_number = |what, found: u64, expected| {
        Err(Error::new(ErrorKind::BadNumber { what, found: found.into(), expected }).at(place))
    };
    if start != end {
        return bad_number("data offset", start, format!("{end}, as there are no gaps between tensors"));
    }
    if stop < start {
        return bad_number("end of the data", stop, format!("at least {start}, where it begins"));
    }
    entry.info().check_payload(stop - start).map_err(|invalid| Error::from(invalid).at(place))?;
    payload_at(data + end, len, entry.info())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"__metadata__": {"format":"pt"}, "a.b":{"dtype":"F32","shape":[2, 30],
        "data_offsets":[0,240]},"c":{"shape":[],"data_offsets":[240,241],"dtype":"U8"},
        "d":{"dtype":"BOOL","shape":[0],"data_offsets":[241,241]},
        "e":{"dtype":"U8","shape":[1],"data_offsets":[241,242]},
        "f":{"dtype":"U8","shape":[1],"data_offsets":[242,243]}} "#;

    type Shown = (Option<String>, Vec<String>);

    fn scanned(json: &str) -> Option<Shown> {
        let mut index = Index::default();
        let header = scan(json, &Limits::new(), &mut index)?;
        Some(shown(header, &index))
    }

    fn parsed(json: &str) -> Option<Shown> {
        let mut index = Index::default();
        let header = parse(json, &Limits::new(), &mut index).ok()?;
        Some(shown(header, &index))
    }

    fn shown((metadata, places): JsonHeader<'_>, index: &Index) -> Shown {
        let tensors = places.iter().enumerate();
        let tensors = tensors.map(|(i, place)| format!("{} {:?} {place}", index.label(i), index.entry(i)));
        (metadata.map(|value| format!("{value:?}")), tensors.collect())
    }

    #[test]
    fn scanning_finds_the_same_as_parsing() {
        assert!(scanned(HEADER).is_some());
        assert_eq!(scanned("{}"), parsed("{}"));
        let mut different = 0;
        for i in 0..=HEADER.len() {
            let (before, after) = HEADER.split_at(i);
            let rest = after.get(1..).unwrap_or_default();
            let inserted = "\"\\{}[],: 0129-.eE+xntf\n\u{1}ä".chars();
            let changes = inserted.flat_map(|new| [format!("{before}{new}{after}"), format!("{before}{new}{rest}")]);
            for json in changes.chain([format!("{before}{rest}"), before.to_owned(), format!("{before}{before}")]) {
                if let Some(scanned) = scanned(&json) {
                    assert_eq!(Some(scanned), parsed(&json), "{json}");
                    different += usize::from(json != HEADER);
                }
            }
        }
        assert!(different > 100, "some of the changes leave a header, {different}");
    }
}
