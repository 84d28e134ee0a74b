//! The signals that end a process.

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask a process to end: SIGINT, SIGTERM, and SIGHUP, which comes when its terminal is closed.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Nothing where it is to be ignored, as under `nohup`.
    hangup: Option<Signal>,
}

impl Signals {
    /// Takes them over from the operating system's default.
    pub fn listen() -> Result<Self> {
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("SIGINT cannot be listened to")?,
            terminate: signal(SignalKind::terminate()).context("SIGTERM cannot be listened to")?,
            hangup: hangup.context("SIGHUP cannot be listened to")?,
        })
    }

    /// Waits for one of them.
    pub async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }

    /// Waits for some work to end.
    ///
    /// # Errors
    /// Its own; that a signal came first, and the work was dropped where it was.
    pub async fn during<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.next() => bail!("interrupted"),
            done = work => done,
        }
    }
}

/// Whether who started the process wants it to outlive its terminal. Where that cannot be found out it is taken for so.
fn ignores_hangup() -> bool {
    std::fs::read_to_string("/proc/self/status").ok().is_none_or(|status| ignored(&status) & 1 == 1)
}

/// The signals that a process ignores, by its status: the first bit is SIGHUP's.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_the_status() {
        assert_eq!(ignored("SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n"), 0x1000);
        assert_eq!(ignored("SigIgn:\t0000000000000001\n") & 1, 1);
        assert_eq!(ignored("Name:\tx\n") & 1, 1, "not told: left as it is");
    }
}
