//! Loops over elements, compiled for the vectors of newer processors too.
//!
//! A program runs on every processor of its target, so rustc uses only instructions available on all of them: on
//! `x86_64`, vectors of 16 bytes. Loops called by [`widest`] are also compiled for vectors of 32 bytes, with half the
//! instructions per element and the same results.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a function for a processor that has its instructions")
)]

use half::f16;
use half::slice::HalfFloatSliceExt;
use num_traits::Float;

use super::changes::RoundingCounts;

/// Calls a loop, compiled for the widest vectors of this processor.
///
/// Only what is inlined into `run` is compiled so: it must be a function with `#[inline(always)]`.
#[inline]
pub(crate) fn widest<T, R>(run: impl Fn(T) -> R, over: T) -> R {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { with_avx2(run, over) };
    }
    run(over)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<T, R>(run: impl Fn(T) -> R, over: T) -> R {
    run(over)
}

/// Makes an element from each of another slice of the same length.
pub(super) fn map<A: Copy, B>(from: &[A], to: &mut [B], convert: impl Fn(A) -> B) {
    // Inlined into `widest`, as all three loops here: a function that stays a call has the instructions of the lowest
    // processor.
    #[inline(always)]
    fn each<A: Copy, B>((from, to, convert): (&[A], &mut [B], impl Fn(A) -> B)) {
        for (from, to) in from.iter().zip(to) {
            *to = convert(*from);
        }
    }

    widest(each, (from, to, convert));
}

/// Rounds numbers, and counts changed ones; `back` is exact. The slices have the same length.
pub(super) fn round_and_count<A: Copy, F: Float>(
    from: &[F],
    to: &mut [A],
    round: impl Fn(F) -> A,
    back: impl Fn(A) -> F,
) -> RoundingCounts {
    #[inline(always)]
    fn each<A: Copy, F: Float>(
        (from, to, round, back): (&[F], &mut [A], impl Fn(F) -> A, impl Fn(A) -> F),
    ) -> RoundingCounts {
        let mut counts = RoundingCounts::default();
        for (&from, to) in from.iter().zip(to) {
            *to = round(from);
            counts.add(from, back(*to));
        }
        counts
    }

    widest(each, (from, to, round, back))
}

/// Counts the numbers that differ between two slices of the same length.
pub(super) fn count_changes<F: Float>(from: &[F], to: &[F]) -> RoundingCounts {
    #[inline(always)]
    fn each<F: Float>((from, to): (&[F], &[F])) -> RoundingCounts {
        let mut counts = RoundingCounts::default();
        from.iter().zip(to).for_each(|(&from, &to)| counts.add(from, to));
        counts
    }

    widest(each, (from, to))
}

/// Converts to `f32`, exactly. The slices have the same length.
///
/// As in `half`, which calls a function for every eight elements.
pub(super) fn widen_f16(from: &[f16], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_f16c() {
        // SAFETY: the processor has these instructions, and the system saves their registers.
        return unsafe { f16c::widen(from, to) };
    }
    if cfg!(target_arch = "x86_64") {
        // Not by `half`'s own check, which looks for F16C but not for AVX.
        return from.iter().zip(to).for_each(|(from, to)| *to = from.to_f32_const());
    }
    from.convert_to_f32_slice(to);
}

/// Converts to the nearest number, ties to even. The slices have the same length.
pub(super) fn narrow_f16(from: &[f32], to: &mut [f16]) {
    #[cfg(target_arch = "x86_64")]
    if has_f16c() {
        // SAFETY: the processor has these instructions, and the system saves their registers.
        return unsafe { f16c::narrow(from, to) };
    }
    if cfg!(target_arch = "x86_64") {
        // Not by `half`'s own check, which looks for F16C but not for AVX.
        return from.iter().zip(to).for_each(|(from, to)| *to = f16::from_f32_const(*from));
    }
    to.convert_from_f32_slice(from);
}

/// As [`narrow_f16`], and counts changed numbers, for up to a chunk. `None` if this processor lacks the instructions.
pub(super) fn narrow_and_count_f16(from: &[f32], to: &mut [f16]) -> Option<RoundingCounts> {
    #[cfg(target_arch = "x86_64")]
    if has_f16c() && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions, and the system saves their registers.
        return Some(unsafe { f16c::narrow_and_count(from, to) });
    }
    None
}

/// Returns whether the instructions for f16 work: the processor has them, and the system saves the AVX registers. The
/// standard library only checks the processor.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_f16c() -> bool {
    is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx")
}

#[cfg(target_arch = "x86_64")]
mod f16c {
    use std::arch::x86_64::{
        __m128i, __m256, __m256i, _CMP_EQ_OQ, _CMP_LT_OQ, _CMP_NEQ_UQ, _MM_FROUND_TO_NEAREST_INT, _mm256_and_ps,
        _mm256_andnot_ps, _mm256_cmp_ps, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_set1_ps, _mm256_sub_epi32,
    };

    use bytemuck::{Zeroable, cast};
    use half::f16;
    use half::slice::HalfFloatSliceExt;

    use super::RoundingCounts;

    const LANES: usize = 8;

    #[target_feature(enable = "f16c")]
    pub(super) fn widen(from: &[f16], to: &mut [f32]) {
        let (from, from_rest) = from.as_chunks::<LANES>();
        let (to, to_rest) = to.as_chunks_mut::<LANES>();
        for (from, to) in from.iter().zip(to) {
            *to = cast::<__m256, _>(_mm256_cvtph_ps(cast::<_, __m128i>(*from)));
        }
        from_rest.convert_to_f32_slice(to_rest);
    }

    #[target_feature(enable = "f16c")]
    pub(super) fn narrow(from: &[f32], to: &mut [f16]) {
        let (from, from_rest) = from.as_chunks::<LANES>();
        let (to, to_rest) = to.as_chunks_mut::<LANES>();
        for (from, to) in from.iter().zip(to) {
            *to = cast::<__m128i, _>(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast::<_, __m256>(*from)));
        }
        to_rest.convert_from_f32_slice(from_rest);
    }

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn narrow_and_count(from: &[f32], to: &mut [f16]) -> RoundingCounts {
        let (from, from_rest) = from.as_chunks::<LANES>();
        let (to, to_rest) = to.as_chunks_mut::<LANES>();
        let [minus_zero, zero, infinity] = [-0.0, 0.0, f32::INFINITY].map(|number| _mm256_set1_ps(number));
        let [mut changed, mut not_finite, mut zeros] = [__m256i::zeroed(); 3];
        for (from, to) in from.iter().zip(to) {
            let from = cast::<_, __m256>(*from);
            let narrow = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(from);
            *to = cast::<__m128i, _>(narrow);
            let back = _mm256_cvtph_ps(narrow);
            // The same as `RoundingCounts::add`. A comparison that holds is -1.
            let is_changed = _mm256_cmp_ps::<_CMP_NEQ_UQ>(from, back);
            let is_finite = _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_andnot_ps(minus_zero, back), infinity);
            let is_zero = _mm256_cmp_ps::<_CMP_EQ_OQ>(back, zero);
            changed = _mm256_sub_epi32(changed, cast(is_changed));
            not_finite = _mm256_sub_epi32(not_finite, cast(_mm256_andnot_ps(is_finite, is_changed)));
            zeros = _mm256_sub_epi32(zeros, cast(_mm256_and_ps(is_zero, is_changed)));
        }
        let [changed, not_finite, zero] =
            [changed, not_finite, zeros].map(|lanes| cast::<_, [u32; LANES]>(lanes).iter().sum());
        let mut counts = RoundingCounts { changed, not_finite, zero };
        for (from, to) in from_rest.iter().zip(to_rest) {
            *to = f16::from_f32(*from);
            counts.add(*from, to.to_f32());
        }
        counts
    }
}
