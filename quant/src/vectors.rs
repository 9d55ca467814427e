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
/// Only code inlined into `run` is compiled so: it must be a function with `#[inline(always)]`.
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
