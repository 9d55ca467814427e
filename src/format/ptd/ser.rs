use std::sync::Arc;

use smallvec::SmallVec;

use super::header::{self, Family};
use super::metadata::KEYS;
use super::{Compatibility, FORMAT, Segments, Version};
use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::model::{FormatSpec, MetadataValue};
use crate::tensor::{Layout, TensorInfo};
use crate::write;
use crate::write::{
    FileLayout, FlatbufferWriter, NamePolicy, PlannedIter, PlannedTensors, Sharing, SmallFile, SmallFormat,
    SmallTensors, TableFields, ends_too_far,
};

/// Writes the index, then the segments in order, each aligned.
#[derive(Debug, Clone)]
pub(super) struct Encode {
    /// `None` is the one that the metadata of the value needs, or else the default.
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

/// The highest rank that a dim order can have, whose numbers are bytes.
pub(super) const MAX_RANK: usize = 255;

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        FORMAT.spec()
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn keeps_dim_order(&self) -> bool {
        self.keep_dim_order
    }

    fn sharing(&self) -> Sharing {
        if self.dedup { Sharing::EqualBytes } else { Sharing::SameMemory }
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        match info.layout {
            Layout::Blob if self.version() != Version::Ft01 => Err(no_place_for_blobs()),
            // Of another tensor.
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
        // The only version with such fields. If another one was asked for, that is refused.
        encode.version.get_or_insert(Version::Dt01V2);
        Ok(Arc::new(encode))
    }

    fn small(&self) -> Option<&dyn SmallFormat> {
        /// The gaps before payloads are made in memory.
        const MAX_ALIGNMENT: u32 = 256;

        let is_small =
            self.version() == Version::Ft01 && self.alignment <= MAX_ALIGNMENT && self.check_options().is_ok();
        is_small.then_some(self)
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        let (begin, base, placed) = self.begin(plan)?;
        let mut layout = FileLayout::with_capacity(plan.len());
        layout.begin = begin;
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
        /// What a tensor of a short name and a shape of its own takes in the index.
        const ENTRY: usize = 128;

        (ENTRY * (1 + tensors)).next_multiple_of(self.alignment as usize)
    }

    fn alignment(&self) -> u64 {
        self.alignment.into()
    }

    fn pads_last(&self) -> bool {
        false
    }

    fn finish(&self, tensors: &SmallTensors, file: &mut SmallFile<'_>) -> Result<()> {
        let mut placed = SegmentLayout::with_capacity(tensors.len(), tensors.len());
        for tensor in tensors.iter() {
            let place = placed.add(tensor.payload_bytes as u64, true, self.alignment).ok_or_else(beyond)?;
            placed.tensors.push(place);
        }
        let expected = FRONT + tensors.iter().map(|tensor| TENSOR + tensor.name.len()).sum::<usize>();
        let mut index = Family::FlatTensor.flatbuffer(Vec::new(), expected);
        write_flat_tensor(&mut index, tensors.iter(), &placed);
        let (begin, base) = self.finish_front(Family::FlatTensor, index, placed.bytes)?;
        let front = file.set_front(usize::try_from(base).map_err(|_| beyond())?)?;
        let (header, gap) = front.split_at_mut(begin.len());
        header.copy_from_slice(&begin);
        gap.fill(0);
        Ok(())
    }
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
    /// Within the segment.
    offset: u64,
}

impl PlaceInSegment {
    fn segment_index(&self) -> u32 {
        u32::try_from(self.segment).expect("checked when the tensor was placed")
    }
}

impl Encode {
    /// Returns the bytes before the segments, the offset of the segments, and their layout.
    fn begin(&self, plan: &PlannedTensors) -> Result<(Vec<u8>, u64, SegmentLayout)> {
        self.check_options()?;
        self.check_blobs(plan)?;
        let version = self.version();
        let family = if version == Version::Ft01 { Family::FlatTensor } else { Family::Data };
        let placed = self.place(plan)?;
        let expected = self.index_bytes(plan)?;
        let mut index = family.flatbuffer(Vec::new(), expected);
        match version {
            Version::Ft01 => write_flat_tensor(&mut index, plan.iter(), &placed),
            Version::EarlyFt01 => unreachable!("the options were checked"),
            Version::Dt01V1 | Version::Dt01V2 => self.write_data(&mut index, plan, &placed),
        }
        let (begin, base) = self.finish_front(family, index, placed.bytes)?;
        Ok((begin, base, placed))
    }

    /// Writes the header before a flatbuffer, which segments of `bytes` follow. Returns both, and the offset of the segments.
    fn finish_front(&self, family: Family, index: FlatbufferWriter, bytes: u64) -> Result<(Vec<u8>, u64)> {
        let mut begin = index.finish();
        let base = align(begin.len() as u64, self.alignment).ok_or_else(beyond)?;
        header::write(family, &mut begin, base, bytes);
        Ok((begin, base))
    }

    fn version(&self) -> Version {
        self.version.unwrap_or_default()
    }

    /// Refuses blobs, which were planned before metadata of the value made it a version without them.
    fn check_blobs(&self, plan: &PlannedTensors) -> Result<()> {
        if self.version() == Version::Ft01 {
            return Ok(());
        }
        let blob = plan.iter().find(|tensor| tensor.info.layout == Layout::Blob);
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

    fn place(&self, plan: &PlannedTensors) -> Result<SegmentLayout> {
        let segments = if matches!(self.segments, Segments::PerTensor) { plan.len() } else { 1 };
        let mut placed = SegmentLayout::with_capacity(segments, plan.len());
        let mut group = None;
        for (at, payload_bytes) in plan.payload_lens().enumerate() {
            let owner = plan.owner(at);
            let place = match placed.tensors.get(owner) {
                Some(&place) => place,
                None => {
                    let starts_segment = self.starts_segment(plan, at, &mut group) || placed.segments.is_empty();
                    let place = placed
                        .add(payload_bytes as u64, starts_segment, self.alignment)
                        .ok_or_else(|| ends_too_far(plan.info(at)).in_tensor(plan.name(at)))?;
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

    fn starts_segment(&self, plan: &PlannedTensors, at: usize, group: &mut Option<String>) -> bool {
        match self.segments {
            Segments::PerTensor => true,
            Segments::One => false,
            Segments::By(group_of) => {
                let next = Some(group_of(plan.name(at)));
                next != std::mem::replace(group, next.clone())
            }
        }
    }

    /// Returns an upper bound of the length of the index in bytes. Refuses one that may be too long for a flatbuffer.
    fn index_bytes(&self, plan: &PlannedTensors) -> Result<usize> {
        let texts = self.compatibility.iter().flat_map(Compatibility::texts).map(|text| (TENSOR + text.len()) as u64);
        let names = plan.iter().all_names().len() as u64;
        let rank = |info: &TensorInfo| info.shape.rank() as u64;
        let dims: u64 = match self.version() {
            // Tensors share their layouts.
            Version::Ft01 => (0..plan.iter().infos().len()).map(|number| rank(&plan.iter().infos()[number])).sum(),
            _ => (0..plan.len()).map(|at| rank(plan.info(at))).sum(),
        };
        let bytes = FRONT as u64 + texts.sum::<u64>() + TENSOR as u64 * plan.len() as u64 + names + DIM as u64 * dims;
        match usize::try_from(bytes) {
            Ok(len) if bytes <= header::MAX_FLATBUFFER => Ok(len),
            _ => {
                let instead = "an index is a flatbuffer, below 2^31 bytes";
                Err(cannot_store(format!("an index of {bytes} bytes"), instead).into())
            }
        }
    }

    fn write_data(&self, out: &mut FlatbufferWriter, plan: &PlannedTensors, placed: &SegmentLayout) {
        let is_second = self.version() == Version::Dt01V2;
        let (version, tensor_segments, segments, tensor_alignment) = if is_second {
            let fields = if self.compatibility.is_some() { &DATA_V2_OF_MODEL } else { &DATA_V2 };
            let [version, compatibility, tensors, segments, alignment] = out.table(ROOT, fields);
            if let Some(found) = &self.compatibility {
                let texts = out.table(compatibility, &COMPATIBILITY);
                for (at, text) in texts.into_iter().zip(found.texts()) {
                    out.string(at, text);
                }
            }
            (version, tensors, segments, alignment)
        } else {
            let [version, tensors, segments, alignment] = out.table(ROOT, &DATA_V1);
            (version, tensors, segments, alignment)
        };
        out.set(version, [if is_second { 2 } else { 1 }]);
        out.set(tensor_alignment, self.alignment.to_le_bytes());
        write_tensor_segments(out, tensor_segments, plan, placed);
        write_segments(out, segments, &placed.segments);
    }
}

impl SegmentLayout {
    fn with_capacity(segments: usize, tensors: usize) -> Self {
        Self { segments: SmallVec::with_capacity(segments), tensors: SmallVec::with_capacity(tensors), bytes: 0 }
    }

    /// Adds a tensor after the others. Returns `None` if it ends past 2⁶⁴.
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

/// At least what the header, the root and the lists of fields take in bytes.
const FRONT: usize = 256;

/// At least what the tables, vectors, offsets and padding of a tensor take in bytes.
const TENSOR: usize = 128;

/// The bytes of a dim and of its place in the dim order.
const DIM: usize = 5;

/// The position of the offset of the root.
const ROOT: usize = 0;

/// The version of `FT01` is 0, as it is if it is absent.
static FLAT_TENSOR: TableFields<3> = TableFields::new([0, 4, 4]);
static NAMED_DATA: TableFields<3> = TableFields::new([4, 4, 4]);
static NAMED_BLOB: TableFields<3> = TableFields::new([4, 4, 0]);
static TENSOR_LAYOUT: TableFields<3> = TableFields::new([1, 4, 4]);
static DATA_SEGMENT: TableFields<2> = TableFields::new([8, 8]);
static DATA_V1: TableFields<4> = TableFields::new([4; 4]);
static DATA_V2: TableFields<5> = TableFields::new([4, 0, 4, 4, 4]);
static DATA_V2_OF_MODEL: TableFields<5> = TableFields::new([4; 5]);
static COMPATIBILITY: TableFields<4> = TableFields::new([4; 4]);
static TENSOR_SEGMENT: TableFields<2> = TableFields::new([4, 4]);
static TENSOR_METADATA: TableFields<6> = TableFields::new([4, 1, 4, 4, 8, 8]);

fn write_flat_tensor(out: &mut FlatbufferWriter, tensors: PlannedIter<'_>, placed: &SegmentLayout) {
    let [_, segments, named_data] = out.table(ROOT, &FLAT_TENSOR);
    let infos = tensors.infos();
    let mut layouts: SmallVec<[(usize, usize); 8]> = SmallVec::with_capacity(tensors.len());
    let (places, entries) = (placed.tensors.as_slice(), out.offsets(named_data, tensors.len()));
    for (at, tensor) in tensors.enumerate() {
        let is_blob = matches!(tensor.info.layout, Layout::Blob);
        let entry = entries.at(at);
        let [key, segment, layout] =
            if is_blob { out.table(entry, &NAMED_BLOB) } else { out.table(entry, &NAMED_DATA) };
        out.set(segment, places[at].segment_index().to_le_bytes());
        out.string(key, tensor.name);
        if !is_blob {
            layouts.push((tensor.info_number, layout));
        }
    }
    write_layouts(out, infos, &layouts);
    write_segments(out, segments, &placed.segments);
}

/// Writes each layout once, for all tensors that have it, by the numbers of their infos and the offsets that refer to it. An
/// offset refers to what comes after it, so layouts come after all names.
fn write_layouts(out: &mut FlatbufferWriter, infos: &[TensorInfo], tensors: &[(usize, usize)]) {
    let mut first: SmallVec<[Option<usize>; 8]> = SmallVec::from_elem(None, infos.len());
    let first = first.as_mut_slice();
    for &(number, from) in tensors {
        match first[number] {
            Some(first) => out.share(from, first),
            None => {
                write_layout(out, &infos[number], from);
                first[number] = Some(from);
            }
        }
    }
}

fn write_layout(out: &mut FlatbufferWriter, info: &TensorInfo, from: usize) {
    let [scalar_type, sizes, dim_order] = out.table(from, &TENSOR_LAYOUT);
    write_info(out, info, scalar_type, sizes, dim_order);
}

fn write_segments(out: &mut FlatbufferWriter, from: usize, all: &[Segment]) {
    let offsets = out.offsets(from, all.len());
    for (at, segment) in all.iter().enumerate() {
        let [offset, size] = out.table(offsets.at(at), &DATA_SEGMENT);
        out.set(offset, segment.offset.to_le_bytes());
        out.set(size, segment.size.to_le_bytes());
    }
}

/// Writes the tensors in order: one list for each run of tensors in the same segment.
fn write_tensor_segments(out: &mut FlatbufferWriter, from: usize, plan: &PlannedTensors, placed: &SegmentLayout) {
    let order: Vec<usize> = (0..plan.len()).collect();
    let runs = || order.chunk_by(|&a, &b| placed.tensors[a].segment == placed.tensors[b].segment);
    let offsets = out.offsets(from, runs().count());
    for (number, run) in runs().enumerate() {
        let [segment, tensors] = out.table(offsets.at(number), &TENSOR_SEGMENT);
        out.set(segment, placed.tensors[run[0]].segment_index().to_le_bytes());
        let offsets = out.offsets(tensors, run.len());
        for (number, &at) in run.iter().enumerate() {
            let [name, scalar_type, sizes, dim_order, offset, size] = out.table(offsets.at(number), &TENSOR_METADATA);
            out.set(offset, placed.tensors[at].offset.to_le_bytes());
            out.set(size, (plan.payload_bytes(at) as u64).to_le_bytes());
            write_info(out, plan.info(at), scalar_type, sizes, dim_order);
            out.string(name, plan.name(at));
        }
    }
}

/// Writes dtype, shape and dim order. Empty vectors are written too: ExecuTorch crashes if one is missing.
fn write_info(out: &mut FlatbufferWriter, info: &TensorInfo, scalar_type: usize, sizes: usize, dim_order: usize) {
    let size = |dim: &usize| i32::try_from(*dim).expect("the plan was checked").to_le_bytes();
    out.vector(sizes, info.shape.iter().map(size));
    if let Some((stored, order)) = stored(info) {
        out.set(scalar_type, [*stored]);
        return out.vector(dim_order, order.iter().map(|dim| [*dim]));
    }
    out.set(scalar_type, header::scalar_type(info.dtype).to_le_bytes());
    match &info.layout {
        Layout::DimOrder(order) => out.vector(dim_order, order.as_slice().iter().map(|dim| [*dim])),
        _ => {
            let dims = info.shape.iter().enumerate();
            out.vector(dim_order, dims.map(|(dim, _)| [u8::try_from(dim).expect("the plan was checked")]));
        }
    }
}

/// Returns the scalar type and the dim order of a tensor of an unknown dtype.
fn stored(info: &TensorInfo) -> Option<(&u8, &[u8])> {
    info.unknown_stored(FORMAT.name)?.split_first()
}
