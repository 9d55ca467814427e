use indexmap::IndexMap;

use super::header::{self, METADATA, Value};
use super::scan::{Tensor, scan};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::record::{Cursor, Entry, IndexReader};
use crate::storage::ReadAt;
use crate::tensor::TensorInfo;

/// Reads the header, then returns its tensors in the order of their data.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The tensors that are still to come, and the end of the file, once the header is read.
    contents: Option<(std::vec::IntoIter<Entry>, u64)>,
}

impl IndexReader for Reader {
    fn next(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Option<Entry>> {
        if self.contents.is_none() {
            let Contents { entries, end, .. } = read(file, limits)?;
            self.contents = Some((entries.into_iter(), end));
        }
        let (entries, end) = self.contents.as_mut().expect("filled in above");
        let next = entries.next();
        if next.is_none() && !file.ends_at(*end)? {
            let what = "the file continues after the data of its last tensor".to_owned();
            return Err(Error::new(ErrorKind::Malformed { what }).at(*end));
        }
        Ok(next)
    }

    fn is_in_file_order(&self) -> bool {
        true
    }
}

/// The contents of a header.
pub(super) struct Contents {
    pub(super) metadata: IndexMap<String, String>,
    /// In the order of their data.
    entries: Vec<Entry>,
    end: u64,
}

pub(super) fn read(file: &mut dyn ReadAt, limits: &Limits) -> Result<Contents> {
    let json = header::read(file)?;
    let (metadata, tensors) = match scan(&json, limits) {
        Some(header) => {
            let tensors = header.tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
            (header.metadata, tensors)
        }
        None => parse(&json, limits)?,
    };
    let metadata = metadata.map(|value| read_metadata(value, limits)).transpose()?.unwrap_or_default();
    in_data_order(file, metadata, tensors, header::LENGTH + json.len() as u64)
}

type Tensors = Vec<(String, Tensor)>;

/// Parses a header of any form.
fn parse<'a>(json: &'a str, limits: &Limits) -> Result<(Option<Value<'a>>, Tensors)> {
    let members =
        Value::whole(json).members("number of tensors", limits.tensors, |name| ErrorKind::DuplicateName { name })?;
    let mut metadata = None;
    let mut tensors = Vec::with_capacity(members.len());
    for (name, value) in members {
        if name == METADATA {
            metadata = Some(value);
        } else {
            let tensor = Tensor::read(value, limits).map_err(|error| error.in_tensor(&name))?;
            tensors.push((name, tensor));
        }
    }
    Ok((metadata, tensors))
}

/// Places the tensors after each other from `data` on.
fn in_data_order(
    file: &mut dyn ReadAt,
    metadata: IndexMap<String, String>,
    mut tensors: Tensors,
    data: u64,
) -> Result<Contents> {
    // Tensors without bytes come before one that begins at the same offset.
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);

    let mut end = data;
    let mut entries = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let placed = tensor.check(end - data).and_then(|()| Cursor::new(file, end).payload(&tensor.info));
        let range = placed.map_err(|error| error.in_tensor(&name))?;
        end = range.end;
        entries.push(Entry::new(Some(name), tensor.info, range));
    }
    Ok(Contents { metadata, entries, end })
}

fn read_metadata(value: Value<'_>, limits: &Limits) -> Result<IndexMap<String, String>> {
    let duplicate = |key| ErrorKind::Malformed { what: format!("two entries of the metadata have the key `{key}`") };
    value
        .members("number of entries of metadata", limits.tensors, duplicate)?
        .into_iter()
        .map(|(key, value)| Ok((key, value.string()?)))
        .collect()
}

impl Tensor {
    fn read(value: Value<'_>, limits: &Limits) -> Result<Self> {
        let (dtype, record) = value.record()?;
        let (offset, rank) = (value.offset, record.shape.len() as u64);
        if rank > limits.rank {
            return Err(Error::new(ErrorKind::Limit { what: "rank", found: rank, limit: limits.rank }).at(offset));
        }
        // Not from the vector itself, which has more capacity than most shapes need.
        let info = TensorInfo::new(dtype, &*record.shape);
        Ok(Self { info, data_offsets: record.data_offsets, offset })
    }

    /// Checks that the data begins at `end`, where the tensor before ends, and has the length that the tensor takes.
    fn check(&self, end: u64) -> Result<()> {
        let (start, stop) = self.data_offsets;
        let bad_number = |what, found: usize, expected| {
            Err(Error::new(ErrorKind::BadNumber { what, found: found as i128, expected }).at(self.offset))
        };
        if start as u64 != end {
            return bad_number("data offset", start, format!("{end}, as there are no gaps between tensors"));
        }
        if stop < start {
            return bad_number("end of the data", stop, format!("at least {start}, where it begins"));
        }
        self.info.check_payload((stop - start) as u64).map_err(|invalid| Error::from(invalid).at(self.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"__metadata__": {"format":"pt"}, "a.b":{"dtype":"F32","shape":[2, 30],
        "data_offsets":[0,240]},"c":{"shape":[],"data_offsets":[240,241],"dtype":"U8"},
        "d":{"dtype":"BOOL","shape":[0],"data_offsets":[241,241]}} "#;

    type Shown = (Option<String>, Vec<(String, String)>);

    fn scanned(json: &str) -> Option<Shown> {
        let header = scan(json, &Limits::new())?;
        let tensors = header.tensors.into_iter().map(|(name, tensor)| (name.to_owned(), format!("{tensor:?}")));
        Some((header.metadata.map(|value| format!("{value:?}")), tensors.collect()))
    }

    fn parsed(json: &str) -> Option<Shown> {
        let (metadata, tensors) = parse(json, &Limits::new()).ok()?;
        let tensors = tensors.into_iter().map(|(name, tensor)| (name, format!("{tensor:?}")));
        Some((metadata.map(|value| format!("{value:?}")), tensors.collect()))
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
