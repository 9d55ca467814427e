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

/// Decodes codes of 4 bits: `map[code] * scale`. Shifted by `shifts`, the lowest bits of a byte are its first and second code.
/// `first` is the index of the first code; each `group` codes share a scale.
///
/// Returns the number of weights written: all but the last 15, or none without AVX2 or in groups that are not a power of two. A shift
/// finds the scale of 16 codes, as a loop over groups of 16 takes twice as long.
pub(crate) fn look_up(
    codes: &[u8],
    map: &[f32; 16],
    shifts: [u32; 2],
    first: usize,
    scales: &[f32],
    group: usize,
    out: &mut [f32],
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && group.is_power_of_two() && group >= 16 && first.is_multiple_of(16) {
        let (codes, out) = (codes.as_chunks().0, out.as_chunks_mut().0);
        // SAFETY: the processor has these instructions.
        unsafe { look_up_with_avx2(codes, map, shifts, first / 16, scales, group / 16, out) };
        return 16 * out.len();
    }
    let _ = (codes, map, shifts, first, scales, group, out);
    0
}

/// `first` and `group` count 16 codes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn look_up_with_avx2(
    codes: &[[u8; 8]],
    map: &[f32; 16],
    [a, b]: [u32; 2],
    first: usize,
    scales: &[f32],
    group: usize,
    out: &mut [[f32; 16]],
) {
    use std::arch::x86_64::{
        __m256, __m256i, _mm256_blendv_ps, _mm256_castsi256_ps, _mm256_mul_ps, _mm256_permutevar8x32_ps,
        _mm256_set1_epi32, _mm256_set1_ps, _mm256_slli_epi32, _mm256_srlv_epi32,
    };

    let [low, high] = bytemuck::cast::<_, [__m256; 2]>(*map);
    let shifts: __m256i = bytemuck::cast([a, b, a + 8, b + 8, a + 16, b + 16, a + 24, b + 24]);
    for (i, (codes, out)) in codes.iter().zip(out).enumerate() {
        let scale = _mm256_set1_ps(scales[(first + i) >> group.trailing_zeros()]);
        for (codes, out) in codes.as_chunks().0.iter().zip(out.as_chunks_mut::<8>().0) {
            let codes = _mm256_srlv_epi32(_mm256_set1_epi32(i32::from_le_bytes(*codes)), shifts);
            // The lowest 3 bits of a code choose a number of each half of the map, and the highest one chooses the half.
            let numbers = _mm256_blendv_ps(
                _mm256_permutevar8x32_ps(low, codes),
                _mm256_permutevar8x32_ps(high, codes),
                _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes)),
            );
            *out = bytemuck::cast(_mm256_mul_ps(numbers, scale));
        }
    }
}
