//! The progress of a save or a load.

use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::{ErrorKind, Result};
use crate::tensor::checked_io::check_written;

/// The progress of writing or reading a file.
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
    /// The number of bytes written or read.
    pub bytes: u64,
    /// The number of bytes to write or read in total.
    pub total: u64,
}

/// The result of a progress callback: nothing, or whether to continue.
pub trait ProgressAnswer {
    /// Returns whether to go on.
    fn answer(self) -> ControlFlow<()>;
}

impl ProgressAnswer for () {
    fn answer(self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl ProgressAnswer for ControlFlow<()> {
    fn answer(self) -> ControlFlow<()> {
        self
    }
}

/// A progress callback.
#[derive(Clone)]
pub(crate) struct Listener(Arc<dyn Fn(Progress) -> ControlFlow<()> + Send + Sync>);

impl Listener {
    pub(crate) fn new<A: ProgressAnswer>(listener: impl Fn(Progress) -> A + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |progress| listener(progress).answer()))
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
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`].
    pub(crate) fn add(&mut self, bytes: u64) -> Result<()> {
        let Progress { bytes: before, total } = self.progress;
        self.progress.bytes = before.saturating_add(bytes).min(total);
        match (self.listener.0)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ErrorKind::Cancelled.into()),
        }
    }

    /// Reports the end, unless it was reported.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub(crate) fn finish(mut self) -> Result<()> {
        let left = self.progress.total - self.progress.bytes;
        if left > 0 || self.progress.total == 0 { self.add(left) } else { Ok(()) }
    }
}

/// Counts the bytes passed on.
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
        self.count.add(written as u64).map_err(io::Error::from)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
