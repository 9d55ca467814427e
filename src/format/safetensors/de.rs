use indexmap::IndexMap;

use super::header::{self, METADATA, Value};
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
    let members =
        Value::whole(&json).members("number of tensors", limits.tensors, |name| ErrorKind::DuplicateName { name })?;
    let mut metadata = IndexMap::new();
    let mut tensors = Vec::with_capacity(members.len());
    for (name, value) in members {
        if name == METADATA {
            metadata = read_metadata(value, limits)?;
        } else {
            let tensor = Tensor::read(value, limits).map_err(|error| error.in_tensor(&name))?;
            tensors.push((name, tensor));
        }
    }
    // Tensors without bytes come before one that begins at the same offset.
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);

    let data = header::LENGTH + json.len() as u64;
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

/// A tensor of the header, and the offset of its entry.
struct Tensor {
    info: TensorInfo,
    data_offsets: (usize, usize),
    offset: u64,
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
