//! How many threads copy, read, cast and hash large tensors.
//!
//! The first access to memory costs several times as much as the copy into it, because the system clears each page.
//! Several threads do this at once.
#![expect(unsafe_code, reason = "zeroing memory before it is copied into would touch it twice")]

mod pipeline;

use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use bytemuck::Pod;

pub(crate) use pipeline::in_order;

/// The fewest bytes worth another thread. Miri takes long for this many.
const WORTH_A_THREAD: usize = if cfg!(miri) { 4 << 10 } else { 1 << 20 };

/// The default maximum number of threads. More do not make memory faster.
const DEFAULT_MOST: usize = 8;

/// The maximum number of threads, or 0 if not known yet.
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Whether one thread was asked for. Threads that wait for a server pay on one processor too.
static IS_ONE: AtomicBool = AtomicBool::new(false);

/// Sets the maximum number of threads for copying, reading, casting, hashing and counting large tensors, in the whole
/// process. With 1, no thread is started.
///
/// The default is the environment variable `TENSORFILE_THREADS`, if it is a number above 0, or else the number of
/// processors, up to 8. The results are the same with any number.
///
/// ```
/// tensorfile::threads::set_max_threads(1);
/// assert_eq!(tensorfile::threads::max_threads(), 1);
/// ```
///
/// # Panics
///
/// If `threads` is 0.
pub fn set_max_threads(threads: usize) {
    assert!(threads > 0, "at least one thread is needed");
    MOST.store(threads, Ordering::Relaxed);
    IS_ONE.store(threads == 1, Ordering::Relaxed);
}

/// Returns the maximum number of threads for large tensors; see [`set_max_threads`].
#[must_use]
pub fn max_threads() -> usize {
    match MOST.load(Ordering::Relaxed) {
        0 => {
            let most = default_most();
            MOST.store(most, Ordering::Relaxed);
            most
        }
        most => most,
    }
}

fn default_most() -> usize {
    let set = std::env::var("TENSORFILE_THREADS").ok().and_then(|threads| threads.parse().ok());
    IS_ONE.store(set == Some(1), Ordering::Relaxed);
    let processors = || thread::available_parallelism().map_or(1, |found| found.get().min(DEFAULT_MOST));
    set.filter(|threads| *threads > 0).unwrap_or_else(processors)
}

/// Appends bytes.
#[inline]
pub(crate) fn extend(to: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        0..WORTH_A_THREAD => to.extend_from_slice(bytes),
        _ => append(to, bytes),
    }
}

/// Appends numbers, given by their bytes in memory. There must be a whole number of them.
pub(crate) fn append<B: Pod>(numbers: &mut Vec<B>, bytes: &[u8]) {
    let more = bytes.len() / size_of::<B>();
    assert_eq!(more * size_of::<B>(), bytes.len(), "a whole number of elements");
    numbers.reserve(more);
    let room = numbers.spare_capacity_mut()[..more].as_mut_ptr();
    // SAFETY: this is all memory of `more` elements, and any byte of it may be uninitialized.
    let room = unsafe { std::slice::from_raw_parts_mut(room.cast::<MaybeUninit<u8>>(), bytes.len()) };
    match part_len(bytes.len()) {
        len if len >= bytes.len() => copy(room, bytes),
        len => {
            let parts = room.chunks_mut(len).zip(bytes.chunks(len));
            for_each(parts.len(), parts, &|(room, bytes)| copy(room, bytes));
        }
    }
    // SAFETY: all bytes of the elements were copied, and any bytes are a `Pod`.
    unsafe { numbers.set_len(numbers.len() + more) };
}

fn copy(room: &mut [MaybeUninit<u8>], bytes: &[u8]) {
    assert_eq!(room.len(), bytes.len());
    // SAFETY: both have this length, and one of them is borrowed exclusively.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), room.as_mut_ptr().cast(), bytes.len()) };
}

/// A function that fills a part of some bytes, given its offset.
type FillPart<'r, E> = &'r (dyn Fn(usize, &mut [u8]) -> Result<(), E> + Sync);

/// Fills `bytes`. Returns the error of the first failed part.
pub(crate) fn fill<E: Send>(bytes: &mut [u8], read: FillPart<'_, E>) -> Result<(), E> {
    let len = part_len(bytes.len());
    if len >= bytes.len() {
        return read(0, bytes);
    }
    let failed = Mutex::new(None::<(usize, E)>);
    let parts = bytes.chunks_mut(len).enumerate();
    for_each(parts.len(), parts, &|(number, part)| {
        if let Err(error) = read(number * len, part) {
            let mut failed = failed.lock().expect("no thread panics with the lock");
            if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                *failed = Some((number, error));
            }
        }
    });
    let failed = failed.into_inner().expect("no thread panics with the lock");
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

/// Calls `work` with each number below `count`, in up to so many threads, which mostly wait. Returns the error of the
/// first one that failed, after which no new ones are begun.
pub(crate) fn at_once<E: Send>(
    count: usize,
    threads: usize,
    work: &(dyn Fn(usize) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<(usize, E)>));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            if let Err(error) = work(number) {
                next.store(count, Ordering::Relaxed);
                let mut failed = failed.lock().expect("no thread panics with the lock");
                if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                    *failed = Some((number, error));
                }
            }
        }
    };
    // The environment is read with it.
    let _ = max_threads();
    let threads = if IS_ONE.load(Ordering::Relaxed) { 1 } else { threads };
    thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            // Without other threads, this one does all the work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let failed = failed.into_inner().expect("no thread panics with the lock");
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

/// Returns the length of the parts to split `bytes` bytes into: all of them, if a second thread is not worth it.
fn part_len(bytes: usize) -> usize {
    /// The alignment of parts, so that two threads rarely touch one page.
    const PAGE: usize = 4096;
    match threads_for(bytes) {
        1 => bytes,
        threads => bytes.div_ceil(threads).next_multiple_of(PAGE),
    }
}

/// Returns the number of threads worth starting for `bytes` bytes, at least 1.
pub(crate) fn threads_for(bytes: usize) -> usize {
    match bytes / WORTH_A_THREAD {
        0 | 1 => 1,
        worth => max_threads().min(worth),
    }
}

/// Calls `work` with each of several parts, in up to `threads` threads, which begin them in order.
pub(crate) fn for_each<I: Iterator + Send>(threads: usize, parts: I, work: &(dyn Fn(I::Item) + Sync)) {
    let parts = Mutex::new(parts);
    let work = || {
        // A guard in the condition of a loop would be held in its body.
        let next = || parts.lock().expect("no thread panics with the lock").next();
        while let Some(part) = next() {
            work(part);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Without other threads, this one does all the work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 5 * WORTH_A_THREAD;
    const LENGTHS: [usize; 7] = [0, 8, 4096, WORTH_A_THREAD, 2 * WORTH_A_THREAD, 3 * WORTH_A_THREAD + 8, MOST];

    #[test]
    fn appends_every_byte_once() {
        let bytes: Vec<u8> = (0..=250).cycle().take(MOST).collect();
        for len in LENGTHS {
            let mut numbers = vec![7_u64];
            append(&mut numbers, &bytes[..len]);
            assert_eq!(bytemuck::cast_slice::<_, u8>(&numbers[1..]), &bytes[..len]);
            assert_eq!(numbers[0], 7);
            // The same from an unaligned address.
            let mut numbers = Vec::<u64>::new();
            append(&mut numbers, &bytes[bytes.len() - len..]);
            assert_eq!(bytemuck::cast_slice::<_, u8>(&numbers), &bytes[bytes.len() - len..]);
        }
    }

    #[test]
    fn the_first_error_ends_the_work() {
        for threads in [1, 4] {
            let calls = AtomicUsize::new(0);
            let work = |number: usize| {
                calls.fetch_add(1, Ordering::Relaxed);
                if number == 5 { Err(number) } else { Ok(()) }
            };
            assert_eq!((at_once(5, threads, &work), calls.swap(0, Ordering::Relaxed)), (Ok(()), 5));
            assert_eq!(at_once(10_000_000, threads, &work), Err(5));
            assert!(calls.into_inner() < 10_000_000);
        }
    }

    #[test]
    fn fills_every_part_or_returns_an_error() {
        for len in LENGTHS {
            let mut bytes = vec![0_u8; len];
            let from: Vec<u8> = (0..=250).cycle().take(len).collect();
            let copy = |offset: usize, part: &mut [u8]| {
                part.copy_from_slice(&from[offset..offset + part.len()]);
                Ok::<(), usize>(())
            };
            fill(&mut bytes, &copy).unwrap();
            assert_eq!(bytes, from);
            let fail = |offset: usize, part: &mut [u8]| if offset + part.len() == len { Err(offset) } else { Ok(()) };
            assert!(fill(&mut bytes, &fail).is_err(), "{len}");
        }
    }
}
