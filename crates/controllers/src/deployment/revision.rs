//! Revision: the number of a rollout, and the other annotations by which a Deployment keeps its book (DEP-06).
//!
//! The newest ReplicaSet has the highest revision. A template that comes back gets a new number, and its
//! ReplicaSet remembers the numbers that it had before.

use std::sync::Arc;

use muster_objects::{Annotations, Deployment, ReplicaSet};

use super::bounds::Bounds;

/// The number of the rollout.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers that the ReplicaSet had before, oldest first, with commas between.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many replicas the Deployment wanted when the ReplicaSet was last scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The same with the surge: how many pods there could be then.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// To which revision the Deployment is to go back; 0 for the last one.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// What `kubectl apply` remembers.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The longest [`REVISION_HISTORY`], in bytes.
pub const MAX_HISTORY_LENGTH: usize = 2_000;

/// Whether an annotation is the Deployment's or the ReplicaSet's own, and is never copied between them.
#[must_use]
pub fn is_own(key: &str) -> bool {
    matches!(key, LAST_APPLIED | REVISION | REVISION_HISTORY | DESIRED_REPLICAS | MAX_REPLICAS | ROLLBACK_TO)
}

/// The revision of a ReplicaSet: 0 where it has none yet, and none where the annotation is no number.
#[must_use]
pub fn revision(set: &ReplicaSet) -> Option<i64> {
    set.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// The highest revision of all; 0 for none.
pub fn max_revision<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    sets.into_iter().filter_map(|set| revision(set)).fold(0, i64::max)
}

/// The second highest revision of all: the last one before this. 0 where there is none.
pub fn last_revision<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    let (_, last) = sets.into_iter().filter_map(|set| revision(set)).fold((0, 0), |(highest, second), revision| {
        if revision >= highest { (revision, highest) } else { (highest, second.max(revision)) }
    });
    last
}

/// What the new ReplicaSet's annotations become at `revision`, the highest of the old ones and one: those of the
/// Deployment, the revision where it rises, and the history of the revisions before.
///
/// None where nothing changes. Where the ReplicaSet's revision is no number somebody has written it there, and
/// everything is left as it is.
#[must_use]
pub fn new_set_annotations(
    deployment: &Deployment,
    annotations: &Annotations,
    revision: i64,
    max_history: usize,
) -> Option<Annotations> {
    let before = annotations.get(REVISION);
    let number = match before {
        None | Some("") => 0,
        Some(text) => text.parse().ok()?,
    };
    let copied = deployment.annotations.iter().filter(|(key, _)| !is_own(key));
    let mut after = with(annotations, copied);
    if number < revision {
        let text = revision.to_string();
        after = with(&after, [(REVISION, &*text)]);
        if let Some(before) = before
            && let Some(history) = history_after(annotations.get(REVISION_HISTORY).unwrap_or(""), before, max_history)
        {
            after = with(&after, [(REVISION_HISTORY, &*history)]);
        }
    }
    (after != *annotations).then_some(after)
}

/// The history with one more revision; the oldest are dropped where it would be longer than `most` bytes. None
/// where even the new one alone is.
fn history_after(history: &str, revision: &str, most: usize) -> Option<String> {
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.to_owned());
    }
    let mut kept = Some(history);
    while let Some(rest) = kept {
        if rest.len() + 1 + revision.len() <= most {
            return Some(format!("{rest},{revision}"));
        }
        kept = rest.split_once(',').map(|(_, newer)| newer);
    }
    (revision.len() <= most).then(|| revision.to_owned())
}

/// The annotations of a ReplicaSet that is scaled for this Deployment now (DEP-13).
#[must_use]
pub fn with_replicas(deployment: &Deployment, annotations: &Annotations) -> Annotations {
    let (desired, most) = replicas_annotations(deployment);
    with(annotations, [(DESIRED_REPLICAS, &*desired), (MAX_REPLICAS, &*most)])
}

/// Whether scaling a ReplicaSet would change its annotations.
#[must_use]
pub fn replicas_need_update(deployment: &Deployment, annotations: &Annotations) -> bool {
    let (desired, most) = replicas_annotations(deployment);
    annotations.get(DESIRED_REPLICAS) != Some(&*desired) || annotations.get(MAX_REPLICAS) != Some(&*most)
}

fn replicas_annotations(deployment: &Deployment) -> (String, String) {
    let most = Bounds::of(deployment).most(deployment.replicas).min(i64::from(i32::MAX));
    (deployment.replicas.to_string(), most.to_string())
}

/// How many replicas the Deployment wanted when the ReplicaSet was last scaled, where the ReplicaSet says so.
#[must_use]
pub fn desired_replicas(set: &ReplicaSet) -> Option<i32> {
    replica_count(set.annotations.get(DESIRED_REPLICAS)?)
}

/// How many pods there could be when the ReplicaSet was last scaled, where it says so.
#[must_use]
pub fn max_replicas(set: &ReplicaSet) -> Option<i32> {
    replica_count(set.annotations.get(MAX_REPLICAS)?)
}

/// A number of replicas as annotations carry it: digits and nothing else, within an int32.
fn replica_count(text: &str) -> Option<i32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The annotations with some of them set.
pub(super) fn with<'a>(
    annotations: &'a Annotations,
    changes: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Annotations {
    annotations.iter().chain(changes).collect()
}
