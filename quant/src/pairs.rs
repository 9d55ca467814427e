//! Codes of 4 bits, two to a byte, decoded by a table with the two numbers of each byte.

use crate::vectors::widest;
use crate::{Float, groups};

/// The numbers of the first and the second code of each byte.
pub(crate) type Pairs = [[f32; 2]; 256];

/// Makes the table of a map from codes to numbers.
pub(crate) const fn pairs(map: &[f32; 16], high_first: bool) -> Pairs {
    let mut pairs = [[0.0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        let (low, high) = (map[byte & 0xf], map[byte >> 4]);
        pairs[byte] = if high_first { [high, low] } else { [low, high] };
        byte += 1;
    }
    pairs
}

/// Bytes decoded at once. Loops of this length are unrolled into vectors.
const LANES: usize = 8;

/// Decodes bytes: each number times the scale of its group. Groups begin at a byte; the last group and byte may have fewer
/// codes.
pub(crate) fn decode<F: Float>(bytes: &[u8], pairs: &Pairs, scales: &[f32], group: usize, out: &mut [F]) {
    #[inline(always)]
    fn each<F: Float>((bytes, pairs, scales, group, out): (&[u8], &Pairs, &[f32], usize, &mut [F])) {
        for ((bytes, out), &scale) in bytes.chunks(group / 2).zip(out.chunks_mut(group)).zip(scales) {
            let (bytes, bytes_rest) = bytes.as_chunks::<LANES>();
            let (out, out_rest) = out.as_chunks_mut::<{ 2 * LANES }>();
            for (bytes, out) in bytes.iter().zip(&mut *out) {
                let mut numbers = [0.0; 2 * LANES];
                for (&byte, numbers) in bytes.iter().zip(numbers.as_chunks_mut::<2>().0) {
                    *numbers = pairs[usize::from(byte)];
                }
                for (number, out) in numbers.into_iter().zip(out) {
                    *out = F::nearest(number * scale);
                }
            }
            // Full pieces of bytes without as many weights are an odd last code, which is in `out_rest`.
            let rest = bytes[out.len()..].as_flattened().iter().chain(bytes_rest);
            let numbers = rest.flat_map(|&byte| pairs[usize::from(byte)]);
            for (number, out) in numbers.zip(out_rest) {
                *out = F::nearest(number * scale);
            }
        }
    }

    let codes = 2 * bytes.len();
    assert!(codes == out.len() || codes == out.len() + 1, "{codes} codes are not {} weights", out.len());
    groups::check(out.len(), scales.len(), group, out.len());
    assert!(group.is_multiple_of(2) || group >= out.len(), "groups of {group} codes begin inside of a byte");
    let group = group.min(out.len().max(1)).next_multiple_of(2);
    widest(each, (bytes, pairs, scales, group, out));
}
