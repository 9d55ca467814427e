//! The frame of a PTD file: magic, header, and the tags of the dtypes.

use flatbuffers::FlatBufferBuilder;

use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::model::embedded_names::find_nul;
use crate::tensor::{Dtype, dtypes, tags_of};
use crate::write::BuiltTable;

/// The numbers of the supported dtypes: the scalar types of ExecuTorch and PyTorch.
///
/// Complex dtypes and other unsupported ones are left out.
const SCALAR_TYPES: &[(i8, Dtype)] = &[
    (0, Dtype::U8),
    (1, Dtype::I8),
    (2, Dtype::I16),
    (3, Dtype::I32),
    (4, Dtype::I64),
    (5, Dtype::F16),
    (6, Dtype::F32),
    (7, Dtype::F64),
    (11, Dtype::Bool),
    (12, Dtype::QInt8),
    (13, Dtype::QUint8),
    (14, Dtype::QInt32),
    (15, Dtype::Bf16),
    (16, Dtype::QUint4x2),
    (17, Dtype::QUint2x4),
    (22, Dtype::Bits16),
    (23, Dtype::F8E5M2),
    (24, Dtype::F8E4M3Fn),
    (25, Dtype::F8E5M2Fnuz),
    (26, Dtype::F8E4M3Fnuz),
    (27, Dtype::U16),
    (28, Dtype::U32),
    (29, Dtype::U64),
];

/// The supported dtypes.
pub const DTYPES: &[Dtype] = &dtypes::<_, { SCALAR_TYPES.len() }>(SCALAR_TYPES);

const SCALAR_TYPE_OF: [Option<i8>; Dtype::ALL.len()] = tags_of(SCALAR_TYPES);

/// The largest dim: sizes are signed numbers of 32 bits.
pub(super) const MAX_DIM: u64 = i32::MAX as u64;

/// Returns the scalar type of a supported dtype.
pub(super) fn scalar_type(dtype: Dtype) -> i8 {
    SCALAR_TYPE_OF[dtype as usize].expect("the plan was checked")
}

pub(in crate::format) fn dtype(scalar_type: i8) -> Option<Dtype> {
    SCALAR_TYPES.iter().find(|(known, _)| *known == scalar_type).map(|(_, dtype)| *dtype)
}

/// The kind of file, by its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// `FT01`, read and written by ExecuTorch.
    FlatTensor,
    /// `DT01`, of the RFC before it.
    Data,
}

impl Family {
    pub(super) fn identifier(self) -> &'static [u8; 4] {
        match self {
            Family::FlatTensor => b"FT01",
            Family::Data => b"DT01",
        }
    }

    fn magic(self) -> &'static [u8; 4] {
        match self {
            Family::FlatTensor => b"FH01",
            Family::Data => b"eh00",
        }
    }

    /// Ends a flatbuffer with the offset of the root, the identifier, and zeros in the place of the [header](write).
    /// Returns the buffer, and the position in it where the file begins.
    pub(super) fn finish(self, mut out: FlatBufferBuilder<'_>, root: BuiltTable) -> (Vec<u8>, usize) {
        // The offset of the root, written last, includes the header.
        for _ in 0..self.header_bytes() / 8 {
            out.push(0_u64);
        }
        let identifier = str::from_utf8(self.identifier()).expect("it is ASCII");
        out.finish(root, Some(identifier));
        out.collapse()
    }

    /// Returns the length of our header, including padding.
    fn header_bytes(self) -> u64 {
        match self {
            Family::FlatTensor => 48,
            Family::Data => 32,
        }
    }

    /// Returns the shortest length of a header.
    fn least_length(self) -> u64 {
        match self {
            Family::FlatTensor => 40,
            Family::Data => 24,
        }
    }
}

/// The length of root offset and identifier. The header is injected after them.
pub(super) const BEFORE_HEADER: u64 = 8;

/// The minimum length of a file: ExecuTorch reads this many bytes before it looks at them.
pub(super) const HEAD: usize = 64;

/// The maximum length of a flatbuffer: its offsets are signed 32-bit numbers.
pub(in crate::format) const MAX_FLATBUFFER: u64 = i32::MAX as u64;

/// The frame of a file: the places of its flatbuffer and of its segments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) family: Family,
    /// The length of the injected header, padding included, if the file states it. The flatbuffer is aligned without
    /// it.
    pub(super) injected: u64,
    pub(super) flatbuffer_end: u64,
    /// The start of the data. Offsets of segments are relative to it.
    pub(super) base: u64,
    /// The end of all segments, if the file states it.
    pub(super) end: Option<u64>,
}

impl Frame {
    /// Reads the frame from the first bytes of a file of length `len`, if known.
    pub(super) fn parse(head: &[u8; HEAD], len: Option<u64>) -> Result<Self> {
        let identifier = bytes_at(head, 4);
        let family = [Family::FlatTensor, Family::Data]
            .into_iter()
            .find(|family| *family.identifier() == identifier)
            .ok_or_else(|| bad_magic(identifier, b"FT01", 4))?;
        let magic = bytes_at::<4>(head, 8);
        if magic != *family.magic() {
            return Err(bad_magic(magic, family.magic(), 8));
        }
        let length = u64::from(u32::from_le_bytes(bytes_at(head, 12)));
        if length < family.least_length() {
            return Err(bad_number("header length", length, format!("at least {}", family.least_length()), 12));
        }
        let frame = match family {
            Family::FlatTensor => Self::from_flat_tensor(head, length),
            Family::Data => Self::from_data(head, length),
        }?;
        frame.check(len)?;
        Ok(frame)
    }

    fn from_flat_tensor(head: &[u8; HEAD], length: u64) -> Result<Self> {
        let (injected, size) = (u64_at(head, 16), u64_at(head, 24));
        if injected < length {
            let expected = format!("at least {length}, the length of the header");
            return Err(bad_number("flatbuffer offset", injected, expected, 16));
        }
        if !(BEFORE_HEADER..=MAX_FLATBUFFER).contains(&size) {
            let expected = format!("{BEFORE_HEADER} to {MAX_FLATBUFFER}");
            return Err(bad_number("flatbuffer size", size, expected, 24));
        }
        let flatbuffer_end = injected
            .checked_add(size)
            .ok_or_else(|| bad_number("flatbuffer offset", injected, "less than 2^64 with the size".to_owned(), 16))?;
        let (base, segments) = (u64_at(head, 32), u64_at(head, 40));
        Ok(Self { family: Family::FlatTensor, injected, flatbuffer_end, base, end: Some(add(base, segments, 32)?) })
    }

    fn from_data(head: &[u8; HEAD], length: u64) -> Result<Self> {
        let (flatbuffer_end, base) = (u64_at(head, 16), u64_at(head, 24));
        let least = BEFORE_HEADER + length;
        if !(least..=MAX_FLATBUFFER).contains(&flatbuffer_end) {
            let expected = format!("{least} to {MAX_FLATBUFFER}");
            return Err(bad_number("flatbuffer size", flatbuffer_end, expected, 16));
        }
        let end = if length >= 32 { Some(add(base, u64_at(head, 32), 24)?) } else { None };
        Ok(Self { family: Family::Data, injected: 0, flatbuffer_end, base, end })
    }

    fn check(&self, len: Option<u64>) -> Result<()> {
        let Some(len) = len else { return Ok(()) };
        if self.flatbuffer_end > len {
            return Err(Error::new(ErrorKind::Truncated { needed: self.flatbuffer_end, left: len }).at(0));
        }
        let Some(end) = self.end.filter(|end| *end > len) else { return Ok(()) };
        if self.is_base_past_the_data(end - self.base, len) {
            let what = format!(
                "the segments begin at byte {} and end at byte {end}, but the file ends at byte {len}; ExecuTorch 0.6 and 0.7 \
                 write such files for a segment alignment of 128",
                self.base
            );
            return Err(Error::new(ErrorKind::Malformed { what }).at(32));
        }
        let start = self.base.min(len);
        Err(Error::new(ErrorKind::Truncated { needed: end - start, left: len - start }).at(start))
    }

    /// Returns whether a file of `len` bytes ends with its `segments` bytes of data, but the base is somewhere else.
    fn is_base_past_the_data(&self, segments: u64, len: u64) -> bool {
        /// The alignment of data written by ExecuTorch 0.6 and 0.7.
        const WRITTEN: u64 = 16;
        let data = self.flatbuffer_end.checked_next_multiple_of(WRITTEN);
        self.family == Family::FlatTensor
            && data.is_some_and(|data| data < self.base && len.checked_sub(data) == Some(segments))
    }

    /// Returns the lowest possible offset of a segment.
    pub(super) fn first_byte(&self) -> u64 {
        self.flatbuffer_end.max(HEAD as u64)
    }
}

fn add(base: u64, size: u64, index: u64) -> Result<u64> {
    let expected = || format!("less than 2^64 with the {size} bytes of the segments");
    base.checked_add(size).ok_or_else(|| bad_number("segment base offset", base, expected(), index))
}

fn bytes_at<const N: usize>(head: &[u8; HEAD], index: usize) -> [u8; N] {
    head[index..index + N].try_into().expect("the range has that length")
}

fn u64_at(head: &[u8; HEAD], index: usize) -> u64 {
    u64::from_le_bytes(bytes_at(head, index))
}

fn bad_magic(found: [u8; 4], expected: &'static [u8], index: u64) -> Error {
    Error::new(ErrorKind::BadMagic { found: found.to_vec(), expected }).at(index)
}

/// Refuses a name that no reader finds.
pub(super) fn check_name(name: &str) -> Result<(), ErrorKind> {
    if find_nul(name.as_bytes()).is_some() {
        Err(cannot_store("a name with NUL in it", "ExecuTorch's C++ finds no such name"))
    } else {
        Ok(())
    }
}

pub(in crate::format) fn bad_number(what: &'static str, found: impl Into<i128>, expected: String, index: u64) -> Error {
    Error::new(ErrorKind::BadNumber { what, found: found.into(), expected }).at(index)
}

/// Fills in the header of a file that begins with a [flatbuffer](Family::finish) with room for it.
pub(super) fn write(family: Family, file: &mut [u8], base: u64, segment_bytes: u64) {
    let (header, end) = (family.header_bytes(), file.len() as u64);
    let (length, numbers): (u32, &[u64]) = match family {
        Family::FlatTensor => (40, &[header, end - header, base, segment_bytes]),
        Family::Data => (32, &[end, base, segment_bytes]),
    };
    file[8..12].copy_from_slice(family.magic());
    file[12..16].copy_from_slice(&length.to_le_bytes());
    let (fields, _) = file[16..].as_chunks_mut();
    for (index, number) in numbers.iter().enumerate() {
        fields[index] = number.to_le_bytes();
    }
}
