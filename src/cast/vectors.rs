//! Loops over elements, compiled for the vectors of newer processors too.
//!
//! A program runs on every processor of its target, so rustc uses only instructions that all of them have: on `x86_64`,
//! vectors of 16 bytes. Loops that are called by [`widest`] are compiled once more for vectors of 32 bytes, which take the
//! elements in half the instructions and give the same results.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a function for a processor that has its instructions")
)]

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
