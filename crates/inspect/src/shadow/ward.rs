//! Ward: one owner that is watched, with what was seen of it lately.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_objects::Timestamp;
use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};

use super::action::{Action, Did};
use super::consider::{Considered, Explained};
use super::intent::{Intent, Target, Wish, told};
use super::record::{Agreement, Difference, Other, Planned, Record, Subject};
use super::side::Options;
use super::standing::Standing;
use super::views::{View, Views};

/// Who has last written `spec.replicas` of an object, at one of its versions; none where it is not known.
pub type Writers<'a> = dyn Fn(&Uid, ResourceVersion) -> Option<String> + 'a;

/// One owner.
pub struct Ward<S> {
    key: ObjectKey,
    uid: Uid,
    views: Views<S>,
    /// How many pods were seen to come.
    created: u64,
    /// How many objects were deleted as planned.
    deleted: u64,
    /// Actions that nothing has explained yet.
    pending: Vec<Pending>,
    standing: Standing,
    /// When the owner was seen to be gone.
    pub(super) gone: Option<Timestamp>,
}

/// An action that nothing has explained yet. A state that came late by a slow watch may still do so.
struct Pending {
    action: Action,
    created: u64,
    /// What would have been deleted instead, and how many deletions were as planned by then.
    instead: Vec<Target>,
    deleted: u64,
}

impl<S: Considered> Ward<S> {
    /// An owner that comes up.
    pub(super) fn new(key: ObjectKey, uid: Uid) -> Self {
        Self {
            key,
            uid,
            views: Views::default(),
            created: 0,
            deleted: 0,
            pending: Vec::new(),
            standing: Standing::default(),
            gone: None,
        }
    }

    /// Takes in a state. Returns when time alone will change what is to be done.
    pub(super) fn look(
        &mut self,
        snapshot: S,
        version: ResourceVersion,
        at: Timestamp,
        options: &Options,
        out: &mut Vec<Record>,
    ) -> Option<Duration> {
        let recorded = snapshot.consider(at);
        let wishes: BTreeSet<Wish> = recorded.intents.iter().flat_map(Intent::wishes).collect();
        let before = self.views.last();
        let wished: BTreeSet<Wish> = before.iter().flat_map(|view| view.intents()).flat_map(Intent::wishes).collect();
        let rewritten =
            before.is_some_and(|view| view.snapshot.meta().resource_version != snapshot.meta().resource_version);
        if rewritten {
            self.settle_status(&wished, &wishes, version, out);
        }
        if !wishes.is_subset(&wished) {
            let subject = self.subject(version);
            out.push(Record::Plan(Planned { subject, would: told(&recorded.intents) }));
        }
        self.standing.are(&recorded.intents, at);
        let look_again = recorded.look_again;
        let snapshot = snapshot.kept();
        self.views.push(View { version, at, snapshot, recorded, created: self.created }, options.keep());
        look_again
    }

    /// The owner itself was written, and what was to be written in its status is there.
    fn settle_status(
        &mut self,
        wished: &BTreeSet<Wish>,
        wishes: &BTreeSet<Wish>,
        version: ResourceVersion,
        out: &mut Vec<Record>,
    ) {
        let statuses = |wishes: &BTreeSet<Wish>| wishes.iter().filter(|wish| matches!(wish, Wish::Status(_))).count();
        if statuses(wished) > 0 && statuses(wishes) == 0 {
            let granted = wished.iter().filter_map(|wish| match wish {
                Wish::Status(field) => Some(field.as_str()),
                _ => None,
            });
            let did = format!("wrote status: {}", granted.collect::<Vec<_>>().join(", "));
            out.push(Record::Agreement(Agreement { subject: self.subject(version), action: "status".into(), did }));
        }
    }

    /// Takes in something that was done.
    pub(super) fn did(&mut self, action: Action, options: &Options, out: &mut Vec<Record>) {
        if action.did == Did::CreatePod {
            self.created += 1;
        }
        let explained = self.explain(&action, self.created, options);
        if explained != Explained::No {
            self.settle(&action, &explained, options, out);
            return;
        }
        if self.is_leaving() && matches!(action.did, Did::DeletePod | Did::DeleteReplicaSet | Did::Release) {
            self.other(&action, "its owner is gone or being deleted", out);
            return;
        }
        let instead = self.instead(&action, options);
        let by_somebody = match action.did {
            Did::Release => Some("it was not to be released, and a controller would only take it back"),
            Did::DeletePod | Did::DeleteReplicaSet if instead.is_empty() => Some("nothing was to be deleted"),
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

    /// Whether it lives in one of the namespaces.
    pub(super) fn is_in(&self, namespaces: &BTreeSet<Arc<str>>) -> bool {
        namespaces.contains(&self.key.namespace)
    }

    /// Lets go what nothing has explained yet.
    pub(super) fn forgive(&mut self, why: &str, out: &mut Vec<Record>) {
        for pending in std::mem::take(&mut self.pending) {
            self.other(&pending.action, why, out);
        }
    }

    /// The owner's key, where it is about to be told that nobody does what it wants.
    pub(super) fn doubtful(&self, now: Timestamp, busy: Option<Timestamp>, options: &Options) -> Option<ObjectKey> {
        let overdue = !self.is_leaving() && self.standing.is_overdue(now, options.patience, busy);
        overdue.then(|| self.key.clone())
    }

    /// Tells what has been waited for long enough.
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
        for (wish, stood) in self.standing.overdue(now, options.patience, busy) {
            self.tell_overdue(&wish, stood, out);
        }
    }

    /// Whether nothing is left to be judged.
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
        let why = match action.did {
            Did::DeletePod | Did::DeleteReplicaSet => {
                let after = usize::try_from(self.deleted - deleted).unwrap_or(usize::MAX);
                let is_here = |target: &&Target| self.views.last().is_some_and(|view| view.snapshot.holds(&target.uid));
                if after >= instead.len() || !instead.iter().any(|target| is_here(&target)) {
                    self.other(action, "what was to be deleted went as well", out);
                    return;
                }
                self.ranks(action, instead, options)
            }
            Did::ScaleReplicaSet { .. } => match writers(&action.target.uid, action.version) {
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
        let (subject, did) = (self.subject(action.version), action.told());
        let name = action.answers().action().to_owned();
        out.push(Record::Difference(Difference { subject, action: name, would, did, why, row: None }));
    }

    fn explain(&self, action: &Action, created: u64, options: &Options) -> Explained {
        let views: Vec<_> = self.views.before(action.version, action.at, options.lookback).collect();
        S::explain(action, &views, created)
    }

    fn settle(&mut self, action: &Action, explained: &Explained, options: &Options, out: &mut Vec<Record>) {
        let wish = action.answers();
        self.standing.progressed(&wish, action.at);
        if matches!(action.did, Did::DeletePod | Did::DeleteReplicaSet) {
            self.deleted += 1;
        }
        let (subject, did, action_name) = (self.subject(action.version), action.told(), wish.action().to_owned());
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

    fn tell_overdue(&self, wish: &Wish, stood: Duration, out: &mut Vec<Record>) {
        let Some(view) = self.views.last() else { return };
        let subject = self.subject(ResourceVersion::UNKNOWN);
        let action = wish.action().to_owned();
        if let Some(refusal) = view.snapshot.refused(wish) {
            let did = "tried, and was refused".to_owned();
            out.push(Record::Other(Other { subject, action, did, why: refusal }));
            return;
        }
        let intents: Vec<Intent> =
            view.intents().iter().filter(|intent| intent.wishes().contains(wish)).cloned().collect();
        let would = match (wish, &intents[..]) {
            (Wish::Status(name), [Intent::WriteStatus(fields)]) => {
                fields.iter().find(|field| field.name == *name).map(ToString::to_string).unwrap_or_default()
            }
            _ => told(&intents),
        };
        let row = view.snapshot.left_undone_by(wish, &intents).map(str::to_owned);
        let did = "nothing".to_owned();
        let why = format!("every state wanted it for {} s", stood.as_secs());
        out.push(Record::Difference(Difference { subject, action, would, did, why, row }));
    }

    /// What would have been deleted in the state before.
    fn instead(&self, action: &Action, options: &Options) -> Vec<Target> {
        let Some(view) = self.views.before(action.version, action.at, options.lookback).next() else {
            return Vec::new();
        };
        let targets = view.intents().iter().flat_map(|intent| match (intent, &action.did) {
            (Intent::DeletePods(pods), Did::DeletePod) => pods.clone(),
            (Intent::DeleteReplicaSet(set), Did::DeleteReplicaSet) => vec![set.clone()],
            _ => Vec::new(),
        });
        targets.collect()
    }

    /// That another was deleted, and by what it and those that were to go instead are ranked.
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
        before.map_or_else(|| "not known".to_owned(), |view| told(view.intents()))
    }

    fn other(&self, action: &Action, why: &str, out: &mut Vec<Record>) {
        let (subject, did) = (self.subject(action.version), action.told());
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
