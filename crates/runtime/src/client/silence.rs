//! A server that does not answer a person's command: what is waited for is told soon, and given up sooner than by a manager.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::time::timeout;

use super::{REQUEST_TIMEOUT, error::BoxError, no_answer};

/// How long nothing is told.
const QUIET: Duration = Duration::from_secs(3);
/// How long the first answer of a server may take; one that has answered before is there, and may be busy.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// How a client waits for the answers of its server.
pub(super) struct Silence {
    tell: fn(&str),
    /// Whether there was an answer.
    answered: AtomicBool,
    /// Whether it was told that the server is waited for, since the last answer.
    told: AtomicBool,
}

impl Silence {
    /// One that is told by `tell`, which gets the server's address.
    pub(super) fn new(tell: fn(&str)) -> Self {
        Self { tell, answered: AtomicBool::new(false), told: AtomicBool::new(false) }
    }

    /// Waits for an answer of `server`.
    pub(super) async fn until<T>(
        &self,
        server: &str,
        answer: impl Future<Output = Result<T, BoxError>>,
    ) -> Result<T, BoxError> {
        tokio::pin!(answer);
        let answer = match timeout(QUIET, &mut answer).await {
            Ok(answer) => answer,
            Err(_) => {
                if !self.told.swap(true, Ordering::Relaxed) {
                    (self.tell)(server);
                }
                let limit = if self.answered.load(Ordering::Relaxed) { REQUEST_TIMEOUT } else { FIRST_ANSWER };
                timeout(limit - QUIET, answer).await.unwrap_or_else(|_| Err(no_answer(limit)))
            }
        };
        if answer.is_ok() {
            self.answered.store(true, Ordering::Relaxed);
            self.told.store(false, Ordering::Relaxed);
        }
        answer
    }
}
