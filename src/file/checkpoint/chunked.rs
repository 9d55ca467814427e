//! Joins files with tensors in several chunks. The chunks of a tensor may be in several files.

use std::num::NonZeroU8;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, PAYLOADS, Result};
use crate::fetch::{Moves, TensorMove, check_tiling};
use crate::file::File;
use crate::file::file::Shards;
use crate::format::Format;
use crate::limits::Limits;
use crate::read::{Codec, Index, Negation, Strided};
use crate::storage::{FileStorage, JoinedFiles};
use crate::tensor::{Dtype, Layout, Shape, TensorInfo};

/// A chunk of a tensor, as stored in its file.
pub(super) struct StoredChunk {
    /// The index of the chunk's first element in each dim of the tensor.
    pub(super) offsets: Shape,
    pub(super) info: TensorInfo,
    /// The range in the joined files.
    pub(super) range: Range<u64>,
    pub(super) codec: Option<Codec>,
}

/// Collects tensors of joined files. A tensor of one chunk stays in its file, and can be borrowed. Several chunks are
/// put together when the tensor is read.
pub(super) struct ChunkedIndex {
    joined: JoinedFiles,
    index: Index,
}

impl ChunkedIndex {
    pub(super) fn new(mut parts: Vec<Arc<FileStorage>>) -> Result<Self> {
        if parts.is_empty() {
            // A folder with only empty tensors has no files.
            parts.push(Arc::new(FileStorage::Memory(Box::new([]))));
        }
        let joined = JoinedFiles::new(parts).ok_or_else(too_long)?;
        Ok(Self { joined, index: Index::default() })
    }

    /// Allows several tensors with one name. Must be called before the first tensor is added.
    pub(super) fn let_names_repeat(&mut self) {
        self.index.let_names_repeat();
    }

    /// Returns the number of tensors so far.
    pub(super) fn pushed(&self) -> usize {
        self.index.pushed()
    }

    /// Converts a range of a file to a range of the joined files.
    pub(super) fn place(&self, file: usize, range: Range<u64>) -> Range<u64> {
        let start = self.joined.starts()[file];
        start + range.start..start + range.end
    }

    /// Adds a tensor that is stored in one place.
    pub(super) fn push(&mut self, name: &str, info: TensorInfo, range: Range<u64>, codec: Option<Codec>) -> Result<()> {
        self.index.push_named(name, info, range, codec)
    }

    /// Adds a tensor after checking that its chunks tile it. No chunk may be empty.
    pub(super) fn push_chunks(
        &mut self,
        name: &str,
        (dtype, shape): (Dtype, Shape),
        mut chunks: Vec<StoredChunk>,
    ) -> Result<()> {
        let boxes: Vec<(&Shape, &Shape)> = chunks.iter().map(|chunk| (&chunk.offsets, &chunk.info.shape)).collect();
        check_tiling(&shape, &boxes)?;
        match chunks.pop() {
            Some(StoredChunk { info, range, codec, .. }) if chunks.is_empty() => {
                self.index.push_named(name, info, range, codec)
            }
            None => self.index.push_named(name, TensorInfo::new(dtype, shape), 0..0, None),
            Some(last) => {
                chunks.push(last);
                self.push_gathered(name, TensorInfo::new(dtype, shape), chunks)
            }
        }
    }

    fn push_gathered(&mut self, name: &str, info: TensorInfo, chunks: Vec<StoredChunk>) -> Result<()> {
        let Some(bytes) = info.payload_bytes() else {
            return Err(malformed(format!("{info} takes more bytes than can be addressed")));
        };
        let changes: Vec<ChunkChanges> = chunks.iter().map(ChunkChanges::of).collect();
        if let Some(other) = changes.iter().position(|other| *other != changes[0]) {
            let offsets = &chunks[other].offsets;
            return Err(malformed(format!("the chunk at {offsets} is stored in another way than the first one")));
        }
        let codec = changes[0].codec(&info, bytes);
        let element = info.dtype.block_bytes();
        let in_blocks = |shape: &Shape| {
            blocks(info.dtype, shape).ok_or_else(|| ErrorKind::Unsupported {
                what: format!("put chunks of {info} together that end within a byte"),
                instead: format!("{} elements share it", info.dtype.block_elements()),
            })
        };
        let chunk = |StoredChunk { offsets, info, range, codec }: StoredChunk| {
            let info = TensorInfo { shape: in_blocks(&info.shape)?, ..info };
            let strides = strides(&info, element, codec.as_ref());
            Ok(TensorMove::chunk(range.start, &in_blocks(&offsets)?, &info.shape, &strides))
        };
        let chunks = chunks.into_iter().map(chunk).collect::<Result<_>>()?;
        let chunks = Moves::new(element, in_blocks(&info.shape)?, chunks, bytes as u64);
        let start = self.joined.gather(Box::new(chunks)).ok_or_else(too_long)?;
        self.index.push_named(name, info, start..start + bytes as u64, codec)
    }

    /// Returns the joined files as one file.
    pub(super) fn finish(
        mut self,
        format: &'static Format,
        location: &Path,
        files: Shards,
        limits: &Limits,
    ) -> Result<File> {
        self.index.complete()?;
        // Strided chunks may repeat elements, so the tensors may be larger than the files.
        let storage = FileStorage::Joined(self.joined);
        let payloads = (0..self.index.len()).map(|i| self.index.entry(i).payload_bytes());
        let (found, limit) = (payloads.fold(0, u64::saturating_add), limits.most_shared(storage.len()));
        if found > limit {
            return Err(ErrorKind::Limit { what: PAYLOADS, found, limit }.into());
        }
        Ok(File::of_shards(format, location, (storage, self.index), files, limits))
    }
}

/// The conversions that apply to all elements of a chunk.
#[derive(PartialEq)]
struct ChunkChanges {
    big_endian: Option<NonZeroU8>,
    negation: Option<Negation>,
    /// Whether any byte other than 0 is a `true`.
    takes_any_bool: bool,
}

impl ChunkChanges {
    fn of(chunk: &StoredChunk) -> Self {
        let codec = chunk.codec.as_ref();
        Self {
            big_endian: codec.and_then(Codec::big_endian),
            negation: match codec {
                Some(Codec::Strided(strided)) => strided.negation,
                _ => None,
            },
            takes_any_bool: codec.is_some() && chunk.info.dtype == Dtype::Bool,
        }
    }

    /// Returns the codec for all chunks together.
    fn codec(&self, info: &TensorInfo, bytes: usize) -> Option<Codec> {
        let Self { big_endian, negation, takes_any_bool } = *self;
        if negation.is_some() {
            return Some(Codec::Strided(Box::new(Strided { big_endian, negation, run: bytes, ..Strided::default() })));
        }
        let bools = (takes_any_bool && info.dtype == Dtype::Bool).then_some(Codec::Bools);
        big_endian.map(Codec::BigEndian).or(bools)
    }
}

/// Converts a shape or offsets from elements to blocks. `None` if they cut a block. Blocks divide the last dim.
fn blocks(dtype: Dtype, shape: &Shape) -> Option<Shape> {
    let mut dims = shape.dims().to_vec();
    if let Some(last) = dims.last_mut().filter(|_| dtype.block_elements() > 1) {
        *last = last.is_multiple_of(dtype.block_elements()).then(|| *last / dtype.block_elements())?;
    }
    Some(dims.into())
}

/// Returns the stored strides of a chunk, in elements.
fn strides(info: &TensorInfo, element: usize, codec: Option<&Codec>) -> Vec<usize> {
    let dense = match &info.layout {
        Layout::DimOrder(order) => order.strides(&info.shape),
        _ => info.shape.row_major_strides(),
    };
    let Some(Codec::Strided(strided)) = codec else { return dense };
    // The dims with more than one element, innermost last. Dims inside a run are dense, and the others have strides of
    // their own.
    let mut dims: Vec<usize> = match &info.layout {
        Layout::DimOrder(order) => order.as_slice().iter().map(|dim| usize::from(*dim)).collect(),
        _ => (0..info.shape.rank()).collect(),
    };
    dims.retain(|dim| info.shape[*dim] > 1);
    let (mut strides, mut run) = (dense, element);
    let mut steps = strided.dims.iter().rev();
    for dim in dims.into_iter().rev() {
        if run < strided.run {
            strides[dim] = run / element;
            run *= info.shape[dim];
        } else if let Some((_, step)) = steps.next() {
            strides[dim] = usize::try_from(*step).unwrap_or(usize::MAX) / element;
        }
    }
    strides
}

fn too_long() -> Error {
    malformed("the files are too long together".to_owned())
}

pub(super) fn malformed(what: String) -> Error {
    ErrorKind::Malformed { what }.into()
}
