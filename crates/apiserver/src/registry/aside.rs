//! Long work of one request, kept from delaying others.

use std::pin::Pin;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Served;

/// So many threads may wait for webhooks that convert; the runtime has 512 in all.
static WAITING: Semaphore = Semaphore::const_new(384);

/// A turn of what may wait for a webhook that converts: one of its definition's, and one of all.
#[derive(Debug)]
pub struct Turn<'s> {
    _own: SemaphorePermit<'s>,
    _all: SemaphorePermit<'static>,
}

/// Waits for a turn, if it may come to a conversion.
pub async fn turn(served: &Served) -> Option<Turn<'_>> {
    let turns = served.kind.custom()?.turns()?;
    // They are never closed.
    Some(Turn { _own: turns.acquire().await.ok()?, _all: WAITING.acquire().await.ok()? })
}

/// Does some work; if it is long, the other tasks of this thread go on in another one meanwhile. Where there is only one
/// thread, as in a simulation, they wait.
pub fn aside<T>(is_long: bool, work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    if is_long && matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
        return tokio::task::block_in_place(work);
    }
    work()
}

/// The same for work that also waits: the steps between its waits are done so. It comes pinned, for a future that takes
/// another one holds it twice.
pub async fn aside_in_steps<T>(is_long: bool, mut work: Pin<&mut impl Future<Output = T>>) -> T {
    std::future::poll_fn(|context| aside(is_long, || work.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;

    /// Contract: API-22
    #[test]
    fn long_work_keeps_no_other_task_from_going_on() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let (done, wait) = mpsc::channel();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let outcome = runtime.block_on(async {
            let long = tokio::spawn(async move {
                // Spawned from the only worker: it is queued behind this task.
                tokio::spawn(async move { done.send(()) });
                aside(true, || wait.lock().expect("no panic").recv_timeout(Duration::from_secs(60)).is_ok())
            });
            long.await.expect("no panic")
        });
        assert!(outcome, "the other task ran while this one worked");
        assert_eq!(aside(true, || 1), 1, "there need be no runtime");
    }
}
