//! Integers of 1 to 8 bits in words of 32 bits: `pack-quantized` of compressed-tensors.
//!
//! The lowest bits of a word are first, and each row begins with a word. The value is `(code - zero) * scale`. The zero of
//! symmetric weights is `1 << (bits - 1)`. Codes of 3, 5, 6 and 7 bits are packed in one of two ways, see [`Packing`].
//!
//! # Specification
//!
//! compressed-tensors: `compressors/pack_quantized/helpers.py` (`pack_to_int32`, `unpack_from_int32`), 0.17.1 and 0.18.0. Both its
//! codes and its zeros are stored with an offset of `1 << (bits - 1)`, which their difference does not have.

use crate::vectors::widest;
use crate::{Float, bits as codes, groups};

/// The way in which codes are packed into words. Both are the same for codes of 1, 2, 4 and 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packing {
    /// `32 / bits` codes in each word, and unused bits at the top: before version 0.18 of compressed-tensors.
    Padded,
    /// Codes without unused bits, which may cross words: version 0.18 and later.
    Dense,
}

impl Packing {
    /// Returns the number of words that a row of codes takes. The last one may have unused bits.
    ///
    /// ```
    /// use tensorfile_quant::packed::Packing;
    ///
    /// assert_eq!((Packing::Padded.words(64, 3), Packing::Dense.words(64, 3)), (7, 6));
    /// ```
    ///
    /// # Panics
    ///
    /// If `bits` is not 1 to 8.
    #[must_use]
    pub const fn words(self, codes: usize, bits: u32) -> usize {
        codes::check(bits);
        match self {
            Self::Padded => codes.div_ceil(codes::per_word(bits)),
            // 32 codes at a time, as a product of all of them might overflow.
            Self::Dense => codes / 32 * bits as usize + (codes % 32 * bits as usize).div_ceil(32),
        }
    }
}

/// Decodes weights: `(code - zero) * scale`. Each `group` codes share a zero and a scale; the last group may be shorter.
///
/// ```
/// use tensorfile_quant::packed::{self, Packing};
///
/// let mut weights = [0.0_f32; 3];
/// packed::decode(&[0x98, 0x07, 0, 0], 4, Packing::Dense, &[8], &[0.5], 32, &mut weights);
/// assert_eq!(weights, [0.0, 0.5, -0.5]);
/// ```
///
/// # Panics
///
/// If `bits` is not 1 to 8, or the lengths of `words`, `zeros`, `scales` and `out` do not match.
pub fn decode<F: Float>(
    words: &[u8],
    bits: u32,
    packing: Packing,
    zeros: &[u8],
    scales: &[f32],
    group: usize,
    out: &mut [F],
) {
    check(words, bits, packing, out.len());
    groups::check(out.len(), group, scales.len());
    groups::check(out.len(), group, zeros.len());
    let unpack = |first: usize, codes: &mut [u8]| {
        unpack_words(&words[4 * packing.words(first, bits)..], bits, packing, codes);
    };
    codes::decode(
        group,
        out,
        unpack,
        #[inline(always)]
        |index| (i32::from(zeros[index]), scales[index]),
        #[inline(always)]
        |code, (zero, scale)| (i32::from(code) - zero) as f32 * scale,
    );
}

/// Decodes weights as [`decode`] does. `groups` has the group of each code, in any order.
///
/// ```
/// use tensorfile_quant::packed::{self, Packing};
///
/// let mut weights = [0.0_f32; 3];
/// packed::decode_by_index(&[0x98, 0x07, 0, 0], 4, Packing::Dense, &[8, 7], &[0.5, 4.0], &[1, 0, 1], &mut weights);
/// assert_eq!(weights, [4.0, 0.5, 0.0]);
/// ```
///
/// # Panics
///
/// If `bits` is not 1 to 8, the lengths of `words`, `zeros`, `scales`, `groups` and `out` do not match, or there is no such group.
pub fn decode_by_index<F: Float>(
    words: &[u8],
    bits: u32,
    packing: Packing,
    zeros: &[u8],
    scales: &[f32],
    groups: &[u32],
    out: &mut [F],
) {
    check(words, bits, packing, out.len());
    assert!(groups.len() == out.len(), "{} groups are not those of {} weights", groups.len(), out.len());
    assert!(zeros.len() == scales.len(), "{} zeros are not {} scales", zeros.len(), scales.len());
    let needed = groups.iter().max().map_or(0, |&last| last as usize + 1);
    assert!(needed <= scales.len(), "{needed} groups have {needed} scales, not {}", scales.len());
    F::collect(out, &mut [0.0; codes::PIECE], &mut |first, out| {
        let mut codes = [0; codes::PIECE];
        for (i, out) in out.chunks_mut(codes::PIECE).enumerate() {
            let first = first + i * codes::PIECE;
            let codes = &mut codes[..out.len()];
            unpack_words(&words[4 * packing.words(first, bits)..], bits, packing, codes);
            for ((&code, &group), out) in codes.iter().zip(&groups[first..]).zip(out) {
                let group = group as usize;
                *out = (i32::from(code) - i32::from(zeros[group])) as f32 * scales[group];
            }
        }
    });
}

/// Unpacks the codes of a row.
///
/// ```
/// use tensorfile_quant::packed::{self, Packing};
///
/// let mut codes = [0; 3];
/// packed::unpack(&[0x98, 0x07, 0, 0], 4, Packing::Dense, &mut codes);
/// assert_eq!(codes, [8, 9, 7]);
/// ```
///
/// # Panics
///
/// If `bits` is not 1 to 8, or the lengths of `words` and `out` do not match.
pub fn unpack(words: &[u8], bits: u32, packing: Packing, out: &mut [u8]) {
    check(words, bits, packing, out.len());
    unpack_words(words, bits, packing, out);
}

/// Unpacks a row of codes that are packed down columns, such as zeros.
///
/// `words` has the first word of each column, then the second word of each, and so on.
///
/// ```
/// use tensorfile_quant::packed::{self, Packing};
///
/// let mut zeros = [0; 2];
/// packed::unpack_row(&[0x98, 0, 0, 0, 0x76, 0, 0, 0], 4, Packing::Dense, 1, &mut zeros);
/// assert_eq!(zeros, [9, 7]);
/// ```
///
/// # Panics
///
/// If `bits` is not 1 to 8, or `words` has no such row.
pub fn unpack_row(words: &[u8], bits: u32, packing: Packing, row: usize, out: &mut [u8]) {
    codes::check(bits);
    let words = words.as_chunks::<4>().0;
    let width = bits as usize;
    // A code may begin in the last word of 32 bits, and end in the next.
    let (index, shift) = match packing {
        Packing::Padded => (row / codes::per_word(bits), row % codes::per_word(bits) * width),
        Packing::Dense => (row / 32 * width + row % 32 * width / 32, row % 32 * width % 32),
    };
    let needed = (index + 1 + usize::from(shift + width > 32)).saturating_mul(out.len());
    assert!(needed <= words.len(), "row {row} of {bits} bits is in {needed} words, not {}", words.len());
    let (first, next) = words[index * out.len()..].split_at(out.len());
    for (i, (word, out)) in first.iter().zip(out).enumerate() {
        let next = next.get(i).map_or(0, |word| u32::from_le_bytes(*word));
        let bits_from_word = u64::from(next) << 32 | u64::from(u32::from_le_bytes(*word));
        *out = (bits_from_word >> shift).to_le_bytes()[0] & codes::mask(bits);
    }
}

fn unpack_words(words: &[u8], bits: u32, packing: Packing, codes: &mut [u8]) {
    widest(
        #[inline(always)]
        |words: &[u8], codes: &mut [u8], ()| match packing {
            Packing::Padded => codes::unpack_words(words, bits, codes),
            Packing::Dense => codes::unpack_stream(words, bits, codes),
        },
        words,
        codes,
        (),
    );
}

fn check(words: &[u8], bits: u32, packing: Packing, codes: usize) {
    let expected = packing.words(codes, bits).saturating_mul(4);
    assert!(words.len() == expected, "{codes} codes of {bits} bits are in {expected} bytes, not {}", words.len());
}
