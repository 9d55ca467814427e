//! The flatbuffer in a file: read and verified, and built.

use std::cmp::Reverse;
use std::ops::Range;

use flatbuffers::{ErrorTraceDetail, ForwardsUOffset, InvalidFlatbuffer, Vector, VerifierOptions};
use hashbrown::HashSet;

use super::generated::{
    OperationMetadata, TensorBuffersMetadata, TensorMetadata, root_as_tensor_buffers_metadata_with_opts,
};
use super::header;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::record::{FlatbufferWriter, cannot_store, check_table};
use crate::sorted;
use crate::storage::{ReadAt, Slice};
use crate::tensor::{Shape, TensorInfo};

/// The version that is written.
const VERSION: &str = "1.0.0";

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
    /// The name of the model, which the reference never writes.
    pub model: Option<String>,
    /// A graph of computations, in the order of the file.
    pub operations: Vec<Operation>,
    /// The tensors are sorted by id. If they are not, the reference reader misses most of them.
    pub is_sorted: bool,
    /// The names of the tensors whose id is not [that of their name](super::id). The reference reader misses these too.
    pub wrong_ids: Vec<String>,
}

/// An operation of the graph that a file may hold. It is kept, not run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Operation {
    /// The number by which other operations refer to this one.
    pub id: u64,
    /// The kind of the operation, a number of the reference: 1 adds, 15 multiplies matrices.
    pub operation: i8,
    /// The [id](super::id) of the resulting tensor.
    pub output: u64,
    /// The ids of the operations whose results are the inputs.
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
    open(file, limits, |root, start| {
        let mut names = HashSet::new();
        each_tensor(&root, start, limits, |record| insert_name(&mut names, &record))?;
        Ok(root.into())
    })
}

impl From<TensorBuffersMetadata<'_>> for Metadata {
    fn from(root: TensorBuffersMetadata<'_>) -> Self {
        let tensors = || root.tensors().into_iter().flatten();
        Self {
            version: root.version().to_owned(),
            model: root.model().map(str::to_owned),
            operations: operations(&root),
            is_sorted: tensors().map(|tensor| tensor.id()).is_sorted(),
            wrong_ids: tensors()
                .filter(|tensor| tensor.id() != header::id(tensor.name()))
                .map(|tensor| tensor.name().to_owned())
                .collect(),
        }
    }
}

/// Returns the operations in the order of the file.
pub(super) fn operations(root: &TensorBuffersMetadata<'_>) -> Vec<Operation> {
    let operation = |found: OperationMetadata<'_>| Operation {
        id: found.id(),
        operation: found.operation(),
        output: found.output(),
        inputs: found.input_operations().into_iter().flatten().collect(),
    };
    root.operations().into_iter().flatten().map(operation).collect()
}

/// A tensor in the metadata.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) id: u64,
    pub(super) name: &'a str,
    pub(super) info: TensorInfo,
    pub(super) range: Range<u64>,
}

/// Reads and verifies the metadata, and calls `take` with it and its offset in the file.
pub(super) fn open<T>(
    file: &mut dyn ReadAt,
    limits: &Limits,
    take: impl FnOnce(TensorBuffersMetadata<'_>, u64) -> Result<T>,
) -> Result<T> {
    header::read_magic(file)?;
    file.keep_rest(limits.payload.min(header::MAX_FILE))?;
    let len = file.file_len().expect("the length is known, or the rest is kept");
    let range = header::read_footer(file, len)?;
    let len = usize::try_from(range.end - range.start).expect("less than 2 GiB");
    // The reference puts the metadata at any offset. Its numbers are aligned relative to its own start.
    let mut words = vec![0_u64; len.div_ceil(size_of::<u64>())];
    let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..len];
    file.read_at(range.start, bytes)?;
    let root =
        root_as_tensor_buffers_metadata_with_opts(&verifier(len), bytes).map_err(|error| invalid(&error, &range))?;
    check_tables(&root, range.start)?;
    check_version(root.version()).map_err(|error| error.at(range.start))?;
    take(root, range.start)
}

/// Bounds the work for a file in proportion to its length: parts of a flatbuffer may be referenced any number of times.
fn verifier(len: usize) -> VerifierOptions {
    let max_apparent_size = len.saturating_mul(16).saturating_add(1 << 20);
    VerifierOptions { max_tables: len, max_apparent_size, ..VerifierOptions::default() }
}

/// Checks what the verifier leaves out of the tables without required fields.
fn check_tables(root: &TensorBuffersMetadata<'_>, start: u64) -> Result<()> {
    let mut operations = root.operations().into_iter().flatten();
    operations.try_for_each(|operation| check_table(&operation._tab, &|position| start + position as u64))
}

fn check_version(version: &str) -> Result<()> {
    if version.split('.').next() == Some("1") {
        return Ok(());
    }
    let shown: String = version.chars().take(32).collect();
    let what = format!("version is `{}`, but expected 1.x", shown.escape_debug());
    Err(ErrorKind::Malformed { what }.into())
}

/// Calls `take` with each tensor, in the order of their data.
pub(super) fn each_tensor<T>(
    root: &TensorBuffersMetadata<'_>,
    start: u64,
    limits: &Limits,
    mut take: impl FnMut(Record<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let Some(tensors) = root.tensors() else { return Ok(Vec::new()) };
    if tensors.len() as u64 > limits.tensors {
        let what = "number of tensors";
        let limit = ErrorKind::Limit { what, found: tensors.len() as u64, limit: limits.tensors };
        return Err(Error::new(limit).at(start));
    }
    check_ids(&tensors, start)?;
    let mut before: Option<Record<'_>> = None;
    let mut taken = Vec::with_capacity(tensors.len());
    for at in in_data_order(&tensors) {
        let tensor = tensors.get(at);
        let record = record(tensor, start, limits).and_then(|record| {
            check_overlap(before.as_ref(), &record)?;
            Ok(record)
        });
        let place = start + tensor._tab.loc() as u64;
        let record = record.map_err(|error| error.in_tensor(tensor.name()).at(place))?;
        let kept = Record { id: record.id, name: record.name, info: record.info.clone(), range: record.range.clone() };
        taken.push(take(record)?);
        if !kept.range.is_empty() {
            before = Some(kept);
        }
    }
    Ok(taken)
}

/// Adds the name of a tensor to those before.
pub(super) fn insert_name(names: &mut HashSet<Box<str>>, tensor: &Record<'_>) -> Result<()> {
    if names.insert(tensor.name.into()) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::DuplicateName { name: tensor.name.to_owned() }).at(tensor.range.start))
}

type Tensors<'a> = Vector<'a, ForwardsUOffset<TensorMetadata<'a>>>;

/// Checks that no two tensors have the same id. Two references to one entry have, too.
fn check_ids(tensors: &Tensors<'_>, start: u64) -> Result<()> {
    let ids: Vec<u64> = tensors.iter().map(|tensor| tensor.id()).collect();
    let order = sorted::positions(ids.len(), &mut |one, other| ids[one].cmp(&ids[other]));
    match order.windows(2).find(|pair| ids[pair[0]] == ids[pair[1]]) {
        Some(pair) => {
            let [one, other] = [pair[0], pair[1]].map(|at| tensors.get(at));
            let place = start + other._tab.loc() as u64;
            Err(Error::new(same_id(one.name(), other.name(), one.id())).at(place))
        }
        None => Ok(()),
    }
}

/// Returns the error for two tensors of one id.
fn same_id(one: &str, other: &str, id: u64) -> ErrorKind {
    if one == other {
        return ErrorKind::DuplicateName { name: one.to_owned() };
    }
    ErrorKind::Malformed { what: format!("tensors `{one}` and `{other}` have the same id, {id:016x}") }
}

/// Returns the tensors in the order of their data.
///
/// Tensors without elements, and tensors that share all bytes, may begin at the same offset. They come in the order in
/// which their entries were built, as far as it shows: flatbuffers grow towards their start.
fn in_data_order(tensors: &Tensors<'_>) -> impl Iterator<Item = usize> {
    let place = |tensor: TensorMetadata<'_>| (tensor.data_offset(), tensor.data_size(), Reverse(tensor._tab.loc()));
    let places: Vec<_> = tensors.iter().map(place).collect();
    sorted::positions(places.len(), &mut |one, other| places[one].cmp(&places[other])).into_iter()
}

fn record<'a>(tensor: TensorMetadata<'a>, metadata: u64, limits: &Limits) -> Result<Record<'a>> {
    let dtype = header::dtype(tensor.data_type())?;
    let rank = tensor.shape().len() as u64;
    if rank > limits.rank {
        return Err(ErrorKind::Limit { what: "rank", found: rank, limit: limits.rank }.into());
    }
    let shape: Shape = tensor.shape().iter().map(|dim| dim as usize).collect();
    let info = TensorInfo::new(dtype, shape);
    info.check_payload(tensor.data_size().into())?;
    let start = u64::from(tensor.data_offset());
    let range = start..start + u64::from(tensor.data_size());
    if range.start < header::DATA || range.end > metadata {
        let (from, to, data) = (range.start, range.end, header::DATA);
        let what = format!("takes bytes {from} to {to}, but tensors lie in bytes {data} to {metadata}");
        return Err(ErrorKind::Malformed { what }.into());
    }
    Ok(Record { id: tensor.id(), name: tensor.name(), info, range })
}

/// Checks a tensor against the last one with elements: two may share all bytes, but not some of them.
fn check_overlap(before: Option<&Record<'_>>, record: &Record<'_>) -> Result<()> {
    match before {
        Some(before)
            if record.range.start < before.range.end && record.range != before.range && !record.range.is_empty() =>
        {
            Err(ErrorKind::Overlap { other: before.name.to_owned(), range: before.range.clone() }.into())
        }
        _ => Ok(()),
    }
}

/// Converts an error of the verifier.
fn invalid(error: &InvalidFlatbuffer, metadata: &Range<u64>) -> Error {
    use InvalidFlatbuffer as Invalid;

    let (what, trace) = match error {
        Invalid::MissingRequiredField { required, error_trace } => (format!("it has no `{required}`"), error_trace),
        Invalid::InconsistentUnion { field, error_trace, .. } => (format!("`{field}` is incomplete"), error_trace),
        Invalid::Utf8Error { error_trace, .. } => ("a string in it is not UTF-8".to_owned(), error_trace),
        Invalid::MissingNullTerminator { error_trace, .. } => {
            ("a string in it does not end with a NUL".to_owned(), error_trace)
        }
        Invalid::Unaligned { error_trace, .. } => ("a part of it is not aligned".to_owned(), error_trace),
        Invalid::RangeOutOfBounds { error_trace, .. } | Invalid::SignedOffsetOutOfBounds { error_trace, .. } => {
            ("a part of it lies outside".to_owned(), error_trace)
        }
        Invalid::TooManyTables | Invalid::ApparentSizeTooLarge | Invalid::DepthLimitReached => {
            let what = "the metadata is not a flatbuffer of its schema: its parts are referenced too often".to_owned();
            return Error::new(ErrorKind::Malformed { what }).at(metadata.start);
        }
    };
    let error =
        Error::new(ErrorKind::Malformed { what: format!("the metadata is not a flatbuffer of its schema: {what}") });
    let trace = trace.as_ref();
    // From the innermost part outwards. If a part begins outside, the part around it references it.
    let places = trace.iter().map(|found| match found {
        ErrorTraceDetail::VectorElement { position, .. }
        | ErrorTraceDetail::TableField { position, .. }
        | ErrorTraceDetail::UnionVariant { position, .. } => *position as u64,
    });
    let place = places.map(|place| metadata.start + place).find(|place| metadata.contains(place));
    let error = error.at(place.unwrap_or(metadata.start));
    match trace {
        [.., ErrorTraceDetail::VectorElement { index, .. }, ErrorTraceDetail::TableField { field_name, .. }]
            if field_name == "tensors" =>
        {
            error.in_tensor(format!("#{index}"))
        }
        _ => error,
    }
}

/// Returns the end of a file with these tensors: the metadata and the footer.
///
/// The entries are sorted by id, as the reference looks them up by a binary search. They are written in the reverse of the
/// order given, as the reference does, so that [`in_data_order`] recovers it.
pub(super) fn build(tensors: &[Record<'_>], model: Option<&str>, operations: &[Operation]) -> Result<Vec<u8>> {
    let mut front = Vec::with_capacity(capacity(tensors, model, operations, header::MAX_METADATA)?);
    front.resize(size_of::<u32>(), 0);
    let mut out = FlatbufferWriter::new(front);
    let has_model = if model.is_some() { 4 } else { 0 };
    let [version, model_name, entries, steps] = out.table(ROOT, [4, has_model, 4, 4]);

    let sorted = sorted::positions(tensors.len(), &mut |one, other| tensors[one].id.cmp(&tensors[other].id));
    let same = |pair: &&[usize]| tensors[pair[0]].id == tensors[pair[1]].id;
    if let Some(pair) = sorted.windows(2).find(same) {
        let [one, other] = [&tensors[pair[0]], &tensors[pair[1]]];
        return Err(same_id(one.name, other.name, one.id).into());
    }
    let mut places = vec![0; tensors.len()];
    for (at, place) in sorted.into_iter().zip(out.offsets(entries, tensors.len())) {
        places[at] = place;
    }
    for (tensor, place) in tensors.iter().zip(places).rev() {
        let [id, name, shape, dtype, offset, size] = out.table(place, [8, 4, 4, 1, 4, 4]);
        out.set(id, &tensor.id.to_le_bytes());
        out.set(dtype, &header::tag(tensor.info.dtype).0.to_le_bytes());
        out.set(offset, &number(tensor.range.start).to_le_bytes());
        out.set(size, &number(tensor.range.end - tensor.range.start).to_le_bytes());
        out.vector(shape, tensor.info.shape.iter().map(|&dim| number(dim as u64).to_le_bytes()));
        out.string(name, tensor.name);
    }

    let sorted = sorted::positions(operations.len(), &mut |one, other| operations[one].id.cmp(&operations[other].id));
    for (at, place) in sorted.into_iter().zip(out.offsets(steps, operations.len())) {
        let operation = &operations[at];
        let [id, kind, output, inputs] = out.table(place, [8, 1, 8, 4]);
        out.set(id, &operation.id.to_le_bytes());
        out.set(kind, &operation.operation.to_le_bytes());
        out.set(output, &operation.output.to_le_bytes());
        out.vector(inputs, operation.inputs.iter().map(|input| input.to_le_bytes()));
    }
    out.string(version, VERSION);
    if let Some(model) = model {
        out.string(model_name, model);
    }
    Ok(header::with_footer(out.finish()))
}

/// The position of the offset of the root.
const ROOT: usize = 0;

fn number(number: u64) -> u32 {
    u32::try_from(number).expect("the plan was checked")
}

/// Returns an upper bound of the length of the metadata. It may be `most`, as the builder panics beyond.
fn capacity(tensors: &[Record<'_>], model: Option<&str>, operations: &[Operation], most: u64) -> Result<usize> {
    // A table with all its fields, the offset to it, and the lengths and the padding of the vectors in it.
    const ENTRY: u64 = 80;
    let instead = "the metadata is below 2 GiB; write several files";
    let too_much = || cannot_store("more names and dims", instead);
    let mut bytes = 4 * ENTRY + model.map_or(0, str::len) as u64;
    for operation in operations {
        bytes += ENTRY + 8 * operation.inputs.len() as u64;
    }
    if bytes > most {
        return Err(cannot_store("this many operations", instead).into());
    }
    for tensor in tensors {
        bytes += ENTRY + tensor.name.len() as u64 + 4 * tensor.info.shape.rank() as u64;
        if bytes > most {
            return Err(Error::new(too_much()).in_tensor(tensor.name));
        }
    }
    Ok(usize::try_from(bytes).expect("at most 2 GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Dtype;

    #[test]
    fn names_the_tensor_at_which_the_metadata_is_too_long() {
        let record = |name| Record { id: 0, name, info: TensorInfo::new(Dtype::U8, [2, 3]), range: 0..6 };
        let tensors = [record("a"), record("b"), record("c")];
        assert_eq!(capacity(&tensors, None, &[], 587).unwrap(), 4 * 80 + 3 * 89);
        assert_eq!(
            capacity(&tensors, None, &[], 586).unwrap_err().to_string(),
            "tensor `c`: cannot store more names and dims; the metadata is below 2 GiB; write several files"
        );
    }
}
