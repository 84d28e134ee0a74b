//! ObservedKind: all observed owners of one kind, and when their controller was last seen to act.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};
use muster_objects::{Deployment, Object, ReplicaSet, ReplicationController, Timestamp};

use super::action::Action;
use super::compared::Compared;
use super::observed_owner::{ObservedOwner, Writers};
use super::record::{Other, Record, Subject};

/// How actions are compared with intents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long ago a state may have ended and still explain an action.
    pub lookback: Duration,
    /// How long an intended write may remain undone, or an action unexplained, before that is a difference.
    pub patience: Duration,
    /// The field manager of the observed controllers in `metadata.managedFields`.
    pub manager: String,
    /// The kinds of owners that are watched.
    pub kinds: BTreeSet<&'static str>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lookback: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            manager: "kube-controller-manager".to_owned(),
            kinds: BTreeSet::from([Deployment::KIND, ReplicaSet::KIND, ReplicationController::KIND]),
        }
    }
}

impl Options {
    /// How long a state is kept: an action is judged again at the end of the patience, and may still be explained then.
    #[must_use]
    pub fn keep(&self) -> Duration {
        self.lookback + self.patience
    }
}

/// What the comparison needs beside the objects.
pub(super) struct Known<'a> {
    /// Who last wrote `spec.replicas`.
    pub(super) writers: &'a Writers<'a>,
    /// The namespaces that are being deleted.
    pub(super) leaving: &'a BTreeSet<Arc<str>>,
}

/// The owners of one kind.
pub struct ObservedKind<S> {
    owners: BTreeMap<Uid, ObservedOwner<S>>,
    /// When the observed controller last acted for any of them.
    busy: Option<Timestamp>,
    /// When the first states were seen. Actions within one lookback of it may have been decided on earlier states.
    started: Timestamp,
    /// How many owners there have been.
    pub(super) seen: u64,
}

impl<S: Compared> ObservedKind<S> {
    /// No owners yet; states are seen from `started` on.
    pub(super) fn new(started: Timestamp) -> Self {
        Self { owners: BTreeMap::new(), busy: None, started, seen: 0 }
    }

    /// Records what a sync would do in a state of an owner.
    pub(super) fn look(
        &mut self,
        snapshot: S,
        version: ResourceVersion,
        at: Timestamp,
        options: &Options,
        out: &mut Vec<Record>,
    ) -> Option<Duration> {
        let meta = snapshot.meta();
        let seen = &mut self.seen;
        let owner = self.owners.entry(meta.uid.clone()).or_insert_with(|| {
            *seen += 1;
            ObservedOwner::new(meta.key(), meta.uid.clone())
        });
        let first = out.len();
        let look_again = owner.look(snapshot, version, at, options, out);
        if out[first..].iter().any(|record| matches!(record, Record::Agreement(_))) {
            self.busy = Some(at);
        }
        look_again
    }

    /// Compares an action with the intents of its owner.
    pub(super) fn observe(&mut self, action: Action, options: &Options, out: &mut Vec<Record>) {
        let at = action.at;
        let Some(owner) = self.owners.get_mut(&action.owner) else {
            out.push(unjudged::<S>(&action, "its owner was not seen"));
            return;
        };
        let first = out.len();
        owner.observe(action, options, out);
        if at.saturating_since(self.started) < options.lookback {
            // The state on which it was decided may be older than the first that was seen.
            owner.discard_pending("it may have been decided before the first state that was seen", out);
        }
        if out[first..].iter().any(|record| !matches!(record, Record::Other(_))) {
            self.busy = Some(at);
        }
    }

    /// Some changes up to `at` were missed.
    pub(super) fn missed_changes_until(&mut self, at: Timestamp) {
        self.started = self.started.max(at);
    }

    /// An owner was deleted.
    pub(super) fn gone(&mut self, uid: &Uid, at: Timestamp) {
        if let Some(owner) = self.owners.get_mut(uid) {
            owner.gone = Some(at);
        }
    }

    /// Owners with writes that are about to be reported as overdue: their state is looked at once more first. No
    /// handler queues an owner when another one adopts its orphan, although the intent to adopt is then void.
    pub(super) fn with_overdue_writes(
        &self,
        now: Timestamp,
        options: &Options,
        leaving: &BTreeSet<Arc<str>>,
    ) -> Vec<ObjectKey> {
        let owners = self.owners.values().filter(|owner| !owner.is_in(leaving));
        owners.filter_map(|owner| owner.with_overdue_writes(now, self.busy, options)).collect()
    }

    /// Reports actions and writes whose patience has passed.
    pub(super) fn pass(&mut self, now: Timestamp, options: &Options, known: &Known<'_>, out: &mut Vec<Record>) {
        for owner in self.owners.values_mut() {
            if owner.is_in(known.leaving) {
                owner.discard_pending("its namespace is being deleted", out);
            } else {
                owner.pass(now, self.busy, options, known.writers, out);
            }
        }
        self.owners.retain(|_, owner| !owner.is_over(now, options));
    }
}

pub(super) fn unjudged<S: Compared>(action: &Action, why: &str) -> Record {
    let key = ObjectKey::new(&*action.target.key.namespace, "");
    let subject = Subject::new(S::KIND, &key, &action.owner, action.version);
    let name = action.answers().action().to_owned();
    Record::Other(Other { subject, action: name, did: action.text(), why: why.to_owned() })
}
