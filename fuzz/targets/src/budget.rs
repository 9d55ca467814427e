//! The memory and the time that a target may take.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use tensorfile::Limits;

use crate::memory::peak;

/// Memory that each byte of a file may take. A tensor of BTF takes 8 bytes if it shares its record with others. In
/// memory, it has an entry in the index, a name, and an entry in the map that is read: about 600 bytes.
const PER_BYTE: usize = 96;
/// Memory that any call may take, such as for decompressing.
const BASE: usize = 128 << 10;
/// Memory that a stream may take besides: its buffer, and the first piece of a payload.
const STREAM: usize = (256 << 10) + (1 << 20);
/// The time that an input may take. Slow machines that run other tests at the same time need less.
const TIME: Duration = Duration::from_secs(20);
/// The calls are looked at this often within the time.
const LOOKS: u32 = 20;

/// Returns the limits for reading a file of `len` bytes. The default is more than any input should get.
pub fn limits(len: usize) -> Limits {
    Limits::new().shared(shared(len) as u64)
}

/// Returns the bytes by which tensors may be larger than the file.
fn shared(len: usize) -> usize {
    (8 << 10) + 32 * len
}

/// Calls a function, and checks that it takes memory in proportion to the `len` bytes that it reads.
#[track_caller]
pub fn bounded<T>(what: &str, len: usize, call: impl FnOnce() -> T) -> T {
    within(what, len, BASE, call)
}

/// As [`bounded`], of a function that writes `output` bytes, which are held twice at most.
#[track_caller]
pub fn bounded_output<T>(what: &str, len: usize, output: usize, call: impl FnOnce() -> T) -> T {
    within(what, len, BASE + 2 * output, call)
}

/// As [`bounded`], of a function that reads a stream.
#[track_caller]
pub fn bounded_stream<T>(what: &str, len: usize, call: impl FnOnce() -> T) -> T {
    within(what, len, BASE + STREAM, call)
}

#[track_caller]
fn within<T>(what: &str, len: usize, base: usize, call: impl FnOnce() -> T) -> T {
    let (result, used) = peak(call);
    let most = base + PER_BYTE * len + 2 * shared(len);
    assert!(used <= most, "{what}: {len} bytes took {used} bytes of memory; the most is {most}");
    result
}

/// Calls a function, and ends the process if it takes too long.
pub fn in_time(what: &'static str, call: impl FnOnce()) {
    let call_now = Running::start(what);
    call();
    drop(call_now);
}

/// A call that has not ended.
struct Running(u64);

/// The calls that have not ended, with how often each was looked at. Counting looks instead of reading a clock leaves
/// out the time for which the whole process stood still, such as on a machine that was suspended.
static CALLS: LazyLock<Mutex<HashMap<u64, (&'static str, u32)>>> = LazyLock::new(|| {
    thread::spawn(watch);
    Mutex::default()
});

impl Running {
    fn start(what: &'static str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let own = NEXT.fetch_add(1, Ordering::Relaxed);
        CALLS.lock().unwrap().insert(own, (what, 0));
        Self(own)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        CALLS.lock().unwrap().remove(&self.0);
    }
}

fn watch() {
    loop {
        thread::sleep(TIME / LOOKS);
        for (what, looks) in CALLS.lock().unwrap().values_mut() {
            *looks += 1;
            if *looks > LOOKS {
                eprintln!("{what}: an input takes longer than {TIME:?}");
                // libFuzzer keeps the input of a process that aborts.
                std::process::abort();
            }
        }
    }
}
