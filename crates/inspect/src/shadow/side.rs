//! Side: all owners of one kind, and how busy the other side's controller of it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};
use muster_objects::{Deployment, Object, ReplicaSet, ReplicationController, Timestamp};

use super::action::Action;
use super::consider::Considered;
use super::record::{Other, Record, Subject};
use super::ward::{Ward, Writers};

/// How the two sides are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long ago a state may have ended that explains an action.
    pub lookback: Duration,
    /// How long a wish may stand, and an action be unexplained, before that is a difference.
    pub patience: Duration,
    /// As whom the other side's controllers write, as `metadata.managedFields` has it.
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
    /// How long a state is kept: an action that it explains may be looked at again at the end of the patience.
    #[must_use]
    pub fn keep(&self) -> Duration {
        self.lookback + self.patience
    }
}

/// What is known beside the objects.
pub(super) struct Known<'a> {
    /// Who wrote which size.
    pub(super) writers: &'a Writers<'a>,
    /// The namespaces that are being deleted.
    pub(super) leaving: &'a BTreeSet<Arc<str>>,
}

/// The owners of one kind.
pub struct Side<S> {
    wards: BTreeMap<Uid, Ward<S>>,
    /// When the other side was last seen to do anything for any of them.
    busy: Option<Timestamp>,
    /// When the first states were looked at: what is done within a lookback of it may have been decided before.
    started: Timestamp,
    /// How many owners there have been.
    pub(super) seen: u64,
}

impl<S: Considered> Side<S> {
    /// No owners, from `started` on.
    pub(super) fn new(started: Timestamp) -> Self {
        Self { wards: BTreeMap::new(), busy: None, started, seen: 0 }
    }

    /// Looks at the state of an owner.
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
        let ward = self.wards.entry(meta.uid.clone()).or_insert_with(|| {
            *seen += 1;
            Ward::new(meta.key(), meta.uid.clone())
        });
        let told = out.len();
        let look_again = ward.look(snapshot, version, at, options, out);
        if out[told..].iter().any(|record| matches!(record, Record::Agreement(_))) {
            self.busy = Some(at);
        }
        look_again
    }

    /// Takes in something that was done for one of the owners.
    pub(super) fn did(&mut self, action: Action, options: &Options, out: &mut Vec<Record>) {
        let at = action.at;
        let Some(ward) = self.wards.get_mut(&action.owner) else {
            out.push(unjudged::<S>(&action, "its owner was not seen"));
            return;
        };
        let told = out.len();
        ward.did(action, options, out);
        if at.saturating_since(self.started) < options.lookback {
            // What was decided before the first state was seen is nobody's mistake.
            ward.forgive("it may have been decided before the first state that was seen", out);
        }
        if out[told..].iter().any(|record| !matches!(record, Record::Other(_))) {
            self.busy = Some(at);
        }
    }

    /// What was done until `at` was not all seen.
    pub(super) fn lost_sight(&mut self, at: Timestamp) {
        self.started = self.started.max(at);
    }

    /// An owner is gone.
    pub(super) fn gone(&mut self, uid: &Uid, at: Timestamp) {
        if let Some(ward) = self.wards.get_mut(uid) {
            ward.gone = Some(at);
        }
    }

    /// The owners to look at once more before they are told of: a handler has no reason to queue one whose orphan went
    /// to somebody else, though it has nothing to wish for any more.
    pub(super) fn doubtful(&self, now: Timestamp, options: &Options, leaving: &BTreeSet<Arc<str>>) -> Vec<ObjectKey> {
        let wards = self.wards.values().filter(|ward| !ward.is_in(leaving));
        wards.filter_map(|ward| ward.doubtful(now, self.busy, options)).collect()
    }

    /// Tells what has been waited for long enough.
    pub(super) fn pass(&mut self, now: Timestamp, options: &Options, known: &Known<'_>, out: &mut Vec<Record>) {
        for ward in self.wards.values_mut() {
            if ward.is_in(known.leaving) {
                ward.forgive("its namespace is being deleted", out);
            } else {
                ward.pass(now, self.busy, options, known.writers, out);
            }
        }
        self.wards.retain(|_, ward| !ward.is_over(now, options));
    }
}

pub(super) fn unjudged<S: Considered>(action: &Action, why: &str) -> Record {
    let key = ObjectKey::new(&*action.target.key.namespace, "");
    let subject = Subject::new(S::KIND, &key, &action.owner, action.version);
    let name = action.answers().action().to_owned();
    Record::Other(Other { subject, action: name, did: action.told(), why: why.to_owned() })
}
