//! Writes PTD files: lays out the segments and builds the flatbuffer.

use std::sync::Arc;

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, Vector, WIPOffset};
use smallvec::SmallVec;

use super::header::{self, Family};
use super::metadata::KEYS;
use super::schema::{
    self, data_segment, data_v1, data_v2, flat_tensor, named_data, tensor_layout, tensor_metadata, tensor_segment,
};
use super::{Compatibility, FORMAT, Segments, Version};
use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::model::{FormatSpec, MetadataValue};
use crate::tensor::{Layout, TensorInfo};
use crate::write;
use crate::write::{
    BuiltTable, FileLayout, NamePolicy, PlannedIter, PlannedTensors, Sharing, SmallFile, SmallFormat, SmallTensors,
    ends_too_far, slot,
};

/// Writes the index, then the segments in order, each aligned.
#[derive(Debug, Clone)]
pub struct Encode {
    /// `None` for the version needed by the value's metadata, or else the default.
    pub(super) version: Option<Version>,
    pub(super) alignment: u32,
    pub(super) segments: Segments,
    pub(super) keep_dim_order: bool,
    pub(super) dedup: bool,
    pub(super) compatibility: Option<Compatibility>,
}

impl Default for Encode {
    fn default() -> Self {
        Self {
            version: None,
            alignment: 128,
            segments: Segments::PerTensor,
            keep_dim_order: false,
            dedup: false,
            compatibility: None,
        }
    }
}

/// The highest rank for a dim order, whose numbers are bytes.
pub(super) const MAX_RANK: usize = 255;

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        FORMAT.spec()
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn keeps_dim_order(&self, _: &TensorInfo) -> bool {
        self.keep_dim_order
    }

    fn sharing(&self) -> Sharing {
        if self.dedup { Sharing::EqualBytes } else { Sharing::SameMemory }
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        match info.layout {
            Layout::Blob if self.version() != Version::Ft01 => Err(no_place_for_blobs()),
            // The dim order belongs to a tensor of another rank.
            Layout::Unknown(_) if stored(info).is_none_or(|(_, order)| order.len() != info.shape.rank()) => {
                Err(cannot_store(info.to_string(), "its dim order is of another rank; leave the tensor out"))
            }
            _ => Ok(()),
        }
    }

    fn with_metadata(&self, entries: &[(String, MetadataValue)]) -> Result<Arc<dyn write::Encode>> {
        let mut encode = self.clone();
        let of = encode.compatibility.get_or_insert_default();
        let fields = [&mut of.model_name, &mut of.version, &mut of.quantization_scheme, &mut of.custom_description];
        for (key, field) in KEYS.into_iter().zip(fields) {
            if let Some((_, value)) = entries.iter().find(|(found, _)| found == key) {
                *field = value.to_string();
            }
        }
        // The only version with such fields. An explicit choice of a different one is refused.
        encode.version.get_or_insert(Version::Dt01V2);
        Ok(Arc::new(encode))
    }

    fn small(&self) -> Option<&dyn SmallFormat> {
        /// The gaps before payloads are made in memory.
        const MAX_ALIGNMENT: u32 = 256;

        // To share equal bytes, all of them are compared.
        let is_small = self.version() == Version::Ft01
            && !self.dedup
            && self.alignment <= MAX_ALIGNMENT
            && self.check_options().is_ok();
        is_small.then_some(self)
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        let Front { mut bytes, start, base, placed } = self.front(plan.iter(), &|index| plan.owner(index))?;
        bytes.drain(..start);
        let mut layout = FileLayout::with_capacity(plan.len());
        layout.begin = bytes;
        layout.end_offset = base.checked_add(placed.bytes).ok_or_else(beyond)?;
        let segments = placed.segments.as_slice();
        for place in placed.tensors.as_slice() {
            layout.push_payload(base + segments[place.segment].offset + place.offset);
        }
        Ok(layout)
    }
}

impl SmallFormat for Encode {
    fn front_bytes(&self, tensors: usize) -> usize {
        /// The header, the root and the layout of all tensors take this much, if they have the same shape.
        const FIRST: usize = 152;
        /// The entry of a tensor of a short name, and its segment.
        const ENTRY: usize = 60;

        (FIRST + ENTRY * tensors).next_multiple_of(self.alignment as usize)
    }

    fn alignment(&self) -> u64 {
        self.alignment.into()
    }

    fn pads_last(&self) -> bool {
        false
    }

    fn finish(&self, tensors: &SmallTensors, file: &mut SmallFile<'_>) -> Result<()> {
        let Front { bytes, start, base, .. } = self.front(tensors.iter(), &|index| index)?;
        let index = &bytes[start..];
        let (begin, gap) = file.set_front(usize::try_from(base).map_err(|_| beyond())?)?.split_at_mut(index.len());
        begin.copy_from_slice(index);
        gap.fill(0);
        Ok(())
    }
}

/// Everything before the segments, and the places of the data.
struct Front {
    /// The buffer of the flatbuffer, built from its end.
    bytes: Vec<u8>,
    /// The position of the first byte of the file in the buffer.
    start: usize,
    /// The offset of the segments in the file.
    base: u64,
    placed: SegmentLayout,
}

/// The places of the data, in bytes from the start of the first segment.
struct SegmentLayout {
    segments: SmallVec<[Segment; 8]>,
    tensors: SmallVec<[PlaceInSegment; 8]>,
    bytes: u64,
}

struct Segment {
    offset: u64,
    size: u64,
}

#[derive(Clone, Copy)]
struct PlaceInSegment {
    segment: usize,
    /// The offset from the start of the segment.
    offset: u64,
}

impl PlaceInSegment {
    fn segment_index(&self) -> u32 {
        u32::try_from(self.segment).expect("checked when the tensor was placed")
    }
}

impl Encode {
    /// Builds the index. `owner` returns the first tensor with the same bytes.
    fn front(&self, tensors: PlannedIter<'_>, owner: &dyn Fn(usize) -> usize) -> Result<Front> {
        self.check_options()?;
        self.check_blobs(tensors.clone())?;
        let placed = self.place(tensors.clone(), owner)?;
        // It never grows: to copy it takes longer than to build a part of it, and beyond 2 GiB the builder panics.
        let most = self.index_bytes(&tensors)?;
        let mut out = FlatBufferBuilder::with_capacity(most);
        let (family, root) = match self.version() {
            Version::Ft01 => (Family::FlatTensor, write_flat_tensor(&mut out, tensors, &placed)),
            Version::EarlyFt01 => unreachable!("the options were checked"),
            Version::Dt01V1 | Version::Dt01V2 => (Family::Data, self.write_data(&mut out, tensors, &placed)),
        };
        let (mut bytes, start) = family.finish(out, root);
        debug_assert_eq!(bytes.len(), most);
        let base = align((bytes.len() - start) as u64, self.alignment).ok_or_else(beyond)?;
        header::write(family, &mut bytes[start..], base, placed.bytes);
        Ok(Front { bytes, start, base, placed })
    }

    fn version(&self) -> Version {
        self.version.unwrap_or_default()
    }

    /// Refuses blobs planned before the value's metadata required a version without them.
    fn check_blobs(&self, mut tensors: PlannedIter<'_>) -> Result<()> {
        if self.version() == Version::Ft01 {
            return Ok(());
        }
        let blob = tensors.find(|tensor| tensor.info.layout == Layout::Blob);
        blob.map_or(Ok(()), |blob| Err(Error::new(no_place_for_blobs()).in_tensor(blob.name)))
    }

    fn check_options(&self) -> Result<()> {
        let refuse = |what: &str, instead: &str| {
            let (what, instead) = (what.to_owned(), instead.to_owned());
            Err(ErrorKind::Unsupported { what, instead }.into())
        };
        let version = self.version();
        if version == Version::EarlyFt01 {
            return refuse(
                "write the FT01 of ExecuTorch 0.5 and 0.6",
                "`Version::Ft01` is what later versions read and write",
            );
        }
        if version == Version::Ft01 && !matches!(self.segments, Segments::PerTensor) {
            return refuse("put several tensors into a segment of FT01", "`Version::Dt01V2` can");
        }
        if version != Version::Dt01V2 && self.compatibility.is_some() {
            return refuse("store compatibility metadata in this version", "`Version::Dt01V2` can");
        }
        if !self.alignment.is_power_of_two() {
            return refuse(&format!("align to {} bytes", self.alignment), "expected a power of two");
        }
        Ok(())
    }

    fn place(&self, tensors: PlannedIter<'_>, owner: &dyn Fn(usize) -> usize) -> Result<SegmentLayout> {
        let segments = if matches!(self.segments, Segments::PerTensor) { tensors.len() } else { 1 };
        let mut placed = SegmentLayout::with_capacity(segments, tensors.len());
        let mut group = None;
        for (index, tensor) in tensors.enumerate() {
            let place = match placed.tensors.get(owner(index)) {
                Some(&place) => place,
                None => {
                    let starts_segment = self.starts_segment(tensor.name, &mut group) || placed.segments.is_empty();
                    let place = placed
                        .add(tensor.payload_bytes as u64, starts_segment, self.alignment)
                        .ok_or_else(|| ends_too_far(tensor.info).in_tensor(tensor.name))?;
                    if u32::try_from(place.segment).is_err() {
                        return Err(beyond());
                    }
                    place
                }
            };
            placed.tensors.push(place);
        }
        Ok(placed)
    }

    fn starts_segment(&self, name: &str, group: &mut Option<String>) -> bool {
        match self.segments {
            Segments::PerTensor => true,
            Segments::One => false,
            Segments::By(group_of) => {
                let next = Some(group_of(name));
                next != std::mem::replace(group, next.clone())
            }
        }
    }

    /// Returns an upper bound for the length of the index in bytes. Refuses an index possibly too long for a
    /// flatbuffer.
    fn index_bytes(&self, tensors: &PlannedIter<'_>) -> Result<usize> {
        let texts = self.compatibility.iter().flat_map(Compatibility::texts).map(|text| (TENSOR + text.len()) as u64);
        let names = tensors.all_names().len() as u64;
        let tensor = if self.version() == Version::Ft01 { NAMED_DATA } else { TENSOR } as u64;
        // Tensors share their layouts.
        let dims: u64 = tensors.infos().iter().map(|info| info.shape.rank() as u64).sum();
        let layouts = LAYOUT as u64 * tensors.infos().len() as u64 + DIM as u64 * dims;
        let bytes = FRONT as u64 + texts.sum::<u64>() + tensor * tensors.len() as u64 + names + layouts;
        match usize::try_from(bytes) {
            Ok(len) if bytes <= header::MAX_FLATBUFFER => Ok(len),
            _ => {
                let instead = "an index is a flatbuffer, below 2^31 bytes";
                Err(cannot_store(format!("an index of {bytes} bytes"), instead).into())
            }
        }
    }

    fn write_data(
        &self,
        out: &mut FlatBufferBuilder<'_>,
        tensors: PlannedIter<'_>,
        placed: &SegmentLayout,
    ) -> BuiltTable {
        let segments = write_segments(out, &placed.segments);
        let tensor_segments = write_tensor_segments(out, tensors, placed);
        if self.version() == Version::Dt01V1 {
            let table = out.start_table();
            out.push_slot_always(slot(data_v1::TENSOR_ALIGNMENT), self.alignment);
            out.push_slot_always(slot(data_v1::SEGMENTS), segments);
            out.push_slot_always(slot(data_v1::TENSOR_SEGMENTS), tensor_segments);
            out.push_slot_always(slot(schema::VERSION), 1_u32);
            return out.end_table(table);
        }
        let compatibility = self.compatibility.as_ref().map(|compatibility| {
            let texts = compatibility.texts().map(|text| out.create_string(text));
            let table = out.start_table();
            for (field, text) in texts.into_iter().enumerate() {
                out.push_slot_always(slot(field), text);
            }
            out.end_table(table)
        });
        let table = out.start_table();
        out.push_slot_always(slot(data_v2::TENSOR_ALIGNMENT), self.alignment);
        out.push_slot_always(slot(data_v2::SEGMENTS), segments);
        out.push_slot_always(slot(data_v2::TENSOR_SEGMENTS), tensor_segments);
        if let Some(compatibility) = compatibility {
            out.push_slot_always(slot(data_v2::COMPATIBILITY_METADATA), compatibility);
        }
        out.push_slot_always(slot(schema::VERSION), 2_u32);
        out.end_table(table)
    }
}

impl SegmentLayout {
    fn with_capacity(segments: usize, tensors: usize) -> Self {
        Self { segments: SmallVec::with_capacity(segments), tensors: SmallVec::with_capacity(tensors), bytes: 0 }
    }

    /// Adds the next tensor. Returns `None` if it ends past 2⁶⁴.
    fn add(&mut self, bytes: u64, starts_segment: bool, alignment: u32) -> Option<PlaceInSegment> {
        let start = align(self.bytes, alignment)?;
        self.bytes = start.checked_add(bytes)?;
        let segment = self.segments.len();
        if starts_segment {
            self.segments.push(Segment { offset: start, size: bytes });
            return Some(PlaceInSegment { segment, offset: 0 });
        }
        let last = self.segments.last_mut().expect("the first tensor starts a segment");
        last.size = self.bytes - last.offset;
        Some(PlaceInSegment { segment: segment - 1, offset: start - last.offset })
    }
}

/// Returns the next multiple of an alignment, a power of two.
fn align(bytes: u64, alignment: u32) -> Option<u64> {
    let below = u64::from(alignment) - 1;
    Some(bytes.checked_add(below)? & !below)
}

fn no_place_for_blobs() -> ErrorKind {
    cannot_store("a blob", "DT01 stores tensors; FT01 stores blobs too")
}

fn beyond() -> Error {
    cannot_store("this much data", "a file has less than 2^64 bytes and 2^32 segments").into()
}

/// At least the number of bytes of the header, the root and the lists of fields.
const FRONT: usize = 256;

/// At least the number of bytes of a tensor's tables, vectors, offsets and padding.
const TENSOR: usize = 128;

/// At least the bytes of a tensor in FT01: 56 bytes for a key, a table, a segment, and their offsets. When the index is
/// moved to its front, memory beyond the index is used too. So a million tensors would take 70 MB more with a loose
/// bound.
const NAMED_DATA: usize = 60;

/// At least what the table of a layout takes, and its vectors without their elements.
const LAYOUT: usize = 32;

/// The bytes of a dim and of its place in the dim order.
const DIM: usize = 5;

/// A finished vector of tables.
type BuiltTables<'f> = WIPOffset<Vector<'f, flatbuffers::ForwardsUOffset<TableFinishedWIPOffset>>>;

/// Values made once for all tensors with the same info, by info number.
type ForInfos<T> = SmallVec<[Option<T>; 8]>;

/// The dtype, shape and dim order of a tensor.
#[derive(Clone, Copy)]
struct BuiltLayout<'f> {
    scalar_type: i8,
    sizes: WIPOffset<Vector<'f, i32>>,
    dim_order: WIPOffset<Vector<'f, u8>>,
}

// A builder works from the end, and a table comes before the parts it refers to. Tensors are written from last to
// first, so that a reader goes through the file in one direction.

/// The version of `FT01` is 0, the default of an absent field.
fn write_flat_tensor(out: &mut FlatBufferBuilder<'_>, tensors: PlannedIter<'_>, placed: &SegmentLayout) -> BuiltTable {
    let segments = write_segments(out, &placed.segments);
    let mut layouts: ForInfos<BuiltTable> = SmallVec::from_elem(None, tensors.infos().len());
    let mut entries: SmallVec<[BuiltTable; 8]> = SmallVec::with_capacity(tensors.len());
    for (tensor, place) in tensors.zip(&placed.tensors).rev() {
        let layout = (tensor.info.layout != Layout::Blob).then(|| {
            *layouts[tensor.info_number].get_or_insert_with(|| {
                let fields = write_layout(out, tensor.info);
                let table = out.start_table();
                fields.push(out, tensor_layout::SCALAR_TYPE);
                out.end_table(table)
            })
        });
        let key = out.create_string(tensor.name);
        let table = out.start_table();
        if let Some(layout) = layout {
            out.push_slot_always(slot(named_data::TENSOR_LAYOUT), layout);
        }
        out.push_slot_always(slot(named_data::SEGMENT_INDEX), place.segment_index());
        out.push_slot_always(slot(named_data::KEY), key);
        entries.push(out.end_table(table));
    }
    let named_data = out.create_vector_from_iter(entries.iter().rev().copied());
    let table = out.start_table();
    out.push_slot_always(slot(flat_tensor::NAMED_DATA), named_data);
    out.push_slot_always(slot(flat_tensor::SEGMENTS), segments);
    out.end_table(table)
}

fn write_segments<'f>(out: &mut FlatBufferBuilder<'f>, all: &[Segment]) -> BuiltTables<'f> {
    let tables: SmallVec<[BuiltTable; 8]> = all
        .iter()
        .rev()
        .map(|segment| {
            let table = out.start_table();
            out.push_slot_always(slot(data_segment::SIZE), segment.size);
            out.push_slot_always(slot(data_segment::OFFSET), segment.offset);
            out.end_table(table)
        })
        .collect();
    out.create_vector_from_iter(tables.iter().rev().copied())
}

/// Writes one list for each run of tensors in the same segment.
fn write_tensor_segments<'f>(
    out: &mut FlatBufferBuilder<'f>,
    tensors: PlannedIter<'_>,
    placed: &SegmentLayout,
) -> BuiltTables<'f> {
    let mut layouts: ForInfos<BuiltLayout<'f>> = SmallVec::from_elem(None, tensors.infos().len());
    let mut tensors = tensors.rev();
    let mut segments: Vec<BuiltTable> = Vec::new();
    for run in placed.tensors.chunk_by(|one, next| one.segment == next.segment).rev() {
        let mut entries: Vec<BuiltTable> = Vec::with_capacity(run.len());
        for (place, tensor) in run.iter().rev().zip(&mut tensors) {
            let layout = *layouts[tensor.info_number].get_or_insert_with(|| write_layout(out, tensor.info));
            let name = out.create_string(tensor.name);
            let table = out.start_table();
            out.push_slot_always(slot(tensor_metadata::SIZE), tensor.payload_bytes as u64);
            out.push_slot_always(slot(tensor_metadata::OFFSET), place.offset);
            layout.push(out, tensor_metadata::SCALAR_TYPE);
            out.push_slot_always(slot(tensor_metadata::FULLY_QUALIFIED_NAME), name);
            entries.push(out.end_table(table));
        }
        let entries = out.create_vector_from_iter(entries.iter().rev().copied());
        let table = out.start_table();
        out.push_slot_always(slot(tensor_segment::TENSOR_METADATA), entries);
        out.push_slot_always(slot(tensor_segment::SEGMENT_INDEX), run[0].segment_index());
        segments.push(out.end_table(table));
    }
    out.create_vector_from_iter(segments.iter().rev().copied())
}

/// Writes shape and dim order. Empty vectors are written too: ExecuTorch crashes if one is missing.
fn write_layout<'f>(out: &mut FlatBufferBuilder<'f>, info: &TensorInfo) -> BuiltLayout<'f> {
    let in_order = || (0..info.shape.rank()).map(|dim| u8::try_from(dim).expect("the plan was checked"));
    let (scalar_type, dim_order) = match (stored(info), &info.layout) {
        (Some((stored, order)), _) => (stored.cast_signed(), out.create_vector(order)),
        (None, Layout::DimOrder(order)) => (header::scalar_type(info.dtype), out.create_vector(order.as_slice())),
        (None, _) => (header::scalar_type(info.dtype), out.create_vector_from_iter(in_order())),
    };
    let sizes = info.shape.iter().map(|dim| i32::try_from(*dim).expect("the plan was checked"));
    BuiltLayout { scalar_type, sizes: out.create_vector_from_iter(sizes), dim_order }
}

impl BuiltLayout<'_> {
    /// Adds the fields to a table, with consecutive numbers.
    fn push(self, out: &mut FlatBufferBuilder<'_>, scalar_type: usize) {
        let field = |number| slot(scalar_type + number - tensor_layout::SCALAR_TYPE);
        out.push_slot_always(field(tensor_layout::DIM_ORDER), self.dim_order);
        out.push_slot_always(field(tensor_layout::SIZES), self.sizes);
        out.push_slot_always(field(tensor_layout::SCALAR_TYPE), self.scalar_type);
    }
}

/// Returns the scalar type and the dim order of a tensor of an unknown dtype.
fn stored(info: &TensorInfo) -> Option<(&u8, &[u8])> {
    info.unknown_stored(FORMAT.name)?.split_first()
}
