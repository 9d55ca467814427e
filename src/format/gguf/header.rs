//! The GGUF header: tags, magic, and the limits of ggml.

use super::{FORMAT, metadata};
use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::model::TypedEntry;
use crate::read::Cursor;
use crate::tensor::{Dtype, Shape, TensorInfo, dtypes, tags_of};
use crate::write::{FileLayout, PlannedTensors};

/// The numbers of the supported types.
const TAGS: &[(u32, Dtype)] = &[
    (0, Dtype::F32),
    (1, Dtype::F16),
    (2, Dtype::Q4_0),
    (3, Dtype::Q4_1),
    (6, Dtype::Q5_0),
    (7, Dtype::Q5_1),
    (8, Dtype::Q8_0),
    // A block of `q8_1` has 36 bytes in ggml, and 40 in Python's gguf. ggml decides, as it reads them.
    (9, Dtype::Q8_1),
    (10, Dtype::Q2K),
    (11, Dtype::Q3K),
    (12, Dtype::Q4K),
    (13, Dtype::Q5K),
    (14, Dtype::Q6K),
    (15, Dtype::Q8K),
    (16, Dtype::Iq2Xxs),
    (17, Dtype::Iq2Xs),
    (18, Dtype::Iq3Xxs),
    (19, Dtype::Iq1S),
    (20, Dtype::Iq4Nl),
    (21, Dtype::Iq3S),
    (22, Dtype::Iq2S),
    (23, Dtype::Iq4Xs),
    (24, Dtype::I8),
    (25, Dtype::I16),
    (26, Dtype::I32),
    (27, Dtype::I64),
    (28, Dtype::F64),
    (29, Dtype::Iq1M),
    (30, Dtype::Bf16),
    (34, Dtype::Tq1_0),
    (35, Dtype::Tq2_0),
    (39, Dtype::Mxfp4),
    (40, Dtype::Nvfp4),
    (41, Dtype::Q1_0),
    (42, Dtype::Q2_0),
];

/// The supported dtypes.
pub const DTYPES: &[Dtype] = &dtypes::<_, { TAGS.len() }>(TAGS);

const TAG_OF: [Option<u32>; Dtype::ALL.len()] = tags_of(TAGS);

/// The first bytes of a file.
pub(super) const MAGIC: [u8; 4] = *b"GGUF";

/// The version to write. Version 2 has the same bytes, and version 1 shorter counts.
const VERSION: u32 = 3;

/// The longest name in ggml, in bytes: the specification says 64, but this includes the NUL at its end.
pub(super) const MAX_NAME: usize = 63;

/// The longest name in builds of ggml with a raised limit, such as stable-diffusion.cpp.
pub(super) const MAX_LONG_NAME: usize = 127;

/// The most parts of a model: their number has 16 bits.
pub(super) const MAX_PARTS: u64 = u16::MAX as u64;

/// The beginning of the keys in which ComfyUI-GGUF states the shape that a tensor has in the model.
pub(super) const MODEL_SHAPE: &str = "comfy.gguf.orig_shape.";

/// The highest rank in ggml.
pub(super) const MAX_RANK: usize = 4;

/// The largest dim in ggml: it is signed.
pub(super) const MAX_DIM: u64 = i64::MAX as u64;

/// Returns the dtype of a number.
pub(super) fn dtype(tag: u32) -> Option<Dtype> {
    TAGS.iter().find(|(known, _)| *known == tag).map(|(_, dtype)| *dtype)
}

/// Describes a tensor of an unknown type, in a file of some alignment. Its size is not known yet.
pub(super) fn unknown(tag: u32, alignment: u64, shape: Shape) -> TensorInfo {
    let stored = [&tag.to_le_bytes()[..], &alignment.to_le_bytes()].concat();
    TensorInfo::unknown_in(FORMAT.name, &tag.to_string(), &stored, shape, 0)
}

/// Describes a tensor of a big-endian file whose blocks have numbers of several sizes. It cannot be written, because it
/// would be read as little-endian.
pub(super) fn big_endian_blocks(info: &TensorInfo) -> TensorInfo {
    let bytes = info.payload_bytes().unwrap_or(usize::MAX);
    let dtype = info.unknown_dtype().unwrap_or(info.dtype.name());
    TensorInfo::unknown_in("", &format!("{dtype}, big-endian"), &[], info.shape.clone(), bytes)
}

/// Returns the number of an unknown type, and the alignment of its original file.
fn stored(info: &TensorInfo) -> Option<(u32, u64)> {
    let (tag, alignment) = info.unknown_stored(FORMAT.name)?.split_first_chunk()?;
    Some((u32::from_le_bytes(*tag), u64::from_le_bytes(alignment.try_into().ok()?)))
}

/// Refuses a tensor of an unknown type for a file of a smaller alignment than it comes from: its bytes may end with
/// padding, and ggml expects the next tensor where the padding for the alignment ends.
pub(super) fn check_alignment(info: &TensorInfo, alignment: u64) -> Result<(), ErrorKind> {
    match stored(info) {
        Some((_, padded)) if padded > alignment => {
            let instead = format!("its size is known up to a multiple of {padded}; align to {padded}");
            Err(cannot_store(format!("{info} aligned to {alignment} bytes"), instead))
        }
        _ => Ok(()),
    }
}

/// Refuses a name that ggml reads as a different one.
pub(super) fn check_name(name: &str) -> Result<(), ErrorKind> {
    if name.contains('\0') { Err(cannot_store("a name with NUL", "in ggml a name ends there")) } else { Ok(()) }
}

/// Returns the size of a tensor's innermost dim, or 1 at rank 0.
fn row(info: &TensorInfo) -> usize {
    info.shape.last().copied().unwrap_or(1)
}

/// Returns whether each row of a tensor is whole blocks.
pub(super) fn has_whole_rows(info: &TensorInfo) -> bool {
    row(info).is_multiple_of(info.dtype.block_elements())
}

/// The numbers at the start of a file.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) is_big_endian: bool,
    pub(super) version: u32,
    pub(super) tensors: u64,
    pub(super) entries: u64,
}

/// Reads the numbers at the start of a file, up to the metadata.
pub(super) fn read_beginning(cursor: &mut Cursor<'_>) -> Result<Beginning> {
    let magic = cursor.array()?;
    if magic != MAGIC {
        return Err(Error::new(ErrorKind::BadMagic { found: magic.to_vec(), expected: &MAGIC }).at(0));
    }
    let offset = cursor.offset();
    let stored = cursor.u32()?;
    // No version number is this large.
    let is_big_endian = (1..=VERSION).contains(&stored.swap_bytes());
    let version = if is_big_endian { stored.swap_bytes() } else { stored };
    check_version(version).map_err(|kind| Error::new(kind).at(offset))?;
    let mut count = || cursor.u64().map(|count| if is_big_endian { count.swap_bytes() } else { count });
    Ok(Beginning { is_big_endian, version, tensors: count()?, entries: count()? })
}

fn check_version(version: u32) -> Result<(), ErrorKind> {
    match version {
        2 | VERSION => Ok(()),
        1 => {
            let (what, instead) = ("read version 1 of gguf", "llama.cpp cannot either; convert the model again");
            Err(ErrorKind::Unsupported { what: what.to_owned(), instead: instead.to_owned() })
        }
        found => Err(ErrorKind::BadNumber { what: "version", found: found.into(), expected: "2 or 3".to_owned() }),
    }
}

/// Returns all bytes before the data. Offsets of payloads count from their end.
pub(super) fn write(plan: &PlannedTensors, entries: &metadata::Writing<'_>, layout: &FileLayout) -> Vec<u8> {
    // An estimate of the bytes for a tensor with a short name.
    const TENSOR: usize = 80;
    let mut out = Vec::with_capacity(64 + TENSOR * plan.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(plan.len() as u64).to_le_bytes());
    entries.write(&mut out);
    for (index, offset) in layout.payloads().enumerate() {
        put_tensor(plan.name(index), plan.info(index), offset, &mut out);
    }
    pad(&mut out, entries.alignment);
    out
}

/// Returns all bytes before the data, with different metadata.
pub(super) fn rewrite(beginning: &Beginning, entries: &[TypedEntry], descriptions: &[u8], alignment: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&beginning.version.to_le_bytes());
    out.extend_from_slice(&beginning.tensors.to_le_bytes());
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    entries.iter().for_each(|entry| metadata::put_entry(&entry.key, entry.kind, &entry.bytes, &mut out));
    out.extend_from_slice(descriptions);
    pad(&mut out, alignment);
    out
}

/// Pads a header to the alignment of the data.
fn pad(out: &mut Vec<u8>, alignment: u64) {
    let padded = (out.len() as u64).next_multiple_of(alignment);
    out.resize(usize::try_from(padded).expect("an alignment has 32 bits, and this much memory is there"), 0);
}

fn put_tensor(name: &str, info: &TensorInfo, offset: u64, out: &mut Vec<u8>) {
    let known = || TAG_OF[info.dtype as usize].expect("the plan was checked");
    let tag = stored(info).map_or_else(known, |(tag, _)| tag);
    metadata::put_string(name, out);
    out.extend_from_slice(&u32::try_from(info.shape.rank()).expect("the plan was checked").to_le_bytes());
    for dim in info.shape.iter().rev() {
        out.extend_from_slice(&(*dim as u64).to_le_bytes());
    }
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_cannot_be_read_are_told_apart() {
        assert!(check_version(2).is_ok() && check_version(3).is_ok());
        for (version, expected) in [
            (0, "version is 0, but expected 2 or 3"),
            (1, "cannot read version 1 of gguf; llama.cpp cannot either; convert the model again"),
            (4, "version is 4, but expected 2 or 3"),
        ] {
            assert_eq!(check_version(version).unwrap_err().to_string(), expected);
        }
    }
}
