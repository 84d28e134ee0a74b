//! The flight recorder of a manager and its totals, each behind a lock: what its controllers tell them, and what they
//! tell.
//!
//! These locks are taken last and alone, and held for a moment.

use std::sync::{Arc, Mutex, PoisonError};

use muster_controllers::plan::{Next, Owner, Plan, Report, SyncSteps};
use muster_inspect::history::{Account, Accountable, Happened, Recorder, Subject, Woken};
use muster_inspect::inside::Tally;
use muster_machinery::Change;
use muster_objects::{
    Object,
    meta::ObjectKey,
    time::{Moment, Timestamp},
};

use crate::clock::Clock;

/// How many bytes a manager keeps unless it is said: 4 MiB.
pub const HISTORY_BYTES: usize = 4 << 20;

/// Where a manager's controllers tell what they do. Cloning shares it.
#[derive(Clone)]
pub struct Recording {
    recorder: Option<Arc<Mutex<Recorder>>>,
    /// Is kept always: it does not grow.
    tally: Arc<Mutex<Tally>>,
    clock: Clock,
}

impl Recording {
    /// One that keeps at most about so many bytes, or nothing.
    #[must_use]
    pub fn new(bytes: usize, clock: Clock) -> Self {
        let recorder = (bytes > 0).then(|| Arc::new(Mutex::new(Recorder::new(bytes))));
        Self { recorder, tally: Arc::default(), clock }
    }

    /// Whether anything is kept.
    #[must_use]
    pub(crate) fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    /// The time, for how long something takes.
    pub(crate) fn moment(&self) -> Moment {
        if self.is_on() { self.clock.moment() } else { Moment::ORIGIN }
    }

    /// Tells the recorder something, if there is one.
    pub(crate) fn with<R>(&self, tell: impl FnOnce(&mut Recorder, Moment) -> R) -> Option<R> {
        let recorder = self.recorder.as_ref()?;
        let now = self.clock.moment();
        Some(tell(&mut recorder.lock().unwrap_or_else(PoisonError::into_inner), now))
    }

    /// Adds to the totals, or asks for them.
    pub(crate) fn tally<R>(&self, tell: impl FnOnce(&mut Tally, Moment) -> R) -> R {
        let now = self.clock.moment();
        tell(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

/// The event that a change of a cache was.
pub(crate) fn event<T: Object>(kind: &'static str, change: &Change<T>) -> Woken {
    let happened = match change {
        Change::Added(_) => Happened::Added,
        Change::Updated { .. } => Happened::Updated,
        Change::Deleted { .. } => Happened::Deleted,
    };
    let meta = change.object().meta();
    Woken::Event { change: happened, kind, name: Arc::clone(&meta.name), version: meta.resource_version }
}

/// A sync that tells what it found when it has decided.
pub(crate) struct Told<'r, S> {
    sync: S,
    recording: &'r Recording,
    kind: &'static str,
    key: &'r ObjectKey,
    found: bool,
}

impl<'r, S: Accountable> Told<'r, S> {
    pub(crate) fn new(sync: S, recording: &'r Recording, (kind, key): Subject<'r>) -> Self {
        Self { sync, recording, kind, key, found: false }
    }

    fn tell(&mut self, account: impl FnOnce(&S) -> Account) {
        let own = (!self.found).then(|| self.sync.owner().resource_version);
        self.found = true;
        let account = account(&self.sync);
        self.recording.with(|recorder, _| recorder.found((self.kind, self.key), own, account));
    }
}

impl<S: Accountable> SyncSteps for Told<'_, S> {
    fn owner(&self) -> &Owner {
        self.sync.owner()
    }

    fn puts_counts_off(&self) -> bool {
        self.sync.puts_counts_off()
    }

    fn next(&mut self, report: Report, now: Timestamp) -> Next {
        // After claims there is still something to tell.
        let decides = matches!(report, Report::Begin | Report::Claimed(_));
        let next = self.sync.next(report, now);
        if decides && self.recording.is_on() {
            match &next {
                Next::Claim(claims) => self.tell(|_| Account::claiming(claims)),
                Next::Perform(plan) => self.tell(|sync| sync.account(Some::<&Plan>(plan), now)),
                Next::WriteStatus(_) | Next::Done(_) => self.tell(|sync| sync.account(None, now)),
            }
        }
        next
    }
}
