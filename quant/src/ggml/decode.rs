//! Decoding in two steps: first the codes and scales of several blocks are unpacked, and then multiplied.
//!
//! The steps are apart because the second is the same for all types, and rustc makes vectors of long loops only.

use super::Block;
use crate::Float;
use crate::vectors::widest;

/// Weights of a piece: the largest block, or several.
const PIECE: usize = 256;
/// Scales of a piece: one for 16 weights.
const SCALES: usize = PIECE / 16;

/// Decodes blocks of `code * scale`. `unpack` gets a block, and writes the codes and scales of its weights.
///
/// It must be a function with `#[inline(always)]`, as in [`shifted`].
#[inline(always)]
pub(super) fn scaled<const BYTES: usize, const WEIGHTS: usize, const GROUPS: usize, F: Float>(
    block: Block,
    bytes: &[u8],
    out: &mut [F],
    unpack: impl Fn(&[u8; BYTES], &mut [i8; WEIGHTS], &mut [f32; GROUPS]),
) {
    #[inline(always)]
    fn run<const BYTES: usize, const WEIGHTS: usize, const GROUPS: usize, F: Float>(
        (blocks, out, unpack): (
            &[[u8; BYTES]],
            &mut [F],
            impl Fn(&[u8; BYTES], &mut [i8; WEIGHTS], &mut [f32; GROUPS]),
        ),
    ) {
        let (mut codes, mut scales) = ([0; PIECE], [0.0; SCALES]);
        for_each_piece(blocks, WEIGHTS, out, |blocks, out| {
            let places = codes.as_chunks_mut().0.iter_mut().zip(scales.as_chunks_mut().0);
            for (block, (codes, scales)) in blocks.iter().zip(places) {
                unpack(block, codes, scales);
            }
            for i in 0..PIECE {
                out[i] = F::nearest(f32::from(codes[i]) * scales[i / 16]);
            }
        });
    }

    widest(run, (blocks_of(block, bytes, out.len()), out, unpack));
}

/// Decodes blocks of `code * scale + shift`. `unpack` gets a block, and writes the codes, scales and shifts of its weights.
#[inline(always)]
pub(super) fn shifted<const BYTES: usize, const WEIGHTS: usize, const GROUPS: usize, F: Float>(
    block: Block,
    bytes: &[u8],
    out: &mut [F],
    unpack: impl Fn(&[u8; BYTES], &mut [i8; WEIGHTS], &mut [f32; GROUPS], &mut [f32; GROUPS]),
) {
    #[inline(always)]
    fn run<const BYTES: usize, const WEIGHTS: usize, const GROUPS: usize, F: Float>(
        (blocks, out, unpack): (
            &[[u8; BYTES]],
            &mut [F],
            impl Fn(&[u8; BYTES], &mut [i8; WEIGHTS], &mut [f32; GROUPS], &mut [f32; GROUPS]),
        ),
    ) {
        let (mut codes, mut scales, mut shifts) = ([0; PIECE], [0.0; SCALES], [0.0; SCALES]);
        for_each_piece(blocks, WEIGHTS, out, |blocks, out| {
            let scales_and_shifts = scales.as_chunks_mut().0.iter_mut().zip(shifts.as_chunks_mut().0);
            let places = codes.as_chunks_mut().0.iter_mut().zip(scales_and_shifts);
            for (block, (codes, (scales, shifts))) in blocks.iter().zip(places) {
                unpack(block, codes, scales, shifts);
            }
            for i in 0..PIECE {
                out[i] = F::nearest(f32::from(codes[i]) * scales[i / 16] + shifts[i / 16]);
            }
        });
    }

    widest(run, (blocks_of(block, bytes, out.len()), out, unpack));
}

/// Returns the blocks. Panics unless they have so many weights.
fn blocks_of<const BYTES: usize>(block: Block, bytes: &[u8], weights: usize) -> &[[u8; BYTES]] {
    let (blocks, rest) = bytes.as_chunks();
    assert!(
        rest.is_empty() && blocks.len().checked_mul(block.weights()) == Some(weights),
        "{} bytes of {} are not {weights} weights, at {} in {BYTES} bytes",
        bytes.len(),
        block.name(),
        block.weights()
    );
    blocks
}

/// Calls a function for the blocks of each piece. The last one may have fewer blocks.
#[inline(always)]
fn for_each_piece<const BYTES: usize, F: Float>(
    blocks: &[[u8; BYTES]],
    weights: usize,
    out: &mut [F],
    mut decode: impl FnMut(&[[u8; BYTES]], &mut [F; PIECE]),
) {
    let mut last = [F::default(); PIECE];
    for (blocks, out) in blocks.chunks(PIECE / weights).zip(out.chunks_mut(PIECE)) {
        let whole = if out.len() == PIECE { &mut *out } else { &mut last[..] };
        decode(blocks, whole.try_into().expect("a piece"));
        if out.len() < PIECE {
            out.copy_from_slice(&last[..out.len()]);
        }
    }
}
