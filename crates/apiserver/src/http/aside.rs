//! Long work of one request, kept from delaying others.

use std::pin::Pin;
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::storage::Entry;

/// A body of this many bytes may take tens of milliseconds to handle: an apply of thousands of list entries does.
pub(super) const LONG_BODY: usize = 64 << 10;
/// So does a list of this many objects that are not sent as they are stored.
const LONG_LIST: usize = 500;
/// Or of so many bytes.
const LONG_BYTES: usize = 256 << 10;
/// So many of them are made at once, for each takes several times its size meanwhile.
pub(super) const LISTS_AT_ONCE: usize = 2;

/// So many threads may wait for webhooks that convert; the runtime has 512 in all.
static WAITING: Semaphore = Semaphore::const_new(384);

/// A turn for what may wait for such a webhook, if it does.
pub(super) async fn turn(waits: bool) -> Option<SemaphorePermit<'static>> {
    // It is never closed.
    if waits { WAITING.acquire().await.ok() } else { None }
}

/// Whether it takes long to make a list of these objects that are not sent as they are stored.
pub(super) fn is_long(entries: &[Arc<Entry>]) -> bool {
    entries.len() >= LONG_LIST || entries.iter().map(|entry| entry.json().size()).sum::<usize>() >= LONG_BYTES
}

/// Does some work; if it is long, the other tasks of this thread go on in another one meanwhile. Where there is only one
/// thread, as in a simulation, they wait.
pub(super) fn aside<T>(is_long: bool, work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    if is_long && matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
        return tokio::task::block_in_place(work);
    }
    work()
}

/// The same for work that also waits: the steps between its waits are done so. It comes pinned, for a future that takes
/// another one holds it twice.
pub(super) async fn aside_in_steps<T>(is_long: bool, mut work: Pin<&mut impl Future<Output = T>>) -> T {
    std::future::poll_fn(|context| aside(is_long, || work.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
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
