//! GPTQ: codes of 2, 3, 4 or 8 bits in columns of words.
//!
//! ```text
//! qweight: u32[in * bits / 32, out] | qzeros: u32[groups, out * bits / 32] | scales: [groups, out] | g_idx: i32[in]
//! ```
//!
//! The codes of a column follow each other from word to word, the lowest bits first. 32 codes of 3 bits take 3 words and cross
//! them. Zeros lie in the same way along rows. The value is `(code - zero) * scale`.
//!
//! # Specification
//!
//! GPTQModel: `gptqmodel/nn_modules/qlinear/__init__.py` (`dequantize_weight`) and `utils/model.py` (`convert_gptq_v1_to_v2_format`).
//!
//! # Deviations
//!
//! In version 1, a stored zero of `2^bits - 1` is a zero of 0. GPTQModel agrees, but some kernels take it for `2^bits`.

use std::ops::Range;

use crate::columns::{HEIGHT, WIDTH, gather};
use crate::vectors::widest;
use crate::{Columns, Float, bits as codes};

/// The `checkpoint_format` of a model. Versions store zeros differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// `gptq`, and models without a format: zeros minus 1, modulo `2^bits`.
    V1,
    /// `gptq_v2`: zeros as they are.
    V2,
}

/// Decodes columns of weights to rows, `stride` apart: `(code - zero) * scale`.
///
/// `words` has the first word of each column, then the second word of each, and so on. A tile begins with a row whose codes begin
/// a word: a multiple of 32 rows for 3 bits, else of `32 / bits`.
///
/// ```
/// use tensorfile_quant::{Columns, gptq};
///
/// let words = [0x98, 0x98, 0x98, 0x98, 0xa8, 0xa8, 0xa8, 0xa8];
/// let columns = Columns { count: 2, zeros: &[8, 8], scales: &[1.0, 0.5], groups: &[0; 8] };
/// let mut weights = [0.0_f32; 16];
/// gptq::decode(&words, 4, &columns, &mut weights, 8);
/// assert_eq!(weights[..3], [0.0, 1.0, 0.0]);
/// assert_eq!(weights[8..11], [0.0, 1.0, 0.0]);
/// ```
///
/// # Panics
///
/// If `bits` is not 2, 3, 4 or 8, or the lengths of `words`, `columns` and `out` do not match.
pub fn decode<F: Float>(words: &[u8], bits: u32, columns: &Columns<'_>, out: &mut [F], stride: usize) {
    let (words, rest) = words.as_chunks::<4>();
    check(bits);
    let needed = (columns.groups.len() * bits as usize).div_ceil(32).saturating_mul(columns.count);
    assert!(
        words.len() == needed && rest.is_empty(),
        "{} rows of {} codes of {bits} bits are in {needed} words, not {}",
        columns.groups.len(),
        columns.count,
        words.len()
    );
    let mut of_columns = [[[0; 4]; HEIGHT * 8 / 32]; WIDTH];
    let fill = |rows: Range<usize>, places: Range<usize>, codes: &mut [[u8; HEIGHT]; WIDTH]| {
        let first = rows.start * bits as usize / 32;
        let count = (rows.len() * bits as usize).div_ceil(32);
        gather(words, columns.count, first..first + count, places.clone(), &mut of_columns);
        for ((words, codes), _) in of_columns.iter().zip(codes).zip(places) {
            widest(
                #[inline(always)]
                |words: &[[u8; 4]], codes: &mut [u8], ()| codes::unpack_stream(words.as_flattened(), bits, codes),
                &words[..count],
                &mut codes[..rows.len()],
                (),
            );
        }
    };
    columns.decode(
        out,
        stride,
        fill,
        |i| (i, 0),
        #[inline(always)]
        |code: u8, _| i32::from(code),
    );
}

/// Unpacks the zeros of a group.
///
/// ```
/// use tensorfile_quant::gptq::{self, Version};
///
/// let mut zeros = [0; 8];
/// gptq::unpack_zeros(&[0x77, 0x77, 0xf7, 0x77], 4, Version::V1, &mut zeros);
/// assert_eq!(zeros, [8, 8, 8, 8, 8, 0, 8, 8]);
/// ```
///
/// # Panics
///
/// If `bits` is not 2, 3, 4 or 8, or the lengths of `words` and `out` do not match.
pub fn unpack_zeros(words: &[u8], bits: u32, version: Version, out: &mut [u8]) {
    check(bits);
    let needed = (out.len() * bits as usize).div_ceil(32) * 4;
    assert!(words.len() == needed, "{} zeros of {bits} bits are in {needed} bytes, not {}", out.len(), words.len());
    codes::unpack_stream(words, bits, out);
    if version == Version::V1 {
        for zero in out {
            *zero = zero.wrapping_add(1) & codes::mask(bits);
        }
    }
}

fn check(bits: u32) {
    assert!(matches!(bits, 2 | 3 | 4 | 8), "codes of GPTQ have 2, 3, 4 or 8 bits, not {bits}");
}
