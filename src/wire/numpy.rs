//! The head of an array as numpy saves it, which `.npy` files and the members of `.npz` archives begin with.
//!
//! ```text
//! "\x93NUMPY" | major: u8 | minor: u8 | length: u16, or u32 from version 2 on | dict… | 0x20… | "\n"
//! dict = {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//! ```

use ndarray_npy::npy::header::{Header, ParseHeaderError, ReadHeaderError};

use super::{cannot_store, cannot_store_dtype};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::tensor::{Dtype, Layout, Shape, TensorInfo};

/// Type codes of the dtypes that can be stored; used in both directions, so they cannot drift apart.
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
];

/// The dtypes that can be stored.
pub(crate) const DTYPES: &[Dtype] = &{
    let mut dtypes = [Dtype::Bool; CODES.len()];
    let mut at = 0;
    while at < CODES.len() {
        dtypes[at] = CODES[at].1;
        at += 1;
    }
    dtypes
};

/// The highest rank that numpy has.
pub(crate) const MAX_RANK: usize = 64;

/// How an array begins.
const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest text that numpy reads, too.
const MAX_TEXT: u32 = 10_000;

/// Elements begin at a multiple of this from the magic on.
const ALIGNMENT: usize = 64;

/// What the head of an array says.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) info: TensorInfo,
    /// Whether elements have their highest byte first, and how many bytes each has.
    pub(crate) big_endian: Option<usize>,
    /// The bytes of the head.
    pub(crate) len: u64,
}

/// Reads the head of an array, whose bytes `read` gives one after the other. Errors do not know their place.
pub(crate) fn read(mut read: impl FnMut(&mut [u8]) -> Result<()>, limits: &Limits) -> Result<Head> {
    let mut bytes = vec![0; MAGIC.len() + 2];
    read(&mut bytes)?;
    let (magic, version) = bytes.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(ErrorKind::BadMagic { found: magic.to_vec(), expected: MAGIC }.into());
    }
    let size = match version {
        [1, 0] => 2,
        [2 | 3, 0] => 4,
        _ => {
            let (found, expected) = (version[0].into(), "1, 2 or 3, of which the minor version is 0".to_owned());
            return Err(ErrorKind::BadNumber { what: "version", found, expected }.into());
        }
    };
    let mut length = [0; 4];
    read(&mut length[..size])?;
    bytes.extend_from_slice(&length[..size]);
    let length = u32::from_le_bytes(length);
    if length > MAX_TEXT {
        let expected = format!("at most {MAX_TEXT}");
        return Err(ErrorKind::BadNumber { what: "header length", found: length.into(), expected }.into());
    }
    let start = bytes.len();
    bytes.resize(start + length as usize, 0);
    read(&mut bytes[start..])?;
    check_nesting(&bytes[start..])?;
    let header = Header::from_reader(&mut &bytes[..]).map_err(malformed)?;
    head(header, bytes.len() as u64, limits)
}

/// Refuses what the parser would take long for, or all of the stack: it tries lists and dicts twice at each level. An
/// array of numbers has two levels, one of records few more.
fn check_nesting(text: &[u8]) -> Result<()> {
    const MOST: usize = 4;
    let (mut depth, mut quote) = (0_usize, None);
    for byte in text {
        match (quote, byte) {
            (_, b'\\') => return Err(not_a_dict("has a backslash")),
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'{') if depth > 0 => return Err(not_a_dict("has a dict in it")),
            (None, b'{' | b'[' | b'(') => depth += 1,
            (None, b'}' | b']' | b')') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
        if depth > MOST {
            return Err(not_a_dict("is nested too deep"));
        }
    }
    Ok(())
}

fn not_a_dict(why: &str) -> Error {
    let what = format!("the header {why}, but expected a dict of descr, fortran_order and shape");
    ErrorKind::Malformed { what }.into()
}

fn malformed(error: ReadHeaderError) -> Error {
    match error {
        ReadHeaderError::Io(error) => error.into(),
        // What these say is of several lines, or of any length.
        ReadHeaderError::Parse(ParseHeaderError::DictParse(_) | ParseHeaderError::MetaNotDict(_)) => {
            not_a_dict("is no dict")
        }
        ReadHeaderError::Parse(ParseHeaderError::UnknownKey(_)) => not_a_dict("has another key"),
        ReadHeaderError::Parse(ParseHeaderError::IllegalValue { key, .. }) => {
            not_a_dict(&format!("has a wrong value for {key}"))
        }
        ReadHeaderError::Parse(error) => ErrorKind::Malformed { what: error.to_string() }.into(),
    }
}

fn head(header: Header, len: u64, limits: &Limits) -> Result<Head> {
    let rank = header.shape.len();
    // Dim orders have a byte for a dim.
    let limit = limits.rank.min(255);
    if rank as u64 > limit {
        return Err(ErrorKind::Limit { what: "rank", found: rank as u64, limit }.into());
    }
    let (dtype, big_endian) = dtype(&header)?;
    let layout = match header.layout.is_fortran() {
        true => column_major(rank),
        false => Layout::RowMajor,
    };
    let info = TensorInfo { dtype, shape: Shape::new(&header.shape), layout };
    Ok(Head { info, big_endian, len })
}

/// The layout of an array whose first dim runs fastest.
fn column_major(rank: usize) -> Layout {
    let order: Vec<u8> = (0..rank).rev().map(|dim| u8::try_from(dim).expect("the rank was checked")).collect();
    Layout::from_dim_order(&order).expect("each dim is there once")
}

fn dtype(header: &Header) -> Result<(Dtype, Option<usize>)> {
    let descr = header.type_descriptor.as_string().map(String::as_str).unwrap_or_default();
    let (order, code) = descr.split_at_checked(1).unwrap_or_default();
    let dtype = CODES.iter().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype);
    match (order, dtype) {
        // What one byte has no order, whatever is said of it.
        ("<" | "=" | "|" | ">", Some(dtype)) if dtype.block_bytes() == 1 => Ok((dtype, None)),
        ("<" | "=" | "|", Some(dtype)) => Ok((dtype, None)),
        (">", Some(dtype)) => Ok((dtype, Some(dtype.block_bytes()))),
        _ => {
            let found: String = header.type_descriptor.to_string().chars().take(100).collect();
            let why = match code.starts_with('V') {
                true => " (bytes without a meaning, as numpy saves bfloat16 and 8-bit floats)",
                false => "",
            };
            Err(ErrorKind::UnknownDtype { tag: format!("{found}{why}") }.into())
        }
    }
}

/// Refuses what numpy has not.
pub(crate) fn check(format: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
    if code(info.dtype).is_none() {
        return Err(cannot_store_dtype(format, info.dtype, DTYPES));
    }
    let rank = info.shape.rank();
    match &info.layout {
        Layout::Coo { .. } => Err(cannot_store("a sparse tensor", format!("{format} stores dense tensors"))),
        Layout::Blob => Err(cannot_store("a blob", format!("{format} stores tensors"))),
        _ if rank > MAX_RANK => {
            Err(cannot_store(format!("rank {rank}"), format!("{format} stores ranks up to {MAX_RANK}")))
        }
        Layout::DimOrder(order) if info.layout != column_major(rank) => {
            let instead = "numpy saves row-major and column-major arrays; without `Options::keep_dim_order` all are";
            Err(cannot_store(format!("dim order {:?}", order.as_slice()), format!("{instead} written as the first")))
        }
        _ => Ok(()),
    }
}

fn code(dtype: Dtype) -> Option<&'static str> {
    CODES.iter().find(|(_, known)| *known == dtype).map(|(code, _)| *code)
}

/// Writes the head of an array, byte for byte as numpy does.
pub(crate) fn write(info: &TensorInfo, out: &mut Vec<u8>) {
    const BEFORE_TEXT: usize = MAGIC.len() + 4;
    let mut text = text(info);
    let len = (BEFORE_TEXT + text.len() + 1).next_multiple_of(ALIGNMENT) - BEFORE_TEXT;
    text.extend(std::iter::repeat_n(' ', len - 1 - text.len()));
    text.push('\n');
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&u16::try_from(len).expect("64 dims of 20 digits each").to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn text(info: &TensorInfo) -> String {
    /// Digits for which there is room, so that the array can be made longer where it is.
    const DIGITS: usize = 21;
    let order = if info.dtype.block_bytes() == 1 { '|' } else { '<' };
    let code = code(info.dtype).expect("the plan was checked");
    let (fortran, dims) = (info.layout != Layout::RowMajor, info.shape.dims());
    let mut shape: Vec<String> = dims.iter().map(usize::to_string).collect();
    let growing = if fortran { dims.last() } else { dims.first() };
    let room = growing.map_or(0, |dim| DIGITS - dim.to_string().len());
    if dims.len() == 1 {
        // What Python has for a tuple of one.
        shape.push(String::new());
    }
    let (fortran, shape) = (if fortran { "True" } else { "False" }, shape.join(", "));
    let shape = shape.trim_end();
    let blanks = " ".repeat(room);
    format!("{{'descr': '{order}{code}', 'fortran_order': {fortran}, 'shape': ({shape}), }}{blanks}")
}
