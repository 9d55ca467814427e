//! Integers of 1 to 8 bits in words of 32 bits: `pack-quantized` of compressed-tensors.
//!
//! A word has `32 / bits` codes, the lowest bits first, and unused bits at the top. Each row begins with a word. The value is
//! `(code - zero) * scale`. The zero of symmetric weights is `1 << (bits - 1)`.
//!
//! # Specification
//!
//! compressed-tensors: `compressors/pack_quantized/helpers.py` (`pack_to_int32`, `unpack_from_int32`). Both its codes and its
//! zeros are stored with an offset of `1 << (bits - 1)`, which their difference does not have.

use crate::vectors::widest;
use crate::{Float, bits as codes, groups};

/// Decodes weights: `(code - zero) * scale`. Each `group` codes share a zero and a scale; the last group may be shorter.
///
/// ```
/// let mut weights = [0.0_f32; 3];
/// tensorfile_quant::packed::decode(&[0x98, 0x07, 0, 0], 4, &[8], &[0.5], 32, &mut weights);
/// assert_eq!(weights, [0.0, 0.5, -0.5]);
/// ```
///
/// # Panics
///
/// If `bits` is not 1 to 8, or the lengths of `words`, `zeros`, `scales` and `out` do not match.
pub fn decode<F: Float>(words: &[u8], bits: u32, zeros: &[u8], scales: &[f32], group: usize, out: &mut [F]) {
    check(words, bits, out.len());
    groups::check(out.len(), group, scales.len());
    groups::check(out.len(), group, zeros.len());
    let unpack = |first: usize, codes: &mut [u8]| {
        widest(
            #[inline(always)]
            |words: &[u8], codes: &mut [u8], ()| codes::unpack_words(words, bits, codes),
            &words[4 * (first / codes::per_word(bits))..],
            codes,
            (),
        );
    };
    codes::decode(
        group,
        out,
        unpack,
        #[inline(always)]
        |index| (zeros[index], scales[index]),
        #[inline(always)]
        |code, (zero, scale)| f32::from(i16::from(code) - i16::from(zero)) * scale,
    );
}

/// Unpacks codes, such as zeros packed along rows.
///
/// ```
/// let mut codes = [0; 3];
/// tensorfile_quant::packed::unpack(&[0x98, 0x07, 0, 0], 4, &mut codes);
/// assert_eq!(codes, [8, 9, 7]);
/// ```
///
/// # Panics
///
/// If `bits` is not 1 to 8, or the lengths of `words` and `out` do not match.
pub fn unpack(words: &[u8], bits: u32, out: &mut [u8]) {
    check(words, bits, out.len());
    codes::unpack_words(words, bits, out);
}

/// Unpacks the code with an index from each word, such as the zeros of one row where several rows share words.
///
/// The zeros of row `r` are in row `r / (32 / bits)` of words, with index `r % (32 / bits)`.
///
/// ```
/// let mut zeros = [0; 2];
/// tensorfile_quant::packed::unpack_across(&[0x98, 0, 0, 0, 0x76, 0, 0, 0], 4, 1, &mut zeros);
/// assert_eq!(zeros, [9, 7]);
/// ```
///
/// # Panics
///
/// If `bits` is not 1 to 8, a word has fewer codes, or the lengths of `words` and `out` do not match.
pub fn unpack_across(words: &[u8], bits: u32, index: usize, out: &mut [u8]) {
    codes::check(bits);
    let (words, rest) = words.as_chunks();
    assert!(words.len() == out.len() && rest.is_empty(), "words of 4 bytes do not match {} codes", out.len());
    assert!(index < codes::per_word(bits), "words have {} codes, and no code {index}", codes::per_word(bits));
    for (word, out) in words.iter().zip(out) {
        *out = codes::low(u32::from_le_bytes(*word) >> (index * bits as usize), bits);
    }
}

fn check(words: &[u8], bits: u32, codes: usize) {
    codes::check(bits);
    let expected = codes.div_ceil(codes::per_word(bits)) * 4;
    assert_eq!(words.len(), expected, "{codes} codes of {bits} bits are in {expected} bytes, not {}", words.len());
}
