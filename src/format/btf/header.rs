//! The header of a BTF record, and the tags of the dtypes.

use super::FORMAT;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::model::COO_OF_TFRT;
use crate::read::Cursor;
use crate::tensor::{Dtype, InvalidTensor, Layout, Shape, TensorInfo, dtypes, tags_of};
use crate::write::put_dims;

/// The tags of the supported dtypes.
const TAGS: &[(u8, Dtype)] = &[
    (0, Dtype::I8),
    (1, Dtype::I16),
    (2, Dtype::I32),
    (3, Dtype::I64),
    (4, Dtype::F32),
    (5, Dtype::F64),
    (6, Dtype::U8),
    (7, Dtype::U16),
    (8, Dtype::U32),
    (9, Dtype::U64),
];

/// The supported dtypes.
pub const DTYPES: &[Dtype] = &dtypes::<_, { TAGS.len() }>(TAGS);

const TAG_OF: [Option<u8>; Dtype::ALL.len()] = tags_of(TAGS);

const ROW_MAJOR: u8 = 0;

/// The layout number of sparse tensors in the specification.
const COO: u8 = 2;

/// Each record begins at a multiple of this.
pub(super) const ALIGNMENT: u64 = 8;

/// The largest dim: TFRT reads dims as signed numbers.
pub(super) const MAX_DIM: u64 = i64::MAX as u64;

/// The length of the header of a dense tensor of up to four dims.
pub(super) const COMMON_BYTES: usize = 16 + 8 * 4;

/// Returns the length of the header of a dense tensor in bytes.
pub(super) fn dense_bytes(shape: &Shape) -> u64 {
    16 + 8 * shape.rank() as u64
}

/// Returns the length of the count and the offset table in bytes.
pub(super) fn table_bytes(tensors: u64) -> u64 {
    8 + 8 * tensors
}

/// Reads a record up to its payload. Also returns the layout number.
///
/// `end` is an upper bound for the end of the record, if known. Without it, a payload of an unknown dtype has no known
/// end.
pub(super) fn read(cursor: &mut Cursor<'_>, end: Option<u64>, limits: &Limits) -> Result<(TensorInfo, u8)> {
    let start = cursor.offset();
    let rank = cursor.u64()?;
    // The six reserved bytes after them are not looked at: old writers left garbage there.
    let [tag, number, ..] = cursor.array::<8>()?;
    let dtype = TAGS.iter().find(|(known, _)| *known == tag).map(|(_, dtype)| *dtype);
    if dtype.is_none() && end.is_none() {
        return Err(Error::new(ErrorKind::UnknownDtype { tag: tag.to_string() }).at(start + 8));
    }
    if rank > limits.rank {
        return Err(Error::new(ErrorKind::Limit { what: "rank", found: rank, limit: limits.rank }).at(start));
    }
    let mut shape = Shape::default();
    for _ in 0..rank {
        shape.push(read_dim(cursor)?);
    }
    // A dtype of a later version costs its tensor, not the file: the next record tells where this one ends.
    let Some(dtype) = dtype else {
        let bytes = end.unwrap_or_default().saturating_sub(cursor.offset());
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // The layout may be sparse.
        let info = TensorInfo::unknown_in(FORMAT.name, &tag.to_string(), &[tag, number], shape, bytes);
        return Ok((info, number));
    };
    let layout = match number {
        ROW_MAJOR => Layout::RowMajor,
        // The document and the code of TFRT differ, and both kinds of files exist.
        COO_OF_TFRT | COO => Layout::Coo { entries: read_entries(cursor, &shape)? },
        tag => return Err(Error::new(ErrorKind::UnknownLayout { tag: tag.into() }).at(start + 9)),
    };
    Ok((TensorInfo { dtype, shape, layout }, number))
}

/// Reads the header at the start of a dense record, and returns its length. `None` for everything refused by [`read`],
/// and for other records.
pub(super) fn read_dense(record: &[u8], limits: &Limits) -> Option<(TensorInfo, usize)> {
    let [rank, [tag, ROW_MAJOR, ..], dims @ ..] = record.as_chunks::<8>().0 else { return None };
    let rank = usize::try_from(u64::from_le_bytes(*rank)).ok().filter(|rank| *rank as u64 <= limits.rank)?;
    let (_, dtype) = TAGS.iter().find(|(known, _)| known == tag)?;
    let mut info = TensorInfo::new(*dtype, Shape::default());
    for dim in dims.get(..rank)? {
        let dim = i64::from_le_bytes(*dim);
        info.shape.push(usize::try_from(dim).ok()?);
    }
    Some((info, 16 + 8 * rank))
}

fn read_dim(cursor: &mut Cursor<'_>) -> Result<usize> {
    let offset = cursor.offset();
    let dim = cursor.u64()?;
    usize::try_from(dim).ok().filter(|_| dim <= MAX_DIM).ok_or_else(|| {
        let expected = format!("at most {}", MAX_DIM.min(usize::MAX as u64));
        Error::new(ErrorKind::BadNumber { what: "dim", found: dim.into(), expected }).at(offset)
    })
}

/// Reads the number of values of a sparse tensor from the dims of its indices.
fn read_entries(cursor: &mut Cursor<'_>, shape: &Shape) -> Result<usize> {
    let offset = cursor.offset();
    let entries = read_dim(cursor)?;
    let found = cursor.u64()?;
    if found != shape.rank() as u64 {
        return Err(Error::from(InvalidTensor::CoordinateRank { found, rank: shape.rank() }).at(offset + 8));
    }
    Ok(entries)
}

/// Writes a record up to its payload.
pub(super) fn write(info: &TensorInfo, tfrt_coo: bool, out: &mut Vec<u8>) {
    let known = || TAG_OF[info.dtype as usize].expect("the plan was checked");
    let (tag, layout) = match info.layout {
        Layout::Coo { .. } if tfrt_coo => (known(), COO_OF_TFRT),
        Layout::Coo { .. } => (known(), COO),
        Layout::Unknown(_) => match info.unknown_stored(FORMAT.name) {
            Some(&[tag, layout]) => (tag, layout),
            _ => unreachable!("the plan was checked"),
        },
        _ => (known(), ROW_MAJOR),
    };
    // Most headers are copied at once.
    let mut words = [[0; 8]; COMMON_BYTES / 8];
    let dims = info.shape.dims();
    let (few, more) = dims.split_at(dims.len().min(words.len() - 2));
    words[0] = (dims.len() as u64).to_le_bytes();
    words[1][..2].copy_from_slice(&[tag, layout]);
    words[2..].iter_mut().zip(few).for_each(|(word, dim)| *word = (*dim as u64).to_le_bytes());
    out.extend_from_slice(words[..2 + few.len()].as_flattened());
    put_dims(more, out);
    if let Layout::Coo { entries } = info.layout {
        out.extend_from_slice(&(entries as u64).to_le_bytes());
        out.extend_from_slice(&(info.shape.rank() as u64).to_le_bytes());
    }
}
