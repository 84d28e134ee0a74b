//! The laws of a rollout, as checks of each write to a small world: those of [`laws::rollout`](crate::laws::rollout), with
//! the same allowances.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_controllers::deployment::bounds::Bounds as Allowed;
use muster_controllers::deployment::progress::is_complete;
use muster_controllers::deployment::revision::{REVISION, max_replicas, revision};
use muster_controllers::deployment::sets::find_new;
use muster_objects::{Deployment, ReplicaSet, Strategy};
use muster_tree::Value;

use super::objects::Objects;
use super::state::{Phase, Pod, SETS, State, Stored};
use crate::laws::sizes::Sizes;
use crate::laws::{Broken, Law};

/// What the laws remember of the writes until now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Watched {
    /// The bounds that count: the newest last, behind it those that it has not replaced yet.
    bounds: Vec<Bounds>,
    /// The sizes that each ReplicaSet's controller may be looking at.
    sizes: [Sizes; SETS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Bounds {
    most: i64,
    least: i64,
}

/// What a write has made of a state, and the first law that it breaks. Pods go by the controllers' doing only.
pub(super) fn judge(objects: &Objects, before: &State, after: &mut State) -> Option<Broken> {
    let broken = |law: Law, how: String| Some(Broken::at_the_end(law, &how));
    let deployment = objects.deployment(*after.deployments.now());
    let mut watched = std::mem::take(&mut after.watched);
    let mut found = None;
    if before.deployments.now() != after.deployments.now() {
        let highest = objects.sets(after.sets.now()).filter_map(|set| revision(set)).max();
        let number = |stored: Stored| {
            let deployment = stored.is_there().then(|| objects.deployment(stored))?;
            deployment.annotations.get(REVISION)?.parse::<i64>().ok()
        };
        let (old, new) = (number(*before.deployments.now()), number(*after.deployments.now()));
        if new < old && highest >= old {
            found = found.or(broken(Law::Revision, format!("revision {old:?} of the Deployment became {new:?}")));
        }
        watched.note_bounds(deployment, objects, after);
    }
    for (at, sizes) in watched.sizes.iter_mut().enumerate() {
        let (old, new) = (before.sets.now()[at], after.sets.now()[at]);
        if old == new || !new.is_there() {
            continue;
        }
        let json = objects.json(new);
        sizes.note(|pointer| json.pointer(pointer).and_then(Value::as_i64).unwrap_or_default());
        if old.is_there() && revision(objects.set(new)) < revision(objects.set(old)) {
            found = found.or(broken(Law::Revision, format!("the revision of {} fell", objects.set_name(at))));
        }
    }

    let pods = after.pods.now();
    let (total, available) = (count(pods, Pod::is_active), count(pods, is_available));
    watched.settle(deployment, objects, after, total, available);
    let most = watched.bounds.iter().map(|bounds| bounds.most).max().unwrap_or_default();
    let least = watched.bounds.iter().map(|bounds| bounds.least).min().unwrap_or_default();
    let wanted = wanted(objects, after);
    if wanted > most {
        found = found.or(broken(Law::Surge, format!("ReplicaSets want {wanted} pods, at most {most} are allowed")));
    }
    if total > most {
        found = found.or(broken(Law::Surge, format!("there are {total} pods, at most {most} are allowed")));
    }
    if available < count(before.pods.now(), is_available) && available < least {
        let how = format!("{available} pods are left available, at least {least} must be");
        found = found.or(broken(Law::Availability, how));
    }
    for (at, sizes) in (0..).zip(&watched.sizes) {
        let [had, has] = [before, &*after].map(|state| count(state.pods.now(), |pod| pod.set == at && pod.is_active()));
        let (most, least) = (sizes.most(), sizes.least());
        if has > had && has > most {
            found = found.or(broken(Law::Count, format!("a ReplicaSet has {has} pods, and wants {most}")));
        }
        if has < had && has < least {
            found = found.or(broken(Law::Count, format!("a ReplicaSet has {has} pods left, and wants {least}")));
        }
    }
    let running: BTreeSet<u8> = pods.iter().map(|pod| pod.set).collect();
    if deployment.strategy == Strategy::Recreate && running.len() > 1 {
        found = found.or(broken(Law::Recreate, "pods of two ReplicaSets run together".to_owned()));
    }
    after.watched = watched;
    found
}

/// What is wrong with a state in which nothing will happen any more, if anything is.
pub(super) fn at_the_end(objects: &Objects, state: &State) -> Option<Broken> {
    let deployment = objects.deployment(*state.deployments.now());
    let sets: Vec<Arc<ReplicaSet>> = objects.sets(state.sets.now()).cloned().collect();
    let new = find_new(deployment, &sets);
    let pods = state.pods.now();
    let is_good = is_complete(deployment, &deployment.status)
        && new.is_some_and(|new| i64::from(new.replicas) == wanted(objects, state))
        && wanted(objects, state) == i64::from(deployment.replicas)
        && count(pods, is_available) == wanted(objects, state)
        && pods.iter().all(is_available);
    let how = "nothing will happen any more, and it is not complete".to_owned();
    (!is_good).then(|| Broken::at_the_end(Law::Ends, &how))
}

impl Watched {
    /// Whether one pair of bounds counts.
    pub(super) fn is_settled(&self) -> bool {
        self.bounds.len() == 1
    }

    fn newest(&self) -> Bounds {
        self.bounds.last().copied().unwrap_or_default()
    }

    /// The bounds of the Deployment as it now is.
    fn note_bounds(&mut self, deployment: &Deployment, objects: &Objects, state: &State) {
        let replicas = i64::from(deployment.replicas);
        let allowed = Allowed::of(deployment);
        let least = match deployment.strategy {
            Strategy::Recreate => 0,
            _ => allowed.least_available(deployment.replicas),
        };
        let bounds = Bounds { most: replicas + allowed.surge, least: least.max(0) };
        if self.bounds.last() == Some(&bounds) {
            return;
        }
        // Where ReplicaSets want more pods than the newest bounds allow, or were scaled for more than these, they shrink
        // in proportion, whichever of them have the available pods (DEP-09).
        let mut active = objects.sets(state.sets.now()).filter(|set| set.replicas > 0);
        let scaled_for_more = active.any(|set| max_replicas(set).is_some_and(|most| i64::from(most) > bounds.most));
        if wanted(objects, state) > bounds.most || scaled_for_more {
            self.bounds.insert(0, Bounds { least: 0, ..bounds });
        }
        self.bounds.push(bounds);
    }

    /// Drops earlier bounds once the newest are observed and kept.
    fn settle(&mut self, deployment: &Deployment, objects: &Objects, state: &State, total: i64, available: i64) {
        let newest = self.newest();
        let observed = deployment.status.observed_generation >= deployment.meta.generation;
        let known = available.min(deployment.status.available_replicas.into());
        let kept = total.max(wanted(objects, state)) <= newest.most;
        if observed && kept && known >= newest.least && is_at_rest(objects, state) {
            self.bounds = vec![newest];
        }
    }
}

/// Whether no pod is about to go or to come: every ReplicaSet has as many as it wants, and its controller knows how many
/// that are.
fn is_at_rest(objects: &Objects, state: &State) -> bool {
    (0..).zip(state.sets.now()).filter(|(_, set)| set.is_there()).all(|(at, set)| {
        let set = objects.set(*set);
        let has = count(state.pods.now(), |pod| pod.set == at && pod.is_active());
        set.status.observed_generation == set.meta.generation && has == i64::from(set.replicas)
    })
}

fn wanted(objects: &Objects, state: &State) -> i64 {
    objects.sets(state.sets.now()).map(|set| i64::from(set.replicas)).sum()
}

fn is_available(pod: &Pod) -> bool {
    pod.phase == Phase::Ready
}

fn count(pods: &[Pod], which: impl Fn(&Pod) -> bool) -> i64 {
    pods.iter().map(|pod| i64::from(which(pod))).sum()
}
