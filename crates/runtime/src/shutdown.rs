//! One signal to stop, shared by every task of the process (CM-07).

use tokio::sync::watch;

/// The end that says stop.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// The receiver of the signal. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// A signal that has not been given.
#[must_use]
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Tells everyone. Later calls do nothing more.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Another receiver of the signal.
    #[must_use]
    pub fn subscribe(&self) -> Shutdown {
        Shutdown(self.0.subscribe())
    }
}

impl Shutdown {
    /// Waits for the signal. If the trigger was dropped, that counts as the signal.
    pub async fn stopped(&mut self) {
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether the signal was given.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
