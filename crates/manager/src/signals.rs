//! The signals that end a process.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The two signals that ask a process to end.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes both over from the operating system's default.
    pub fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("SIGINT cannot be listened to")?,
            terminate: signal(SignalKind::terminate()).context("SIGTERM cannot be listened to")?,
        })
    }

    /// Waits for either.
    pub async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
