//! Runs of codes that share a scale.

use crate::Float;
use crate::vectors::widest;

/// Panics unless `out` is as long as the codes, and each group has a value.
pub(crate) fn check(codes: usize, values: usize, group: usize, out: usize) {
    assert_eq!(codes, out, "{codes} codes are not {out} weights");
    assert_ne!(group, 0, "groups have at least one code");
    let groups = codes.div_ceil(group);
    assert!(values == groups || codes == 0, "{codes} codes in groups of {group} have {groups} scales, not {values}");
}

/// Codes decoded at once. Loops of this length are unrolled into vectors.
const LANES: usize = 32;

/// Decodes codes of one byte. `value` gets a code, and the scale of its group.
pub(crate) fn decode_bytes<F: Float>(
    codes: &[u8],
    scales: &[f32],
    group: usize,
    out: &mut [F],
    value: impl Fn(u8, f32) -> f32,
) {
    #[inline(always)]
    fn each<F: Float>((codes, scales, group, out, value): (&[u8], &[f32], usize, &mut [F], impl Fn(u8, f32) -> f32)) {
        for ((codes, out), &scale) in codes.chunks(group).zip(out.chunks_mut(group)).zip(scales) {
            decode_run(codes, out, scale, &value);
        }
    }

    check(codes.len(), scales.len(), group, out.len());
    widest(each, (codes, scales, group, out, value));
}

/// Codes unpacked at once: whole words of 1 to 8 bits, with or without unused bits.
const PIECE: usize = 960;

/// Decodes codes that share bytes. `unpack` writes the codes from an index on, which is a multiple of [`PIECE`]; `value` gets
/// a code and the parameters of its group.
pub(crate) fn decode_packed<F: Float, P: Copy>(
    out: &mut [F],
    group: usize,
    unpack: impl Fn(usize, &mut [u8]),
    parameters: impl Fn(usize) -> P,
    value: impl Fn(u8, P) -> f32,
) {
    #[inline(always)]
    fn each<F: Float, P: Copy>(
        (out, group, unpack, parameters, value): (
            &mut [F],
            usize,
            impl Fn(usize, &mut [u8]),
            impl Fn(usize) -> P,
            impl Fn(u8, P) -> f32,
        ),
    ) {
        let mut codes = [0; PIECE];
        for (piece, out) in out.chunks_mut(PIECE).enumerate() {
            let first = piece * PIECE;
            let codes = &mut codes[..out.len()];
            unpack(first, codes);
            let mut start = 0;
            while start < out.len() {
                let index = (first + start) / group;
                let end = (index + 1).saturating_mul(group).saturating_sub(first).min(out.len());
                decode_run(&codes[start..end], &mut out[start..end], parameters(index), &value);
                start = end;
            }
        }
    }

    widest(each, (out, group, unpack, parameters, value));
}

/// Decodes codes of one group.
#[inline(always)]
fn decode_run<F: Float, P: Copy>(codes: &[u8], out: &mut [F], parameters: P, value: &impl Fn(u8, P) -> f32) {
    let (codes, codes_rest) = codes.as_chunks::<LANES>();
    let (out, out_rest) = out.as_chunks_mut::<LANES>();
    for (codes, out) in codes.iter().zip(out) {
        for (&code, out) in codes.iter().zip(out) {
            *out = F::nearest(value(code, parameters));
        }
    }
    for (&code, out) in codes_rest.iter().zip(out_rest) {
        *out = F::nearest(value(code, parameters));
    }
}
