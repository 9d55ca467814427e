//! Counts what this process asked of servers.

use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of this process to servers, and the bytes of their answers.
///
/// Redirects and repeated requests count. Bytes are counted as bodies are read, without headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// The number of requests.
    pub requests: u64,
    /// The number of bytes.
    pub bytes: u64,
}

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Returns the traffic with servers so far.
///
/// ```
/// // Nothing was opened by its URL yet.
/// assert_eq!(tensorfile::file::traffic().requests, 0);
/// ```
#[must_use]
pub fn traffic() -> Traffic {
    Traffic { requests: REQUESTS.load(Ordering::Relaxed), bytes: BYTES.load(Ordering::Relaxed) }
}

pub(super) fn add_request() {
    REQUESTS.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn add_bytes(bytes: usize) {
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}
