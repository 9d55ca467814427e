//! Loops over elements, compiled for the vectors of newer processors too.
//!
//! A program runs on every processor of its target, so rustc uses only instructions that all of them have: on `x86_64`,
//! vectors of 16 bytes. Loops that are called by [`widest`] are compiled once more for vectors of 32 bytes, which take the
//! elements in half the instructions and give the same results.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a function for a processor that has its instructions")
)]

use half::f16;
use half::slice::HalfFloatSliceExt;

/// Calls a loop, compiled for the widest vectors of this processor.
///
/// Only what is inlined into `run` is compiled so: it must be a function with `#[inline(always)]`.
#[inline]
pub(super) fn widest<T, R>(run: impl Fn(T) -> R, over: T) -> R {
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
    #[inline(always)]
    fn each<A: Copy, B>((from, to, convert): (&[A], &mut [B], impl Fn(A) -> B)) {
        for (from, to) in from.iter().zip(to) {
            *to = convert(*from);
        }
    }

    widest(each, (from, to, convert));
}

/// Converts to `f32`, exactly. The slices have the same length.
///
/// As `half` does it, but that calls a function for every eight elements.
pub(super) fn widen_f16(from: &[f16], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("f16c") {
        // SAFETY: the processor has these instructions.
        return unsafe { f16c::widen(from, to) };
    }
    from.convert_to_f32_slice(to);
}

/// Converts to the nearest number, ties to even. The slices have the same length.
pub(super) fn narrow_f16(from: &[f32], to: &mut [f16]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("f16c") {
        // SAFETY: the processor has these instructions.
        return unsafe { f16c::narrow(from, to) };
    }
    to.convert_from_f32_slice(from);
}

#[cfg(target_arch = "x86_64")]
mod f16c {
    use std::arch::x86_64::{__m128i, __m256, _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph};

    use bytemuck::cast;
    use half::f16;
    use half::slice::HalfFloatSliceExt;

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
}
