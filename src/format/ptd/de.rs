use std::ops::Range;

use flatbuffers::{ForwardsUOffset, Table, VOffsetT, Vector};
use hashbrown::HashSet;

use super::flatbuffer::Flatbuffer;
use super::header::{self, Family, bad_number};
use super::schema::{data, executorch_flatbuffer::ScalarType, flat_tensor};
use super::{Compatibility, Metadata, Version};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::record::{Entry, IndexReader};
use crate::sorted;
use crate::storage::ReadAt;
use crate::tensor::{Dtype, InvalidTensor, Layout, Shape, TensorInfo};

/// Reads the flatbuffer, then returns its tensors in its order.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The tensors that are still to come, and the first offset at which the file may end, once the flatbuffer is read.
    contents: Option<(std::vec::IntoIter<Entry>, u64)>,
}

impl IndexReader for Reader {
    fn next(&mut self, file: &mut dyn ReadAt, limits: &Limits) -> Result<Option<Entry>> {
        if self.contents.is_none() {
            let Contents { entries, end, .. } = read(file, limits)?;
            if !are_in_order(&entries) {
                file.keep_rest(limits.payload)?;
            }
            self.contents = Some((entries.into_iter(), end));
        }
        let (entries, end) = self.contents.as_mut().expect("filled in above");
        let next = entries.next();
        if next.is_none() {
            check_length(file, *end)?;
        }
        Ok(next)
    }
}

/// Checks that the file continues to `end`. The length of a stream is not known before.
fn check_length(file: &mut dyn ReadAt, end: u64) -> Result<()> {
    match file.file_len() {
        Some(len) if len < end => Err(Error::new(ErrorKind::Truncated { needed: end - len, left: 0 }).at(len)),
        Some(_) => Ok(()),
        None => file.read_at(end, &mut []),
    }
}

/// Returns whether a stream can be read tensor by tensor.
fn are_in_order(entries: &[Entry]) -> bool {
    let ranges = entries.iter().map(Entry::range).filter(|range| !range.is_empty());
    let mut end = 0;
    for range in ranges {
        if range.start < end {
            return false;
        }
        end = range.end;
    }
    true
}

/// The contents of a flatbuffer.
pub(super) struct Contents {
    pub(super) metadata: Metadata,
    pub(super) entries: Vec<Entry>,
    /// The end of the index and of all segments.
    pub(super) end: u64,
}

pub(super) fn read(file: &mut dyn ReadAt, limits: &Limits) -> Result<Contents> {
    let flatbuffer = Flatbuffer::read(file)?;
    let any = flatbuffer.root::<flat_tensor::AnyRoot<'_>>()?;
    flatbuffer.check_table(&any._tab)?;
    let index = Index::new(&flatbuffer, limits, file.file_len());
    match flatbuffer.frame.family {
        Family::FlatTensor => {
            flatbuffer.check_version(&any, &[0], "0")?;
            // Only the older generation has a fourth field.
            if any._tab.vtable().get(flat_tensor::EarlyFlatTensor::VT_SEGMENTS) == 0 {
                index.of_flat_tensor(flatbuffer.root::<flat_tensor::FlatTensor<'_>>()?)
            } else {
                index.of_early_flat_tensor(flatbuffer.root::<flat_tensor::EarlyFlatTensor<'_>>()?)
            }
        }
        Family::Data => match flatbuffer.check_version(&any, &[1, 2], "1 or 2")? {
            1 => index.of_data_v1(flatbuffer.root::<data::DataV1<'_>>()?),
            _ => index.of_data_v2(flatbuffer.root::<data::DataV2<'_>>()?),
        },
    }
}

/// Collects the tensors of a flatbuffer of any generation.
struct Index<'a> {
    flatbuffer: &'a Flatbuffer,
    limits: &'a Limits,
    /// The length of the file, if it is known.
    len: Option<u64>,
    /// The range of each segment in the file.
    segments: Vec<Range<u64>>,
    names: HashSet<&'a str>,
    entries: Vec<Entry>,
}

/// A vector of tables.
type Tables<'a, T> = Option<Vector<'a, ForwardsUOffset<T>>>;

/// A tensor in a flatbuffer of any generation.
struct Found<'a> {
    table: Table<'a>,
    name: Option<&'a str>,
    /// The field of the name.
    name_field: VOffsetT,
    /// The number of the segment, and the offset of that number.
    segment: (u32, u64),
    layout: Option<FoundLayout<'a>>,
    place: Place,
}

/// The values of a tensor's dtype, shape and dim order, and the fields that they are in.
struct FoundLayout<'a> {
    table: Table<'a>,
    scalar_type: (ScalarType, VOffsetT),
    sizes: (Option<Vector<'a, i32>>, VOffsetT),
    dim_order: (Option<Vector<'a, u8>>, VOffsetT),
}

/// The bytes of a segment that a tensor takes.
enum Place {
    /// All.
    Whole,
    /// Those from an offset on. If the file states how many, also that number and its offset.
    From { offset: u64, size: Option<(u64, u64)>, at: u64 },
}

impl<'a> Index<'a> {
    fn new(flatbuffer: &'a Flatbuffer, limits: &'a Limits, len: Option<u64>) -> Self {
        Self { flatbuffer, limits, len, segments: Vec::new(), names: HashSet::new(), entries: Vec::new() }
    }

    fn of_flat_tensor(mut self, root: flat_tensor::FlatTensor<'a>) -> Result<Contents> {
        self.read_segments(root.segments(), |segment| (segment._tab, segment.offset(), segment.size()))?;
        self.read_named(root.named_data())?;
        self.finish(Version::Ft01, 0, None, None)
    }

    fn of_early_flat_tensor(mut self, root: flat_tensor::EarlyFlatTensor<'a>) -> Result<Contents> {
        use flat_tensor::TensorMetadata as T;
        self.read_segments(root.segments(), |segment| (segment._tab, segment.offset(), segment.size()))?;
        self.flatbuffer.check_count(root.tensors().map_or(0, |tensors| tensors.len()), self.limits)?;
        for tensor in root.tensors().into_iter().flatten() {
            let table = tensor._tab;
            self.push(Found {
                table,
                name: tensor.fully_qualified_name(),
                name_field: T::VT_FULLY_QUALIFIED_NAME,
                segment: (tensor.segment_index(), self.flatbuffer.place(&table, T::VT_SEGMENT_INDEX)),
                layout: Some(FoundLayout {
                    table,
                    scalar_type: (tensor.scalar_type(), T::VT_SCALAR_TYPE),
                    sizes: (tensor.sizes(), T::VT_SIZES),
                    dim_order: (tensor.dim_order(), T::VT_DIM_ORDER),
                }),
                place: Place::From {
                    offset: tensor.offset(),
                    size: None,
                    at: self.flatbuffer.place(&table, T::VT_OFFSET),
                },
            })?;
        }
        self.read_named(root.named_data())?;
        self.finish(Version::EarlyFt01, 0, Some(root.tensor_alignment()), None)
    }

    fn of_data_v1(mut self, root: data::DataV1<'a>) -> Result<Contents> {
        self.read_segments(root.segments(), |segment| (segment._tab, segment.offset(), segment.size()))?;
        self.read_tensor_segments(root.tensor_segments())?;
        self.finish(Version::Dt01V1, 1, Some(root.tensor_alignment()), None)
    }

    fn of_data_v2(mut self, root: data::DataV2<'a>) -> Result<Contents> {
        self.read_segments(root.segments(), |segment| (segment._tab, segment.offset(), segment.size()))?;
        self.read_tensor_segments(root.tensor_segments())?;
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let compatibility = root.compatibility_metadata().map(|found| {
            self.flatbuffer.check_table(&found._tab).map(|()| Compatibility {
                model_name: text(found.model_name()),
                version: text(found.version()),
                quantization_scheme: text(found.quantization_scheme()),
                custom_description: text(found.custom_description()),
            })
        });
        let compatibility = compatibility.transpose()?;
        self.finish(Version::Dt01V2, 2, Some(root.tensor_alignment()), compatibility)
    }

    fn read_named(&mut self, named: Tables<'a, flat_tensor::NamedData<'a>>) -> Result<()> {
        use flat_tensor::{NamedData as N, TensorLayout as L};
        self.flatbuffer.check_count(named.map_or(0, |named| named.len()), self.limits)?;
        for named in named.into_iter().flatten() {
            self.push(Found {
                table: named._tab,
                name: named.key(),
                name_field: N::VT_KEY,
                segment: (named.segment_index(), self.flatbuffer.place(&named._tab, N::VT_SEGMENT_INDEX)),
                layout: named.tensor_layout().map(|layout| FoundLayout {
                    table: layout._tab,
                    scalar_type: (layout.scalar_type(), L::VT_SCALAR_TYPE),
                    sizes: (layout.sizes(), L::VT_SIZES),
                    dim_order: (layout.dim_order(), L::VT_DIM_ORDER),
                }),
                place: Place::Whole,
            })?;
        }
        Ok(())
    }

    fn read_tensor_segments(&mut self, segments: Tables<'a, data::TensorSegment<'a>>) -> Result<()> {
        use data::TensorMetadata as T;
        for segment in segments.into_iter().flatten() {
            self.flatbuffer.check_table(&segment._tab)?;
            let index_at = self.flatbuffer.place(&segment._tab, data::TensorSegment::VT_SEGMENT_INDEX);
            for tensor in segment.tensor_metadata().into_iter().flatten() {
                let table = tensor._tab;
                self.push(Found {
                    table,
                    name: tensor.fully_qualified_name(),
                    name_field: T::VT_FULLY_QUALIFIED_NAME,
                    segment: (segment.segment_index(), index_at),
                    layout: Some(FoundLayout {
                        table,
                        // The same numbers, but the type is generated from another schema.
                        scalar_type: (ScalarType(tensor.scalar_type().0), T::VT_SCALAR_TYPE),
                        sizes: (tensor.dimensions(), T::VT_DIMENSIONS),
                        dim_order: (tensor.dim_order(), T::VT_DIM_ORDER),
                    }),
                    place: Place::From {
                        offset: tensor.offset(),
                        size: Some((tensor.size(), self.flatbuffer.place(&table, T::VT_SIZE))),
                        at: self.flatbuffer.place(&table, T::VT_OFFSET),
                    },
                })?;
            }
        }
        Ok(())
    }

    /// Reads the ranges of the segments and checks that they lie between the flatbuffer and the end.
    fn read_segments<T: flatbuffers::Follow<'a, Inner = T> + 'a>(
        &mut self,
        segments: Tables<'a, T>,
        parts: impl Fn(T) -> (Table<'a>, u64, u64),
    ) -> Result<()> {
        let frame = self.flatbuffer.frame;
        for (number, segment) in segments.into_iter().flatten().enumerate() {
            let (table, offset, size) = parts(segment);
            self.flatbuffer.check_table(&table)?;
            let malformed =
                |what| Error::new(ErrorKind::Malformed { what }).at(self.flatbuffer.frame.offset(table.loc()));
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

    fn push(&mut self, found: Found<'a>) -> Result<()> {
        let number = self.entries.len();
        self.flatbuffer.check_count(number + 1, self.limits)?;
        self.flatbuffer.check_table(&found.table)?;
        let table_at = self.flatbuffer.frame.offset(found.table.loc());
        let name = found.name.ok_or_else(|| {
            let what = "it has no name".to_owned();
            Error::new(ErrorKind::Malformed { what }).in_tensor(format!("#{number}")).at(table_at)
        })?;
        if !self.names.insert(name) {
            let at = self.flatbuffer.place(&found.table, found.name_field);
            return Err(Error::new(ErrorKind::DuplicateName { name: name.to_owned() }).at(at));
        }
        let entry = self.entry(name, &found).map_err(|error| error.in_tensor(name).at(table_at))?;
        self.entries.push(entry);
        Ok(())
    }

    fn entry(&self, name: &str, found: &Found<'a>) -> Result<Entry> {
        let (number, at) = found.segment;
        let segment = usize::try_from(number).ok().and_then(|number| self.segments.get(number)).ok_or_else(|| {
            let expected = match self.segments.len() {
                0 => "none, as the file has no segments".to_owned(),
                segments => format!("at most {}", segments - 1),
            };
            bad_number("segment index", number, expected, at)
        })?;
        let segment_bytes = segment.end - segment.start;
        let Some(layout) = &found.layout else {
            let bytes = usize::try_from(segment_bytes)
                .map_err(|_| Error::from(InvalidTensor::TooLarge { dtype: Dtype::U8, shape: [usize::MAX].into() }))?;
            return Ok(Entry::new(Some(name.to_owned()), TensorInfo::blob(bytes), segment.clone()));
        };
        let info = self.info(layout)?;
        let range = match found.place {
            Place::Whole => {
                info.check_payload(segment_bytes)?;
                segment.clone()
            }
            Place::From { offset, size, at } => {
                if let Some((size, at)) = size {
                    info.check_payload(size).map_err(|invalid| Error::from(invalid).at(at))?;
                }
                let bytes = info.payload_bytes().ok_or_else(|| too_large(&info))? as u64;
                match offset.checked_add(bytes).filter(|end| *end <= segment_bytes) {
                    Some(end) => segment.start + offset..segment.start + end,
                    None => {
                        let what = format!(
                            "{info} takes {bytes} bytes from byte {offset} of segment {number}, which has {segment_bytes}"
                        );
                        return Err(Error::new(ErrorKind::Malformed { what }).at(at));
                    }
                }
            }
        };
        Ok(Entry::new(Some(name.to_owned()), info, range))
    }

    fn info(&self, layout: &FoundLayout<'a>) -> Result<TensorInfo> {
        self.flatbuffer.check_table(&layout.table)?;
        let at = |field| self.flatbuffer.place(&layout.table, field);
        let (scalar_type, field) = layout.scalar_type;
        let dtype = header::dtype(scalar_type)
            .ok_or_else(|| Error::new(ErrorKind::UnknownDtype { tag: scalar_type.0.to_string() }).at(at(field)))?;
        let (sizes, field) = layout.sizes;
        let rank = sizes.map_or(0, |sizes| sizes.len());
        if rank as u64 > self.limits.rank {
            let kind = ErrorKind::Limit { what: "rank", found: rank as u64, limit: self.limits.rank };
            return Err(Error::new(kind).at(at(field)));
        }
        let dim =
            |size: i32| usize::try_from(size).map_err(|_| bad_number("dim", size, "0 or more".to_owned(), at(field)));
        let shape = sizes.into_iter().flatten().map(dim).collect::<Result<Shape>>()?;
        let (order, field) = layout.dim_order;
        let order = order.map_or(&[][..], |order| order.bytes());
        if order.len() != rank {
            return Err(Error::from(InvalidTensor::DimOrderRank { found: order.len(), rank }).at(at(field)));
        }
        let layout = Layout::from_dim_order(order).map_err(|invalid| Error::from(invalid).at(at(field)))?;
        let info = TensorInfo { dtype, shape, layout };
        if info.payload_bytes().is_none() {
            return Err(too_large(&info));
        }
        Ok(info)
    }

    fn finish(
        self,
        version: Version,
        schema_version: u32,
        tensor_alignment: Option<u32>,
        compatibility: Option<Compatibility>,
    ) -> Result<Contents> {
        check_overlaps(&self.entries)?;
        let segments = self.segments.len();
        let metadata = Metadata { version, schema_version, tensor_alignment, segments, compatibility };
        let ends = self.segments.iter().map(|segment| segment.end).chain(self.flatbuffer.frame.end);
        let end = ends.chain([self.flatbuffer.frame.first_byte()]).max().unwrap_or_default();
        Ok(Contents { metadata, entries: self.entries, end })
    }
}

fn too_large(info: &TensorInfo) -> Error {
    InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() }.into()
}

/// Checks that any two tensors have all bytes in common, or none.
fn check_overlaps(entries: &[Entry]) -> Result<()> {
    let place = |at: usize| (entries[at].range().start, entries[at].range().end);
    let order = sorted::positions(entries.len(), &mut |one, other| place(one).cmp(&place(other)));
    let mut order = order.into_iter().filter(|&at| !entries[at].range().is_empty());
    let Some(mut last) = order.next() else { return Ok(()) };
    for at in order {
        let (before, after) = (entries[last].range(), entries[at].range());
        if before == after {
            continue;
        }
        if after.start < before.end {
            let kind = ErrorKind::Overlap { other: entries[last].label(last), range: before };
            return Err(Error::new(kind).in_tensor(entries[at].label(at)).at(after.start));
        }
        last = at;
    }
    Ok(())
}
