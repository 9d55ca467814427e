//! Writes tensorbuffers files: the tensors, then their metadata in a flatbuffer, then the footer.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use flatbuffers::FlatBufferBuilder;
use hashbrown::HashSet;
use smallvec::SmallVec;

use super::metadata::{self, Operation};
use super::{FORMAT, entries, header};
use crate::error::{Error, ErrorKind, Result, Short, cannot_store};
use crate::model::{FormatSpec, MetadataValue};
use crate::tensor::{TensorInfo, sorted};
use crate::write;
use crate::write::{
    BuiltTable, FileLayout, NamePolicy, Planned, PlannedTensors, SmallFile, SmallFormat, SmallTensors, slot,
};

/// Writes tensors in order, then their metadata.
#[derive(Debug, Clone)]
pub struct Encode {
    pub(super) alignment: u64,
    pub(super) model: Option<String>,
    pub(super) operations: Option<Vec<Operation>>,
    /// The contents of the file to append to.
    pub(super) before: Option<Before>,
}

impl Default for Encode {
    fn default() -> Self {
        Self { alignment: 64, model: None, operations: None, before: None }
    }
}

/// A file to append to. The new part begins at the offset of its metadata.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    pub(super) end: u64,
    pub(super) tensors: Vec<OldTensor>,
    pub(super) names: HashSet<Box<str>>,
}

impl Before {
    #[cold]
    fn check_name(&self, name: &str) -> Result<(), ErrorKind> {
        if self.names.contains(name) { Err(ErrorKind::RepeatedName { name: name.to_owned() }) } else { Ok(()) }
    }
}

/// A tensor already in the file.
#[derive(Debug, Clone)]
pub(super) struct OldTensor {
    pub(super) id: u64,
    pub(super) name: Box<str>,
    pub(super) info: TensorInfo,
    pub(super) range: Range<u64>,
}

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        FORMAT.spec()
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        if let Some(bytes) = info.payload_bytes().filter(|bytes| u32::try_from(*bytes).is_err()) {
            return Err(cannot_store(format!("{bytes} bytes"), "tensorbuffers stores tensors below 4 GiB"));
        }
        Ok(())
    }

    fn check_name(&self, name: &str, _: &TensorInfo) -> Result<(), ErrorKind> {
        self.before.as_ref().map_or(Ok(()), |before| before.check_name(name))
    }

    fn with_metadata(&self, entries: &[(String, MetadataValue)]) -> Result<Arc<dyn write::Encode>> {
        let mut encode = self.clone();
        for (key, value) in entries {
            entries::set(&mut encode.model, &mut encode.operations, key, &value.to_string())?;
        }
        Ok(Arc::new(encode))
    }

    fn small(&self) -> Option<&dyn SmallFormat> {
        /// The metadata is aligned to 8 bytes, and the gaps before payloads are made in memory.
        const ALIGNMENTS: RangeInclusive<u64> = 8..=256;

        let is_small =
            self.before.is_none() && self.alignment.is_power_of_two() && ALIGNMENTS.contains(&self.alignment);
        is_small.then_some(self)
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        if !self.alignment.is_power_of_two() || u32::try_from(self.alignment).is_err() {
            let what = format!("align tensors to {} bytes", self.alignment);
            let instead = "an alignment is a power of two below 2^32".to_owned();
            return Err(ErrorKind::Unsupported { what, instead }.into());
        }
        let begin = if self.before.is_some() { Vec::new() } else { header::MAGIC.to_vec() };
        let start = self.before.as_ref().map_or(0, |before| before.end);
        // Offsets in the layout count from `start`. Only with it added they are multiples of the alignment.
        let first = start.max(header::DATA).next_multiple_of(self.alignment) - start;
        let mut layout = plan.stack_payloads(first, self.alignment)?;
        layout.begin = begin;
        layout.end = self.end(plan, start, &layout)?;
        Ok(layout)
    }
}

impl Encode {
    /// Returns the end of the old file, with different metadata.
    pub(super) fn old_end(&self) -> Result<Vec<u8>> {
        let mut end = Vec::new();
        self.add_metadata(self.before_entries(), &mut end)?;
        Ok(end)
    }

    fn before_entries(&self) -> impl Iterator<Item = MetadataEntry<'_>> + Clone {
        self.before.iter().flat_map(|before| &before.tensors).map(OldTensor::entry)
    }

    /// Returns the end of a file of old and planned tensors. Offsets in the layout are relative to `start`.
    fn end(&self, plan: &PlannedTensors, start: u64, layout: &FileLayout) -> Result<Vec<u8>> {
        let entries = plan.iter().zip(layout.payloads());
        let entries = entries.map(|(tensor, payload)| MetadataEntry::new(&tensor, start + payload));
        let is_long = u32::try_from(start.saturating_add(layout.end_offset)).is_err();
        if is_long && let Some(far) = entries.clone().find(|entry| u32::try_from(entry.range.end).is_err()) {
            return Err(Error::new(too_far(far.range)).in_tensor(far.name));
        }
        let mut end = Vec::new();
        match &self.before {
            Some(_) => self.add_metadata(self.before_entries().chain(entries), &mut end)?,
            None => self.add_metadata(entries, &mut end)?,
        }
        Ok(end)
    }

    /// Adds the end of a file with these tensors: the metadata and the footer.
    ///
    /// The entries are sorted by id for the reference's binary search. Their tables are built in the given order, as in
    /// the reference, so that readers can recover it.
    fn add_metadata<'a>(
        &self,
        tensors: impl Iterator<Item = MetadataEntry<'a>> + Clone,
        file: &mut Vec<u8>,
    ) -> Result<()> {
        let (model, operations) = (self.model.as_deref(), self.operations.as_deref().unwrap_or_default());
        let (most, ids) = measure(tensors.clone(), model, operations, header::MAX_METADATA)?;
        // Its own reader finds ids by a binary search, but its writer does not sort them.
        let sorted = sorted::by_number(&ids);
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let name = |index| tensors.clone().nth(index).map_or("", |tensor| tensor.name);
            let (one, other, id) = (Short(name(pair[0].1)), Short(name(pair[1].1)), pair[0].0);
            let instead = format!("they have the same id, {id:016x}");
            return Err(cannot_store(format!("tensors `{one}` and `{other}` in one file"), instead).into());
        }
        // It never grows: to copy it takes longer than to build a part of it, and beyond 2 GiB the builder panics.
        let mut out = FlatBufferBuilder::with_capacity(most);
        let tables: SmallVec<[BuiltTable; 8]> =
            tensors.zip(&ids).map(|(tensor, id)| write_tensor(&mut out, &tensor, *id)).collect();
        let tensors = out.create_vector_from_iter(sorted.iter().map(|&(_, index)| tables[index]));
        let order =
            sorted::positions(operations.len(), &mut |one, other| operations[one].id.cmp(&operations[other].id));
        let tables: SmallVec<[BuiltTable; 8]> =
            order.into_iter().map(|index| write_operation(&mut out, &operations[index])).collect();
        let operations = out.create_vector(&tables);
        let model = model.map(|model| out.create_string(model));
        let version = out.create_string(VERSION);
        let root = out.start_table();
        out.push_slot_always(slot(metadata::root::OPERATIONS), operations);
        out.push_slot_always(slot(metadata::root::TENSORS), tensors);
        if let Some(model) = model {
            out.push_slot_always(slot(metadata::root::MODEL), model);
        }
        out.push_slot_always(slot(metadata::root::VERSION), version);
        let root = out.end_table(root);
        out.finish_minimal(root);
        let (bytes, start) = out.collapse();
        debug_assert_eq!(bytes.len(), most);
        header::add_metadata(bytes, start, file);
        Ok(())
    }
}

impl SmallFormat for Encode {
    fn front_bytes(&self, _: usize) -> usize {
        usize::try_from(self.alignment).expect("it is a small one")
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn finish(&self, tensors: &SmallTensors, file: &mut SmallFile<'_>) -> Result<()> {
        let file = file.bytes();
        file[..header::MAGIC.len()].copy_from_slice(&header::MAGIC);
        let entries = tensors.iter().scan(self.alignment, |end, tensor| {
            let entry = MetadataEntry::new(&tensor, *end);
            // The next one begins after the padding.
            *end = entry.range.end.next_multiple_of(self.alignment);
            Some(entry)
        });
        self.add_metadata(entries, file)
    }
}

/// A tensor in the metadata of a file.
#[derive(Clone)]
struct MetadataEntry<'a> {
    /// The id in the file before.
    id: Option<u64>,
    name: &'a str,
    info: &'a TensorInfo,
    range: Range<u64>,
}

impl<'a> MetadataEntry<'a> {
    /// A new tensor at an offset.
    #[inline]
    fn new(tensor: &Planned<'a>, start: u64) -> Self {
        let range = start..start + tensor.payload_bytes as u64;
        Self { id: None, name: tensor.name, info: tensor.info, range }
    }

    fn id(&self) -> u64 {
        self.id.unwrap_or_else(|| header::id(self.name))
    }
}

impl OldTensor {
    fn entry(&self) -> MetadataEntry<'_> {
        MetadataEntry { id: Some(self.id), name: &self.name, info: &self.info, range: self.range.clone() }
    }
}

fn too_far(range: Range<u64>) -> ErrorKind {
    let what = format!("it at bytes {} to {}", range.start, range.end);
    cannot_store(what, "tensorbuffers addresses bytes below 4 GiB; write several files")
}

/// The version to write.
const VERSION: &str = "1.0.0";

fn write_tensor(out: &mut FlatBufferBuilder<'_>, tensor: &MetadataEntry<'_>, id: u64) -> BuiltTable {
    use metadata::tensor;

    let data_type = match tensor.info.unknown_stored(FORMAT.name) {
        Some(&[tag]) => tag.cast_signed(),
        _ => header::tag(tensor.info.dtype),
    };
    let shape = out.create_vector_from_iter(tensor.info.shape.iter().map(|dim| number(*dim as u64)));
    let name = out.create_string(tensor.name);
    let table = out.start_table();
    out.push_slot_always(slot(tensor::ID), id);
    out.push_slot_always(slot(tensor::DATA_SIZE), number(tensor.range.end - tensor.range.start));
    out.push_slot_always(slot(tensor::DATA_OFFSET), number(tensor.range.start));
    out.push_slot_always(slot(tensor::SHAPE), shape);
    out.push_slot_always(slot(tensor::NAME), name);
    out.push_slot_always(slot(tensor::DATA_TYPE), data_type);
    out.end_table(table)
}

fn write_operation(out: &mut FlatBufferBuilder<'_>, operation: &Operation) -> BuiltTable {
    use metadata::operation;

    let inputs = out.create_vector(&operation.inputs);
    let table = out.start_table();
    out.push_slot_always(slot(operation::OUTPUT), operation.output);
    out.push_slot_always(slot(operation::ID), operation.id);
    out.push_slot_always(slot(operation::INPUT_OPERATIONS), inputs);
    out.push_slot_always(slot(operation::OPERATION), operation.operation);
    out.end_table(table)
}

fn number(number: u64) -> u32 {
    u32::try_from(number).expect("the plan was checked")
}

/// Returns an upper bound of the length of the metadata, and the ids of the tensors. The bound may be `most`, as the
/// builder panics beyond.
fn measure<'a>(
    tensors: impl Iterator<Item = MetadataEntry<'a>>,
    model: Option<&str>,
    operations: &[Operation],
    most: u64,
) -> Result<(usize, SmallVec<[u64; 1]>)> {
    // A table with all its fields, the offset to it, and the lengths and the padding of its vectors: 52 bytes. All of
    // this memory is used, so the bound is tight.
    const ENTRY: u64 = 56;
    let instead = "the metadata is below 2 GiB; write several files";
    let too_much = || cannot_store("more names and dims", instead);
    let mut bytes = 4 * ENTRY + model.map_or(0, str::len) as u64;
    for operation in operations {
        bytes += ENTRY + 8 * operation.inputs.len() as u64;
    }
    if bytes > most {
        return Err(cannot_store("this many operations", instead).into());
    }
    let mut ids = SmallVec::with_capacity(tensors.size_hint().0);
    for tensor in tensors {
        ids.push(tensor.id());
        bytes += ENTRY + tensor.name.len() as u64 + 4 * tensor.info.shape.rank() as u64;
        if bytes > most {
            return Err(Error::new(too_much()).in_tensor(tensor.name));
        }
    }
    Ok((usize::try_from(bytes).expect("at most 2 GiB"), ids))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Dtype;

    #[test]
    fn names_the_tensor_at_which_the_metadata_is_too_long() {
        let info = TensorInfo::new(Dtype::U8, [2, 3]);
        let tensors = ["a", "b", "c"].map(|name| MetadataEntry { id: None, name, info: &info, range: 0..6 });
        let measure = |most| measure(tensors.iter().cloned(), None, &[], most);
        assert_eq!(measure(419).unwrap().0, 4 * 56 + 3 * 65);
        assert_eq!(
            measure(418).unwrap_err().to_string(),
            "tensor `c`: cannot store more names and dims; the metadata is below 2 GiB; write several files"
        );
    }
}
