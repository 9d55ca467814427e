//! Decodes blocks in two steps: the codes and scales of some blocks are unpacked, and then multiplied.
//!
//! The steps are separate functions. In one loop, rustc keeps codes in registers and vectorizes neither step. Points of floats are
//! looked up and multiplied in one step: they need no unpacking.

use crate::float::PIECE;
use crate::vectors::widest;

/// Weights with the same scale, in all types.
const GROUP: usize = 16;

type Codes = [i8; PIECE];
type Scales = [f32; PIECE / GROUP];

/// Decodes blocks of `code * scale`. `unpack` writes the codes and scales of a block.
///
/// It must be a closure with `#[inline(always)]`, as in [`shifted`].
#[inline(always)]
pub(super) fn scaled<const BYTES: usize, const WEIGHTS: usize, const GROUPS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    unpack: impl Fn(&[u8; BYTES], &mut [i8; WEIGHTS], &mut [f32; GROUPS]),
) {
    let (mut codes, mut scales) = ([0; PIECE], [0.0; PIECE / GROUP]);
    for (blocks, out) in bytes.as_chunks().0.chunks(PIECE / WEIGHTS).zip(out.chunks_mut(PIECE)) {
        widest(
            #[inline(always)]
            |blocks: &[[u8; BYTES]], codes: &mut Codes, scales: &mut Scales| {
                let places = codes.as_chunks_mut().0.iter_mut().zip(scales.as_chunks_mut().0);
                for (block, (codes, scales)) in blocks.iter().zip(places) {
                    unpack(block, codes, scales);
                }
            },
            blocks,
            &mut codes,
            &mut scales,
        );
        multiply(&codes, &scales, out);
    }
}

fn multiply(codes: &Codes, scales: &Scales, out: &mut [f32]) {
    widest(
        #[inline(always)]
        |codes: &Codes, scales: &Scales, out: &mut [f32]| {
            let groups = codes.as_chunks::<GROUP>().0.iter().zip(scales);
            for (out, (codes, &scale)) in out.as_chunks_mut::<GROUP>().0.iter_mut().zip(groups) {
                for (out, &code) in out.iter_mut().zip(codes) {
                    *out = f32::from(code) * scale;
                }
            }
        },
        codes,
        scales,
        out,
    );
}

/// Decodes blocks of `code * scale + shift`. `unpack` writes the codes, scales and shifts of a
/// block.
#[inline(always)]
pub(super) fn shifted<const BYTES: usize, const WEIGHTS: usize, const GROUPS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    unpack: impl Fn(&[u8; BYTES], &mut [i8; WEIGHTS], &mut [f32; GROUPS], &mut [f32; GROUPS]),
) {
    let (mut codes, mut scales) = ([0; PIECE], [[0.0; PIECE / GROUP]; 2]);
    for (blocks, out) in bytes.as_chunks().0.chunks(PIECE / WEIGHTS).zip(out.chunks_mut(PIECE)) {
        widest(
            #[inline(always)]
            |blocks: &[[u8; BYTES]], codes: &mut Codes, [scales, shifts]: &mut [Scales; 2]| {
                let places = scales.as_chunks_mut().0.iter_mut().zip(shifts.as_chunks_mut().0);
                for ((block, codes), (scales, shifts)) in blocks.iter().zip(codes.as_chunks_mut().0).zip(places) {
                    unpack(block, codes, scales, shifts);
                }
            },
            blocks,
            &mut codes,
            &mut scales,
        );
        multiply_and_add(&codes, &scales, out);
    }
}

fn multiply_and_add(codes: &Codes, scales: &[Scales; 2], out: &mut [f32]) {
    widest(
        #[inline(always)]
        |codes: &Codes, [scales, shifts]: &[Scales; 2], out: &mut [f32]| {
            let groups = codes.as_chunks::<GROUP>().0.iter().zip(scales.iter().zip(shifts));
            for (out, (codes, (&scale, &shift))) in out.as_chunks_mut::<GROUP>().0.iter_mut().zip(groups) {
                for (out, &code) in out.iter_mut().zip(codes) {
                    *out = f32::from(code) * scale + shift;
                }
            }
        },
        codes,
        scales,
        out,
    );
}

/// Decodes blocks in one step. `decode` writes the weights of a block.
#[inline(always)]
pub(super) fn points<const BYTES: usize, const WEIGHTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; WEIGHTS]),
) {
    widest(
        #[inline(always)]
        |blocks: &[[u8; BYTES]], out: &mut [[f32; WEIGHTS]], ()| {
            for (block, out) in blocks.iter().zip(out) {
                decode(block, out);
            }
        },
        bytes.as_chunks().0,
        out.as_chunks_mut().0,
        (),
    );
}
