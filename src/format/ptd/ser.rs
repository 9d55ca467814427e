use flatbuffers::{FlatBufferBuilder, WIPOffset};

use super::header::{self, Family};
use super::schema::{data, flat_tensor};
use super::{Compatibility, Segments, Version};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{self, FileLayout, Format, Names, Plan, Sharing, cannot_store};
use crate::tensor::{InvalidTensor, Layout, TensorInfo};

/// Writes the index, then the segments in order, each aligned.
#[derive(Debug, Clone)]
pub(super) struct Encode {
    pub(super) version: Version,
    pub(super) alignment: u32,
    pub(super) segments: Segments,
    pub(super) keep_dim_order: bool,
    pub(super) dedup: bool,
    pub(super) compatibility: Option<Compatibility>,
}

impl Default for Encode {
    fn default() -> Self {
        Self {
            version: Version::Ft01,
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

impl record::Encode for Encode {
    fn format(&self) -> &'static Format {
        &super::FORMAT
    }

    fn names(&self) -> Names {
        Names::Stored
    }

    fn keeps_dim_order(&self) -> bool {
        self.keep_dim_order
    }

    fn sharing(&self) -> Sharing {
        if self.dedup { Sharing::EqualBytes } else { Sharing::SameMemory }
    }

    fn check(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        if name.contains('\0') {
            return Err(cannot_store("a name with NUL in it", "ExecuTorch's C++ finds no such name"));
        }
        match info.layout {
            Layout::Blob if self.version != Version::Ft01 => {
                Err(cannot_store("a blob", "DT01 stores tensors; FT01 stores blobs too"))
            }
            _ => Ok(()),
        }
    }

    fn lay_out(&self, plan: &Plan) -> Result<FileLayout> {
        self.check_options()?;
        let family = if self.version == Version::Ft01 { Family::FlatTensor } else { Family::Data };
        let placed = self.place(plan)?;
        check_index_bytes(plan)?;
        let mut builder = FlatBufferBuilder::new();
        match self.version {
            Version::Ft01 => write_flat_tensor(&mut builder, plan, &placed),
            Version::EarlyFt01 => unreachable!("the options were checked"),
            Version::Dt01V1 => self.write_data_v1(&mut builder, plan, &placed),
            Version::Dt01V2 => self.write_data_v2(&mut builder, plan, &placed),
        }
        let flatbuffer = builder.finished_data();
        let base = align(family.header_bytes() + flatbuffer.len() as u64, self.alignment).ok_or_else(beyond)?;
        let end_offset = base.checked_add(placed.bytes).ok_or_else(beyond)?;
        let begin = header::write(family, flatbuffer, base, placed.bytes);
        let payloads = placed.tensors.iter().map(|place| base + placed.segments[place.segment].offset + place.offset);
        Ok(FileLayout { begin, payloads: payloads.collect(), end_offset, ..FileLayout::default() })
    }
}

/// The places of the data, in bytes from the start of the first segment.
struct Placed {
    segments: Vec<Segment>,
    tensors: Vec<Place>,
    bytes: u64,
}

struct Segment {
    offset: u64,
    size: u64,
}

#[derive(Clone, Copy)]
struct Place {
    segment: usize,
    /// Within the segment.
    offset: u64,
}

impl Encode {
    fn check_options(&self) -> Result<()> {
        let refuse = |what: &str, instead: &str| {
            let (what, instead) = (what.to_owned(), instead.to_owned());
            Err(ErrorKind::Unsupported { what, instead }.into())
        };
        if self.version == Version::EarlyFt01 {
            return refuse(
                "write the FT01 of ExecuTorch 0.5 and 0.6",
                "`Version::Ft01` is what later versions read and write",
            );
        }
        if self.version == Version::Ft01 && !matches!(self.segments, Segments::PerTensor) {
            return refuse("put several tensors into a segment of FT01", "`Version::Dt01V2` can");
        }
        if self.version != Version::Dt01V2 && self.compatibility.is_some() {
            return refuse("store compatibility metadata in this version", "`Version::Dt01V2` can");
        }
        if !self.alignment.is_power_of_two() {
            return refuse(&format!("align to {} bytes", self.alignment), "expected a power of two");
        }
        Ok(())
    }

    fn place(&self, plan: &Plan) -> Result<Placed> {
        let mut placed = Placed { segments: Vec::new(), tensors: Vec::with_capacity(plan.len()), bytes: 0 };
        let mut group = None;
        for at in 0..plan.len() {
            let owner = plan.owner(at);
            let place = match placed.tensors.get(owner) {
                Some(&place) => place,
                None => {
                    let starts_segment = self.starts_segment(plan.name(at), &mut group) || placed.segments.is_empty();
                    let bytes = plan.payload_bytes(at) as u64;
                    let place = placed.add(bytes, starts_segment, self.alignment).ok_or_else(|| {
                        let info = plan.info(at);
                        let too_large = InvalidTensor::TooLarge { dtype: info.dtype, shape: info.shape.clone() };
                        Error::from(too_large).in_tensor(plan.name(at))
                    })?;
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

    fn write_data_v1(&self, builder: &mut FlatBufferBuilder<'_>, plan: &Plan, placed: &Placed) {
        let tensor_segments = write_tensor_segments(builder, plan, placed);
        let segments: Vec<_> = placed.segments.iter().map(|segment| segment.write_data(builder)).collect();
        let args = data::DataV1Args {
            version: 1,
            tensor_segments: Some(builder.create_vector(&tensor_segments)),
            segments: Some(builder.create_vector(&segments)),
            tensor_alignment: self.alignment,
        };
        let root = data::DataV1::create(builder, &args);
        builder.finish(root, Some(Family::Data.identifier()));
    }

    fn write_data_v2(&self, builder: &mut FlatBufferBuilder<'_>, plan: &Plan, placed: &Placed) {
        let tensor_segments = write_tensor_segments(builder, plan, placed);
        let segments: Vec<_> = placed.segments.iter().map(|segment| segment.write_data(builder)).collect();
        let compatibility_metadata = self.compatibility.as_ref().map(|found| {
            let args = data::CompatibilityMetadataArgs {
                model_name: Some(builder.create_string(&found.model_name)),
                version: Some(builder.create_string(&found.version)),
                quantization_scheme: Some(builder.create_string(&found.quantization_scheme)),
                custom_description: Some(builder.create_string(&found.custom_description)),
            };
            data::CompatibilityMetadata::create(builder, &args)
        });
        let args = data::DataV2Args {
            version: 2,
            compatibility_metadata,
            tensor_segments: Some(builder.create_vector(&tensor_segments)),
            segments: Some(builder.create_vector(&segments)),
            tensor_alignment: self.alignment,
        };
        let root = data::DataV2::create(builder, &args);
        builder.finish(root, Some(Family::Data.identifier()));
    }
}

impl Placed {
    /// Adds a tensor after the others. Returns `None` if it ends past 2⁶⁴.
    fn add(&mut self, bytes: u64, starts_segment: bool, alignment: u32) -> Option<Place> {
        let start = align(self.bytes, alignment)?;
        if starts_segment {
            self.segments.push(Segment { offset: start, size: 0 });
        }
        let segment = self.segments.len() - 1;
        let offset = start - self.segments[segment].offset;
        self.segments[segment].size = offset.checked_add(bytes)?;
        self.bytes = start.checked_add(bytes)?;
        Some(Place { segment, offset })
    }
}

fn align(bytes: u64, alignment: u32) -> Option<u64> {
    bytes.checked_next_multiple_of(u64::from(alignment))
}

fn beyond() -> Error {
    cannot_store("this much data", "a file has less than 2^64 bytes and 2^32 segments").into()
}

/// Refuses an index that may be too long for a flatbuffer, before the builder panics.
fn check_index_bytes(plan: &Plan) -> Result<()> {
    // More than the tables, vectors, offsets and padding of a tensor take.
    const TABLES: u64 = 192;
    let bytes = |at| TABLES + plan.name(at).len() as u64 + 5 * plan.info(at).shape.rank() as u64;
    match (0..plan.len()).map(bytes).sum::<u64>() {
        bytes if bytes > header::MAX_FLATBUFFER => {
            Err(cannot_store(format!("an index of {bytes} bytes"), "an index is a flatbuffer, below 2^31 bytes").into())
        }
        _ => Ok(()),
    }
}

impl Segment {
    fn write_flat_tensor<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> WIPOffset<flat_tensor::DataSegment<'b>> {
        let args = flat_tensor::DataSegmentArgs { offset: self.offset, size: self.size };
        flat_tensor::DataSegment::create(builder, &args)
    }

    fn write_data<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> WIPOffset<data::DataSegment<'b>> {
        data::DataSegment::create(builder, &data::DataSegmentArgs { offset: self.offset, size: self.size })
    }
}

fn write_flat_tensor(builder: &mut FlatBufferBuilder<'_>, plan: &Plan, placed: &Placed) {
    let named = (0..plan.len()).map(|at| {
        let info = plan.info(at);
        let tensor_layout = (info.layout != Layout::Blob).then(|| {
            // Empty vectors are written too: ExecuTorch crashes if one is missing.
            let (sizes, dim_order) = write_shape(builder, info);
            let scalar_type = header::scalar_type(info.dtype);
            let args = flat_tensor::TensorLayoutArgs { scalar_type, sizes: Some(sizes), dim_order: Some(dim_order) };
            flat_tensor::TensorLayout::create(builder, &args)
        });
        let key = Some(builder.create_string(plan.name(at)));
        let segment_index = segment_index(placed, at);
        flat_tensor::NamedData::create(builder, &flat_tensor::NamedDataArgs { key, segment_index, tensor_layout })
    });
    let named: Vec<_> = named.collect();
    let segments: Vec<_> = placed.segments.iter().map(|segment| segment.write_flat_tensor(builder)).collect();
    let args = flat_tensor::FlatTensorArgs {
        version: 0,
        segments: Some(builder.create_vector(&segments)),
        named_data: Some(builder.create_vector(&named)),
    };
    let root = flat_tensor::FlatTensor::create(builder, &args);
    builder.finish(root, Some(Family::FlatTensor.identifier()));
}

/// Writes the tensors in order: one list for each run of tensors in the same segment.
fn write_tensor_segments<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    plan: &Plan,
    placed: &Placed,
) -> Vec<WIPOffset<data::TensorSegment<'b>>> {
    let order: Vec<usize> = (0..plan.len()).collect();
    let runs = order.chunk_by(|&a, &b| placed.tensors[a].segment == placed.tensors[b].segment);
    let segments = runs.map(|run| {
        let tensors: Vec<_> = run.iter().map(|&at| write_tensor(builder, plan, placed, at)).collect();
        let args = data::TensorSegmentArgs {
            segment_index: segment_index(placed, run[0]),
            tensor_metadata: Some(builder.create_vector(&tensors)),
        };
        data::TensorSegment::create(builder, &args)
    });
    segments.collect()
}

fn write_tensor<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    plan: &Plan,
    placed: &Placed,
    at: usize,
) -> WIPOffset<data::TensorMetadata<'b>> {
    let info = plan.info(at);
    let (dimensions, dim_order) = write_shape(builder, info);
    let args = data::TensorMetadataArgs {
        fully_qualified_name: Some(builder.create_string(plan.name(at))),
        scalar_type: data::ScalarType(header::scalar_type(info.dtype).0),
        dimensions: Some(dimensions),
        dim_order: Some(dim_order),
        offset: placed.tensors[at].offset,
        size: plan.payload_bytes(at) as u64,
    };
    data::TensorMetadata::create(builder, &args)
}

type Written<'b, T> = WIPOffset<flatbuffers::Vector<'b, T>>;

fn write_shape<'b>(builder: &mut FlatBufferBuilder<'b>, info: &TensorInfo) -> (Written<'b, i32>, Written<'b, u8>) {
    let sizes: Vec<i32> = info.shape.iter().map(|&dim| i32::try_from(dim).expect("the plan was checked")).collect();
    let row_major: Vec<u8>;
    let order = match &info.layout {
        Layout::DimOrder(order) => order.as_slice(),
        _ => {
            row_major = (0..info.shape.rank()).map(|dim| u8::try_from(dim).expect("the plan was checked")).collect();
            &row_major
        }
    };
    (builder.create_vector(&sizes), builder.create_vector(order))
}

fn segment_index(placed: &Placed, at: usize) -> u32 {
    u32::try_from(placed.tensors[at].segment).expect("checked when the tensor was placed")
}
