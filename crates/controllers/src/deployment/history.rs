//! History: old ReplicaSets are kept for rollbacks, and the oldest deleted if there are too many (DEP-14).

use std::sync::Arc;

use muster_objects::{Deployment, ReplicaSet};

use super::revision::revision;
use super::sets::by_age;
use crate::plan::{Deletion, EventTexts, Ownership, Resource};

/// Which of the `old` ReplicaSets to delete, lowest revision first. Their order matters where a revision is not a number.
///
/// The limit is `spec.revisionHistoryLimit`; without one, or with the largest int32, all are kept. One that has pods,
/// terminating ones included, or wants some is not deleted when its turn comes, nor is one whose controller has not
/// observed its spec; no other is deleted in its place.
#[must_use]
pub fn clean_up<'a>(
    deployment: &Deployment,
    old: impl IntoIterator<Item = &'a Arc<ReplicaSet>>,
) -> Vec<Arc<ReplicaSet>> {
    let Some(limit) = deployment.revision_history_limit else { return Vec::new() };
    let kept: Vec<&Arc<ReplicaSet>> = old.into_iter().filter(|set| !set.meta.is_being_deleted()).collect();
    let limit = usize::try_from(limit).unwrap_or(0);
    let too_many = kept.len().saturating_sub(limit);
    if too_many == 0 {
        return Vec::new();
    }
    let kept = by_revision(kept);
    kept.into_iter().take(too_many).filter(|set| is_done_with(set)).cloned().collect()
}

/// A ReplicaSet, and its revision if that is a number.
type Keyed<'a> = (Option<i64>, &'a Arc<ReplicaSet>);

/// Lowest revision first, and of equal ones the older. One whose revision is not a number is compared with others by age.
///
/// That is no total order. It is an insertion sort then, as upstream's is for up to 12 ReplicaSets, and what comes out
/// depends on the order before. Of more, each has the revision of the next older one that has any.
fn by_revision(sets: Vec<&Arc<ReplicaSet>>) -> Vec<&Arc<ReplicaSet>> {
    const FEW: usize = 12;
    let mut sets: Vec<Keyed<'_>> = sets.into_iter().map(|set| (revision(set), set)).collect();
    let are_numbers = sets.iter().all(|(revision, _)| revision.is_some());
    if are_numbers || sets.len() > FEW {
        sets.sort_by(|(_, a), (_, b)| by_age(a, b));
        let mut older = None;
        for (revision, _) in &mut sets {
            older = revision.or(older);
            *revision = older;
        }
        // Of equal ones the older stays first.
        sets.sort_by_key(|(revision, _)| *revision);
    } else {
        let is_lower = |a: &Keyed<'_>, b: &Keyed<'_>| match (a.0, b.0) {
            (Some(one), Some(another)) if one != another => one < another,
            _ => by_age(a.1, b.1).is_lt(),
        };
        for at in 1..sets.len() {
            let higher = sets[..at].iter().rev().take_while(|set| is_lower(&sets[at], set)).count();
            sets[at - higher..=at].rotate_right(1);
        }
    }
    sets.into_iter().map(|(_, set)| set).collect()
}

/// While pods terminate, the ReplicaSet's controller still has a status to write, which would conflict with the
/// deletion.
fn is_done_with(set: &ReplicaSet) -> bool {
    let status = &set.status;
    set.replicas == 0
        && status.replicas == 0
        && status.terminating_replicas.unwrap_or(0) == 0
        && set.meta.generation <= status.observed_generation
}

/// The deletions of these ReplicaSets. Each has the version that was seen as its precondition, and is sent again with a
/// newer one only if the spec is the same: one that was scaled up meanwhile is not deleted.
#[must_use]
pub fn deletions(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Vec<Deletion> {
    let Ok(selector) = &deployment.selector else { return Vec::new() };
    let deletion = |set: &Arc<ReplicaSet>| Deletion {
        resource: Resource::REPLICA_SETS,
        key: set.meta.key(),
        uid: set.meta.uid.clone(),
        resource_version: set.meta.resource_version,
        ownership: Arc::new(Ownership {
            owner: deployment.meta.uid.clone(),
            selector: selector.clone(),
            generation: Some(set.meta.generation),
        }),
        unready: false,
        events: EventTexts::SILENT,
    };
    sets.iter().map(deletion).collect()
}
