//! How far a long run is, in bytes, for who waits at a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Runs shorter than this show nothing.
const PATIENCE: Duration = Duration::from_millis(400);

/// A bar on standard error, if that is a terminal and the run is long.
///
/// It is told of pieces of any size: it looks at the clock for each, and draws a few times a second.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    started: Option<Instant>,
}

impl Progress {
    /// A run over so many bytes.
    pub fn bytes(total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, started: Some(Instant::now()) }
    }

    /// So many bytes more are done.
    pub fn advance(&mut self, bytes: usize) {
        self.bar.inc(bytes as u64);
        if self.started.is_some_and(|started| started.elapsed() > PATIENCE) {
            self.started = None;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
