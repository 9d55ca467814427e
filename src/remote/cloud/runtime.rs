//! The runtime behind calls to stores.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::runtime::{Builder, Handle, Runtime};

/// The runtime, and the process that it belongs to: a forked child has none of its threads.
static RUNTIME: Mutex<Option<(u32, Runtime)>> = Mutex::new(None);

/// Returns the runtime of this process.
pub(super) fn handle() -> io::Result<Handle> {
    let process = std::process::id();
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, parents)) = runtime.take_if(|(owner, _)| *owner != process) {
        // Dropping it would wait for threads that are not here.
        std::mem::forget(parents);
    }
    if let Some((_, runtime)) = &*runtime {
        return Ok(runtime.handle().clone());
    }
    // One thread is enough: all calls wait for the network.
    let new = Builder::new_multi_thread().worker_threads(1).thread_name("tensorfile-cloud").enable_all().build()?;
    let handle = new.handle().clone();
    *runtime = Some((process, new));
    Ok(handle)
}

/// Waits for a result.
pub(super) fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    let result = Arc::new(Mutex::new(None));
    let place = Arc::clone(&result);
    finish(Box::pin(async move {
        let result = work.await;
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }))?;
    let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    result.ok_or_else(|| io::Error::other("the request to the store ended without a result"))
}

/// Waits for the end of work.
///
/// The caller waits on a channel, because `block_on` panics within a runtime of the caller.
// Not generic, because each type of a result would have a channel and a task of its own: a twelfth of the library's code.
fn finish(work: Pin<Box<dyn Future<Output = ()> + Send>>) -> io::Result<()> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle()?.spawn(async move {
        work.await;
        // The caller waits, so the receiver is there.
        let _ = sender.send(());
    });
    receiver.recv().map_err(|_| io::Error::other("the request to the store panicked"))
}
