//! What was written, and how long the caches took to show it.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_controllers::plan::Failure;
use muster_objects::Moment;
use muster_objects::meta::ResourceVersion;

use super::Writes;

/// The totals of a manager.
#[derive(Debug, Default)]
pub struct Tally {
    done: BTreeMap<&'static str, u64>,
    conflicts: u64,
    failed: u64,
    lags: BTreeMap<&'static str, Lag>,
}

/// How far the cache of one kind is behind writes.
#[derive(Debug, Clone, Copy, Default)]
struct Lag {
    /// The version that the cache has reached.
    newest: ResourceVersion,
    /// A version that was written and that the cache has not reached, and when that was answered. Until it is reached, no
    /// other one is timed.
    awaited: Option<(ResourceVersion, Moment)>,
    /// How long the last one took.
    last: Option<Duration>,
}

impl Tally {
    /// A request was answered.
    pub fn answered(
        &mut self,
        (action, kind): (&'static str, &'static str),
        answer: Result<Option<ResourceVersion>, &Failure>,
        now: Moment,
    ) {
        match answer {
            _ if action == "read" => {}
            Err(failure) if failure.code == 409 => self.conflicts += 1,
            Err(_) => self.failed += 1,
            Ok(version) => {
                *self.done.entry(action).or_default() += 1;
                if let Some(version) = version.filter(|version| version.is_known()) {
                    self.lags.entry(kind).or_default().wrote(version, now);
                }
            }
        }
    }

    /// The cache of a kind has reached a version.
    pub fn reached(&mut self, kind: &'static str, version: ResourceVersion, now: Moment) {
        self.lags.entry(kind).or_default().reached(version, now);
    }

    /// See [`super::Informer::lag`].
    #[must_use]
    pub fn lag(&self, kind: &str, now: Moment) -> Option<Duration> {
        let lag = self.lags.get(kind)?;
        lag.last.max(lag.awaited.map(|(_, since)| now.saturating_since(since)))
    }

    /// What was written so far.
    #[must_use]
    pub fn writes(&self) -> Writes {
        let done = self.done.iter().map(|(action, count)| ((*action).to_owned(), *count)).collect();
        Writes { done, conflicts: self.conflicts, failed: self.failed }
    }
}

impl Lag {
    fn wrote(&mut self, version: ResourceVersion, now: Moment) {
        match self.awaited {
            Some(_) => {}
            None if version > self.newest => self.awaited = Some((version, now)),
            // It was there before the answer.
            None => self.last = Some(Duration::ZERO),
        }
    }

    fn reached(&mut self, version: ResourceVersion, now: Moment) {
        // A server that was restored from a backup may never come to what was written.
        if version < self.newest {
            self.awaited = None;
        }
        self.newest = version;
        if let Some((_, since)) = self.awaited.take_if(|(awaited, _)| *awaited <= version) {
            self.last = Some(now.saturating_since(since));
        }
    }
}
