//! The client's own request limit, `--kube-api-qps` and `--kube-api-burst` (CM-03): off by default.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Allows `burst` requests at once and then one every `interval`.
#[derive(Debug)]
pub(super) struct Limit {
    interval: Duration,
    /// How far ahead of its time a request may go.
    allowance: Duration,
    /// When the next request would be due if all went evenly.
    due: Mutex<Instant>,
}

impl Limit {
    /// A limit of `qps` requests per second, `burst` at once (at least one); none where `qps` is zero or less.
    pub(super) fn new(qps: f64, burst: u32) -> Option<Self> {
        if !(qps.is_finite() && qps > 0.0) {
            return None;
        }
        let interval = Duration::try_from_secs_f64(1.0 / qps).ok()?;
        let allowance = interval.saturating_mul(burst.saturating_sub(1));
        Some(Self { interval, allowance, due: Mutex::new(Instant::now()) })
    }

    /// Waits for this request's turn.
    pub(super) async fn turn(&self) {
        let now = Instant::now();
        let at = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let at = (*due).max(now);
            *due = at + self.interval;
            at
        };
        if at.saturating_duration_since(now) > self.allowance {
            tokio::time::sleep_until(at - self.allowance).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: CM-03
    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_evenly() {
        let limit = Limit::new(10.0, 5).unwrap();
        let start = Instant::now();
        for _ in 0..5 {
            limit.turn().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..20 {
            limit.turn().await;
        }
        let elapsed = start.elapsed();
        assert!((Duration::from_millis(1_990)..Duration::from_millis(2_010)).contains(&elapsed), "{elapsed:?}");
        assert!(Limit::new(0.0, 30).is_none());
    }
}
