//! The header of an array as numpy saves it: the beginning of `.npy` files and of the members of `.npz` archives.
//!
//! ```text
//! "\x93NUMPY" | major: u8 | minor: u8 | length: u16, or u32 from version 2 on | dict… | 0x20… | "\n"
//! dict = {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//! ```

use std::num::NonZeroU8;

use super::dict::{self, Descr, Dict};
use crate::error::{ErrorKind, Result, cannot_store};
use crate::limits::Limits;
use crate::read::Codec;
use crate::tensor::{Dtype, Layout, Shape, TensorInfo, dtypes};

/// The type codes of the supported dtypes.
const CODES: &[(&str, Dtype)] = &[
    ("b1", Dtype::Bool),
    ("i1", Dtype::I8),
    ("u1", Dtype::U8),
    ("i2", Dtype::I16),
    ("u2", Dtype::U16),
    ("i4", Dtype::I32),
    ("u4", Dtype::U32),
    ("i8", Dtype::I64),
    ("u8", Dtype::U64),
    ("f2", Dtype::F16),
    ("f4", Dtype::F32),
    ("f8", Dtype::F64),
    ("c8", Dtype::C64),
    ("c16", Dtype::C128),
];

/// Alternative names for these dtypes in numpy, after a byte order: its letters.
const LETTERS: &[(&str, Dtype)] = &[
    ("?", Dtype::Bool),
    ("b", Dtype::I8),
    ("B", Dtype::U8),
    ("h", Dtype::I16),
    ("H", Dtype::U16),
    ("i", Dtype::I32),
    ("I", Dtype::U32),
    ("q", Dtype::I64),
    ("Q", Dtype::U64),
    ("e", Dtype::F16),
    ("f", Dtype::F32),
    ("d", Dtype::F64),
    ("F", Dtype::C64),
    ("D", Dtype::C128),
];

/// Names in numpy without a byte order, including dtypes added by `ml_dtypes`. Names from C are left out, because their
/// sizes depend on the machine.
const NAMES: &[(&str, Dtype)] = &[
    ("bool", Dtype::Bool),
    ("bool_", Dtype::Bool),
    ("int8", Dtype::I8),
    ("uint8", Dtype::U8),
    ("int16", Dtype::I16),
    ("uint16", Dtype::U16),
    ("int32", Dtype::I32),
    ("uint32", Dtype::U32),
    ("int64", Dtype::I64),
    ("uint64", Dtype::U64),
    ("float16", Dtype::F16),
    ("half", Dtype::F16),
    ("float32", Dtype::F32),
    ("single", Dtype::F32),
    ("float64", Dtype::F64),
    ("double", Dtype::F64),
    ("float", Dtype::F64),
    ("complex64", Dtype::C64),
    ("csingle", Dtype::C64),
    ("complex128", Dtype::C128),
    ("cdouble", Dtype::C128),
    ("complex", Dtype::C128),
    ("bfloat16", Dtype::Bf16),
    ("float8_e5m2", Dtype::F8E5M2),
    ("float8_e4m3fn", Dtype::F8E4M3Fn),
    ("float8_e5m2fnuz", Dtype::F8E5M2Fnuz),
    ("float8_e4m3fnuz", Dtype::F8E4M3Fnuz),
    ("float8_e8m0fnu", Dtype::F8E8M0),
];

/// The supported dtypes.
pub(super) const DTYPES: &[Dtype] = &dtypes::<_, { CODES.len() }>(CODES);

/// The highest rank in numpy.
pub(super) const MAX_RANK: usize = 64;

/// The first bytes of an array.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// The length of the longest dict accepted by numpy, in bytes.
const MAX_TEXT: u32 = 10_000;

/// The length of the longest dict to write, without its padding.
const LONGEST_WRITTEN: usize = MAX_TEXT as usize - ALIGNMENT;

/// Elements begin at a multiple of this from the magic on.
const ALIGNMENT: usize = 64;

/// A parsed header.
#[derive(Debug)]
pub(super) struct ArrayHeader {
    pub(super) info: TensorInfo,
    /// The size of the big-endian numbers in bytes: the elements, or the parts of complex numbers.
    pub(super) big_endian: Option<NonZeroU8>,
    /// The length of the header in bytes.
    pub(super) len: u32,
    /// The length of the elements in bytes, if the header determines it for an unknown dtype.
    pub(super) payload: Option<u64>,
}

impl ArrayHeader {
    /// Returns how the elements are stored, unless it is as they are read.
    pub(super) fn codec(&self) -> Option<Codec> {
        match self.info.dtype {
            Dtype::Bool => Some(Codec::Bools),
            _ => self.big_endian.map(Codec::BigEndian),
        }
    }
}

/// The name that marks unknown dtypes, common to both formats.
pub(super) const UNKNOWN_DTYPES: &str = "numpy";

/// The version with UTF-8 text. Earlier versions use Latin-1.
const UTF_8: u8 = 3;

/// Reads the header of an array after its [magic](MAGIC). `read` fills its argument with the next bytes. Errors lack
/// the offset. The inner error is for a header that numpy does not read either, or that this crate does not understand.
pub(super) fn read(
    read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    limits: &Limits,
) -> Result<Result<ArrayHeader, ErrorKind>> {
    let mut version = [0; 2];
    read(&mut version)?;
    let size = match version {
        [1, 0] => 2,
        [2 | 3, 0] => 4,
        _ => {
            let (found, expected) = (version[0].into(), "1, 2 or 3, of which the minor version is 0".to_owned());
            return Ok(Err(ErrorKind::BadNumber { what: "version", found, expected }));
        }
    };
    let mut length = [0; 4];
    read(&mut length[..size])?;
    let length = u32::from_le_bytes(length);
    if length > MAX_TEXT {
        let expected = format!("at most {MAX_TEXT}");
        return Ok(Err(ErrorKind::BadNumber { what: "header length", found: length.into(), expected }));
    }
    let mut text = vec![0; length as usize];
    read(&mut text)?;
    let before = MAGIC.len() + version.len() + size;
    let len = u32::try_from(before + text.len()).expect("the length of the text was checked");
    match dict::parse(&text) {
        Ok(dict) => header(dict, version[0], len, limits).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

fn header(dict: Dict, version: u8, len: u32, limits: &Limits) -> Result<ArrayHeader> {
    let rank = dict.shape.len();
    // Dim orders have one byte for each dim.
    let limit = limits.rank.min(255);
    if rank as u64 > limit {
        return Err(ErrorKind::Limit { what: "rank", found: rank as u64, limit }.into());
    }
    let shape = Shape::new(&dict.shape);
    let Some((dtype, big_endian)) = dtype(&dict.descr) else {
        let bytes = item_bytes(&dict.descr).and_then(|bytes| shape.elements()?.checked_mul(bytes));
        let tag = dict.descr.to_string();
        let order = if dict.fortran_order { COLUMN_MAJOR } else { ROW_MAJOR };
        let stored = [&[version, order], &*dict.descr.source()].concat();
        let info = TensorInfo::unknown_in(UNKNOWN_DTYPES, &tag, &stored, shape, bytes.unwrap_or_default());
        return Ok(ArrayHeader { info, big_endian: None, len, payload: bytes.map(|bytes| bytes as u64) });
    };
    let layout = if dict.fortran_order { column_major(rank) } else { Layout::RowMajor };
    let info = TensorInfo { dtype, shape, layout };
    let payload = info.payload_bytes().map(|bytes| bytes as u64);
    Ok(ArrayHeader { info, big_endian, len, payload })
}

/// The order of the elements of an unknown dtype, as it is remembered.
const ROW_MAJOR: u8 = 0;
const COLUMN_MAJOR: u8 = 1;

/// Returns the layout of an array in column-major order.
fn column_major(rank: usize) -> Layout {
    let order: Vec<u8> = (0..rank).rev().map(|dim| u8::try_from(dim).expect("the rank was checked")).collect();
    Layout::from_dim_order(&order).expect("each dim is there once")
}

/// Returns the element size of a dtype without numbers of ours, such as text and dates. `None` for objects, which are
/// pickled, and for structures.
fn item_bytes(descr: &Descr) -> Option<usize> {
    let Descr::Text(text) = descr else { return None };
    let text = str::from_utf8(text).ok()?;
    let code = text.strip_prefix(ORDERS).unwrap_or(text);
    let mut letters = code.chars();
    match letters.next()? {
        'O' => None,
        'U' => letters.as_str().parse::<usize>().ok()?.checked_mul(4),
        'M' | 'm' => Some(8),
        _ => letters.as_str().parse().ok(),
    }
}

/// Returns the dtype, and the size of its numbers if they are big-endian. `None` if it is unknown.
fn dtype(descr: &Descr) -> Option<(Dtype, Option<NonZeroU8>)> {
    let Descr::Text(text) = descr else { return None };
    let text = str::from_utf8(text).ok()?;
    let find =
        |names: &[(&str, Dtype)], name: &str| names.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype);
    let code = text.strip_prefix(ORDERS).unwrap_or(text);
    let dtype = find(CODES, code).or_else(|| find(LETTERS, code)).or_else(|| find(NAMES, text))?;
    // Elements of one byte have no byte order.
    let is_big_endian = text.starts_with('>') && dtype.unit_bytes() > 1;
    let size = u8::try_from(dtype.unit_bytes()).ok().and_then(NonZeroU8::new);
    Some((dtype, size.filter(|_| is_big_endian)))
}

/// The byte orders: little, big, none, and native, which is little.
const ORDERS: [char; 4] = ['<', '>', '|', '='];

/// Returns whether a tensor has numpy's other dim order, column-major.
pub(super) fn has_fortran_order(info: &TensorInfo) -> bool {
    info.layout == column_major(info.shape.rank())
}

/// Refuses an unknown dtype whose description numpy does not read.
pub(super) fn check(info: &TensorInfo) -> Result<(), ErrorKind> {
    match &info.layout {
        Layout::Unknown(_) if text(info).len() > LONGEST_WRITTEN => {
            Err(cannot_store(format!("a dtype of {} bytes", text(info).len()), "numpy reads headers of up to 10000"))
        }
        _ => Ok(()),
    }
}

/// Writes the header of an array, byte for byte as numpy does.
pub(super) fn write(info: &TensorInfo, out: &mut Vec<u8>) {
    const BEFORE_TEXT: usize = MAGIC.len() + 4;
    let mut text = text(info);
    let is_utf_8 = matches!(info.unknown_stored(UNKNOWN_DTYPES), Some([UTF_8, ..]));
    let before_text = if is_utf_8 { BEFORE_TEXT + 2 } else { BEFORE_TEXT };
    let len = (before_text + text.len() + 1).next_multiple_of(ALIGNMENT) - before_text;
    text.resize(len - 1, b' ');
    text.push(b'\n');
    out.extend_from_slice(MAGIC);
    let short = u16::try_from(len).expect("64 dims of 20 digits each, or a checked length");
    if is_utf_8 {
        out.extend_from_slice(&[UTF_8, 0]);
        out.extend_from_slice(&u32::from(short).to_le_bytes());
    } else {
        out.extend_from_slice(&[1, 0]);
        out.extend_from_slice(&short.to_le_bytes());
    }
    out.extend_from_slice(&text);
}

fn text(info: &TensorInfo) -> Vec<u8> {
    /// The number of digits with room in the header, so that an array can grow in place.
    const DIGITS: usize = 21;
    let dims = info.shape.dims();
    let stored = info.unknown_stored(UNKNOWN_DTYPES);
    let fortran = match stored {
        Some(stored) => stored.get(1) == Some(&COLUMN_MAJOR),
        None => info.layout != Layout::RowMajor,
    };
    let mut shape: Vec<String> = dims.iter().map(usize::to_string).collect();
    let growing = if fortran { dims.last() } else { dims.first() };
    let room = growing.map_or(0, |dim| DIGITS - dim.to_string().len());
    if dims.len() == 1 {
        // In Python a tuple of one item ends with a comma.
        shape.push(String::new());
    }
    let (fortran, shape) = (if fortran { "True" } else { "False" }, shape.join(", "));
    let shape = shape.trim_end();
    let blanks = " ".repeat(room);
    if let Some([_, _, descr @ ..]) = stored {
        let rest = format!(", 'fortran_order': {fortran}, 'shape': ({shape}), }}{blanks}");
        return [b"{'descr': ", descr, rest.as_bytes()].concat();
    }
    let (code, _) = CODES.iter().find(|(_, dtype)| *dtype == info.dtype).expect("the plan was checked");
    let order = if info.dtype.block_bytes() == 1 { '|' } else { '<' };
    format!("{{'descr': '{order}{code}', 'fortran_order': {fortran}, 'shape': ({shape}), }}{blanks}").into_bytes()
}
