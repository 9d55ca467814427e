//! The progress of a save or a load.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use crate::tensor::checked_io::check_written;

/// The part of a file that has been written or read.
///
/// ```
/// use tensorfile::{SaveOptions, TensorMap};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.ten");
/// let map = TensorMap::from_iter([("weight", ndarray::Array1::<f32>::zeros(1000))]);
/// let options = SaveOptions::new().progress(|progress| {
///     eprintln!("{:.0} %", 100.0 * progress.bytes as f64 / progress.total as f64);
/// });
/// options.save(&path, &map)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The bytes that have been written or read.
    pub bytes: u64,
    /// The bytes that will have been written or read in the end.
    pub total: u64,
}

/// A function that progress is reported to.
#[derive(Clone)]
pub(crate) struct Listener(Arc<dyn Fn(Progress) + Send + Sync>);

impl Listener {
    pub(crate) fn new(listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    /// Begins to count bytes.
    pub(crate) fn count(&self, total: u64) -> ProgressCount<'_> {
        ProgressCount { listener: self, progress: Progress { bytes: 0, total } }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// The bytes of a file so far.
pub(crate) struct ProgressCount<'a> {
    listener: &'a Listener,
    progress: Progress,
}

impl ProgressCount<'_> {
    /// Adds bytes and reports progress.
    pub(crate) fn add(&mut self, bytes: u64) {
        let Progress { bytes: before, total } = self.progress;
        self.progress.bytes = before.saturating_add(bytes).min(total);
        (self.listener.0)(self.progress);
    }

    /// Reports the end, unless it was reported.
    pub(crate) fn finish(mut self) {
        let left = self.progress.total - self.progress.bytes;
        if left > 0 || self.progress.total == 0 {
            self.add(left);
        }
    }
}

/// Counts the bytes that it passes on.
pub(crate) struct ProgressWriter<'a, 'b> {
    pub(crate) out: &'a mut dyn Write,
    pub(crate) count: &'a mut ProgressCount<'b>,
}

/// The most bytes between two calls of a listener.
const STEP: usize = 8 << 20;

impl Write for ProgressWriter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(STEP)];
        let written = check_written(self.out.write(piece)?, piece.len())?;
        self.count.add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
