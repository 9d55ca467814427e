//! Groups of codes that share a scale.

use std::ops::Range;

use crate::Float;
use crate::float::PIECE;
use crate::vectors::widest;

/// Panics unless each group of codes has a value.
pub(crate) fn check(codes: usize, group: usize, values: usize) {
    assert!(group != 0, "groups have at least one code");
    let groups = codes.div_ceil(group);
    assert!(values == groups || codes == 0, "{codes} codes in groups of {group} have {groups} scales, not {values}");
}

/// Decodes codes that do not share bytes. `value` decodes a code with the scale of its group. It must be a closure with
/// `#[inline(always)]`.
#[inline(always)]
pub(crate) fn decode_each<T: Copy, F: Float>(
    codes: &[T],
    scales: &[f32],
    group: usize,
    out: &mut [F],
    value: impl Fn(T, f32) -> f32,
) {
    assert!(codes.len() == out.len(), "{} codes are not {} weights", codes.len(), out.len());
    check(codes.len(), group, scales.len());
    F::collect(out, &mut [0.0; PIECE], &mut |first, out| {
        widest(
            #[inline(always)]
            |codes: &[T], scales: &[f32], out: &mut [f32]| {
                for_each(first, out.len(), group, |index, run| {
                    let scale = scales[index];
                    for (&code, out) in codes[run.clone()].iter().zip(&mut out[run]) {
                        *out = value(code, scale);
                    }
                });
            },
            &codes[first..][..out.len()],
            scales,
            out,
        );
    });
}

/// Calls a closure for each group of a run of codes, with the index of the group and the range of its codes in the run. `first` is
/// the index of the first code of the run.
#[inline(always)]
pub(crate) fn for_each(first: usize, codes: usize, group: usize, mut run: impl FnMut(usize, Range<usize>)) {
    let mut index = first / group;
    // The first group may have begun before.
    let (mut start, mut end) = (0, group - first % group);
    while start < codes {
        run(index, start..end.min(codes));
        (start, end, index) = (end, end.saturating_add(group), index + 1);
    }
}
