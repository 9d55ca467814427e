//! The memory and time allowed for a target.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use tensorfile::Limits;

use crate::memory::peak;

/// The memory allowed for each byte of a file. A BTF tensor takes only 8 bytes of the file if it shares its record with
/// others. In memory, its entry in the index, its name and its entry in the map take about 600 bytes.
const PER_BYTE: usize = 96;
/// The memory allowed for any call, for example to decompress.
const BASE: usize = 128 << 10;
/// The additional memory allowed for a stream: its buffer, and the first piece of a payload.
const STREAM: usize = (256 << 10) + (1 << 20);
/// The time allowed for an input. Even a slow machine that runs other tests at the same time needs less.
const TIME: Duration = Duration::from_secs(20);
/// The number of times a call is looked at within the allowed time.
const LOOKS: u32 = 20;

/// Returns the limits for reading a file of `len` bytes. The default is more than any input should get.
pub fn limits(len: usize) -> Limits {
    Limits::new().shared(shared(len) as u64)
}

/// Returns the number of bytes by which tensors may exceed the file.
fn shared(len: usize) -> usize {
    (8 << 10) + 32 * len
}

/// Calls a function that reads `len` bytes, and checks that its memory is in proportion.
#[track_caller]
pub fn bounded<T>(what: &str, len: usize, call: impl FnOnce() -> T) -> T {
    within(what, len, BASE, call)
}

/// As [`bounded`], for a function that writes `output` bytes. It may hold them twice.
#[track_caller]
pub fn bounded_output<T>(what: &str, len: usize, output: usize, call: impl FnOnce() -> T) -> T {
    within(what, len, BASE + 2 * output, call)
}

/// As [`bounded`], for a function that reads a stream.
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

/// A running call.
struct Running(u64);

/// The running calls, and how often each was looked at. We count looks instead of reading a clock, because a clock
/// would include the time for which the whole process or machine was suspended.
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
