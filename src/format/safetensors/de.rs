use indexmap::IndexMap;

use super::header::{self, METADATA, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::source::ByteSource;
use crate::tensor::TensorInfo;
use crate::wire::{Cursor, Entry};

/// Reads the header of a safetensors file, and then goes through its tensors in the order of their data.
#[derive(Debug, Default)]
pub struct Walk {
    /// The tensors that are still to come, and where the file ends, once the header is read.
    contents: Option<(std::vec::IntoIter<Entry>, u64)>,
}

impl crate::wire::Walk for Walk {
    const FORMAT: &'static str = "safetensors";
    const IN_FILE_ORDER: bool = true;

    fn next<'de, B: ByteSource<'de>>(&mut self, source: &mut B, limits: &Limits) -> Result<Option<Entry>> {
        if self.contents.is_none() {
            let Contents { entries, end, .. } = read(source, limits)?;
            self.contents = Some((entries.into_iter(), end));
        }
        let (entries, end) = self.contents.as_mut().expect("filled in above");
        let next = entries.next();
        if next.is_none() && !source.ends_at(*end)? {
            let what = "the file goes on behind the data of its last tensor".to_owned();
            return Err(Error::new(ErrorKind::Malformed { what }).at(*end));
        }
        Ok(next)
    }
}

/// What a file holds.
pub(super) struct Contents {
    pub(super) metadata: IndexMap<String, String>,
    /// In the order of their data.
    entries: Vec<Entry>,
    end: u64,
}

pub(super) fn read<'de, B: ByteSource<'de>>(source: &mut B, limits: &Limits) -> Result<Contents> {
    let json = header::read(source)?;
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
    // Those without bytes come before the one that begins in the same place.
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);

    let data = header::LENGTH + json.len() as u64;
    let mut end = data;
    let mut entries = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let placed = tensor.check(end - data).and_then(|()| Cursor::new(source, end).payload(&tensor.info));
        let range = placed.map_err(|error| error.in_tensor(&name))?;
        end = range.end;
        entries.push(Entry::new(Some(name), tensor.info, range));
    }
    Ok(Contents { metadata, entries, end })
}

fn read_metadata(value: Value<'_>, limits: &Limits) -> Result<IndexMap<String, String>> {
    let twice = |key| ErrorKind::Malformed { what: format!("two entries of the metadata have the key `{key}`") };
    value
        .members("number of entries of metadata", limits.tensors, twice)?
        .into_iter()
        .map(|(key, value)| Ok((key, value.string()?)))
        .collect()
}

/// A tensor as the header tells it, and where it does.
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
        // Not of the vector, which has more room than most shapes need.
        let info = TensorInfo::new(dtype, &*record.shape);
        Ok(Self { info, data_offsets: record.data_offsets, offset })
    }

    /// Checks that the data begins where what lies before it ends, and has the bytes that the tensor takes.
    fn check(&self, end: u64) -> Result<()> {
        let (start, stop) = self.data_offsets;
        let bad_number = |what, found: usize, expected| {
            Err(Error::new(ErrorKind::BadNumber { what, found: found as i128, expected }).at(self.offset))
        };
        if start as u64 != end {
            return bad_number("data offset", start, format!("{end}, as tensors lie one behind the other"));
        }
        if stop < start {
            return bad_number("end of the data", stop, format!("at least {start}, where it begins"));
        }
        self.info.check_payload((stop - start) as u64).map_err(|invalid| Error::from(invalid).at(self.offset))
    }
}
