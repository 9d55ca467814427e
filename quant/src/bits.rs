//! Codes of 1 to 8 bits in little-endian words of 32 bits, lowest bits first.

use crate::vectors::widest;
use crate::{Float, groups};

/// Codes that are unpacked at once. A piece ends with a word, for any number of bits and with or without unused bits.
pub(crate) const PIECE: usize = 960;
/// Codes of the smallest group in use. Loops of known length are faster for small groups.
const LANES: usize = 16;

/// Decodes codes. `unpack` writes codes from an index on, a multiple of [`PIECE`]. `value` decodes a code with the parameters of its
/// group. It must be a closure with `#[inline(always)]`, and so must `parameters`.
#[inline(always)]
pub(crate) fn decode<F: Float, P: Copy>(
    group: usize,
    out: &mut [F],
    unpack: impl Fn(usize, &mut [u8]),
    parameters: impl Fn(usize) -> P,
    value: impl Fn(u8, P) -> f32,
) {
    F::collect(out, &mut [0.0; PIECE], &mut |first, out| {
        let mut codes = [0; PIECE];
        for (i, out) in out.chunks_mut(PIECE).enumerate() {
            let first = first + i * PIECE;
            let codes = &mut codes[..out.len()];
            unpack(first, codes);
            widest(
                #[inline(always)]
                |codes: &[u8], out: &mut [f32], ()| {
                    groups::for_each(first, out.len(), group, |index, run| {
                        let parameters = parameters(index);
                        let (codes, codes_rest) = codes[run.clone()].as_chunks::<LANES>();
                        let (out, out_rest) = out[run].as_chunks_mut::<LANES>();
                        for (codes, out) in codes.iter().zip(out) {
                            for (&code, out) in codes.iter().zip(out) {
                                *out = value(code, parameters);
                            }
                        }
                        for (&code, out) in codes_rest.iter().zip(out_rest) {
                            *out = value(code, parameters);
                        }
                    });
                },
                &*codes,
                out,
                (),
            );
        }
    });
}

/// Panics unless the number of bits is 1 to 8.
pub(crate) const fn check(bits: u32) {
    assert!(1 <= bits && bits <= 8, "codes have 1 to 8 bits");
}

/// Returns the number of codes of a word if none crosses words.
pub(crate) const fn per_word(bits: u32) -> usize {
    32 / bits as usize
}

/// Unpacks codes that do not cross words. The last word may have fewer codes.
#[inline(always)]
pub(crate) fn unpack_words(words: &[u8], bits: u32, codes: &mut [u8]) {
    match bits {
        3 => unpack_words_of::<3, 10>(words, codes),
        5 => unpack_words_of::<5, 6>(words, codes),
        6 => unpack_words_of::<6, 5>(words, codes),
        7 => unpack_words_of::<7, 4>(words, codes),
        // Without unused bits.
        _ => unpack_stream(&words[..(codes.len() * bits as usize).div_ceil(8)], bits, codes),
    }
}

#[inline(always)]
fn unpack_words_of<const BITS: u32, const CODES: usize>(words: &[u8], codes: &mut [u8]) {
    let mut words = words.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    let unpack = |word: u32| std::array::from_fn::<_, CODES, _>(|i| low(word >> (i * BITS as usize), BITS));
    let (whole, rest) = codes.as_chunks_mut::<CODES>();
    for (codes, word) in whole.iter_mut().zip(&mut words) {
        *codes = unpack(word);
    }
    if let Some(word) = words.next() {
        rest.copy_from_slice(&unpack(word)[..rest.len()]);
    }
}

/// Unpacks codes without unused bits between them. The last byte may have some.
#[inline(always)]
pub(crate) fn unpack_stream(bytes: &[u8], bits: u32, codes: &mut [u8]) {
    match bits {
        1 => unpack_stream_of::<1>(bytes, codes),
        2 => unpack_stream_of::<2>(bytes, codes),
        3 => unpack_stream_of::<3>(bytes, codes),
        4 => unpack_stream_of::<4>(bytes, codes),
        5 => unpack_stream_of::<5>(bytes, codes),
        6 => unpack_stream_of::<6>(bytes, codes),
        7 => unpack_stream_of::<7>(bytes, codes),
        _ => codes.copy_from_slice(&bytes[..codes.len()]),
    }
}

/// Unpacks eight codes at a time, which take `BITS` bytes.
#[inline(always)]
fn unpack_stream_of<const BITS: usize>(bytes: &[u8], codes: &mut [u8]) {
    let (whole, rest) = bytes.as_chunks::<BITS>();
    let (codes, codes_rest) = codes.as_chunks_mut::<8>();
    for (bytes, codes) in whole.iter().zip(&mut *codes) {
        *codes = spread::<BITS>(bytes);
    }
    if !codes_rest.is_empty() {
        let mut last = [0; BITS];
        let bytes = whole.get(codes.len()).map_or(rest, |bytes| bytes);
        last[..bytes.len()].copy_from_slice(bytes);
        codes_rest.copy_from_slice(&spread::<BITS>(&last)[..codes_rest.len()]);
    }
}

/// Returns 8 codes of `BITS` bits. The upper four codes are moved up to the upper half, then the upper two of each half, then
/// every other one. Vectors can do this; a table or a shift for each code is slower.
#[inline(always)]
fn spread<const BITS: usize>(bytes: &[u8; BITS]) -> [u8; 8] {
    let mut word = [0; 8];
    word[..BITS].copy_from_slice(bytes);
    let mut word = u64::from_le_bytes(word);
    for (codes, every) in [(4, 1), (2, 0x1_0000_0001), (1, 0x1_0001_0001_0001)] {
        // The lower half of each part stays.
        let lower = ((1 << (BITS * codes)) - 1) * every;
        word = word & lower | word << ((8 - BITS) * codes) & lower << (8 * codes);
    }
    word.to_le_bytes()
}

/// Returns the lowest bits of a word.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "at most 8 bits")]
pub(crate) fn low(word: u32, bits: u32) -> u8 {
    word as u8 & mask(bits)
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "at most 8 bits")]
pub(crate) const fn mask(bits: u32) -> u8 {
    ((1 << bits) - 1_u32) as u8
}

/// Panics unless the bytes are those of a number of codes, without unused bits between them.
pub(crate) fn check_stream(bytes: &[u8], bits: u32, codes: usize) {
    check(bits);
    // Eight codes at a time, as a product of all of them might overflow.
    let expected = codes / 8 * bits as usize + (codes % 8 * bits as usize).div_ceil(8);
    assert!(bytes.len() == expected, "{codes} codes of {bits} bits are in {expected} bytes, not {}", bytes.len());
}
