//! How much memory reading takes: an allocator that counts.

#![expect(unsafe_code, reason = "an allocator can be counted by an allocator only")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tensorfile::WriteOptions;

/// The system's allocator, which counts what each thread holds.
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
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// The most bytes that `work` held at once, beyond what the thread held before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before).cast_unsigned())
}

#[test]
fn memory_is_counted() {
    let (kept, bytes) = peak(|| {
        drop(vec![1_u8; 3000]);
        vec![2_u8; 1000]
    });
    assert_eq!(bytes, 3000);
    drop(kept);
}

#[test]
fn a_file_in_memory_is_written_and_read_with_one_copy() {
    for format in tensorfile::FORMATS {
        let map: tensorfile::TensorMap = [("0", super::tensor(format.dtypes[0], &[1 << 20]))].into_iter().collect();
        let bytes = map["0"].as_bytes().len();
        let (file, used) = peak(|| format.to_vec(&map, &WriteOptions::new()).unwrap());
        assert!(used < bytes + 4096, "{}: writing took {used} bytes for {bytes}", format.name);
        let (read, used) = peak(|| format.from_slice(&file).unwrap());
        assert!(used < bytes + 4096, "{}: reading took {used} bytes for {bytes}", format.name);
        assert!(read == map);
    }
}

#[test]
fn a_stream_is_written_without_a_copy_and_read_with_no_more_than_two() {
    const BUFFERS: usize = 3 << 20;
    for format in tensorfile::FORMATS {
        let tensor = |_| super::tensor(format.dtypes[0], &[1_100_000]);
        let map: tensorfile::TensorMap =
            (0..format.max_tensors.unwrap_or(16)).map(|at| (at.to_string(), tensor(at))).collect();
        let bytes: usize = map.iter().map(|(_, tensor)| tensor.as_bytes().len()).sum();
        let ((), used) = peak(|| format.to_writer(std::io::sink(), &map, &WriteOptions::new()).unwrap());
        assert!(used < BUFFERS, "{}: writing took {used} bytes", format.name);
        let file = format.to_vec(&map, &WriteOptions::new()).unwrap();
        let (read, used) = peak(|| format.from_reader(&file[..]).unwrap());
        // Where the index comes last, or the names do, all is held until then; but no more than that, and not after it
        // was taken.
        assert!(used < bytes * 9 / 4 + BUFFERS, "{}: reading took {used} bytes for {bytes}", format.name);
        assert!(read == map);
    }
}
