//! Processes within one process: tasks that can be stopped and continued together, as by `SIGSTOP` and `SIGCONT`.
//!
//! A simulation runs several managers on one thread. To freeze one of them, each of its tasks must stop where it is,
//! whatever becomes ready meanwhile, and find the time advanced when it continues. A task of a [`Process`] is a future
//! that is not polled while the process is frozen; the tasks that it spawns belong to the same process. Outside of a
//! [`Process`], as in the program itself, tasks are ordinary.
//!
//! A task that panics ends the one that spawned it (`watch_over`), and so in the end the whole process: a controller
//! manager without one of its parts would appear alive.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use futures::future::Either;
use tokio::task::{JoinError, JoinHandle, JoinSet};

tokio::task_local! {
    static PROCESS: Process;
}

/// One process. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Process {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    frozen: bool,
    /// The tasks that would have been polled while it was frozen.
    ready: Vec<Waker>,
}

impl Process {
    /// Spawns a future as a task of this process.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::spawn(self.task(future))
    }

    /// Stops all of its tasks where they are. Without a later [`Process::thaw`] this is a kill.
    pub fn freeze(&self) {
        self.lock().frozen = true;
    }

    /// Lets its tasks go on. Which of them comes first is for `order` to say.
    pub fn thaw(&self, order: impl FnOnce(&mut [Waker])) {
        let mut ready = {
            let mut state = self.lock();
            state.frozen = false;
            std::mem::take(&mut state.ready)
        };
        order(&mut ready);
        ready.into_iter().for_each(Waker::wake);
    }

    fn task<F: Future>(&self, future: F) -> Task<F> {
        Task { process: self.clone(), future: Box::pin(future) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future that is to be spawned by a task, as a task of the same process.
pub(crate) fn of_the_same<F: Future>(future: F) -> impl Future<Output = F::Output> {
    match PROCESS.try_with(Clone::clone) {
        Ok(process) => Either::Left(process.task(future)),
        Err(_) => Either::Right(future),
    }
}

/// Panics as soon as one of `tasks` has: who spawns tasks that the process cannot be without waits for this beside
/// whatever else it does. Never returns.
pub(crate) async fn watch_over(tasks: &mut JoinSet<()>) -> Infallible {
    while let Some(ended) = tasks.join_next().await {
        pass_on_panic(ended);
    }
    std::future::pending().await
}

/// Panics where the task has. One that was aborted has not.
pub(crate) fn pass_on_panic(ended: Result<(), JoinError>) {
    if let Err(ended) = ended
        && ended.is_panic()
    {
        std::panic::resume_unwind(ended.into_panic());
    }
}

struct Task<F> {
    process: Process,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let process = self.process.clone();
        {
            let mut state = process.lock();
            if state.frozen {
                let waker = context.waker();
                if !state.ready.iter().any(|ready| ready.will_wake(waker)) {
                    state.ready.push(waker.clone());
                }
                return Poll::Pending;
            }
        }
        PROCESS.sync_scope(process, || self.future.as_mut().poll(context))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_frozen_process_stands_still_with_all_that_it_has_spawned_and_finds_the_time_gone() {
        let process = Process::default();
        let beats = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&beats);
        let beat = async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        };
        let child: JoinHandle<()> = process.spawn(async { tokio::spawn(of_the_same(beat)).await.unwrap() });
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        assert_eq!(beats.load(Ordering::Relaxed), 2);
        process.freeze();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(beats.load(Ordering::Relaxed), 2);
        process.thaw(|_| {});
        tokio::task::yield_now().await;
        assert_eq!(beats.load(Ordering::Relaxed), 3, "the beat that was due while it was frozen");
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(beats.load(Ordering::Relaxed), 4);
        child.abort();
    }
}
