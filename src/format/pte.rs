//! PTE (`.pte`): a program of ExecuTorch, which is read, not written.
//!
//! ```text
//! root offset: u32 | "ET12" | header: "eh00", length: u32, … | flatbuffer | segments
//! ```
//!
//! The tensors are the constants and the initial values of the program, and its named data. What delegates get is a blob, with
//! the name `METHOD.delegates.NUMBER.DELEGATE`. Nothing is run, and no instruction is read.
//!
//! # Specification
//!
//! `schema/program.fbs` and `exir/_serialize/_program.py` of [ExecuTorch](https://github.com/pytorch/executorch) 1.5. A tensor
//! whose data is in another file (`.ptd`) is left out, with a warning.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::ptd;
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::format::Format;
use crate::limits::Limits;
use crate::model::{FileMetadata, FormatSpec, Magic};
use crate::read::{FlatbufferReader, Index, IndexReader, Table};
use crate::storage::ReadAt;
use crate::tensor::{InvalidTensor, Layout, Shape, TensorInfo};
use crate::write::{Encode, WriteOptions};

/// The format as a value, for choosing one at run time.
pub static FORMAT: Format = Format::new(SPEC, || Box::new(ProgramReader::default()), encode).with_metadata(metadata);

const SPEC: FormatSpec = FormatSpec {
    extensions: &["pte"],
    magics: &[Magic { offset: 4, bytes: b"ET12" }],
    blobs: true,
    read_only: true,
    embeds_names: false,
    ..FormatSpec::new("pte", ptd::DTYPES)
};

fn encode(_: &WriteOptions) -> Result<Arc<dyn Encode>> {
    Err(super::only_read(FORMAT.name))
}

/// The fields of the tables, by their numbers in `program.fbs`.
mod fields {
    pub(super) mod program {
        pub(in super::super) const VERSION: usize = 0;
        pub(in super::super) const EXECUTION_PLAN: usize = 1;
        pub(in super::super) const CONSTANT_BUFFER: usize = 2;
        pub(in super::super) const BACKEND_DELEGATE_DATA: usize = 3;
        pub(in super::super) const SEGMENTS: usize = 4;
        pub(in super::super) const CONSTANT_SEGMENT: usize = 5;
        pub(in super::super) const MUTABLE_DATA_SEGMENTS: usize = 6;
        pub(in super::super) const NAMED_DATA: usize = 7;
    }

    pub(super) mod plan {
        pub(in super::super) const NAME: usize = 0;
        pub(in super::super) const VALUES: usize = 2;
        pub(in super::super) const DELEGATES: usize = 7;
    }

    pub(super) mod value {
        pub(in super::super) const KIND: usize = 0;
        pub(in super::super) const VALUE: usize = 1;
        /// The kind of a tensor.
        pub(in super::super) const TENSOR: i8 = 5;
    }

    pub(super) mod tensor {
        pub(in super::super) const SCALAR_TYPE: usize = 0;
        pub(in super::super) const STORAGE_OFFSET: usize = 1;
        pub(in super::super) const SIZES: usize = 2;
        pub(in super::super) const DIM_ORDER: usize = 3;
        pub(in super::super) const DATA_BUFFER_IDX: usize = 5;
        pub(in super::super) const ALLOCATION_INFO: usize = 6;
        pub(in super::super) const EXTRA_TENSOR_INFO: usize = 9;
    }

    pub(super) mod extra {
        pub(in super::super) const MUTABLE_DATA_SEGMENTS_IDX: usize = 0;
        pub(in super::super) const FULLY_QUALIFIED_NAME: usize = 1;
        pub(in super::super) const LOCATION: usize = 2;
        /// The location of data in another file.
        pub(in super::super) const EXTERNAL: i8 = 1;
    }

    pub(super) mod delegate {
        pub(in super::super) const ID: usize = 0;
        pub(in super::super) const PROCESSED: usize = 1;
    }

    pub(super) mod reference {
        pub(in super::super) const LOCATION: usize = 0;
        pub(in super::super) const INDEX: usize = 1;
        /// The location of data in a segment.
        pub(in super::super) const SEGMENT: i8 = 1;
    }

    pub(super) mod segment {
        pub(in super::super) const OFFSET: usize = 0;
        pub(in super::super) const SIZE: usize = 1;
    }

    pub(super) mod offsets {
        pub(in super::super) const SEGMENT_INDEX: usize = 0;
        pub(in super::super) const OFFSETS: usize = 1;
    }

    pub(super) mod named {
        pub(in super::super) const KEY: usize = 0;
        pub(in super::super) const SEGMENT_INDEX: usize = 1;
    }
}

/// The only field of a table of bytes.
const BYTES: usize = 0;

#[derive(Debug, Default)]
struct ProgramReader {
    is_read: bool,
    metadata: FileMetadata,
}

impl IndexReader for ProgramReader {
    fn read_on(&mut self, file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<bool> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(false);
        }
        self.metadata = read(file, limits, index)?;
        // Methods name constants in any order.
        file.keep_rest(limits.most_held())?;
        Ok(true)
    }

    fn metadata(&mut self) -> Option<FileMetadata> {
        Some(std::mem::take(&mut self.metadata))
    }
}

fn metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    read(file, limits, &mut Index::default())
}

/// The places of the flatbuffer and of the segments.
struct ProgramFrame {
    root: u32,
    flatbuffer_end: u64,
    /// Offsets of segments are relative to it. Without a header, there are no segments.
    base: Option<u64>,
}

impl ProgramFrame {
    /// The length of root offset and identifier, after which the header was injected.
    const BEFORE_HEADER: u64 = 8;

    fn read(file: &mut dyn ReadAt) -> Result<Self> {
        /// The length of the shortest header that has both numbers.
        const LEAST: u32 = 24;

        let mut head = [0; 32];
        file.peek_at(0, &mut head)?;
        let u32_at = |at: usize| u32::from_le_bytes(*head[at..].first_chunk().expect("the head is longer"));
        let u64_at = |at: usize| u64::from_le_bytes(*head[at..].first_chunk().expect("the head is longer"));
        let root = u32_at(0);
        let frame = if head[8..12] == *b"eh00" {
            if u32_at(12) < LEAST {
                return Err(ptd::bad_number("header length", u32_at(12), format!("at least {LEAST}"), 12));
            }
            Self { root, flatbuffer_end: u64_at(16), base: Some(u64_at(24)) }
        } else {
            let what = "a program without a header is read from a file, not a stream".to_owned();
            let instead = "save it to a file first".to_owned();
            let len = file.file_len().ok_or(ErrorKind::Unsupported { what, instead })?;
            Self { root, flatbuffer_end: len, base: None }
        };
        let most = ptd::MAX_FLATBUFFER;
        if !(Self::BEFORE_HEADER..=most).contains(&frame.flatbuffer_end) {
            let expected = format!("{} to {most}", Self::BEFORE_HEADER);
            return Err(ptd::bad_number("flatbuffer size", frame.flatbuffer_end, expected, 16));
        }
        Ok(frame)
    }
}

fn read(file: &mut dyn ReadAt, limits: &Limits, index: &mut Index) -> Result<FileMetadata> {
    let (len, frame) = (file.file_len(), ProgramFrame::read(file)?);
    let start = ProgramFrame::BEFORE_HEADER;
    let root = u64::from(frame.root).checked_sub(start).and_then(|root| usize::try_from(root).ok());
    let root = root.ok_or_else(|| ptd::bad_number("root table offset", frame.root, format!("at least {start}"), 0))?;
    let mut memory = Vec::new();
    let bytes = file.bytes(start..frame.flatbuffer_end, &mut memory)?;
    // All references but that to the root are relative, and parts are aligned without the header.
    let flatbuffer = FlatbufferReader::new(bytes, start);
    if root >= bytes.len() {
        return Err(malformed("the flatbuffer is broken: a part lies outside of it".to_owned()).at(0));
    }
    let program = flatbuffer.table_at(root, root)?;
    let mut parser = ProgramParser {
        limits,
        segments: Vec::new(),
        program,
        places: HashSet::new(),
        copies: HashMap::new(),
        index,
        external: (0, None),
        warnings: Vec::new(),
    };
    parser.read_segments(&frame)?;
    let mut methods = Vec::new();
    for plan in program.tables(fields::program::EXECUTION_PLAN)? {
        let plan = plan?;
        let method = plan.string(fields::plan::NAME)?.unwrap_or("method").to_owned();
        parser.read_values(&plan)?;
        parser.read_delegates(&plan, &method)?;
        methods.push(method);
    }
    parser.read_named_data()?;
    let ProgramParser { external, mut warnings, .. } = parser;
    if let (count @ 1.., Some(name)) = external {
        let text = match count {
            1 => format!("the data of `{}` is in another file, a `.ptd`", Short(&name)),
            _ => format!("the data of {count} tensors is in another file, a `.ptd`; the first is `{}`", Short(&name)),
        };
        warnings.push(Warning::new(WarningKind::LeftOut, text));
    }
    index.check_ends(0, len)?;
    let version = program.u32(fields::program::VERSION)?;
    let version = format!("ET12, version {version}; methods: {}", methods.join(", "));
    Ok(FileMetadata { version: Some(version), warnings, ..FileMetadata::default() })
}

struct ProgramParser<'a, 'i> {
    limits: &'a Limits,
    program: Table<'a>,
    /// The places of the segments in the file.
    segments: Vec<Range<u64>>,
    /// The names and places of the tensors so far.
    places: HashSet<(String, u64)>,
    /// The number of tensors of each name.
    copies: HashMap<String, usize>,
    index: &'i mut Index,
    /// The number of tensors whose data is in another file, and the name of the first.
    external: (usize, Option<String>),
    warnings: Vec<Warning>,
}

impl<'a> ProgramParser<'a, '_> {
    fn read_segments(&mut self, frame: &ProgramFrame) -> Result<()> {
        for segment in self.program.tables(fields::program::SEGMENTS)? {
            let segment = segment?;
            let (offset, size) = (segment.u64(fields::segment::OFFSET)?, segment.u64(fields::segment::SIZE)?);
            let Some(base) = frame.base else {
                return Err(malformed("it has segments, but no header that says where".to_owned()).at(segment.offset()));
            };
            let start = base.checked_add(offset);
            let range = start.and_then(|start| Some(start..start.checked_add(size)?));
            let too_far = || malformed("a segment ends beyond what can be addressed".to_owned()).at(segment.offset());
            self.segments.push(range.ok_or_else(too_far)?);
        }
        Ok(())
    }

    /// Returns the place of a segment, by the number in a field of a table.
    fn segment(&self, table: &Table<'_>, field: usize) -> Result<Range<u64>> {
        let number = table.u32(field)?;
        let segment = usize::try_from(number).ok().and_then(|number| self.segments.get(number));
        segment.cloned().ok_or_else(|| {
            let expected = format!("less than {}, the number of segments", self.segments.len());
            ptd::bad_number("segment index", number, expected, table.field_offset(field))
        })
    }

    fn read_values(&mut self, plan: &Table<'a>) -> Result<()> {
        for value in plan.tables(fields::plan::VALUES)? {
            let value = value?;
            if value.i8(fields::value::KIND)? != fields::value::TENSOR {
                continue;
            }
            let Some(tensor) = value.table(fields::value::VALUE)? else { continue };
            self.read_tensor(&tensor)?;
        }
        Ok(())
    }

    fn read_tensor(&mut self, tensor: &Table<'a>) -> Result<()> {
        let extra = tensor.table(fields::tensor::EXTRA_TENSOR_INFO)?;
        let extra_name = extra.map(|extra| extra.string(fields::extra::FULLY_QUALIFIED_NAME)).transpose()?.flatten();
        let location = extra.map_or(Ok(0), |extra| extra.i8(fields::extra::LOCATION))?;
        if location == fields::extra::EXTERNAL {
            self.external.0 += 1;
            self.external.1.get_or_insert_with(|| extra_name.unwrap_or_default().to_owned());
            return Ok(());
        }
        let number = tensor.u32(fields::tensor::DATA_BUFFER_IDX)?;
        // The program computes it.
        if number == 0 {
            return Ok(());
        }
        let is_mutable = tensor.has(fields::tensor::ALLOCATION_INFO);
        let list = extra.map_or(Ok(0), |extra| extra.u64(fields::extra::MUTABLE_DATA_SEGMENTS_IDX))?;
        let name = match (extra_name, is_mutable) {
            (Some(name), _) if !name.is_empty() => name.to_owned(),
            (_, false) => format!("constants.{number}"),
            (_, true) => format!("mutable.{list}.{number}"),
        };
        // It would move the elements. ExecuTorch loads no such program either.
        if tensor.u32(fields::tensor::STORAGE_OFFSET)? != 0 {
            let what = "its storage offset is not 0".to_owned();
            return Err(malformed(what).in_tensor(name).at(tensor.offset()));
        }
        let place = self.data(tensor, number, is_mutable.then_some(list));
        let (room, known) = place.map_err(|error| error.in_tensor(&*name))?;
        let info = match self.info(tensor).map_err(|error| error.in_tensor(&*name))? {
            Ok(info) => info,
            Err(dtype) => {
                let text = format!("`{}` is left out: its dtype, number {dtype}, is unknown", Short(&name));
                self.warnings.push(Warning::new(WarningKind::LeftOut, text).in_tensor(&*name));
                return Ok(());
            }
        };
        let bytes = info.payload_bytes().map(|bytes| bytes as u64);
        let has = room.end - room.start;
        let Some(bytes) = bytes.filter(|bytes| if known { *bytes == has } else { *bytes <= has }) else {
            let what = format!("{info} does not fit its data, which has {has} bytes");
            return Err(malformed(what).in_tensor(&*name).at(tensor.offset()));
        };
        self.push(name, info, room.start..room.start + bytes)
    }

    /// Returns the place of the data with a number, and whether all of it belongs to one tensor.
    fn data(&self, tensor: &Table<'a>, number: u32, mutable: Option<u64>) -> Result<(Range<u64>, bool)> {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let too_large = |most: usize| {
            let expected = format!("less than {most}");
            ptd::bad_number("data buffer", number, expected, tensor.field_offset(fields::tensor::DATA_BUFFER_IDX))
        };
        let buffers = self.program.tables(fields::program::CONSTANT_BUFFER)?;
        if mutable.is_none() && buffers.len() > 0 {
            if at >= buffers.len() {
                return Err(too_large(buffers.len()));
            }
            return Ok((buffers.get(at)?.bytes(BYTES)?.unwrap_or_default(), true));
        }
        let list = match mutable {
            None => self.program.table(fields::program::CONSTANT_SEGMENT)?,
            Some(list) => {
                let lists = self.program.tables(fields::program::MUTABLE_DATA_SEGMENTS)?;
                let list = usize::try_from(list).ok().filter(|list| *list < lists.len());
                list.map(|list| lists.get(list)).transpose()?
            }
        };
        let list =
            list.ok_or_else(|| malformed("it has data, but the program has none".to_owned()).at(tensor.offset()))?;
        let (segment, offsets) =
            (self.segment(&list, fields::offsets::SEGMENT_INDEX)?, list.numbers::<8>(fields::offsets::OFFSETS)?);
        let offset = u64::from_le_bytes(*offsets.get(at).ok_or_else(|| too_large(offsets.len()))?);
        let start = segment.start.checked_add(offset).filter(|start| *start <= segment.end);
        let start = start.ok_or_else(|| malformed("its data begins after its segment".to_owned()).at(list.offset()))?;
        Ok((start..segment.end, false))
    }

    /// Returns the description of a tensor, or the number of an unknown dtype.
    fn info(&self, tensor: &Table<'a>) -> Result<Result<TensorInfo, i8>> {
        let scalar_type = tensor.i8(fields::tensor::SCALAR_TYPE)?;
        let (sizes, order) =
            (tensor.numbers::<4>(fields::tensor::SIZES)?, tensor.numbers::<1>(fields::tensor::DIM_ORDER)?);
        if sizes.len() as u64 > self.limits.rank {
            return Err(ErrorKind::Limit { what: "rank", found: sizes.len() as u64, limit: self.limits.rank }.into());
        }
        let mut shape = Shape::default();
        for size in sizes {
            let size = i32::from_le_bytes(*size);
            let negative = |_| ptd::bad_number("dim", size, "0 or more".to_owned(), tensor.offset());
            shape.push(usize::try_from(size).map_err(negative)?);
        }
        let order = order.as_flattened();
        let layout = if order.len() == shape.rank() {
            Layout::from_dim_order(order)
        } else {
            Err(InvalidTensor::DimOrderRank { found: order.len(), rank: shape.rank() })
        };
        let layout = layout.map_err(|invalid| Error::from(invalid).at(tensor.offset()))?;
        Ok(ptd::dtype(scalar_type).map(|dtype| TensorInfo { dtype, shape, layout }).ok_or(scalar_type))
    }

    fn read_delegates(&mut self, plan: &Table<'a>, method: &str) -> Result<()> {
        for (number, delegate) in plan.tables(fields::plan::DELEGATES)?.enumerate() {
            let delegate = delegate?;
            let Some(processed) = delegate.table(fields::delegate::PROCESSED)? else { continue };
            let place = if processed.i8(fields::reference::LOCATION)? == fields::reference::SEGMENT {
                self.segment(&processed, fields::reference::INDEX)?
            } else {
                let (data, at) = (
                    self.program.tables(fields::program::BACKEND_DELEGATE_DATA)?,
                    processed.u32(fields::reference::INDEX)?,
                );
                let found = usize::try_from(at).ok().filter(|at| *at < data.len());
                let found = found.ok_or_else(|| {
                    let expected = format!("less than {}", data.len());
                    ptd::bad_number("delegate data", at, expected, processed.offset())
                })?;
                data.get(found)?.bytes(BYTES)?.unwrap_or_default()
            };
            let id = delegate.string(fields::delegate::ID)?.unwrap_or_default();
            self.push_blob(format!("{method}.delegates.{number}.{id}"), place)?;
        }
        Ok(())
    }

    fn read_named_data(&mut self) -> Result<()> {
        for named in self.program.tables(fields::program::NAMED_DATA)? {
            let named = named?;
            let place = self.segment(&named, fields::named::SEGMENT_INDEX)?;
            let name = named.string(fields::named::KEY)?.unwrap_or_default().to_owned();
            self.push_blob(name, place)?;
        }
        Ok(())
    }

    fn push_blob(&mut self, name: String, place: Range<u64>) -> Result<()> {
        let bytes = usize::try_from(place.end - place.start);
        let bytes =
            bytes.map_err(|_| malformed("it has more bytes than can be addressed".to_owned()).in_tensor(&*name))?;
        self.push(name, TensorInfo::blob(bytes), place)
    }

    /// Adds a tensor. Methods share constants, so that one may come again. Others of the same name get a number.
    fn push(&mut self, name: String, info: TensorInfo, place: Range<u64>) -> Result<()> {
        if !self.places.insert((name.clone(), place.start)) {
            return Ok(());
        }
        let found = self.index.pushed() as u64 + 1;
        if found > self.limits.tensors {
            return Err(ErrorKind::Limit { what: "number of tensors", found, limit: self.limits.tensors }.into());
        }
        let copies = self.copies.entry(name.clone()).or_default();
        *copies += 1;
        let name = if *copies == 1 { name } else { format!("{name}.{copies}") };
        self.index.push(Some(&name), info, place)
    }
}

fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
