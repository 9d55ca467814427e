//! Loops over codes, compiled for the vectors of newer processors too.
//!
//! rustc uses only instructions available on all processors of a target: on `x86_64`, vectors of 16 bytes. Loops called by
//! [`widest`] are also compiled for vectors of 32 bytes, with the same results. No loop uses fused multiply-add.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a function for a processor that has its instructions")
)]

use half::f16;

use crate::Float;

/// Calls a loop, compiled for the widest vectors of this processor.
///
/// Only code inlined into `run` is compiled so. It must be a closure with `#[inline(always)]`, as must closures and functions it
/// calls. A function item does not do: `Fn::call` is between, and not always inlined. Slices are arguments, not captures, so that
/// rustc knows that they do not overlap.
#[inline]
pub(crate) fn widest<A, B, C>(run: impl Fn(A, B, C), a: A, b: B, c: C) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { with_avx2(run, a, b, c) };
    }
    run(a, b, c);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<A, B, C>(run: impl Fn(A, B, C), a: A, b: B, c: C) {
    run(a, b, c);
}

/// Rounds to the nearest numbers, ties to even. Returns `false` if this processor has no instruction for it.
pub(crate) fn narrow_f16(numbers: &[f32], out: &mut [f16]) -> bool {
    #[cfg(target_arch = "x86_64")]
    // The standard library checks only for AVX that the system saves its registers.
    if is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx") {
        // SAFETY: the processor has these instructions.
        unsafe { with_f16c(numbers, out) };
        return true;
    }
    let _ = (numbers, out);
    false
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn with_f16c(numbers: &[f32], out: &mut [f16]) {
    use std::arch::x86_64::{__m256, _MM_FROUND_TO_NEAREST_INT, _mm256_cvtps_ph};

    let (numbers, numbers_rest) = numbers.as_chunks::<8>();
    let (out, out_rest) = out.as_chunks_mut::<8>();
    for (numbers, out) in numbers.iter().zip(out) {
        let rounded = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(bytemuck::cast::<_, __m256>(*numbers));
        *out = bytemuck::cast::<_, [u16; 8]>(rounded).map(f16::from_bits);
    }
    for (&number, out) in numbers_rest.iter().zip(out_rest) {
        *out = f16::nearest(number);
    }
}
