//! One signal to stop, shared by every task of the process (CM-07).
//!
//! Those who wait are woken in the order in which they began to wait, so that a simulation runs the same way each time.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

/// The end that says stop. Dropping it does so too.
#[derive(Debug)]
pub struct Trigger(Arc<Signal>);

/// The receiver of the signal. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Shutdown(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    given: AtomicBool,
    waiting: Notify,
}

/// A signal that has not been given.
#[must_use]
pub fn channel() -> (Trigger, Shutdown) {
    let signal = Arc::new(Signal::default());
    (Trigger(Arc::clone(&signal)), Shutdown(signal))
}

impl Trigger {
    /// Tells everyone. Later calls do nothing more.
    pub fn stop(&self) {
        self.0.given.store(true, Ordering::Release);
        self.0.waiting.notify_waiters();
    }

    /// Another receiver of the signal.
    #[must_use]
    pub fn subscribe(&self) -> Shutdown {
        Shutdown(Arc::clone(&self.0))
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shutdown {
    /// Waits for the signal. If the trigger was dropped, that counts as the signal.
    pub async fn stopped(&mut self) {
        let mut woken = pin!(self.0.waiting.notified());
        // Before the look, so that a signal after it is not missed.
        woken.as_mut().enable();
        if !self.is_stopped() {
            woken.await;
        }
    }

    /// Whether the signal was given.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.given.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_are_woken_in_their_order_by_a_signal_or_by_its_triggers_end() {
        for drops in [false, true] {
            let (trigger, mut stop) = channel();
            let woken = Arc::new(Mutex::new(Vec::new()));
            let waiting: Vec<_> = (0..20)
                .map(|number| {
                    let (mut stop, woken) = (trigger.subscribe(), Arc::clone(&woken));
                    tokio::spawn(async move {
                        stop.stopped().await;
                        woken.lock().unwrap().push(number);
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            assert!(!stop.is_stopped() && woken.lock().unwrap().is_empty());
            if drops {
                drop(trigger);
            } else {
                trigger.stop();
            }
            for task in waiting {
                task.await.unwrap();
            }
            assert_eq!(*woken.lock().unwrap(), (0..20).collect::<Vec<_>>());
            stop.stopped().await;
            assert!(stop.is_stopped());
        }
    }
}
