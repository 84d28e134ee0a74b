//! Revision: the number of a rollout, and the other annotations that a Deployment keeps (DEP-06).
//!
//! The newest ReplicaSet has the highest revision. A template that is used again gets a new number, and its ReplicaSet
//! keeps its earlier numbers.

use std::sync::Arc;

use muster_objects::{Annotations, Deployment, ReplicaSet};

use super::bounds::Bounds;

/// The number of the rollout.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The earlier numbers of the ReplicaSet, oldest first, separated by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// `spec.replicas` of the Deployment when the ReplicaSet was last scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The same plus the surge: the most pods that were allowed then.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// The revision that the Deployment is to be rolled back to; 0 for the last one.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// The annotation of `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The longest [`REVISION_HISTORY`], in bytes.
pub const MAX_HISTORY_LENGTH: usize = 2_000;

/// Whether an annotation belongs to the Deployment or the ReplicaSet alone, and is never copied between them.
pub(super) fn is_own(key: &str) -> bool {
    matches!(key, LAST_APPLIED | REVISION | REVISION_HISTORY | DESIRED_REPLICAS | MAX_REPLICAS | ROLLBACK_TO)
}

/// The revision of a ReplicaSet: 0 if it has none yet, `None` if the annotation is not a number.
#[must_use]
pub fn revision(set: &ReplicaSet) -> Option<i64> {
    set.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// The highest revision; 0 for none.
pub fn max_revision<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    sets.into_iter().filter_map(|set| revision(set)).fold(0, i64::max)
}

/// The second highest revision, which is the one before the current; 0 if there is none.
pub fn last_revision<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    let (_, last) = sets.into_iter().filter_map(|set| revision(set)).fold((0, 0), |(highest, second), revision| {
        if revision >= highest { (revision, highest) } else { (highest, second.max(revision)) }
    });
    last
}

/// The new ReplicaSet's annotations at `revision`, which is one above the highest of the old ones: those of the
/// Deployment, the revision if it rises, and the history; and whether they are to be written.
///
/// If the ReplicaSet's revision is not a number, somebody has edited it: it stays as it is, and the others are written
/// only together with something else.
#[must_use]
pub fn new_set_annotations(
    deployment: &Deployment,
    annotations: &Annotations,
    revision: i64,
    max_history: usize,
) -> (Annotations, bool) {
    let copied = deployment.annotations.iter().filter(|(key, _)| !is_own(key));
    let mut after = with(annotations, copied);
    let before = annotations.get(REVISION);
    let Ok(number) = before.filter(|text| !text.is_empty()).map_or(Ok(0), str::parse) else { return (after, false) };
    if number < revision {
        let text = revision.to_string();
        after = with(&after, [(REVISION, &*text)]);
        if let Some(before) = before
            && let Some(history) = history_after(annotations.get(REVISION_HISTORY).unwrap_or(""), before, max_history)
        {
            after = with(&after, [(REVISION_HISTORY, &*history)]);
        }
    }
    let differs = after != *annotations;
    (after, differs)
}

/// The history with one more revision; the oldest are dropped if it would be longer than `most` bytes. `None` if even
/// the new one alone is.
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

/// `spec.replicas` of the Deployment when the ReplicaSet was last scaled, if its annotation says so.
#[must_use]
pub fn desired_replicas(set: &ReplicaSet) -> Option<i32> {
    replica_count(set.annotations.get(DESIRED_REPLICAS)?)
}

/// The most pods that were allowed when the ReplicaSet was last scaled, if its annotation says so.
#[must_use]
pub fn max_replicas(set: &ReplicaSet) -> Option<i32> {
    replica_count(set.annotations.get(MAX_REPLICAS)?)
}

/// A number of replicas in an annotation: digits only, within an int32.
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
