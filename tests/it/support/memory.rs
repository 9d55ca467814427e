//! Measures the memory of a call: the allocator of this test binary counts.

#![expect(unsafe_code, reason = "allocations can only be counted by an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count of the bytes held by each thread. Each test runs on its own thread.
struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: isize) {
    // A thread that ends has no counters any more.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator as it is; counting touches nothing but two numbers of the
// thread, which need no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let pointer = unsafe { System.alloc(layout) };
        // An allocation of any size may fail.
        if !pointer.is_null() {
            count(layout.size().cast_signed());
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        if !pointer.is_null() {
            count(layout.size().cast_signed());
        }
        pointer
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        if !moved.is_null() {
            // Both blocks are counted, as memory that cannot grow in place is copied.
            count(size.cast_signed());
            count(-layout.size().cast_signed());
        }
        moved
    }
}

/// Returns the result of a call, and its peak memory in bytes.
pub fn peak<T>(call: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    PEAK.set(before);
    let result = call();
    (result, (PEAK.get() - before).cast_unsigned())
}

/// Returns the result of a call, and the memory in bytes that is held after it.
pub fn kept<T>(call: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    let result = call();
    (result, (NOW.get() - before).cast_unsigned())
}

#[test]
fn memory_is_counted() {
    let (kept, bytes) = peak(|| {
        drop(vec![1_u8; 3000]);
        vec![2_u8; 1000]
    });
    assert_eq!(bytes, 3000);
    drop(kept);
    let (_held, bytes) = self::kept(|| {
        drop(vec![1_u8; 3000]);
        vec![2_u8; 1000]
    });
    assert_eq!(bytes, 1000);
}
