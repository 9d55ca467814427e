//! Codes of 4 bits, two to a byte. A table has both numbers of each byte.

use crate::float::PIECE;
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

/// Decodes bytes: each number times the scale of its group. The last byte may have one code.
pub(crate) fn decode<F: Float>(bytes: &[u8], pairs: &Pairs, scales: &[f32], group: usize, out: &mut [F]) {
    let codes = 2 * bytes.len();
    assert!(codes == out.len() || codes == out.len() + 1, "{codes} codes are not {} weights", out.len());
    groups::check(out.len(), group, scales.len());
    F::collect(out, &mut [0.0; PIECE], &mut |first, out| {
        look_up(&bytes[first / 2..][..out.len().div_ceil(2)], pairs, out);
        multiply(first, scales, group, out);
    });
}

/// Writes the numbers of codes.
fn look_up(bytes: &[u8], pairs: &Pairs, out: &mut [f32]) {
    widest(
        #[inline(always)]
        |bytes: &[u8], pairs: &Pairs, out: &mut [f32]| {
            let (out, last) = out.as_chunks_mut();
            for (&byte, out) in bytes.iter().zip(&mut *out) {
                *out = pairs[usize::from(byte)];
            }
            if let (Some(&byte), [out]) = (bytes.last(), last) {
                *out = pairs[usize::from(byte)][0];
            }
        },
        bytes,
        pairs,
        out,
    );
}

/// Multiplies numbers by the scales of their groups. `first` is the index of the first number.
fn multiply(first: usize, scales: &[f32], group: usize, numbers: &mut [f32]) {
    /// Numbers of the smallest group in use. Loops of known length are faster.
    const LANES: usize = 16;
    widest(
        #[inline(always)]
        |scales: &[f32], numbers: &mut [f32], ()| {
            groups::for_each(first, numbers.len(), group, |index, run| {
                let scale = scales[index];
                let (lanes, rest) = numbers[run].as_chunks_mut::<LANES>();
                for lanes in lanes {
                    lanes.iter_mut().for_each(|number| *number *= scale);
                }
                rest.iter_mut().for_each(|number| *number *= scale);
            });
        },
        scales,
        numbers,
        (),
    );
}
