use indexmap::IndexMap;

use super::FORMAT;
use super::header::{self, JsonValue, METADATA, TAGS, Writer};
use super::scan::{JsonHeader, scan};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::limits::Limits;
use crate::record::{Cursor, Entry, FileMetadata, IndexReader, MetadataChanges, Packed, Rewritten, Waiting};
use crate::storage::ReadAt;
use crate::tensor::TensorInfo;

/// Reads the header, then returns its tensors in the order of their data.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The contents of the header, once it is read.
    contents: Option<ParsedHeader>,
}

impl IndexReader for Reader {
    fn next(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Option<Entry>> {
        let contents = match &mut self.contents {
            Some(contents) => contents,
            unread => unread.insert(read(file, limits)?),
        };
        let (data, end) = (contents.data, &mut contents.end);
        let Some(mut tensor) = contents.tensors.pop() else {
            return match file.ends_at(*end)? {
                true => Ok(None),
                false => {
                    let what = "the file continues after the data of its last tensor".to_owned();
                    Err(Error::new(ErrorKind::Malformed { what }).at(*end))
                }
            };
        };
        let placed = check(&tensor, *end - data).and_then(|()| Cursor::new(file, *end).payload(&tensor.info));
        let range = placed.map_err(|error| error.in_tensor(tensor.name))?;
        *end = range.end;
        tensor.span = (range.start, range.end);
        Ok(Some(tensor.into_entry()))
    }

    fn is_in_file_order(&self) -> bool {
        true
    }

    fn remaining(&self) -> usize {
        self.contents.as_ref().map_or(0, |contents| contents.tensors.len())
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        self.contents.as_mut().map(|contents| std::mem::take(&mut contents.metadata))
    }
}

/// The contents of a header.
#[derive(Debug)]
struct ParsedHeader {
    metadata: FileMetadata,
    /// In the order of their data. Their spans are the offsets in the header, from `data` on.
    tensors: Packed,
    /// The end of the header.
    data: u64,
    /// The end of the tensors that were returned.
    end: u64,
}

/// Reads a header.
fn read(file: &mut dyn ReadAt, limits: &Limits) -> Result<ParsedHeader> {
    let json = header::read(file)?;
    let JsonHeader { metadata, mut tensors } = match scan(&json, limits) {
        Some(header) => header,
        None => parse(&json, limits)?,
    };
    let entries = metadata.map(|value| read_metadata(value, limits)).transpose()?.unwrap_or_default();
    let data = header::LENGTH + json.len() as u64;
    drop(json);
    // Tensors without bytes come before one that begins at the same offset.
    tensors.sort();
    Ok(ParsedHeader { metadata: FileMetadata { entries, ..FileMetadata::default() }, tensors, data, end: data })
}

/// Reads the metadata and checks the whole header.
pub(super) fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    let mut reader = Reader::default();
    while reader.next(file, limits)?.is_some() {}
    Ok(reader.metadata().unwrap_or_default())
}

/// Makes a header with other metadata. The file is one whose index was read before.
pub(super) fn rewrite_metadata(file: &mut dyn ReadAt, limits: &Limits, changes: &MetadataChanges) -> Result<Rewritten> {
    let json = header::read(file)?;
    let members = members(&json, limits)?;
    let mut entries = IndexMap::new();
    if let Some((_, value)) = members.iter().find(|(name, _)| name == METADATA) {
        entries = read_metadata(*value, limits)?;
    }
    changes.apply(&mut entries);
    let mut header = Writer::empty(members.len());
    if !members.iter().any(|(name, _)| name == METADATA) {
        header.metadata(entries.iter());
    }
    for (name, value) in &members {
        match name == METADATA {
            true => header.metadata(entries.iter()),
            false => header.member(name, *value),
        }
    }
    let data = header::LENGTH + json.len() as u64;
    let end = file.file_len().unwrap_or(data);
    Ok(Rewritten { begin: header.finish()?, kept: data..end, end: Vec::new() })
}

/// Returns the members of the header.
fn members<'a>(json: &'a str, limits: &Limits) -> Result<Vec<(String, JsonValue<'a>)>> {
    JsonValue::whole(json).members("number of tensors", limits.tensors, |name| ErrorKind::DuplicateName { name })
}

/// Parses a header of any form.
fn parse<'a>(json: &'a str, limits: &Limits) -> Result<JsonHeader<'a>> {
    let members = members(json, limits)?;
    let mut header = JsonHeader { metadata: None, tensors: Packed::default() };
    for (name, value) in members {
        if name == METADATA {
            header.metadata = Some(value);
        } else {
            let tensor = tensor(&name, value, limits).map_err(|error| error.in_tensor(&name))?;
            header.tensors.push(&tensor);
        }
    }
    Ok(header)
}

fn read_metadata(value: JsonValue<'_>, limits: &Limits) -> Result<IndexMap<String, String>> {
    let duplicate = |key: String| ErrorKind::Malformed {
        what: format!("two entries of the metadata have the key `{}`", Short(&key)),
    };
    value
        .members("number of entries of metadata", limits.tensors, duplicate)?
        .into_iter()
        .map(|(key, value)| Ok((key, value.string()?)))
        .collect()
}

fn tensor<'n>(name: &'n str, value: JsonValue<'_>, limits: &Limits) -> Result<Waiting<'n>> {
    let record = value.record()?;
    let (place, rank) = (value.offset, record.shape.len() as u64);
    if rank > limits.rank {
        return Err(Error::new(ErrorKind::Limit { what: "rank", found: rank, limit: limits.rank }).at(place));
    }
    // Not from the vector itself, which has more capacity than most shapes need.
    let (start, end) = record.data_offsets;
    let info = match TAGS.iter().find(|(tag, _)| *tag == record.dtype) {
        Some((_, dtype)) => TensorInfo::new(*dtype, &*record.shape),
        None => {
            let (dtype, bytes) = (&record.dtype, end.saturating_sub(start));
            TensorInfo::unknown_in(FORMAT.name, dtype, dtype.as_bytes(), &*record.shape, bytes)
        }
    };
    Ok(Waiting { place, span: (start as u64, end as u64), ..Waiting::new(name, info, &(0..0)) })
}

/// Checks that the data begins at `end`, where the tensor before ends, and has the length that the tensor takes.
fn check(tensor: &Waiting<'_>, end: u64) -> Result<()> {
    let (start, stop) = tensor.span;
    let bad_number = |what, found: u64, expected| {
        Err(Error::new(ErrorKind::BadNumber { what, found: found.into(), expected }).at(tensor.place))
    };
    if start != end {
        return bad_number("data offset", start, format!("{end}, as there are no gaps between tensors"));
    }
    if stop < start {
        return bad_number("end of the data", stop, format!("at least {start}, where it begins"));
    }
    tensor.info.check_payload(stop - start).map_err(|invalid| Error::from(invalid).at(tensor.place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"__metadata__": {"format":"pt"}, "a.b":{"dtype":"F32","shape":[2, 30],
        "data_offsets":[0,240]},"c":{"shape":[],"data_offsets":[240,241],"dtype":"U8"},
        "d":{"dtype":"BOOL","shape":[0],"data_offsets":[241,241]}} "#;

    type Shown = (Option<String>, Vec<String>);

    fn scanned(json: &str) -> Option<Shown> {
        scan(json, &Limits::new()).map(shown)
    }

    fn parsed(json: &str) -> Option<Shown> {
        parse(json, &Limits::new()).ok().map(shown)
    }

    fn shown(header: JsonHeader<'_>) -> Shown {
        let tensors = header.tensors.iter().map(|tensor| format!("{tensor:?}"));
        (header.metadata.map(|value| format!("{value:?}")), tensors.collect())
    }

    #[test]
    fn scanning_finds_the_same_as_parsing() {
        assert!(scanned(HEADER).is_some());
        assert_eq!(scanned("{}"), parsed("{}"));
        let mut different = 0;
        for at in 0..=HEADER.len() {
            let (before, after) = HEADER.split_at(at);
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
