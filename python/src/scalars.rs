//! Dtypes in the buffer protocol and in DLPack.

use std::ffi::CStr;

use tensorfile::Dtype;

/// Returns the format of elements in the buffer protocol; `None` if the protocol has none, such as for `bf16`.
pub fn buffer_format(dtype: Dtype) -> Option<&'static CStr> {
    // Where `l` has 64 bits, numpy takes `q` for a different type.
    const LONG: bool = size_of::<std::ffi::c_long>() == 8;

    Some(match dtype {
        Dtype::Bool => c"?",
        Dtype::I8 | Dtype::QInt8 => c"b",
        Dtype::I16 => c"h",
        Dtype::I32 | Dtype::QInt32 => c"i",
        Dtype::I64 if LONG => c"l",
        Dtype::I64 => c"q",
        Dtype::U8 | Dtype::QUint8 | Dtype::QUint4x2 | Dtype::QUint2x4 => c"B",
        Dtype::U16 | Dtype::Bits16 => c"H",
        Dtype::U32 => c"I",
        Dtype::U64 if LONG => c"L",
        Dtype::U64 => c"Q",
        Dtype::F16 => c"e",
        Dtype::F32 => c"f",
        Dtype::F64 => c"d",
        Dtype::C64 => c"Zf",
        Dtype::C128 => c"Zd",
        _ => return None,
    })
}

/// Returns the dtype of a format and a size of elements in the buffer protocol.
pub fn dtype_from_buffer(format: &CStr, bytes: usize) -> Option<Dtype> {
    let format = format.to_str().ok()?;
    let native = if cfg!(target_endian = "little") { '<' } else { '>' };
    let format = format.strip_prefix(['@', '=', native]).unwrap_or(format);
    Some(match (format, bytes) {
        ("?", 1) => Dtype::Bool,
        ("b" | "h" | "i" | "l" | "q" | "n", _) => match bytes {
            1 => Dtype::I8,
            2 => Dtype::I16,
            4 => Dtype::I32,
            8 => Dtype::I64,
            _ => return None,
        },
        ("B" | "H" | "I" | "L" | "Q" | "N", _) => match bytes {
            1 => Dtype::U8,
            2 => Dtype::U16,
            4 => Dtype::U32,
            8 => Dtype::U64,
            _ => return None,
        },
        ("e", 2) => Dtype::F16,
        ("f", 4) => Dtype::F32,
        ("d", 8) => Dtype::F64,
        ("Zf", 8) => Dtype::C64,
        ("Zd", 16) => Dtype::C128,
        _ => return None,
    })
}

/// The dtypes of DLPack, each with its code and its bits.
const DLPACK: &[(Dtype, u8, u8)] = &[
    (Dtype::I8, 0, 8),
    (Dtype::I16, 0, 16),
    (Dtype::I32, 0, 32),
    (Dtype::I64, 0, 64),
    (Dtype::U8, 1, 8),
    (Dtype::U16, 1, 16),
    (Dtype::U32, 1, 32),
    (Dtype::U64, 1, 64),
    (Dtype::F16, 2, 16),
    (Dtype::F32, 2, 32),
    (Dtype::F64, 2, 64),
    (Dtype::Bf16, 4, 16),
    (Dtype::C64, 5, 64),
    (Dtype::C128, 5, 128),
    (Dtype::Bool, 6, 8),
    (Dtype::F8E4M3Fn, 10, 8),
    (Dtype::F8E4M3Fnuz, 11, 8),
    (Dtype::F8E5M2, 12, 8),
    (Dtype::F8E5M2Fnuz, 13, 8),
    (Dtype::F8E8M0, 14, 8),
];

/// Returns the code and the bits of a dtype in DLPack.
pub fn dlpack_code(dtype: Dtype) -> Option<(u8, u8)> {
    DLPACK.iter().find(|row| row.0 == dtype).map(|(_, code, bits)| (*code, *bits))
}

/// Returns the dtype of a code and a number of bits of DLPack.
pub fn dtype_from_dlpack(code: u8, bits: u8) -> Option<Dtype> {
    DLPACK.iter().find(|row| (row.1, row.2) == (code, bits)).map(|row| row.0)
}
