//! AWQ: codes of 4 bits in words, in the order 0 2 4 6 1 3 5 7.
//!
//! ```text
//! qweight: u32[in, out / 8] | qzeros: u32[groups, out / 8] | scales: [groups, out]
//! ```
//!
//! The value is `(code - zero) * scale`.
//!
//! # Specification
//!
//! AutoAWQ: `awq/utils/packing_utils.py`, version `gemm`.

use crate::columns::{WIDTH, gather};
use crate::{Columns, Float, bits};

/// Codes in a word.
const CODES: usize = 8;

/// The shift of the code of each column.
const SHIFTS: [u32; CODES] = [0, 16, 4, 20, 8, 24, 12, 28];

/// Decodes columns of weights to rows, `stride` apart: `(code - zero) * scale`.
///
/// `words` has the words of the first row, then those of the second row, and so on.
///
/// ```
/// use tensorfile_quant::{Columns, awq};
///
/// let columns = Columns { count: 8, zeros: &[8; 8], scales: &[0.5; 8], groups: &[0] };
/// let mut weights = [0.0_f32; 8];
/// awq::decode(&[0x98, 0x88, 0x8a, 0x88], &columns, &mut weights, 1);
/// assert_eq!(weights, [0.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]);
/// ```
///
/// # Panics
///
/// If the number of columns is not a multiple of 8, or the lengths of `words`, `columns` and `out` do not match.
pub fn decode<F: Float>(words: &[u8], columns: &Columns<'_>, out: &mut [F], stride: usize) {
    let (words, rest) = words.as_chunks::<4>();
    let width = columns.count / CODES;
    assert!(
        words.len() == columns.groups.len().saturating_mul(width)
            && rest.is_empty()
            && columns.count.is_multiple_of(CODES),
        "{} rows of {} codes are not in {} words",
        columns.groups.len(),
        columns.count,
        words.len()
    );
    columns.decode(
        out,
        stride,
        |rows, columns, tile: &mut [_; WIDTH / CODES]| {
            gather(words, width, rows, columns.start / CODES..columns.end / CODES, tile);
        },
        |i| (i / CODES, SHIFTS[i % CODES]),
        #[inline(always)]
        |word, shift| (u32::from_le_bytes(word) >> shift & 0xf).cast_signed(),
    );
}

/// Unpacks the zeros of a group.
///
/// ```
/// let mut zeros = [0; 8];
/// tensorfile_quant::awq::unpack_zeros(&[0x20, 0x64, 0x31, 0x75], &mut zeros);
/// assert_eq!(zeros, [0, 1, 2, 3, 4, 5, 6, 7]);
/// ```
///
/// # Panics
///
/// If the lengths of `words` and `out` do not match.
pub fn unpack_zeros(words: &[u8], out: &mut [u8]) {
    assert!(2 * words.len() == out.len(), "{} bytes are not {} zeros of 4 bits", words.len(), out.len());
    assert!(words.len().is_multiple_of(4), "{} bytes are not words of 4 bytes", words.len());
    unpack(words.as_chunks::<4>().0, out);
}

#[inline(always)]
fn unpack(words: &[[u8; 4]], codes: &mut [u8]) {
    for (word, codes) in words.iter().zip(codes.as_chunks_mut::<CODES>().0) {
        *codes = SHIFTS.map(|shift| bits::low(u32::from_le_bytes(*word) >> shift, 4));
    }
}
