use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use hashbrown::HashSet;
use smallvec::SmallVec;

use super::metadata::Operation;
use super::{FORMAT, entries, header};
use crate::error::{Error, ErrorKind, Result, Short, cannot_store};
use crate::model::{FormatSpec, MetadataValue};
use crate::tensor::{TensorInfo, sorted};
use crate::write;
use crate::write::{
    FileLayout, FlatbufferWriter, NamePolicy, Planned, PlannedIter, PlannedTensors, SmallFile, SmallFormat,
    SmallTensors, TableFields,
};

/// Writes tensors one after the other, then their metadata.
#[derive(Debug, Clone)]
pub(super) struct Encode {
    pub(super) alignment: u64,
    pub(super) model: Option<String>,
    pub(super) operations: Option<Vec<Operation>>,
    /// The contents of the file that is appended to.
    pub(super) before: Option<Before>,
}

impl Default for Encode {
    fn default() -> Self {
        Self { alignment: 64, model: None, operations: None, before: None }
    }
}

/// A file that is appended to. The new part begins at the offset of its metadata.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    pub(super) end: u64,
    pub(super) tensors: Vec<OldTensor>,
    pub(super) names: HashSet<Box<str>>,
}

impl Before {
    #[cold]
    fn check_name(&self, name: &str) -> Result<(), ErrorKind> {
        match self.names.contains(name) {
            true => Err(ErrorKind::RepeatedName { name: name.to_owned() }),
            false => Ok(()),
        }
    }
}

/// A tensor that is already in the file.
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
    /// Returns the end of the file before, with other metadata.
    pub(super) fn old_end(&self) -> Result<Vec<u8>> {
        self.metadata(self.before_entries(), Vec::new())
    }

    fn before_entries(&self) -> impl DoubleEndedIterator<Item = MetadataEntry<'_>> + Clone {
        self.before.iter().flat_map(|before| &before.tensors).map(OldTensor::entry)
    }

    /// Returns the end of a file of the planned tensors after those before, of which the layout counts from `start`.
    fn end(&self, plan: &PlannedTensors, start: u64, layout: &FileLayout) -> Result<Vec<u8>> {
        let entries = plan.iter().zip(layout.payloads());
        let entries = entries.map(|(tensor, payload)| MetadataEntry::new(&tensor, start + payload));
        let is_long = u32::try_from(start.saturating_add(layout.end_offset)).is_err();
        if is_long && let Some(far) = entries.clone().find(|entry| u32::try_from(entry.range.end).is_err()) {
            return Err(Error::new(too_far(far.range)).in_tensor(far.name));
        }
        match &self.before {
            Some(_) => self.metadata(self.before_entries().chain(entries), Vec::new()),
            None => self.metadata(entries, Vec::new()),
        }
    }

    /// Adds the end of a file with these tensors to a buffer: the metadata and the footer.
    ///
    /// The entries are sorted by id, as the reference looks them up by a binary search. They are written in the reverse of
    /// the order given, as the reference does, so that readers recover it.
    fn metadata<'a>(
        &self,
        tensors: impl DoubleEndedIterator<Item = MetadataEntry<'a>> + Clone,
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>> {
        let (model, operations) = (self.model.as_deref(), self.operations.as_deref().unwrap_or_default());
        let (expected, ids) = measure(tensors.clone(), model, operations, header::MAX_METADATA)?;
        let root = buffer.len();
        let mut out = FlatbufferWriter::new(buffer, size_of::<u32>(), expected);
        let fields = if model.is_some() { &CONTENTS_OF_MODEL } else { &CONTENTS };
        let [version, model_name, entries, steps] = out.table(root, fields);

        let sorted = sorted::by_number(&ids);
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let name = |at| tensors.clone().nth(at).map_or("", |tensor| tensor.name);
            let (one, other, id) = (Short(name(pair[0].1)), Short(name(pair[1].1)), pair[0].0);
            let instead = format!("they have the same id, {id:016x}");
            return Err(cannot_store(format!("tensors `{one}` and `{other}` in one file"), instead).into());
        }
        let offsets = out.offsets(entries, sorted.len());
        let mut places: SmallVec<[usize; 1]> = SmallVec::from_elem(0, sorted.len());
        let places = places.as_mut_slice();
        for (number, &(_, at)) in sorted.iter().enumerate() {
            places[at] = offsets.at(number);
        }
        for (tensor, (&id_number, &place)) in tensors.rev().zip(ids.iter().zip(&*places).rev()) {
            let [id, name, shape, dtype, offset, size] = out.table(place, &TENSOR);
            out.set(id, id_number.to_le_bytes());
            out.set(
                dtype,
                match tensor.info.unknown_stored(FORMAT.name) {
                    Some(&[tag]) => [tag],
                    _ => header::tag(tensor.info.dtype).to_le_bytes(),
                },
            );
            out.set(offset, number(tensor.range.start).to_le_bytes());
            out.set(size, number(tensor.range.end - tensor.range.start).to_le_bytes());
            out.vector(shape, tensor.info.shape.iter().map(|&dim| number(dim as u64).to_le_bytes()));
            out.string(name, tensor.name);
        }

        let order =
            sorted::positions(operations.len(), &mut |one, other| operations[one].id.cmp(&operations[other].id));
        let offsets = out.offsets(steps, operations.len());
        for (number, at) in order.into_iter().enumerate() {
            let operation = &operations[at];
            let [id, kind, output, inputs] = out.table(offsets.at(number), &OPERATION);
            out.set(id, operation.id.to_le_bytes());
            out.set(kind, operation.operation.to_le_bytes());
            out.set(output, operation.output.to_le_bytes());
            out.vector(inputs, operation.inputs.iter().map(|input| input.to_le_bytes()));
        }
        out.string(version, VERSION);
        if let Some(model) = model {
            out.string(model_name, model);
        }
        Ok(header::with_footer(out.finish(), root))
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
        let data = self.alignment..file.len() as u64;
        let entries = PackedEntries { tensors: tensors.iter(), data, alignment: self.alignment };
        *file = self.metadata(entries, std::mem::take(file))?;
        Ok(())
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
    /// A tensor that is added to the file, at an offset.
    #[inline]
    fn new(tensor: &Planned<'a>, start: u64) -> Self {
        let range = start..start + tensor.payload_bytes as u64;
        Self { id: None, name: tensor.name, info: tensor.info, range }
    }

    fn id(&self) -> u64 {
        self.id.unwrap_or_else(|| header::id(self.name))
    }
}

/// The tensors of a plan that are stored one after the other, each padded.
#[derive(Clone)]
struct PackedEntries<'a> {
    tensors: PlannedIter<'a>,
    /// From the first payload to the end of the padding after the last one.
    data: Range<u64>,
    alignment: u64,
}

impl PackedEntries<'_> {
    #[inline]
    fn padded(&self, tensor: &Planned<'_>) -> u64 {
        // A power of two.
        (tensor.payload_bytes as u64 + (self.alignment - 1)) & !(self.alignment - 1)
    }
}

impl<'a> Iterator for PackedEntries<'a> {
    type Item = MetadataEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let tensor = self.tensors.next()?;
        let start = self.data.start;
        self.data.start += self.padded(&tensor);
        Some(MetadataEntry::new(&tensor, start))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.tensors.size_hint()
    }
}

impl DoubleEndedIterator for PackedEntries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let tensor = self.tensors.next_back()?;
        self.data.end -= self.padded(&tensor);
        Some(MetadataEntry::new(&tensor, self.data.end))
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

/// The version that is written.
const VERSION: &str = "1.0.0";

static CONTENTS: TableFields<4> = TableFields::new([4, 0, 4, 4]);
static CONTENTS_OF_MODEL: TableFields<4> = TableFields::new([4; 4]);
static TENSOR: TableFields<6> = TableFields::new([8, 4, 4, 1, 4, 4]);
static OPERATION: TableFields<4> = TableFields::new([8, 1, 8, 4]);

fn number(number: u64) -> u32 {
    u32::try_from(number).expect("the plan was checked")
}

/// Returns an upper bound of the length of the metadata, and the ids of the tensors. The bound may be `most`, as the builder
/// panics beyond.
fn measure<'a>(
    tensors: impl Iterator<Item = MetadataEntry<'a>>,
    model: Option<&str>,
    operations: &[Operation],
    most: u64,
) -> Result<(usize, SmallVec<[u64; 1]>)> {
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
        assert_eq!(measure(587).unwrap().0, 4 * 80 + 3 * 89);
        assert_eq!(
            measure(586).unwrap_err().to_string(),
            "tensor `c`: cannot store more names and dims; the metadata is below 2 GiB; write several files"
        );
    }
}
