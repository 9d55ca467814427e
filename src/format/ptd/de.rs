//! Reads PTD files of all generations: segments, tensors, and the checks of both.

use std::ops::Range;

use indexmap::IndexMap;
use smallvec::SmallVec;

use super::flatbuffer::Flatbuffer;
use super::header::{self, Family, Frame, bad_number};
use super::metadata::KEYS;
use super::schema::{
    VERSION, data_segment, data_v1, data_v2, early_flat_tensor, flat_tensor, named_data, tensor_layout,
    tensor_metadata, tensor_segment,
};
use super::{Compatibility, FORMAT, Metadata, Version};
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::limits::Limits;
use crate::model::FileMetadata;
use crate::read::{Index, IndexReader, LastHeaders, ReadHeader, SmallIndex, Table, Tables, trailing_bytes};
use crate::storage::{ReadAt, Slice};
use crate::tensor::{Dtype, InvalidTensor, Layout, Shape, TensorInfo, sorted};

/// Reads the flatbuffer. The tensors are in its order.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The contents of the flatbuffer, once it is read.
    contents: Option<FlatbufferContents>,
    /// The length of the file, if it is known.
    len: Option<u64>,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        if let Some(contents) = &self.contents {
            check_length(file, contents.end)?;
            return Ok(false);
        }
        self.len = file.file_len();
        let contents = self.contents.insert(read(file, limits, index)?);
        if contents.goes_back {
            file.keep_rest(limits.most_held())?;
        }
        Ok(true)
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        self.contents.as_ref().map(|contents| contents.file_metadata(self.len))
    }
}

/// Checks that the file continues to `end`. The length of a stream is not known in advance.
fn check_length(file: &mut dyn ReadAt, end: u64) -> Result<()> {
    match file.file_len() {
        Some(len) if len < end => Err(Error::new(ErrorKind::Truncated { needed: end - len, left: 0 }).at(len)),
        Some(_) => Ok(()),
        None => file.read_at(end, &mut []),
    }
}

/// The contents of a flatbuffer.
#[derive(Debug)]
pub(super) struct FlatbufferContents {
    pub(super) metadata: Metadata,
    /// A warning about segments longer than their tensors.
    longer: Option<Warning>,
    /// Some tensor with bytes begins before the end of an earlier one.
    goes_back: bool,
    /// The first name with a NUL.
    pub(super) name_with_nul: Option<String>,
    /// The end of the index and of all segments.
    pub(super) end: u64,
    /// The offset of the first byte after all tensors.
    end_of_tensors: u64,
}

impl FlatbufferContents {
    /// Returns the metadata of a file of `len` bytes.
    pub(super) fn file_metadata(&self, len: Option<u64>) -> FileMetadata {
        let found = &self.metadata;
        let version = match found.version {
            Version::Ft01 => "FT01",
            Version::EarlyFt01 => "FT01 of ExecuTorch 0.5 and 0.6",
            Version::Dt01V1 => "DT01, version 1",
            Version::Dt01V2 => "DT01, version 2",
        };
        let entries = found.compatibility.clone().map(|compatibility| {
            let Compatibility { model_name, version, quantization_scheme, custom_description } = compatibility;
            let values = [model_name, version, quantization_scheme, custom_description];
            let entries = KEYS.into_iter().zip(values).filter(|(_, value)| !value.is_empty());
            entries.map(|(key, value)| (key.to_owned(), value)).collect::<IndexMap<_, _>>()
        });
        let mut warnings = Vec::new();
        if found.version != Version::Ft01 {
            let text = "today's ExecuTorch does not read this generation of the format";
            warnings.push(Warning::new(WarningKind::Version, text));
        }
        if let Some(name) = &self.name_with_nul {
            let escaped = name.escape_default().to_string();
            let text = format!("ExecuTorch's C++ cannot find `{}`, a name with NUL in it", Short(&escaped));
            warnings.push(Warning::new(WarningKind::Name, text).in_tensor(name.as_str()));
        }
        warnings.extend(self.longer.clone());
        warnings.extend(trailing_bytes(self.end_of_tensors, len));
        FileMetadata {
            version: Some(version.to_owned()),
            entries: entries.unwrap_or_default(),
            warnings,
            ..FileMetadata::default()
        }
    }
}

/// Reads the flatbuffer, and adds its tensors to the index.
pub(super) fn read(file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<FlatbufferContents> {
    let (len, mut memory) = (file.file_len(), Vec::new());
    let flatbuffer = Flatbuffer::read(file, &mut memory)?;
    let root = flatbuffer.root()?;
    let parser = FlatbufferParser::new(flatbuffer.frame, limits, len);
    match flatbuffer.frame.family {
        Family::FlatTensor => {
            check_version(&root, &[0], "0")?;
            // Only the older generation has a fourth field.
            if root.has(early_flat_tensor::SEGMENTS) {
                parser.read_early_flat_tensor(root, index)
            } else {
                parser.read_flat_tensor(root, index)
            }
        }
        Family::Data => match check_version(&root, &[1, 2], "1 or 2")? {
            1 => parser.read_data_v1(root, index),
            _ => parser.read_data_v2(root, index),
        },
    }
}

/// Finds the tensors of a small file of the current generation.
pub(super) fn small<'f>(file: &'f [u8], limits: &Limits, index: &mut SmallIndex<'f>) -> Option<()> {
    let (mut slice, mut memory, len) = (Slice::new(file), Vec::new(), file.len() as u64);
    let flatbuffer = Flatbuffer::read(&mut slice, &mut memory).ok()?;
    let root = flatbuffer.root().ok()?;
    let frame = flatbuffer.frame;
    if frame.family != Family::FlatTensor || root.u32(VERSION).ok()? != 0 || root.has(early_flat_tensor::SEGMENTS) {
        return None;
    }
    let named = root.tables(flat_tensor::NAMED_DATA).ok()?;
    if named.len() > SmallIndex::MOST {
        return None;
    }
    let mut parser = FlatbufferParser::new(frame, limits, Some(len));
    parser.read_segments(root.tables(flat_tensor::SEGMENTS).ok()?).ok()?;
    for (number, table) in named.enumerate() {
        let found = Found::named(table.ok()?).ok()?;
        let name = SmallIndex::part_of_file(file, found.table.string(found.name).ok()??)?;
        let (header, range) = parser.tensor(&found, number).ok()?;
        index.push_read(name, header, Slice::new(file).get(&range)?)?;
    }
    (parser.end() <= len).then_some(())
}

/// Refuses a version not among `known`.
fn check_version(root: &Table<'_>, known: &[u32], expected: &str) -> Result<u32> {
    let version = root.u32(VERSION)?;
    if known.contains(&version) {
        return Ok(version);
    }
    Err(bad_number("schema version", version, expected.to_owned(), root.field_offset(VERSION)))
}

/// Collects the tensors of a flatbuffer of any generation.
struct FlatbufferParser<'a> {
    frame: Frame,
    limits: &'a Limits,
    /// The length of the file, if it is known.
    len: Option<u64>,
    /// The range of each segment in the file.
    segments: SmallVec<[Range<u64>; 1]>,
    /// The offset in the file of the name of each tensor.
    places: SmallVec<[u64; 1]>,
    /// The end of the tensors with bytes.
    end_of_bytes: u64,
    /// Some tensor begins before the end of an earlier one. Otherwise no two overlap, and a stream can be read tensor
    /// by tensor.
    goes_back: bool,
    /// The most recent headers of tensors with a whole segment.
    last: LastHeaders<StoredHeader<'a>>,
    /// The number of segments longer than their tensors, and a warning about the first.
    longer: (usize, Option<Warning>),
}

/// The header of a tensor with a whole segment, as stored.
struct StoredHeader<'a> {
    /// The offset of the table with the fields.
    table: u64,
    fields: LayoutFields<'a>,
    /// The length of the segment.
    bytes: u64,
}

/// The unchecked fields of [`tensor_layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LayoutFields<'a> {
    scalar_type: i8,
    sizes: &'a [[u8; 4]],
    order: &'a [[u8; 1]],
}

impl<'a> LayoutFields<'a> {
    /// Reads the fields, starting with `first`.
    fn read(table: &Table<'a>, first: usize) -> Result<Self> {
        Ok(Self {
            scalar_type: table.i8(first + tensor_layout::SCALAR_TYPE)?,
            sizes: table.numbers(first + tensor_layout::SIZES)?,
            order: table.numbers(first + tensor_layout::DIM_ORDER)?,
        })
    }
}

/// A tensor in a flatbuffer of any generation.
struct Found<'a> {
    table: Table<'a>,
    /// The field of the name.
    name: usize,
    /// The table with the number of the segment, and its field.
    segment: (Table<'a>, usize),
    /// The table with the fields of [`tensor_layout`], and the first of them.
    layout: Option<(Table<'a>, usize)>,
    place: SegmentPart,
}

/// The bytes of a tensor in its segment.
enum SegmentPart {
    /// All.
    Whole,
    /// The bytes from an offset on, and if stated, their number. These are the field numbers of both.
    From { offset: usize, size: Option<usize> },
}

impl<'a> Found<'a> {
    /// A tensor of the current generation, with a whole segment.
    // Inlined into the loop over tensors.
    #[inline(always)]
    fn named(table: Table<'a>) -> Result<Self> {
        let layout = table.table(named_data::TENSOR_LAYOUT)?.map(|layout| (layout, tensor_layout::SCALAR_TYPE));
        let segment = (table, named_data::SEGMENT_INDEX);
        Ok(Self { table, name: named_data::KEY, segment, layout, place: SegmentPart::Whole })
    }
}

impl<'a> FlatbufferParser<'a> {
    fn new(frame: Frame, limits: &'a Limits, len: Option<u64>) -> Self {
        let (segments, places) = (SmallVec::new(), SmallVec::new());
        Self {
            frame,
            limits,
            len,
            segments,
            places,
            end_of_bytes: 0,
            goes_back: false,
            last: LastHeaders::default(),
            longer: (0, None),
        }
    }

    fn read_flat_tensor(mut self, root: Table<'a>, index: &mut Index) -> Result<FlatbufferContents> {
        self.read_segments(root.tables(flat_tensor::SEGMENTS)?)?;
        self.read_named(root.tables(flat_tensor::NAMED_DATA)?, index)?;
        self.finish(index, Version::Ft01, 0, None, None)
    }

    fn read_early_flat_tensor(mut self, root: Table<'a>, index: &mut Index) -> Result<FlatbufferContents> {
        use early_flat_tensor as fields;
        self.read_segments(root.tables(fields::SEGMENTS)?)?;
        let tensors = root.tables(fields::TENSORS)?;
        self.check_count(tensors.len())?;
        for table in tensors {
            let table = table?;
            self.push(
                &Found {
                    table,
                    name: tensor_metadata::FULLY_QUALIFIED_NAME,
                    segment: (table, tensor_metadata::EARLY_SEGMENT_INDEX),
                    layout: Some((table, tensor_metadata::SCALAR_TYPE)),
                    place: SegmentPart::From { offset: tensor_metadata::EARLY_OFFSET, size: None },
                },
                index,
            )?;
        }
        self.read_named(root.tables(fields::NAMED_DATA)?, index)?;
        self.finish(index, Version::EarlyFt01, 0, Some(root.u32(fields::TENSOR_ALIGNMENT)?), None)
    }

    fn read_data_v1(mut self, root: Table<'a>, index: &mut Index) -> Result<FlatbufferContents> {
        self.read_segments(root.tables(data_v1::SEGMENTS)?)?;
        self.read_tensor_segments(root.tables(data_v1::TENSOR_SEGMENTS)?, index)?;
        self.finish(index, Version::Dt01V1, 1, Some(root.u32(data_v1::TENSOR_ALIGNMENT)?), None)
    }

    fn read_data_v2(mut self, root: Table<'a>, index: &mut Index) -> Result<FlatbufferContents> {
        self.read_segments(root.tables(data_v2::SEGMENTS)?)?;
        self.read_tensor_segments(root.tables(data_v2::TENSOR_SEGMENTS)?, index)?;
        let compatibility = root.table(data_v2::COMPATIBILITY_METADATA)?;
        let compatibility = compatibility.map(|table| compatibility_of(&table)).transpose()?;
        self.finish(index, Version::Dt01V2, 2, Some(root.u32(data_v2::TENSOR_ALIGNMENT)?), compatibility)
    }

    fn read_named(&mut self, named: Tables<'a>, index: &mut Index) -> Result<()> {
        self.check_count(named.len())?;
        index.reserve(named.len());
        self.places.reserve_exact(named.len());
        for table in named {
            self.push(&Found::named(table?)?, index)?;
        }
        Ok(())
    }

    fn read_tensor_segments(&mut self, segments: Tables<'a>, index: &mut Index) -> Result<()> {
        for segment in segments {
            let segment = segment?;
            // It must be right even if no tensor needs it.
            segment.u32(tensor_segment::SEGMENT_INDEX)?;
            for table in segment.tables(tensor_segment::TENSOR_METADATA)? {
                let table = table?;
                self.push(
                    &Found {
                        table,
                        name: tensor_metadata::FULLY_QUALIFIED_NAME,
                        segment: (segment, tensor_segment::SEGMENT_INDEX),
                        layout: Some((table, tensor_metadata::SCALAR_TYPE)),
                        place: SegmentPart::From { offset: tensor_metadata::OFFSET, size: Some(tensor_metadata::SIZE) },
                    },
                    index,
                )?;
            }
        }
        Ok(())
    }

    /// Reads the ranges of the segments and checks that they lie between the flatbuffer and the end.
    fn read_segments(&mut self, segments: Tables<'a>) -> Result<()> {
        let frame = self.frame;
        self.segments.reserve_exact(segments.len());
        for (number, segment) in segments.enumerate() {
            let table = segment?;
            let (offset, size) = (table.u64(data_segment::OFFSET)?, table.u64(data_segment::SIZE)?);
            let malformed = |what| Error::new(ErrorKind::Malformed { what }).at(table.offset());
            let end = offset.checked_add(size).and_then(|end| end.checked_add(frame.base));
            let range = end.map(|end| frame.base + offset..end).ok_or_else(|| {
                malformed(format!("segment {number}, {size} bytes at {offset}, ends beyond what can be addressed"))
            })?;
            if range.start < frame.first_byte() && size > 0 {
                let first = frame.first_byte();
                return Err(malformed(format!(
                    "segment {number} begins at byte {}, but data begins at byte {first} at the earliest",
                    range.start
                )));
            }
            if let Some(end) = frame.end.or(self.len)
                && range.end > end
            {
                return Err(malformed(format!(
                    "segment {number} ends at byte {}, but the segments end at byte {end}",
                    range.end
                )));
            }
            self.segments.push(range);
        }
        Ok(())
    }

    /// Checks the number of tensors against the limits.
    fn check_count(&self, tensors: usize) -> Result<()> {
        match tensors as u64 {
            found if found > self.limits.tensors => {
                Err(ErrorKind::Limit { what: "number of tensors", found, limit: self.limits.tensors }.into())
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, found: &Found<'a>, index: &mut Index) -> Result<()> {
        let number = index.pushed();
        self.check_count(number + 1)?;
        let table_at = found.table.offset();
        let name = found.table.string(found.name)?.ok_or_else(|| {
            let what = "it has no name".to_owned();
            Error::new(ErrorKind::Malformed { what }).in_tensor(format!("#{number}")).at(table_at)
        })?;
        let (header, range) = self.tensor(found, number).map_err(|error| error.in_tensor(name).at(table_at))?;
        if range.start < range.end {
            self.goes_back |= range.start < self.end_of_bytes;
            self.end_of_bytes = self.end_of_bytes.max(range.end);
        }
        self.places.push(found.table.field_offset(found.name));
        header.push(index, Some(name), range)
    }

    /// Returns the description of the tensor at a position and its range.
    fn tensor(&mut self, found: &Found<'a>, position: usize) -> Result<(ReadHeader, Range<u64>)> {
        let (table, field) = found.segment;
        let number = table.u32(field)?;
        let segment = usize::try_from(number).ok().and_then(|number| self.segments.get(number)).ok_or_else(|| {
            let expected = match self.segments.len() {
                0 => "none, as the file has no segments".to_owned(),
                segments => format!("at most {}", segments - 1),
            };
            bad_number("segment index", number, expected, table.field_offset(field))
        })?;
        let segment_bytes = segment.end - segment.start;
        let Some((table, first)) = found.layout else {
            let bytes = usize::try_from(segment_bytes)
                .map_err(|_| Error::from(InvalidTensor::TooLarge { dtype: Dtype::U8, shape: [usize::MAX].into() }))?;
            return Ok((ReadHeader::New(TensorInfo::blob(bytes)), segment.clone()));
        };
        let last = || self.last.iter().filter(|(known, _)| known.bytes == segment_bytes);
        // Tensors may share a table.
        if let SegmentPart::Whole = found.place
            && let Some((_, alike)) = last().find(|(known, _)| known.table == table.offset())
        {
            return Ok((ReadHeader::Alike(*alike), segment.clone()));
        }
        let fields = LayoutFields::read(&table, first)?;
        if let SegmentPart::Whole = found.place
            && let Some((_, alike)) = last().find(|(known, _)| known.fields == fields)
        {
            return Ok((ReadHeader::Alike(*alike), segment.clone()));
        }
        // The stated number of bytes: without it, a payload of an unknown dtype has no known end.
        let stated = match found.place {
            SegmentPart::Whole => Some(segment_bytes),
            SegmentPart::From { size, .. } => size.map(|field| found.table.u64(field)).transpose()?,
        };
        let info = self.info(&table, first, fields, stated)?;
        let range = match found.place {
            SegmentPart::Whole if info.check_payload(segment_bytes).is_err() => {
                let (name, range) = (found.table.string(found.name)?.unwrap_or_default(), segment.clone());
                return Ok(self.in_segment_of_another_length(name, info, range));
            }
            SegmentPart::Whole => {
                let range = segment.clone();
                let header = StoredHeader { table: table.offset(), fields, bytes: segment_bytes };
                self.last.add(header, position);
                range
            }
            SegmentPart::From { offset: field, size } => {
                if let Some(field) = size {
                    let checked = info.check_payload(found.table.u64(field)?);
                    checked.map_err(|invalid| Error::from(invalid).at(found.table.field_offset(field)))?;
                }
                let offset = found.table.u64(field)?;
                let bytes = info.payload_bytes().ok_or_else(|| too_large(&info))? as u64;
                match offset.checked_add(bytes).filter(|end| *end <= segment_bytes) {
                    Some(end) => segment.start + offset..segment.start + end,
                    None => {
                        let what = format!(
                            "{info} takes {bytes} bytes from byte {offset} of segment {number}, which has {segment_bytes}"
                        );
                        return Err(Error::new(ErrorKind::Malformed { what }).at(found.table.field_offset(field)));
                    }
                }
            }
        };
        Ok((ReadHeader::New(info), range))
    }

    /// Returns a tensor whose length differs from its segment's. As in ExecuTorch, a longer segment begins with the
    /// elements. A shorter one costs its tensor, and the others can be read.
    fn in_segment_of_another_length(
        &mut self,
        name: &str,
        info: TensorInfo,
        segment: Range<u64>,
    ) -> (ReadHeader, Range<u64>) {
        let has = segment.end - segment.start;
        if let Some(takes) = info.payload_bytes().map(|bytes| bytes as u64).filter(|takes| *takes < has) {
            self.longer.0 += 1;
            self.longer.1.get_or_insert_with(|| {
                let rest = has - takes;
                let text = format!(
                    "the segment of `{}` has {has} bytes, but {info} takes the first {takes}; the last {rest} belong to nothing",
                    Short(name)
                );
                Warning::new(WarningKind::TrailingBytes, text).in_tensor(name).at(segment.start + takes)
            });
            return (ReadHeader::New(info), segment.start..segment.start + takes);
        }
        let bytes = usize::try_from(has).unwrap_or(usize::MAX);
        (ReadHeader::New(TensorInfo::damaged(info.dtype, info.shape, bytes)), segment)
    }

    /// Returns the dtype, shape and layout of a tensor from the fields of a table, starting with `first`.
    ///
    /// `stated` is the number of bytes of the tensor, if the file states it.
    fn info(
        &self,
        table: &Table<'a>,
        first: usize,
        LayoutFields { scalar_type, sizes, order }: LayoutFields<'a>,
        stated: Option<u64>,
    ) -> Result<TensorInfo> {
        let field = first + tensor_layout::SCALAR_TYPE;
        let dtype = header::dtype(scalar_type);
        if dtype.is_none() && stated.is_none() {
            let tag = scalar_type.to_string();
            return Err(Error::new(ErrorKind::UnknownDtype { tag }).at(table.field_offset(field)));
        }
        let field = first + tensor_layout::SIZES;
        let rank = sizes.len();
        if rank as u64 > self.limits.rank {
            let kind = ErrorKind::Limit { what: "rank", found: rank as u64, limit: self.limits.rank };
            return Err(Error::new(kind).at(table.field_offset(field)));
        }
        let dim = |size: &[u8; 4]| {
            let size = i32::from_le_bytes(*size);
            let negative = |_| bad_number("dim", size, "0 or more".to_owned(), table.field_offset(field));
            usize::try_from(size).map_err(negative)
        };
        let mut shape = Shape::default();
        for size in sizes {
            shape.push(dim(size)?);
        }
        let field = first + tensor_layout::DIM_ORDER;
        let order = order.as_flattened();
        if order.len() != rank {
            let found = order.len();
            return Err(Error::from(InvalidTensor::DimOrderRank { found, rank }).at(table.field_offset(field)));
        }
        let layout =
            Layout::from_dim_order(order).map_err(|invalid| Error::from(invalid).at(table.field_offset(field)))?;
        let info = match dtype {
            Some(dtype) => TensorInfo { dtype, shape, layout },
            None => {
                let bytes = stated.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
                let stored = [&scalar_type.to_le_bytes()[..], order].concat();
                TensorInfo::unknown_in(FORMAT.name, &scalar_type.to_string(), &stored, shape, bytes)
            }
        };
        Ok(info)
    }

    fn finish(
        self,
        index: &mut Index,
        version: Version,
        schema_version: u32,
        tensor_alignment: Option<u32>,
        compatibility: Option<Compatibility>,
    ) -> Result<FlatbufferContents> {
        // This makes room for the table of the names.
        let (segments, begin, end) = (self.segments.len(), self.frame.first_byte(), self.end());
        drop(self.segments);
        if let Err(i) = index.compare_names() {
            return Err(Error::new(ErrorKind::DuplicateName { name: index.label(i) }).at(self.places[i]));
        }
        if self.goes_back {
            check_overlaps(index)?;
        }
        let metadata = Metadata { version, schema_version, tensor_alignment, segments, compatibility };
        let end_of_tensors = if index.pushed() == 0 { begin } else { end };
        let (count, mut longer) = self.longer;
        if let Some(warning) = longer.as_mut().filter(|_| count > 1) {
            warning.text += &format!("; there are {count} such segments");
        }
        Ok(FlatbufferContents {
            metadata,
            longer,
            goes_back: self.goes_back,
            name_with_nul: index.names().find_byte(0).map(str::to_owned),
            end,
            end_of_tensors,
        })
    }

    /// Returns the end of the index and of all segments.
    fn end(&self) -> u64 {
        let ends = self.segments.iter().map(|segment| segment.end).chain(self.frame.end);
        ends.fold(self.frame.first_byte(), u64::max)
    }
}

fn compatibility_of(table: &Table<'_>) -> Result<Compatibility> {
    let text = |field| table.string(field).map(|text| text.unwrap_or_default().to_owned());
    Ok(Compatibility {
        model_name: text(0)?,
        version: text(1)?,
        quantization_scheme: text(2)?,
        custom_description: text(3)?,
    })
}

fn too_large(info: &TensorInfo) -> Error {
    InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() }.into()
}

/// Checks that any two tensors have either the same bytes or none in common, or begin at the same byte: of a segment
/// that several tensors share, each has the first bytes.
fn check_overlaps(index: &Index) -> Result<()> {
    let range = |i: usize| index.entry(i).range();
    let key = |i: usize| (range(i).start, range(i).end);
    let mut last: Option<usize> = None;
    for i in sorted::positions(index.pushed(), &mut |one, other| key(one).cmp(&key(other))) {
        if range(i).is_empty() || last.is_some_and(|before| range(before) == range(i)) {
            continue;
        }
        let is_inside = |before: &usize| range(i).start > range(*before).start && range(i).start < range(*before).end;
        if let Some(before) = last.filter(is_inside) {
            let kind = ErrorKind::Overlap { other: index.label(before), range: range(before) };
            return Err(Error::new(kind).in_tensor(index.label(i)).at(range(i).start));
        }
        last = Some(i);
    }
    Ok(())
}
