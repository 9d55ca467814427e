//! The flatbuffer in a file: read and verified.

use std::cmp::Reverse;
use std::ops::Range;

use hashbrown::HashSet;
use smallvec::SmallVec;

use super::{FORMAT, header};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::read::{FlatbufferReader, LastHeaders, ReadHeader, SmallIndex, Table, Tables};
use crate::storage::{ReadAt, Slice};
use crate::tensor::{Shape, TensorInfo, sorted};

/// The fields of the tables, by their numbers in `schema.fbs`.
pub(super) mod root {
    pub(in super::super) const VERSION: usize = 0;
    pub(in super::super) const MODEL: usize = 1;
    pub(in super::super) const TENSORS: usize = 2;
    pub(in super::super) const OPERATIONS: usize = 3;
}

pub(super) mod tensor {
    pub(in super::super) const ID: usize = 0;
    pub(in super::super) const NAME: usize = 1;
    pub(in super::super) const SHAPE: usize = 2;
    pub(in super::super) const DATA_TYPE: usize = 3;
    pub(in super::super) const DATA_OFFSET: usize = 4;
    pub(in super::super) const DATA_SIZE: usize = 5;
}

pub(super) mod operation {
    pub(in super::super) const ID: usize = 0;
    pub(in super::super) const OPERATION: usize = 1;
    pub(in super::super) const OUTPUT: usize = 2;
    pub(in super::super) const INPUT_OPERATIONS: usize = 3;
}

/// Information in a file besides its tensors.
///
/// ```
/// use tensorfile::{TensorMap, tensorbuffers};
///
/// let file = tensorbuffers::Options::new().model("MiniLM").to_vec(&TensorMap::new())?;
/// let metadata = tensorbuffers::metadata(&file)?;
/// assert_eq!((metadata.version.as_str(), metadata.model.as_deref()), ("1.0.0", Some("MiniLM")));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Metadata {
    /// The version of the format; its first number is 1.
    pub version: String,
    /// The name of the model. The reference never writes it.
    pub model: Option<String>,
    /// A graph of computations, in the order of the file.
    pub operations: Vec<Operation>,
    /// The tensors are sorted by id. If they are not, the reference reader misses most of them.
    pub is_sorted: bool,
    /// The names of tensors whose id differs from the [id of their name](super::id). The reference reader cannot find
    /// them.
    pub wrong_ids: Vec<String>,
}

/// An operation of the graph in a file. It is kept, not run.
///
/// ```
/// use tensorfile::TensorMap;
/// use tensorfile::tensorbuffers::{Operation, Options, id, metadata};
///
/// let multiply = Operation { id: 1, operation: 15, output: id("y"), inputs: vec![] };
/// let file = Options::new().operations([multiply.clone()]).to_vec(&TensorMap::new())?;
/// assert_eq!(metadata(&file)?.operations, [multiply]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Operation {
    /// The number by which operations refer to each other.
    pub id: u64,
    /// The kind of the operation, a number of the reference: 1 adds, 15 multiplies matrices.
    pub operation: i8,
    /// The [id](super::id) of the resulting tensor.
    pub output: u64,
    /// The ids of the operations that compute the inputs.
    pub inputs: Vec<u64>,
}

/// Reads the information in a file besides its tensors. All tensors are checked.
///
/// ```
/// use tensorfile::{TensorMap, tensorbuffers};
///
/// let file = tensorbuffers::to_vec(&TensorMap::new())?;
/// assert!(tensorbuffers::metadata(&file)?.is_sorted);
/// # Ok::<(), tensorfile::Error>(())
/// ```
///
/// # Errors
///
/// As [`from_slice`](super::from_slice), if the file is malformed.
pub fn metadata(file: &[u8]) -> Result<Metadata> {
    read(&mut Slice::new(file), &Limits::default()).map_err(|error| error.in_format("tensorbuffers"))
}

/// Reads the information in a file besides its tensors.
pub(super) fn read(file: &mut dyn ReadAt, limits: &Limits) -> Result<Metadata> {
    open(file, limits, |contents| {
        let mut wrong_ids = Vec::new();
        contents.each_tensor(limits, &mut |record| {
            if record.id != header::id(record.name) {
                wrong_ids.push(record.name.to_owned());
            }
            Ok(())
        })?;
        Ok(Metadata {
            version: contents.version.to_owned(),
            model: contents.model.map(str::to_owned),
            is_sorted: contents.is_sorted,
            operations: contents.operations,
            wrong_ids,
        })
    })
}

/// The metadata of a file, checked when it was opened.
pub(super) struct MetadataSummary {
    pub(super) version: String,
    pub(super) model: Option<String>,
    pub(super) operations: Vec<Operation>,
    pub(super) is_sorted: bool,
    /// The number of tensors whose id differs from the id of their name.
    pub(super) wrong_ids: usize,
    /// The first of them, in the order of their data.
    pub(super) first_wrong: Option<String>,
    /// The name of the first tensor with a repeated id, by id.
    pub(super) first_repeated: Option<String>,
}

impl MetadataSummary {
    /// Reads the metadata. Holds nothing for each tensor: a file may have millions.
    pub(super) fn read(file: &mut dyn ReadAt, limits: &Limits) -> Result<Self> {
        open_root(file, limits, |table, _| {
            let (mut is_sorted, mut last, mut wrong_ids, mut first) = (true, None, 0, None);
            let mut first_repeated = None;
            let tensors = table.tables(root::TENSORS)?;
            for table in tensors.clone() {
                let table = table?;
                let (id, range, name) = (table.u64(tensor::ID)?, data_range(&table)?, name(&table)?);
                is_sorted &= last <= Some(id);
                if last == Some(id) && first_repeated.is_none() {
                    first_repeated = Some(name.to_owned());
                }
                last = Some(id);
                if id != header::id(name) {
                    wrong_ids += 1;
                    let key = (range, Reverse(table.offset()));
                    if first.is_none_or(|(before, _)| key < before) {
                        first = Some((key, name));
                    }
                }
            }
            if !is_sorted {
                first_repeated = repeated_id(&tensors)?;
            }
            Ok(Self {
                version: version(table)?.to_owned(),
                model: table.string(root::MODEL)?.map(str::to_owned),
                operations: operations(table)?,
                is_sorted,
                wrong_ids,
                first_wrong: first.map(|(_, name)| name.to_owned()),
                first_repeated,
            })
        })
    }
}

/// The metadata of a file.
pub(super) struct MetadataView<'a> {
    pub(super) version: &'a str,
    pub(super) model: Option<&'a str>,
    /// In the order of the file.
    pub(super) operations: Vec<Operation>,
    tensors: Tables<'a>,
    order: DataOrder,
    /// Each id is above the one before.
    is_sorted: bool,
    /// The offset of the metadata in the file.
    pub(super) start: u64,
}

/// A tensor in the metadata.
pub(super) struct MetadataTensor<'a> {
    pub(super) id: u64,
    pub(super) name: &'a str,
    pub(super) header: ReadHeader,
    pub(super) range: Range<u64>,
}

/// Reads the metadata, and calls `take` with it.
pub(super) fn open<T>(
    file: &mut dyn ReadAt,
    limits: &Limits,
    take: impl FnOnce(MetadataView<'_>) -> Result<T>,
) -> Result<T> {
    open_root(file, limits, |root, start| take(MetadataView::read(root, start, limits)?))
}

/// Reads the metadata, and calls `take` with its root and its offset in the file.
fn open_root<T>(file: &mut dyn ReadAt, limits: &Limits, take: impl FnOnce(&Table<'_>, u64) -> Result<T>) -> Result<T> {
    header::read_magic(file)?;
    file.keep_rest(limits.most_held().min(header::MAX_FILE))?;
    let len = file.file_len().expect("the length is known, or the rest is kept");
    let range = header::read_footer(file, len)?;
    let (start, mut memory) = (range.start, Vec::new());
    let reader = FlatbufferReader::new(file.bytes(range, &mut memory)?, start);
    take(&reader.root()?, start)
}

/// Finds the tensors of a small file without anything else.
pub(super) fn small<'f>(file: &'f [u8], limits: &Limits, index: &mut SmallIndex<'f>) -> Option<()> {
    header::read_magic(&mut Slice::new(file)).ok()?;
    let Range { start, end } = header::read_footer(&mut Slice::new(file), file.len() as u64).ok()?;
    let bytes = Slice::new(file).get(&(start..end))?;
    let reader = FlatbufferReader::new(bytes, start);
    let root = reader.root().ok()?;
    if root.tables(root::TENSORS).ok()?.len() > SmallIndex::MOST {
        return None;
    }
    let contents = MetadataView::read(&root, start, limits).ok()?;
    let mut is_small = contents.model.is_none() && contents.operations.is_empty();
    let read = contents.each_tensor(limits, &mut |MetadataTensor { name, header, range, .. }| {
        let name = SmallIndex::part_of_file(file, name);
        let pushed = name.zip(Slice::new(file).get(&range));
        let pushed = pushed.and_then(|(name, payload)| index.push_read(name, header, payload));
        is_small &= pushed.is_some();
        Ok(())
    });
    (is_small && read.is_ok()).then_some(())
}

/// Returns the version of a file, unchecked.
fn version<'a>(table: &Table<'a>) -> Result<&'a str> {
    table.string(root::VERSION)?.ok_or_else(|| lacks(table, "version"))
}

fn operations(table: &Table<'_>) -> Result<Vec<Operation>> {
    table.tables(root::OPERATIONS)?.map(|operation| Operation::read(&operation?)).collect()
}

/// Returns whether the reference implementation writes files of a version.
pub(super) fn is_known(version: &str) -> bool {
    version.split('.').next() == Some("1")
}

/// Returns the name of a tensor with a repeated id. Two references to one entry also repeat it.
fn repeated_id(tensors: &Tables<'_>) -> Result<Option<String>> {
    let ids = tensors.clone().map(|table| table?.u64(tensor::ID)).collect::<Result<Vec<_>>>()?;
    let order = sorted::by_number(&ids);
    let repeated = order.windows(2).find(|pair| pair[0].0 == pair[1].0);
    repeated.map(|pair| Ok(name(&tensors.get(pair[1].1)?)?.to_owned())).transpose()
}

impl<'a> MetadataView<'a> {
    fn read(table: &Table<'a>, start: u64, limits: &Limits) -> Result<Self> {
        let version = version(table)?;
        let tensors = table.tables(root::TENSORS)?;
        if tensors.len() as u64 > limits.tensors {
            let what = "number of tensors";
            let limit = ErrorKind::Limit { what, found: tensors.len() as u64, limit: limits.tensors };
            return Err(Error::new(limit).at(start));
        }
        let (order, is_sorted) = in_data_order(&tensors)?;
        let operations = operations(table)?;
        let model = table.string(root::MODEL)?;
        Ok(Self { version, model, operations, tensors, order, is_sorted, start })
    }

    /// Returns the number of tensors.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Calls `take` with each tensor in data order, which is the order of the index.
    pub(super) fn each_tensor(
        &self,
        limits: &Limits,
        take: &mut dyn FnMut(MetadataTensor<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut before: Option<(&str, Range<u64>)> = None;
        let mut last = LastHeaders::default();
        for (position, &(range, i)) in self.order.iter().enumerate() {
            let table = self.tensors.get(i)?;
            let name = name(&table).map_err(|error| error.in_tensor(format!("#{i}")))?;
            let (start, size) = (range >> 32, range & u64::from(u32::MAX));
            let range = start..start + size;
            let locate = |error: Error| error.in_tensor(name).at(table.offset());
            let stored = HeaderFields::read(&table, size);
            let alike = last.iter().find(|(known, _)| stored.as_ref() == Some(known));
            let header = match alike {
                Some((_, alike)) => ReadHeader::Alike(*alike),
                None => {
                    let info = info(&table, size, limits).map_err(locate)?;
                    if let Some(stored) = stored {
                        last.add(stored, position);
                    }
                    ReadHeader::New(info)
                }
            };
            self.check_range(&range, before.as_ref()).map_err(|kind| locate(kind.into()))?;
            if !range.is_empty() {
                before = Some((name, range.clone()));
            }
            take(MetadataTensor { id: table.u64(tensor::ID)?, name, header, range })?;
        }
        Ok(())
    }

    /// Checks that the data of a tensor lies before the metadata, and compares it with the last non-empty tensor: two
    /// may share all bytes, but not some of them.
    fn check_range(&self, range: &Range<u64>, before: Option<&(&str, Range<u64>)>) -> Result<(), ErrorKind> {
        if range.start < header::DATA || range.end > self.start {
            let (from, to, data, metadata) = (range.start, range.end, header::DATA, self.start);
            let what = format!("takes bytes {from} to {to}, but tensors lie in bytes {data} to {metadata}");
            return Err(ErrorKind::Malformed { what });
        }
        match before {
            Some((other, before)) if range.start < before.end && range != before && !range.is_empty() => {
                Err(ErrorKind::Overlap { other: (*other).to_owned(), range: before.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// The [ranges](data_range) and the numbers of tensors, in the order of their data.
type DataOrder = SmallVec<[(u64, usize); 1]>;

/// Returns the order of the data of tensors, and whether their ids are sorted.
///
/// Empty tensors, and tensors with shared bytes, may begin at the same offset. They come in the order in which their
/// entries were built, as far as it is visible: flatbuffers grow towards their start.
fn in_data_order(tensors: &Tables<'_>) -> Result<(DataOrder, bool)> {
    // The entries are listed by id, but most often they lie in the order of the data. To read them as they are listed
    // would take a cache miss for each.
    let mut order = sorted::by_number(&(0..tensors.len()).map(|i| tensors.offset(i)).collect::<SmallVec<[u64; 1]>>());
    order.reverse();
    let mut ids = SmallVec::<[u64; 1]>::from_elem(0, tensors.len());
    for (range, i) in &mut order {
        let read = tensors.get(*i).and_then(|table| Ok((table.u64(tensor::ID)?, data_range(&table)?)));
        (ids[*i], *range) = read.map_err(|error| error.in_tensor(format!("#{i}")))?;
    }
    if !order.is_sorted_by_key(|(range, _)| *range) {
        let ranges: Vec<u64> = order.iter().map(|(range, _)| *range).collect();
        let sorted = sorted::by_number(&ranges).into_iter();
        order = sorted.map(|(range, place)| (range, order[place].1)).collect();
    }
    Ok((order, ids.is_sorted_by(|before, id| before < id)))
}

/// The header of a tensor as it is stored, and the number of its bytes.
#[derive(Debug, PartialEq, Eq)]
struct HeaderFields<'a> {
    tag: i8,
    shape: &'a [[u8; 4]],
    size: u64,
}

impl<'a> HeaderFields<'a> {
    /// Reads the header of a tensor of `size` bytes, if it has a shape. The header is not checked.
    fn read(table: &Table<'a>, size: u64) -> Option<Self> {
        let shape = table.has(tensor::SHAPE).then(|| table.numbers(tensor::SHAPE))?.ok()?;
        Some(Self { tag: table.i8(tensor::DATA_TYPE).ok()?, shape, size })
    }
}

impl Operation {
    fn read(table: &Table<'_>) -> Result<Self> {
        let inputs = table.numbers(operation::INPUT_OPERATIONS)?.iter().map(|id| u64::from_le_bytes(*id));
        Ok(Self {
            id: table.u64(operation::ID)?,
            operation: table.i8(operation::OPERATION)?,
            output: table.u64(operation::OUTPUT)?,
            inputs: inputs.collect(),
        })
    }
}

/// The error for a missing required field.
fn lacks(table: &Table<'_>, field: &str) -> Error {
    let what = format!("the flatbuffer is broken: it has no `{field}`");
    Error::new(ErrorKind::Malformed { what }).at(table.offset())
}

fn name<'a>(table: &Table<'a>) -> Result<&'a str> {
    table.string(tensor::NAME)?.ok_or_else(|| lacks(table, "name"))
}

/// Returns the data of a tensor as a number to sort by: its offset in the upper half, its size in the lower one.
// Inlined into the sort of the tensors.
#[inline(always)]
fn data_range(table: &Table<'_>) -> Result<u64> {
    let (offset, size) = (table.u32(tensor::DATA_OFFSET)?, table.u32(tensor::DATA_SIZE)?);
    Ok(u64::from(offset) << 32 | u64::from(size))
}

/// Returns the header of a tensor of `size` bytes.
fn info(table: &Table<'_>, size: u64, limits: &Limits) -> Result<TensorInfo> {
    let tag = table.i8(tensor::DATA_TYPE)?;
    if !table.has(tensor::SHAPE) {
        return Err(lacks(table, "shape"));
    }
    let shape = table.numbers(tensor::SHAPE)?;
    if shape.len() as u64 > limits.rank {
        return Err(ErrorKind::Limit { what: "rank", found: shape.len() as u64, limit: limits.rank }.into());
    }
    let shape: Shape = shape.iter().map(|dim| u32::from_le_bytes(*dim) as usize).collect();
    let info = match header::dtype(tag) {
        Some(dtype) => TensorInfo::new(dtype, shape),
        None => {
            let (stored, bytes) = (tag.to_le_bytes(), usize::try_from(size).unwrap_or(usize::MAX));
            TensorInfo::unknown_in(FORMAT.name, &tag.to_string(), &stored, shape, bytes)
        }
    };
    info.check_payload(size)?;
    Ok(info)
}

/// Adds the name of a tensor to a set.
pub(super) fn insert_name(names: &mut HashSet<Box<str>>, tensor: &MetadataTensor<'_>) -> Result<()> {
    if names.insert(tensor.name.into()) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::DuplicateName { name: tensor.name.to_owned() }).at(tensor.range.start))
}
