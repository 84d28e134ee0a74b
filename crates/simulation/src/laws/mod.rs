//! What must hold, whatever strikes: judged over everything that was written.

pub mod back_off;
pub mod cleanup;
pub mod made;
pub mod own;
pub mod past;
pub mod recreate;
pub mod reported;
pub(crate) mod rest;
pub mod rollout;
pub mod sizes;
pub mod step;
mod timeline;
mod watcher;
pub mod workloads;
pub mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use http::Method;

pub use timeline::timeline;
pub use watcher::{Kind, Seen, Watcher};

use crate::api::name;
use crate::faults::{Faults, Verb};
use crate::history::Write;
use crate::world::EPOCH_NANOS;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// Nothing panics: neither the controllers nor the server, nor the cluster around them.
    Panic,
    /// There are never more pods, nor do ReplicaSets want more, than replicas and surge allow.
    Surge,
    /// The controllers never leave fewer pods available than must be.
    Availability,
    /// A ReplicaSet's controller never makes a pod too many, nor takes one too many.
    Count,
    /// An owner that is being deleted gets no pod in the place of another.
    Replaced,
    /// The controllers delete no pod that has no owner, or that its owner does not select, and adopt none for an owner that is being
    /// deleted.
    Own,
    /// What the controllers make is as its owner has it.
    Made,
    /// Where pods fail at once, no others are made for longer and longer.
    BackOff,
    /// With the strategy Recreate pods of two ReplicaSets never run together.
    Recreate,
    /// Revisions only rise.
    Revision,
    /// A rolling update goes on where its bounds allow it.
    Step,
    /// And it takes nothing from old ReplicaSets before all have reported on their sizes.
    Reported,
    /// The controllers delete an old ReplicaSet when nothing of it is left.
    Cleanup,
    /// A rollout ends: complete where its template is good, or at its deadline.
    Ends,
    /// Once it is complete nothing is written.
    Quiet,
    /// Once it is complete the controllers come to have nothing to do.
    Rest,
    /// No two ReplicaSets have one template.
    Templates,
    /// At the end every status says what its pods are.
    Statuses,
    /// At the end there are no more old ReplicaSets than `revisionHistoryLimit` allows, and until a fault strikes none is deleted that is
    /// to be kept.
    Past,
    /// At the end the newest ReplicaSet has its Deployment's annotations, and the Deployment its revision.
    Annotations,
    /// Without faults no write of the controllers is refused with 409, but for the deletion of a pod that somebody else has just
    /// written.
    Conflict,
    /// Of several managers only the one that holds the Lease writes, or the Lease of the namespace's shard.
    Writer,
    /// What a manager that is gone held has another holder soon.
    TakeOver,
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panic => "panic",
            Self::Surge => "surge",
            Self::Availability => "availability",
            Self::Count => "count",
            Self::Replaced => "replaced",
            Self::Own => "own",
            Self::Made => "made",
            Self::BackOff => "back-off",
            Self::Recreate => "recreate",
            Self::Revision => "revision",
            Self::Step => "step",
            Self::Reported => "reported",
            Self::Cleanup => "cleanup",
            Self::Ends => "ends",
            Self::Quiet => "quiet",
            Self::Rest => "rest",
            Self::Templates => "templates",
            Self::Statuses => "statuses",
            Self::Past => "past",
            Self::Annotations => "annotations",
            Self::Conflict => "conflict",
            Self::Writer => "writer",
            Self::TakeOver => "take-over",
        })
    }
}

/// Where in a history a law was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By what became of an object.
    Version {
        /// When it was written: virtual milliseconds since the Unix epoch.
        millis: i64,
        /// How often the server had been restored: versions come again after that.
        epoch: u64,
        /// The object's resourceVersion.
        version: u64,
    },
    /// By a request at this moment, or by what had not come until then: virtual milliseconds since the Unix epoch.
    Moment(i64),
    /// That shows when all is over.
    End,
}

impl Place {
    /// Where this was written.
    pub(crate) fn of(&Seen { millis, epoch, version, .. }: &Seen) -> Self {
        Self::Version { millis, epoch, version }
    }

    /// What sorts places by what was first; of one moment, a request comes after all that was written.
    fn order(&self) -> (i64, u64, u64) {
        match *self {
            Self::Version { millis, epoch, version } => (millis, epoch, version),
            Self::Moment(millis) => (millis, u64::MAX, u64::MAX),
            Self::End => (i64::MAX, u64::MAX, u64::MAX),
        }
    }
}

/// A law that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub law: Law,
    /// Where.
    pub place: Place,
    /// How, for a person.
    pub how: String,
}

impl Broken {
    /// One that what became of an object breaks.
    fn by(law: Law, seen: &Seen, how: String) -> Self {
        Self { law, place: Place::of(seen), how }
    }

    /// One that a request breaks, as `how` says.
    pub(crate) fn by_request(law: Law, write: &Write, how: &str) -> Self {
        let Write { millis, who, method, path, .. } = write;
        let how = format!("at {} ms: {method} {path} by {who}{how}", millis - EPOCH_NANOS / 1_000_000);
        Self { law, place: Place::Moment(*millis), how }
    }

    /// One that shows when all is over.
    pub(crate) fn at_the_end(law: Law, how: &str) -> Self {
        Self { law, place: Place::End, how: how.to_owned() }
    }
}

/// The first one first; of one place, as they were judged.
pub(crate) fn in_order(mut broken: Vec<Broken>) -> Vec<Broken> {
    broken.sort_by_key(|broken| broken.place.order());
    broken
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.how)
    }
}

/// The writes from one restore of the server to the next: of what was before, nothing has been. What was decided on it may still be
/// carried out.
fn epochs(seen: &[Seen]) -> impl Iterator<Item = &[Seen]> {
    seen.chunk_by(|one, next| one.epoch == next.epoch)
}

/// What a watcher does not see.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Pods whose first deletion was the controllers', and was answered.
    pub deleted_by_controllers: BTreeSet<String>,
    /// Pods that the controllers created without being told.
    pub created_unanswered: BTreeSet<String>,
    /// The versions of ReplicaSets that the controllers wrote without being told.
    pub sets_unanswered: BTreeSet<u64>,
    /// What was done by others.
    pub done: Done,
    /// Virtual milliseconds since the Unix epoch from which on whatever happens is told to the controllers at once.
    pub told_from: i64,
    /// From when on they were not told of something, without a sign of it: from then until `told_from` they may do what they must not.
    pub unsure_from: Option<i64>,
    /// From when on something kept them from being told or from acting, or others did what is theirs to do.
    pub disturbed_from: Option<i64>,
}

impl Evidence {
    /// Whether they know at this moment all that watches have to tell.
    fn is_sure(&self, millis: i64) -> bool {
        millis >= self.told_from || self.unsure_from.is_none_or(|from| millis < from)
    }

    /// What these writes and faults say; `is_ours` knows who is one of the controllers' processes.
    #[must_use]
    pub fn of(writes: &[Write], faults: &Faults, is_ours: &dyn Fn(&str) -> bool) -> Self {
        let mut unanswered = faults.unanswered();
        unanswered.retain(|each| is_ours(&each.who));
        let pods = |verb: Verb| {
            let of_pods =
                unanswered.iter().filter(move |each| each.target.verb == verb && each.target.resource == "pods");
            of_pods.map(
                move |each| {
                    if verb == Verb::Create { name(&each.answer).to_owned() } else { each.target.name.clone() }
                },
            )
        };
        let sets = unanswered.iter().filter(|each| each.target.resource == "replicasets");
        let sets_unanswered =
            sets.filter_map(|each| each.answer["metadata"]["resourceVersion"].as_str()?.parse().ok()).collect();
        let mut first = BTreeMap::new();
        for write in writes.iter().filter(|write| write.method == Method::DELETE && write.status == 200) {
            if write.resource() == "pods" {
                let name = write.path.rsplit('/').next().unwrap_or_default();
                first.entry(name.to_owned()).or_insert(write.who);
            }
        }
        first.retain(|_, who| is_ours(who));
        // They do not know that these are gone.
        let unknown: BTreeSet<String> = pods(Verb::Delete).collect();
        first.retain(|pod, _| !unknown.contains(pod));
        let deleted_by_controllers = first.into_keys().collect();
        Self {
            deleted_by_controllers,
            created_unanswered: pods(Verb::Create).collect(),
            sets_unanswered,
            ..Self::default()
        }
    }
}

/// What was done that is not the controllers' doing.
#[derive(Debug, Default)]
pub struct Done {
    /// How often something happened that is no user's doing.
    pub times: u64,
    /// The versions of ReplicaSets that others wrote.
    pub sets: BTreeSet<u64>,
    /// Pods that others made.
    pub pods: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: SI-03
    #[test]
    fn what_was_broken_first_is_told_first() {
        let version = |millis, epoch, version| Place::Version { millis, epoch, version };
        // Versions come again after a restore.
        let sorted = [
            version(5, 0, 8),
            version(5, 0, 9),
            version(5, 1, 7),
            Place::Moment(5),
            version(6, 1, 2),
            Place::Moment(7),
            Place::End,
        ];
        let broken = |place| Broken { law: Law::Count, place, how: String::new() };
        let told = in_order(sorted.iter().rev().map(|place| broken(*place)).collect());
        assert_eq!(told, sorted.map(broken));
    }
}
