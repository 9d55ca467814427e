//! Parallel work on the parts of a payload, with results taken in order.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::threads::threads_for;

/// The number of results that may wait per thread, so that a slow part does not stop the rest.
const AHEAD: usize = 2;

/// Calls `work` with the number of each part and a place for its result, and `take` with the results in order.
///
/// The parts have `bytes` bytes together, which decides the number of threads. One is the caller's. Only it calls
/// `take`, while the rest work on later parts. There is a bounded number of `places`, reused by later calls too: memory
/// takes long to allocate.
///
/// # Errors
///
/// The error of `take`. No more parts are begun after it.
pub(crate) fn in_order<R: Default + Send, E>(
    places: &mut Vec<R>,
    parts: usize,
    bytes: usize,
    work: &(dyn Fn(usize, &mut R) + Sync),
    take: &mut dyn FnMut(&mut R) -> Result<(), E>,
) -> Result<(), E> {
    in_threads(places, threads_for(bytes).min(parts), parts, work, take)
}

fn in_threads<R: Default + Send, E>(
    places: &mut Vec<R>,
    threads: usize,
    parts: usize,
    work: &(dyn Fn(usize, &mut R) + Sync),
    take: &mut dyn FnMut(&mut R) -> Result<(), E>,
) -> Result<(), E> {
    if threads <= 1 {
        let mut place = places.pop().unwrap_or_default();
        let taken = (0..parts).try_for_each(|part| {
            work(part, &mut place);
            take(&mut place)
        });
        places.push(place);
        return taken;
    }
    places.resize_with(places.len().max(AHEAD * threads), R::default);
    let queue = Queue {
        state: Mutex::new(QueueState { parts, next: 0, places: std::mem::take(places), done: Vec::new() }),
        has_place: Condvar::new(),
        has_result: Condvar::new(),
    };
    let taken = thread::scope(|scope| {
        let stop = Stop(&queue);
        for _ in 1..threads {
            // Without other threads, this one does all the work.
            let _ = thread::Builder::new().spawn_scoped(scope, || queue.help(work));
        }
        let taken = (0..parts).try_for_each(|part| {
            let mut result = queue.result(part, work);
            take(&mut result)?;
            queue.give_back(result);
            Ok(())
        });
        drop(stop);
        taken
    });
    *places = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner).places;
    taken
}

/// The remaining parts, and the waiting results.
struct Queue<R> {
    state: Mutex<QueueState<R>>,
    has_place: Condvar,
    has_result: Condvar,
}

struct QueueState<R> {
    parts: usize,
    /// The next part to begin.
    next: usize,
    places: Vec<R>,
    /// No more than there are places, so a search is short.
    done: Vec<(usize, R)>,
}

impl<R> QueueState<R> {
    /// Begins the next part if there is one, and a place for its result.
    ///
    /// Parts are begun in order, so the next part to take always has a place.
    fn begin(&mut self) -> Option<(usize, R)> {
        let place = if self.next < self.parts { self.places.pop() } else { None };
        let part = self.next;
        self.next += usize::from(place.is_some());
        place.map(|place| (part, place))
    }
}

impl<R> Queue<R> {
    fn lock(&self) -> MutexGuard<'_, QueueState<R>> {
        // No code that can panic runs under the lock, so the state is always consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on parts until all were begun.
    fn help(&self, work: &dyn Fn(usize, &mut R)) {
        let _stop_on_panic = StopOnPanic(self);
        let mut state = self.lock();
        while state.next < state.parts {
            let Some((part, mut place)) = state.begin() else {
                state = self.has_place.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            work(part, &mut place);
            state = self.lock();
            state.done.push((part, place));
            self.has_result.notify_one();
        }
    }

    /// Returns the result of a part, and works on parts until it is there.
    fn result(&self, wanted: usize, work: &dyn Fn(usize, &mut R)) -> R {
        let mut state = self.lock();
        loop {
            if let Some(index) = state.done.iter().position(|(part, _)| *part == wanted) {
                return state.done.swap_remove(index).1;
            }
            let Some((part, mut place)) = state.begin() else {
                assert!(state.parts > wanted, "a thread has panicked");
                state = self.has_result.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            work(part, &mut place);
            if part == wanted {
                return place;
            }
            state = self.lock();
            state.done.push((part, place));
        }
    }

    fn give_back(&self, place: R) {
        self.lock().places.push(place);
        self.has_place.notify_one();
    }

    /// Lets nobody begin another part.
    fn stop(&self) {
        self.lock().parts = 0;
        self.has_place.notify_all();
        self.has_result.notify_all();
    }
}

/// Stops the other threads on drop, because they would wait for a place forever.
struct Stop<'a, R>(&'a Queue<R>);

impl<R> Drop for Stop<'_, R> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Stops all threads if one panics, because they would wait for its result forever.
struct StopOnPanic<'a, R>(&'a Queue<R>);

impl<R> Drop for StopOnPanic<'_, R> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const THREADS: [usize; 3] = [1, 2, 5];

    #[test]
    fn results_are_taken_in_order() {
        for (threads, parts) in THREADS.into_iter().flat_map(|threads| [0, 1, 2, 3, 100].map(|parts| (threads, parts)))
        {
            let mut taken = Vec::new();
            let work = |part: usize, result: &mut usize| *result = 3 * part;
            let mut take = |result: &mut usize| {
                taken.push(*result);
                Ok::<(), Infallible>(())
            };
            in_threads(&mut Vec::new(), threads, parts, &work, &mut take).unwrap();
            assert_eq!(taken, (0..parts).map(|part| 3 * part).collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_part_is_begun_long_after_an_error() {
        for threads in THREADS {
            let begun = AtomicUsize::new(0);
            let work = |_: usize, _: &mut ()| {
                begun.fetch_add(1, Ordering::Relaxed);
            };
            let mut taken = 0;
            let stopped = in_threads(&mut Vec::new(), threads, 1000, &work, &mut |()| {
                taken += 1;
                if taken == 5 { Err("full") } else { Ok(()) }
            });
            assert_eq!(stopped, Err("full"));
            assert!(begun.into_inner() <= 5 + AHEAD * threads);
        }
    }

    #[test]
    fn a_panic_in_any_thread_reaches_the_caller() {
        for (threads, panicking) in THREADS.into_iter().flat_map(|threads| [0, 1, 5, 99].map(|part| (threads, part))) {
            let work = |part: usize, (): &mut ()| assert_ne!(part, panicking, "on purpose");
            let run = || in_threads(&mut Vec::new(), threads, 100, &work, &mut |()| Ok::<(), Infallible>(()));
            assert!(std::panic::catch_unwind(run).is_err(), "{threads}, {panicking}");
        }
    }
}
