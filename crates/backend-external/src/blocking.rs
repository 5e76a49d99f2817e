//! Work on blocking threads.

use tokio::sync::oneshot;

/// Runs `work` on a blocking thread; `None` if it panics or the runtime is shutting down.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (caller, outcome) = oneshot::channel();
    // One type for all work: each type that tokio runs adds some 3 KB of its code to the program.
    let work: Box<dyn FnOnce() + Send> = Box::new(move || {
        // A caller that is gone does not wait for the outcome.
        let _ = caller.send(work());
    });
    tokio::task::spawn_blocking(work);
    outcome.await.ok()
}
