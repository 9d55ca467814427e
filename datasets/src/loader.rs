//! Decodes samples in threads.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::error::Result;
use crate::resume::{Resume, State};
use crate::sample::Sample;

/// Values made of samples by several threads, in the order of the samples.
///
/// ```
/// use tensorfile_datasets::{Loader, ShardWriter, Shards};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
/// # let mut writer = ShardWriter::new(path("a-{0..}.tar"))?;
/// # for key in 0..100 {
/// #     writer.write_files(&key.to_string(), [("txt", key.to_string())])?;
/// # }
/// # writer.finish()?;
/// let loader = Loader::new(Shards::new(&path("a-0.tar"))?, 4, |sample| sample.text("txt"));
/// for (number, text) in loader.enumerate() {
///     assert_eq!(text?, number.to_string());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Loader<T> {
    /// The channels from the threads, which are received from in turn.
    results: Vec<Receiver<Done<T>>>,
    threads: Vec<JoinHandle<()>>,
    next: usize,
    /// The last known state, and the number of samples returned since.
    state: State,
    is_ended: bool,
}

/// A sample for a thread, and the state after it, unless large states are sent less often.
struct Job {
    sample: Result<Sample>,
    state: Option<State>,
}

struct Done<T> {
    value: Result<T>,
    state: Option<State>,
}

/// The number of samples that a thread may be ahead.
const AHEAD: usize = 8;

/// The number of samples from one state to the next, if states are large.
const BETWEEN_STATES: u64 = 256;

impl<T: Send + 'static> Loader<T> {
    /// Calls `load` for each sample, in `threads` threads, while one more thread reads samples. Each thread runs at
    /// most a few samples ahead of your iteration.
    ///
    /// An error of `load` is an item, and the iteration goes on after it. [`OnError`](crate::OnError) is about samples
    /// that cannot be read.
    pub fn new<I, F>(samples: I, threads: usize, load: F) -> Self
    where
        I: Resume + Send + 'static,
        F: Fn(&Sample) -> Result<T> + Clone + Send + 'static,
    {
        let state = samples.state();
        let (mut jobs, mut results, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..threads.max(1) {
            let (send_job, receive_job) = sync_channel::<Job>(AHEAD);
            let (send_done, receive_done) = sync_channel(AHEAD);
            let load = load.clone();
            jobs.push(send_job);
            results.push(receive_done);
            handles.push(thread::spawn(move || {
                for Job { sample, state } in receive_job {
                    let value = sample.and_then(|sample| load(&sample));
                    if send_done.send(Done { value, state }).is_err() {
                        return;
                    }
                }
            }));
        }
        handles.push(thread::spawn(move || send_jobs(samples, &jobs)));
        Self { results, threads: handles, next: 0, state, is_ended: false }
    }

    /// Returns the state after the last value that was returned, to [resume](Resume::resume) the samples of another
    /// loader.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.clone()
    }
}

/// Sends the samples to the threads in turn.
fn send_jobs(mut samples: impl Resume, jobs: &[SyncSender<Job>]) {
    let mut since = 0;
    for job in jobs.iter().cycle() {
        let Some(sample) = samples.next() else { return };
        since += 1;
        let is_due = samples.has_small_state() || since == BETWEEN_STATES;
        let state = is_due.then(|| samples.state());
        if is_due {
            since = 0;
        }
        if job.send(Job { sample, state }).is_err() {
            return;
        }
    }
}

impl<T> Iterator for Loader<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended {
            return None;
        }
        let Ok(Done { value, state }) = self.results[self.next].recv() else {
            self.is_ended = true;
            self.results.clear();
            // A thread that panicked ends its channel too.
            let panics: Vec<_> = self.threads.drain(..).filter_map(|thread| thread.join().err()).collect();
            if let Some(panic) = panics.into_iter().next() {
                resume_unwind(panic);
            }
            return None;
        };
        self.next = (self.next + 1) % self.results.len();
        match state {
            Some(state) => self.state = state,
            None => self.state.returned += 1,
        }
        Some(value)
    }
}

impl<T> Drop for Loader<T> {
    /// Ends the threads. [`next`](Iterator::next) reports their panics.
    fn drop(&mut self) {
        self.results.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl<T> fmt::Debug for Loader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("threads", &self.threads.len())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
