//! Dtypes as stable numbers.

use tensorfile::Dtype;

use crate::{Failure, Result, tf_dtype_info};

/// The element types. The numbers never change, and new ones go to the end.
///
/// `tf_dtype_get_info` returns the name of each, such as `f32`, and its size.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::upper_case_acronyms)]
pub enum tf_dtype {
    /// As an argument: the dtype of the file.
    TF_DTYPE_STORED = 0,
    /// One byte, 0 or 1.
    TF_DTYPE_BOOL = 1,
    /// Signed 8-bit integer.
    TF_DTYPE_I8 = 2,
    /// Signed 16-bit integer.
    TF_DTYPE_I16 = 3,
    /// Signed 32-bit integer.
    TF_DTYPE_I32 = 4,
    /// Signed 64-bit integer.
    TF_DTYPE_I64 = 5,
    /// Unsigned 8-bit integer.
    TF_DTYPE_U8 = 6,
    /// Unsigned 16-bit integer.
    TF_DTYPE_U16 = 7,
    /// Unsigned 32-bit integer.
    TF_DTYPE_U32 = 8,
    /// Unsigned 64-bit integer.
    TF_DTYPE_U64 = 9,
    /// IEEE 754 half precision.
    TF_DTYPE_F16 = 10,
    /// bfloat16: the upper half of an `f32`.
    TF_DTYPE_BF16 = 11,
    /// IEEE 754 single precision.
    TF_DTYPE_F32 = 12,
    /// IEEE 754 double precision.
    TF_DTYPE_F64 = 13,
    /// 8-bit float, 5 exponent bits, with infinities.
    TF_DTYPE_F8_E5M2 = 14,
    /// 8-bit float, 4 exponent bits, no infinities.
    TF_DTYPE_F8_E4M3FN = 15,
    /// 8-bit float, 5 exponent bits, no infinities, no negative zero.
    TF_DTYPE_F8_E5M2FNUZ = 16,
    /// 8-bit float, 4 exponent bits, no infinities, no negative zero.
    TF_DTYPE_F8_E4M3FNUZ = 17,
    /// Quantized signed 8-bit integer; opaque.
    TF_DTYPE_QINT8 = 18,
    /// Quantized unsigned 8-bit integer; opaque.
    TF_DTYPE_QUINT8 = 19,
    /// Quantized signed 32-bit integer; opaque.
    TF_DTYPE_QINT32 = 20,
    /// Quantized unsigned 4-bit integers, two to a byte; opaque. ExecuTorch counts bytes as elements.
    TF_DTYPE_QUINT4X2 = 21,
    /// Quantized unsigned 2-bit integers, four to a byte; opaque. ExecuTorch counts bytes as elements.
    TF_DTYPE_QUINT2X4 = 22,
    /// 16 uninterpreted bits.
    TF_DTYPE_BITS16 = 23,
    /// 8-bit power of two: 8 exponent bits, no sign, no zero, no infinities. The scales of MX formats.
    TF_DTYPE_F8_E8M0 = 24,
    /// 4-bit floats, E2M1, two to a byte; opaque.
    TF_DTYPE_F4 = 25,
    /// 6-bit floats, 2 exponent bits, four to three bytes; opaque.
    TF_DTYPE_F6_E2M3 = 26,
    /// 6-bit floats, 3 exponent bits, four to three bytes; opaque.
    TF_DTYPE_F6_E3M2 = 27,
    /// Complex number of two `f32`, the real part first.
    TF_DTYPE_C64 = 28,
    /// Complex number of two `f64`, the real part first.
    TF_DTYPE_C128 = 29,
    /// ggml's `q4_0`: 32 weights in 18 bytes; opaque.
    TF_DTYPE_Q4_0 = 30,
    /// ggml's `q4_1`: 32 weights in 20 bytes; opaque.
    TF_DTYPE_Q4_1 = 31,
    /// ggml's `q5_0`: 32 weights in 22 bytes; opaque.
    TF_DTYPE_Q5_0 = 32,
    /// ggml's `q5_1`: 32 weights in 24 bytes; opaque.
    TF_DTYPE_Q5_1 = 33,
    /// ggml's `q8_0`: 32 weights in 34 bytes; opaque.
    TF_DTYPE_Q8_0 = 34,
    /// ggml's `q8_1`: 32 weights in 36 bytes; opaque.
    TF_DTYPE_Q8_1 = 35,
    /// ggml's `q2_k`: 256 weights in 84 bytes; opaque.
    TF_DTYPE_Q2_K = 36,
    /// ggml's `q3_k`: 256 weights in 110 bytes; opaque.
    TF_DTYPE_Q3_K = 37,
    /// ggml's `q4_k`: 256 weights in 144 bytes; opaque.
    TF_DTYPE_Q4_K = 38,
    /// ggml's `q5_k`: 256 weights in 176 bytes; opaque.
    TF_DTYPE_Q5_K = 39,
    /// ggml's `q6_k`: 256 weights in 210 bytes; opaque.
    TF_DTYPE_Q6_K = 40,
    /// ggml's `q8_k`: 256 weights in 292 bytes; opaque.
    TF_DTYPE_Q8_K = 41,
    /// ggml's `iq2_xxs`: 256 weights in 66 bytes; opaque.
    TF_DTYPE_IQ2_XXS = 42,
    /// ggml's `iq2_xs`: 256 weights in 74 bytes; opaque.
    TF_DTYPE_IQ2_XS = 43,
    /// ggml's `iq3_xxs`: 256 weights in 98 bytes; opaque.
    TF_DTYPE_IQ3_XXS = 44,
    /// ggml's `iq1_s`: 256 weights in 50 bytes; opaque.
    TF_DTYPE_IQ1_S = 45,
    /// ggml's `iq4_nl`: 32 weights in 18 bytes; opaque.
    TF_DTYPE_IQ4_NL = 46,
    /// ggml's `iq3_s`: 256 weights in 110 bytes; opaque.
    TF_DTYPE_IQ3_S = 47,
    /// ggml's `iq2_s`: 256 weights in 82 bytes; opaque.
    TF_DTYPE_IQ2_S = 48,
    /// ggml's `iq4_xs`: 256 weights in 136 bytes; opaque.
    TF_DTYPE_IQ4_XS = 49,
    /// ggml's `iq1_m`: 256 weights in 56 bytes; opaque.
    TF_DTYPE_IQ1_M = 50,
    /// ggml's `tq1_0`: 256 weights in 54 bytes; opaque.
    TF_DTYPE_TQ1_0 = 51,
    /// ggml's `tq2_0`: 256 weights in 66 bytes; opaque.
    TF_DTYPE_TQ2_0 = 52,
    /// ggml's `mxfp4`: 32 weights in 17 bytes; opaque.
    TF_DTYPE_MXFP4 = 53,
    /// ggml's `nvfp4`: 64 weights in 36 bytes; opaque.
    TF_DTYPE_NVFP4 = 54,
    /// ggml's `q1_0`: 128 weights in 18 bytes; opaque.
    TF_DTYPE_Q1_0 = 55,
    /// ggml's `q2_0`: 64 weights in 18 bytes; opaque.
    TF_DTYPE_Q2_0 = 56,
}

/// Returns the number of a dtype, a `tf_dtype`.
pub fn number(dtype: Dtype) -> i32 {
    // They are declared in the order of `Dtype::ALL`, which a test compares.
    dtype as i32 + 1
}

/// Returns the dtype with a number; `None` for `TF_DTYPE_STORED`.
pub fn from_number(number: i32) -> Result<Option<Dtype>> {
    if number == tf_dtype::TF_DTYPE_STORED as i32 {
        return Ok(None);
    }
    let position = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let dtype = position.and_then(|position| Dtype::ALL.get(position));
    let unknown = || Failure::argument(format!("{number} is not a dtype; the last one is {}", Dtype::ALL.len()));
    dtype.copied().map(Some).ok_or_else(unknown)
}

/// As [`from_number`], where no file has a dtype yet.
pub fn expect(number: i32) -> Result<Dtype> {
    from_number(number)?.ok_or_else(|| Failure::argument("`TF_DTYPE_STORED` is the dtype of a file; name another one"))
}

/// Returns the dtype with a name.
pub fn find(name: &str) -> Result<i32> {
    let found = name.parse().map(number);
    found.map_err(|_| Failure::argument(format!("`{name}` is not the name of a dtype, such as `f32`")))
}

pub fn info(number: i32) -> Result<tf_dtype_info> {
    let dtype = expect(number)?;
    Ok(tf_dtype_info {
        size: size_of::<tf_dtype_info>(),
        name: dtype.name().into(),
        block_elements: dtype.block_elements(),
        block_bytes: dtype.block_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable() {
        assert_eq!(number(Dtype::F32), tf_dtype::TF_DTYPE_F32 as i32);
        for (i, dtype) in Dtype::ALL.iter().enumerate() {
            assert_eq!(number(*dtype), i32::try_from(i).unwrap() + 1);
            assert_eq!(from_number(number(*dtype)).unwrap(), Some(*dtype));
        }
        assert_eq!(number(*Dtype::ALL.last().unwrap()), tf_dtype::TF_DTYPE_Q2_0 as i32);
        assert!(from_number(-1).is_err() && from_number(i32::MAX).is_err() && expect(0).is_err());
    }
}
