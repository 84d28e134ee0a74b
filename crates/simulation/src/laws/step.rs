//! A rolling update goes on where its bounds allow it (DEP-10, DEP-11), whatever its pods do.
//!
//! Judged until the first fault strikes the controllers, and by what is on the server: what they know of it a moment later.

use std::collections::BTreeMap;
use std::ops::Range;

use muster_tree::Value;

use super::rest::template;
use super::rollout::{bounds, count_of, is_active, is_available, uid};
use super::{Broken, Evidence, Kind, Law, Place, Seen};
use crate::api::{is_being_deleted, name, number, owner_uid};
use crate::world::EPOCH_NANOS;

/// By then every step is done: counts wait a second at the most (RS-17), and requests take no time.
const WITHIN: i64 = 2_000;

/// Checks a history of one Deployment: no step that the bounds allow is left undone for 2 s.
#[must_use]
pub fn check(seen: &[Seen], evidence: &Evidence) -> Vec<Broken> {
    let mut state = State::default();
    let mut broken = Vec::new();
    for pair in seen.windows(2) {
        let [write, next] = pair else { continue };
        state.take(write);
        // Nothing was written and nothing had struck until then.
        let end = evidence.disturbed_from.map_or(next.millis, |from| next.millis.min(from - 1));
        if end - write.millis < WITHIN {
            continue;
        }
        // More pods become available as time passes.
        let (from, until) = (write.millis, write.millis + WITHIN);
        let left = state.may_go_on(end - WITHIN).map(|left| (left, end));
        let left = left.or_else(|| state.may_clean_up(from..until).map(|left| (left, until)));
        broken.extend(left.map(|(left, by)| {
            let how = format!("at {} ms {left}, and for 2 s nothing is written", by - EPOCH_NANOS / 1_000_000);
            Broken { law: Law::Step, place: Place::Moment(by), how }
        }));
    }
    broken
}

/// The Deployment and what it owns.
#[derive(Default)]
pub(super) struct State<'s> {
    pub(super) deployment: Option<&'s Value>,
    pub(super) sets: BTreeMap<&'s str, &'s Value>,
    pods: BTreeMap<&'s str, &'s Value>,
}

/// A rolling update as of one moment.
pub(super) struct Update<'s> {
    pub(super) new: &'s Value,
    pub(super) old: Vec<&'s Value>,
    pub(super) replicas: i64,
    most: i64,
    least: i64,
}

impl<'s> Update<'s> {
    /// The old ReplicaSets that still want pods.
    fn shrinkable(&self) -> impl Iterator<Item = &'s Value> {
        self.old.iter().copied().filter(|set| size(set) > 0)
    }
}

impl<'s> State<'s> {
    pub(super) fn take(&mut self, write: &'s Seen) {
        let objects = match write.kind {
            Kind::Deployment => {
                self.deployment = Some(&write.object).filter(|_| !write.gone);
                return;
            }
            Kind::ReplicaSet => &mut self.sets,
            Kind::Pod => &mut self.pods,
            Kind::ReplicationController => return,
        };
        if write.gone {
            objects.remove(name(&write.object));
        } else {
            objects.insert(name(&write.object), &write.object);
        }
    }

    /// The update that is under way.
    pub(super) fn update(&self) -> Option<Update<'s>> {
        let deployment = self.deployment.filter(|deployment| !is_being_deleted(deployment))?;
        let spec = &deployment["spec"];
        if spec["paused"] == true || spec["strategy"]["type"] != "RollingUpdate" {
            return None;
        }
        let owned = self.sets.values().copied().filter(|set| owner_uid(set) == Some(uid(deployment)));
        let wanted = template(deployment);
        let (new, old): (Vec<&Value>, Vec<&Value>) = owned.partition(|set| template(set) == wanted);
        let replicas = number(spec, "/replicas");
        let (most, least) = bounds(spec);
        Some(Update { new: new.first()?, old, replicas, most, least })
    }

    /// How many of its pods are there and as this asks.
    fn count(&self, set: &Value, is_meant: impl Fn(&Value) -> bool) -> i64 {
        let of_set = |pod: &&&Value| is_active(pod) && owner_uid(pod) == Some(uid(set));
        count_of(self.pods.values().filter(of_set).filter(|pod| is_meant(pod)).count())
    }

    /// How many of its pods are available and stay when it has its size.
    fn available(&self, set: &Value, now: i64) -> i64 {
        let available = self.count(set, |pod| is_available(pod, min_ready(set), now));
        let to_go = (self.count(set, |_| true) - size(set)).max(0);
        (available - to_go).max(0)
    }

    /// A step that the bounds allow, whichever pods the old ReplicaSets lose.
    fn may_go_on(&self, now: i64) -> Option<String> {
        let update = self.update()?;
        let Update { new, ref old, replicas, most, least } = update;
        let taken: i64 = old.iter().map(|set| size(set).max(self.count(set, |_| true))).sum();
        if size(new) > replicas || size(new) < replicas && taken + size(new) < most {
            return Some(format!(
                "{} wants {} pods of {replicas}, where {most} may be there in all, {taken} are old",
                name(new),
                size(new)
            ));
        }
        let available: i64 = old.iter().chain([&new]).map(|set| self.available(set, now)).sum();
        let shrinks = update.shrinkable().next().filter(|_| available > least && self.most_down(&update, now) > 0)?;
        Some(format!(
            "{} has {} replicas, where {available} pods are available of {least}",
            name(shrinks),
            size(shrinks)
        ))
    }

    /// Old replicas that can go, and that are of no use all this time.
    fn may_clean_up(&self, time: Range<i64>) -> Option<String> {
        let update = self.update()?;
        if self.most_down(&update, time.start) <= 0 {
            return None;
        }
        let is_of_no_use = |set: &&Value| self.count(set, |pod| is_available(pod, min_ready(set), time.end)) == 0;
        let set = update.shrinkable().find(is_of_no_use)?;
        Some(format!("{} has {} replicas, of which none is available", name(set), size(set)))
    }

    /// The most replicas by which the old ReplicaSets may shrink: what is beyond the minimum, but for new pods that are not available.
    fn most_down(&self, Update { new, old, least, .. }: &Update<'_>, now: i64) -> i64 {
        let total: i64 = old.iter().chain([new]).map(|set| size(set)).sum();
        total - least - (size(new) - self.available(new, now))
    }
}

pub(super) fn size(set: &Value) -> i64 {
    number(set, "/spec/replicas")
}

/// By what a ReplicaSet tells of available pods: an old one keeps what its Deployment had.
fn min_ready(set: &Value) -> i64 {
    number(set, "/spec/minReadySeconds")
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// The strategy, how many pods each ReplicaSet wants (the second is the new one), and how many each has: available, and others.
    struct Step {
        strategy: Value,
        min_ready: i64,
        wants: [i64; 2],
        has: [(i64, i64); 2],
    }

    fn step(wants: [i64; 2], has: [(i64, i64); 2]) -> Step {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
        Step { strategy: rolling, min_ready: 0, wants, has }
    }

    /// What has been written of 4 replicas, all in the first second, and one write `after` so many milliseconds.
    fn seen(step: &Step, paused: bool, after: i64) -> Vec<Seen> {
        let template = |image: &str| json!({"spec": {"containers": [{"image": image}]}});
        let owned = |kind, name: &str, owner: &str, mut object: Value| {
            object["metadata"] = json!({
                "name": name, "uid": name, "ownerReferences": [{"controller": true, "uid": owner, "name": owner}],
            });
            (kind, object)
        };
        let mut objects = vec![(
            Kind::Deployment,
            json!({
                "metadata": {"name": "web", "uid": "web"},
                "spec": {"replicas": 4, "paused": paused, "strategy": step.strategy, "template": template("new")},
            }),
        )];
        for ((set, wants), (available, others)) in ["old", "new"].into_iter().zip(step.wants).zip(step.has) {
            let spec = json!({"replicas": wants, "template": template(set), "minReadySeconds": step.min_ready});
            objects.push(owned(Kind::ReplicaSet, set, "web", json!({"spec": spec})));
            for pod in 0..available + others {
                let ready = if pod < available { "True" } else { "False" };
                let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"});
                let status = json!({"phase": "Running", "conditions": [condition]});
                objects.push(owned(Kind::Pod, &format!("{set}-{pod}"), set, json!({"status": status})));
            }
        }
        let last = objects[0].clone();
        let begins = EPOCH_NANOS / 1_000_000 + 1_000;
        let times = vec![begins; objects.len()].into_iter().chain([begins + after]);
        let write = |((kind, object), millis)| Seen { epoch: 0, version: 1, millis, kind, gone: false, object };
        objects.into_iter().chain([last]).zip(times).map(write).collect()
    }

    fn broken(seen: &[Seen], disturbed_from: Option<i64>) -> Vec<String> {
        let broken = check(seen, &Evidence { disturbed_from, ..Evidence::default() });
        assert!(broken.iter().all(|broken| broken.law == Law::Step));
        broken.into_iter().map(|broken| broken.how).collect()
    }

    /// Contract: SI-02, DEP-10, DEP-11
    #[test]
    fn what_the_bounds_allow_is_done_within_two_seconds() {
        for (of, said) in [
            // 5 may be there, and 3 are to be available.
            (step([4, 0], [(4, 0), (0, 0)]), "new wants 0 pods of 4, where 5 may be there in all, 4 are old"),
            (step([0, 5], [(0, 0), (5, 0)]), "new wants 5 pods of 4, where 5 may be there in all, 0 are old"),
            (step([4, 1], [(4, 0), (0, 1)]), "old has 4 replicas, where 4 pods are available of 3"),
            (step([1, 4], [(0, 1), (4, 0)]), "old has 1 replicas, where 4 pods are available of 3"),
            (step([2, 3], [(0, 2), (3, 0)]), "old has 2 replicas, of which none is available"),
            // Each waits for pods.
            (step([3, 2], [(3, 0), (0, 2)]), ""),
            (step([4, 0], [(4, 1), (0, 0)]), ""),
            (step([2, 3], [(2, 0), (1, 2)]), ""),
            (step([2, 2], [(0, 2), (1, 1)]), "new wants 2 pods of 4, where 5 may be there in all, 2 are old"),
            // None can be spared, and new ones are not available either.
            (step([3, 2], [(1, 2), (0, 2)]), ""),
            (step([0, 4], [(0, 0), (4, 0)]), ""),
        ] {
            let told = broken(&seen(&of, false, WITHIN), None);
            let Step { wants, has, .. } = of;
            assert_eq!(told.len(), usize::from(!said.is_empty()), "{wants:?} {has:?}: {told:?}");
            assert!(told.iter().all(|told| told.starts_with(&format!("at 3000 ms {said}"))), "{said}: {told:?}");
        }
    }

    /// Contract: SI-02
    #[test]
    fn a_step_may_be_left_undone_for_a_reason() {
        let begun = || step([4, 0], [(4, 0), (0, 0)]);
        let over = EPOCH_NANOS / 1_000_000 + 3_000;
        assert_eq!(broken(&seen(&begun(), false, WITHIN), Some(over + 1)).len(), 1);
        assert!(broken(&seen(&begun(), false, WITHIN), Some(over)).is_empty(), "a fault has struck");
        assert!(broken(&seen(&begun(), false, WITHIN - 1), None).is_empty(), "it goes on");
        // New pods become available after 7 s, and from then on an old one can be spared.
        let bakes = || Step { min_ready: 7, ..step([1, 4], [(0, 1), (4, 0)]) };
        let told = |after, disturbed| broken(&seen(&bakes(), false, after), disturbed).len();
        assert_eq!([told(7_999, None), told(8_000, None)], [0, 1]);
        let struck = |after: i64| Some(EPOCH_NANOS / 1_000_000 + 1_000 + after);
        assert_eq!([told(20_000, struck(8_000)), told(20_000, struck(8_001))], [0, 1], "a fault has struck by then");
        // An old one that is to have no pods has some for as long as these cannot be deleted.
        assert!(broken(&seen(&step([0, 3], [(2, 0), (3, 0)]), false, WITHIN), None).is_empty());
        assert!(broken(&seen(&begun(), true, WITHIN), None).is_empty(), "it is paused");
        let recreate = Step { strategy: json!({"type": "Recreate"}), ..begun() };
        assert!(broken(&seen(&recreate, false, WITHIN), None).is_empty(), "it is no rolling update");
    }
}
