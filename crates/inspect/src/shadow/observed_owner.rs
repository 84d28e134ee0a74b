//! ObservedOwner: one observed owner, with its latest states, unexplained actions and unmet intents.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_objects::Timestamp;
use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};

use super::action::{Action, ActionKind};
use super::compared::{Compared, Explained};
use super::intent::{IntendedWrite, Intent, Target, text_of};
use super::observed_kind::Options;
use super::record::{Agreement, Difference, Other, Planned, Record, Subject};
use super::unmet::UnmetIntents;
use super::views::{View, Views};

/// Who last wrote `spec.replicas` of an object as of a version; `None` if it is not known.
pub type Writers<'a> = dyn Fn(&Uid, ResourceVersion) -> Option<String> + 'a;

/// One owner.
pub struct ObservedOwner<S> {
    key: ObjectKey,
    uid: Uid,
    views: Views<S>,
    /// How many pods were seen created.
    created: u64,
    /// How many deletions were explained.
    deleted: u64,
    /// Actions that are not explained yet.
    pending: Vec<Pending>,
    unmet: UnmetIntents,
    /// When the owner was seen deleted.
    pub(super) gone: Option<Timestamp>,
}

/// An action that is not explained yet. The state that explains it may still arrive over a slower watch.
struct Pending {
    action: Action,
    created: u64,
    /// What was intended to be deleted in its place, and the count of explained deletions at that time.
    instead: Vec<Target>,
    deleted: u64,
}

impl<S: Compared> ObservedOwner<S> {
    /// An owner that was just seen for the first time.
    pub(super) fn new(key: ObjectKey, uid: Uid) -> Self {
        Self {
            key,
            uid,
            views: Views::default(),
            created: 0,
            deleted: 0,
            pending: Vec::new(),
            unmet: UnmetIntents::default(),
            gone: None,
        }
    }

    /// Records what a sync would do in a new state. Returns the delay after which time alone changes that.
    pub(super) fn look(
        &mut self,
        snapshot: S,
        version: ResourceVersion,
        at: Timestamp,
        options: &Options,
        out: &mut Vec<Record>,
    ) -> Option<Duration> {
        let recorded = snapshot.record(at);
        let writes: BTreeSet<IntendedWrite> = recorded.intents.iter().flat_map(Intent::writes).collect();
        let before = self.views.last();
        let intended_before: BTreeSet<IntendedWrite> =
            before.iter().flat_map(|view| view.intents()).flat_map(Intent::writes).collect();
        let rewritten =
            before.is_some_and(|view| view.snapshot.meta().resource_version != snapshot.meta().resource_version);
        if rewritten {
            self.settle_status(&intended_before, &writes, version, out);
        }
        if !writes.is_subset(&intended_before) {
            let (subject, would) = (self.subject(version), text_of(&recorded.intents));
            out.push(Record::Plan(Planned { subject, would, why: snapshot.why(at) }));
        }
        self.unmet.update(&recorded.intents, at);
        let look_again = recorded.look_again;
        let snapshot = snapshot.kept();
        self.views.push(View { version, at, snapshot, recorded, created: self.created }, options.keep());
        look_again
    }

    /// The owner was written: if no status write is intended any more, the status agrees.
    fn settle_status(
        &mut self,
        intended_before: &BTreeSet<IntendedWrite>,
        writes: &BTreeSet<IntendedWrite>,
        version: ResourceVersion,
        out: &mut Vec<Record>,
    ) {
        let statuses = |writes: &BTreeSet<IntendedWrite>| {
            writes.iter().filter(|write| matches!(write, IntendedWrite::Status(_))).count()
        };
        if statuses(intended_before) > 0 && statuses(writes) == 0 {
            let fields = intended_before.iter().filter_map(|write| match write {
                IntendedWrite::Status(field) => Some(field.as_str()),
                _ => None,
            });
            let did = format!("wrote status: {}", fields.collect::<Vec<_>>().join(", "));
            out.push(Record::Agreement(Agreement { subject: self.subject(version), action: "status".into(), did }));
        }
    }

    /// Compares an action with the intents of the last states.
    pub(super) fn observe(&mut self, action: Action, options: &Options, out: &mut Vec<Record>) {
        if action.kind == ActionKind::CreatePod {
            self.created += 1;
        }
        let explained = self.explain(&action, self.created, options);
        if explained != Explained::No {
            self.settle(&action, &explained, options, out);
            return;
        }
        if self.is_leaving()
            && matches!(action.kind, ActionKind::DeletePod | ActionKind::DeleteReplicaSet | ActionKind::Release)
        {
            self.other(&action, "its owner is gone or being deleted", out);
            return;
        }
        let instead = self.instead(&action, options);
        let by_somebody = match action.kind {
            ActionKind::Release => Some("it was not to be released, and a controller would only take it back"),
            ActionKind::DeletePod | ActionKind::DeleteReplicaSet if instead.is_empty() => {
                Some("nothing was to be deleted")
            }
            _ => None,
        };
        match by_somebody {
            Some(why) => self.other(&action, why, out),
            None => {
                let (created, deleted) = (self.created, self.deleted);
                self.pending.push(Pending { action, created, instead, deleted });
            }
        }
    }

    /// Whether it is in one of the namespaces.
    pub(super) fn is_in(&self, namespaces: &BTreeSet<Arc<str>>) -> bool {
        namespaces.contains(&self.key.namespace)
    }

    /// Records all unexplained actions as not judged.
    pub(super) fn discard_pending(&mut self, why: &str, out: &mut Vec<Record>) {
        for pending in std::mem::take(&mut self.pending) {
            self.other(&pending.action, why, out);
        }
    }

    /// The owner's key, if one of its writes is about to be reported as overdue.
    pub(super) fn with_overdue_writes(
        &self,
        now: Timestamp,
        busy: Option<Timestamp>,
        options: &Options,
    ) -> Option<ObjectKey> {
        let overdue = !self.is_leaving() && self.unmet.is_overdue(now, options.patience, busy);
        overdue.then(|| self.key.clone())
    }

    /// Reports actions and writes whose patience has passed.
    pub(super) fn pass(
        &mut self,
        now: Timestamp,
        busy: Option<Timestamp>,
        options: &Options,
        writers: &Writers<'_>,
        out: &mut Vec<Record>,
    ) {
        let (due, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending| now.saturating_since(pending.action.at) >= options.patience);
        self.pending = pending;
        for pending in due {
            self.judge(&pending, options, writers, out);
        }
        if self.is_leaving() {
            return;
        }
        for (write, stood) in self.unmet.overdue(now, options.patience, busy) {
            self.tell_overdue(&write, stood, out);
        }
    }

    /// Whether nothing is left to judge.
    pub(super) fn is_over(&self, now: Timestamp, options: &Options) -> bool {
        self.pending.is_empty() && self.gone.is_some_and(|gone| now.saturating_since(gone) > options.keep())
    }

    fn judge(&mut self, pending: &Pending, options: &Options, writers: &Writers<'_>, out: &mut Vec<Record>) {
        let Pending { action, created, instead, deleted } = pending;
        let explained = self.explain(action, *created, options);
        if explained != Explained::No {
            self.settle(action, &explained, options, out);
            return;
        }
        let why = match action.kind {
            ActionKind::DeletePod | ActionKind::DeleteReplicaSet => {
                let after = usize::try_from(self.deleted - deleted).unwrap_or(usize::MAX);
                let is_here = |target: &&Target| self.views.last().is_some_and(|view| view.snapshot.holds(&target.uid));
                if after >= instead.len() || !instead.iter().any(|target| is_here(&target)) {
                    self.other(action, "what was to be deleted went as well", out);
                    return;
                }
                self.ranks(action, instead, options)
            }
            ActionKind::ScaleReplicaSet { .. } => match writers(&action.target.uid, action.version) {
                Some(writer) if writer != options.manager => {
                    self.other(action, &format!("the size was written by {writer}"), out);
                    return;
                }
                Some(writer) => format!("the size was written by {writer}, and no state had a plan with it"),
                None => "no state had a plan with it; who wrote the size is not known".to_owned(),
            },
            _ => "no state had a plan with it".to_owned(),
        };
        let would = self.would_before(action, options);
        let (subject, did) = (self.subject(action.version), action.text());
        let name = action.answers().action().to_owned();
        out.push(Record::Difference(Difference { subject, action: name, would, did, why, row: None }));
    }

    fn explain(&self, action: &Action, created: u64, options: &Options) -> Explained {
        let views: Vec<_> = self.views.before(action.version, action.at, options.lookback).collect();
        S::explain(action, &views, created)
    }

    fn settle(&mut self, action: &Action, explained: &Explained, options: &Options, out: &mut Vec<Record>) {
        let write = action.answers();
        self.unmet.progressed(&write, action.at);
        if matches!(action.kind, ActionKind::DeletePod | ActionKind::DeleteReplicaSet) {
            self.deleted += 1;
        }
        let (subject, did, action_name) = (self.subject(action.version), action.text(), write.action().to_owned());
        out.push(match explained {
            Explained::Departs(row) => Record::Difference(Difference {
                subject,
                action: action_name,
                would: self.would_before(action, options),
                did,
                why: "the reference's own rule asks for it".to_owned(),
                row: Some((*row).to_owned()),
            }),
            Explained::Agreed | Explained::No => Record::Agreement(Agreement { subject, action: action_name, did }),
        });
    }

    fn tell_overdue(&self, write: &IntendedWrite, stood: Duration, out: &mut Vec<Record>) {
        let Some(view) = self.views.last() else { return };
        let subject = self.subject(ResourceVersion::UNKNOWN);
        let action = write.action().to_owned();
        if let Some(refusal) = view.snapshot.refused(write) {
            let did = "tried, and was refused".to_owned();
            out.push(Record::Other(Other { subject, action, did, why: refusal }));
            return;
        }
        let intents: Vec<Intent> =
            view.intents().iter().filter(|intent| intent.writes().contains(write)).cloned().collect();
        let would = match (write, &intents[..]) {
            (IntendedWrite::Status(name), [Intent::WriteStatus(fields)]) => {
                fields.iter().find(|field| field.name == *name).map(ToString::to_string).unwrap_or_default()
            }
            _ => text_of(&intents),
        };
        let row = view.snapshot.left_undone_by(write, &intents).map(str::to_owned);
        let did = "nothing".to_owned();
        let why = format!("every state wanted it for {} s", stood.as_secs());
        out.push(Record::Difference(Difference { subject, action, would, did, why, row }));
    }

    /// What was intended to be deleted in the latest state before the action.
    fn instead(&self, action: &Action, options: &Options) -> Vec<Target> {
        let Some(view) = self.views.before(action.version, action.at, options.lookback).next() else {
            return Vec::new();
        };
        let targets = view.intents().iter().flat_map(|intent| match (intent, &action.kind) {
            (Intent::DeletePods(pods), ActionKind::DeletePod) => pods.clone(),
            (Intent::DeleteReplicaSet(set), ActionKind::DeleteReplicaSet) => vec![set.clone()],
            _ => Vec::new(),
        });
        targets.collect()
    }

    /// Says that another object was deleted, and by which values it and the intended ones are ranked.
    fn ranks(&self, action: &Action, instead: &[Target], options: &Options) -> String {
        let mut why = "another was deleted, and what was to be deleted is still there".to_owned();
        if let Some(view) = self.views.before(action.version, action.at, options.lookback).next() {
            let uids = std::iter::once(&action.target.uid).chain(instead.iter().map(|target| &target.uid));
            for ranked in uids.filter_map(|uid| view.snapshot.ranked(uid)) {
                why.push_str("; ");
                why.push_str(&ranked);
            }
        }
        why
    }

    fn would_before(&self, action: &Action, options: &Options) -> String {
        let before = self.views.before(action.version, action.at, options.lookback).next();
        before.map_or_else(|| "not known".to_owned(), |view| text_of(view.intents()))
    }

    fn other(&self, action: &Action, why: &str, out: &mut Vec<Record>) {
        let (subject, did) = (self.subject(action.version), action.text());
        let action = action.answers().action().to_owned();
        out.push(Record::Other(Other { subject, action, did, why: why.to_owned() }));
    }

    fn is_leaving(&self) -> bool {
        self.gone.is_some() || self.views.last().is_some_and(|view| view.snapshot.meta().is_being_deleted())
    }

    fn subject(&self, version: ResourceVersion) -> Subject {
        Subject::new(S::KIND, &self.key, &self.uid, version)
    }
}
