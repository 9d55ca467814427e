//! Loops over codes, compiled for the vectors of newer processors too.
//!
//! rustc uses only instructions available on all processors of a target: on `x86_64`, vectors of 16 bytes. Loops called by
//! [`widest`] are also compiled for vectors of 32 bytes, with the same results. No loop uses fused multiply-add.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a function for a processor that has its instructions")
)]

/// Calls a loop, compiled for the widest vectors of this processor.
///
/// Only code inlined into `run` is compiled so: it must be a closure with `#[inline(always)]`, and so must all that it calls. A
/// function would be called by way of `Fn::call`, which is not always inlined. References are arguments and not captured,
/// so that rustc knows that they do not overlap.
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
