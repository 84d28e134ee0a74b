//! A rolling update takes no pods from old ReplicaSets before all have reported on their sizes (DEP-11, B-19).
//!
//! Judged by the sizes that the controllers wrote themselves, and know of however late their watches are.

use std::collections::BTreeMap;

use muster_controllers::deployment::revision::DESIRED_REPLICAS;
use muster_tree::Value;

use super::rollout::uid;
use super::step::{State, Update, size};
use super::{Broken, Evidence, Kind, Law, Seen};
use crate::api::{name, number};
use crate::world::EPOCH_NANOS;

/// By then a sync is over that wrote something: one sync may scale several ReplicaSets, and one of them twice.
const SYNC: i64 = 100;

/// Checks a history of one Deployment, where requests take no time and are answered, and the server is not restored.
#[must_use]
pub fn check(seen: &[Seen], evidence: &Evidence) -> Vec<Broken> {
    let mut state = State::default();
    // Which generations of each ReplicaSet it has not reported on, and when they were written.
    let mut open: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    let mut broken = Vec::new();
    for write in seen {
        if write.kind == Kind::ReplicaSet {
            let set = &write.object;
            let [generation, observed] =
                ["/metadata/generation", "/status/observedGeneration"].map(|at| number(set, at));
            let Evidence { done, sets_unanswered, .. } = evidence;
            let is_ours = !done.sets.contains(&write.version) && !sets_unanswered.contains(&write.version);
            let before = state.sets.get(name(set)).copied();
            let shrinks = is_ours && before.is_some_and(|before| size(set) < size(before));
            let update = shrinks.then(|| state.update()).flatten().filter(|update| state.is_rolling_from(set, update));
            let mut its = update.iter().flat_map(|update| update.old.iter().chain([&update.new]));
            let is_silent = |set: &&&Value| {
                let since = open.get(uid(set)).and_then(|open| open.first());
                let has_pods = size(set) > 0 || number(set, "/status/replicas") > 0;
                has_pods && since.is_some_and(|(_, since)| since + SYNC < write.millis)
            };
            if let Some(silent) = its.find(is_silent) {
                let at = write.millis - EPOCH_NANOS / 1_000_000;
                let (wants, silent, set) = (size(set), name(silent), name(set));
                let how =
                    format!("{} at {at} ms: {set} is scaled to {wants}, and {silent} has not reported", write.version);
                broken.push(Broken::by(Law::Reported, write, how));
            }
            let open = open.entry(uid(set)).or_default();
            open.retain(|(written, _)| is_ours && *written > observed);
            let rises = before.is_none_or(|before| number(before, "/metadata/generation") < generation);
            if is_ours && rises && generation > observed {
                open.push((generation, write.millis));
            }
        }
        state.take(write);
    }
    broken
}

impl State<'_> {
    /// Whether its controller knows of the rolling update, which has this one as an old ReplicaSet, and nothing is to be scaled first.
    fn is_rolling_from(&self, set: &Value, update: &Update<'_>) -> bool {
        let is_known = |deployment: &Value| {
            number(deployment, "/status/observedGeneration") == number(deployment, "/metadata/generation")
        };
        // One that was scaled for another number of replicas is scaled with its Deployment first (DEP-09).
        let is_scaled = |set: &&Value| {
            let desired = set["metadata"]["annotations"][DESIRED_REPLICAS].as_str();
            size(set) == 0 || desired.is_none_or(|desired| desired == update.replicas.to_string())
        };
        self.deployment.is_some_and(is_known)
            && update.old.iter().chain([&update.new]).all(is_scaled)
            && update.old.iter().any(|old| uid(old) == uid(set))
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// What is written at this time, in milliseconds since the beginning.
    type Written = (i64, Kind, Value);

    fn deployment(at: i64, spec: &Value) -> Written {
        let metadata = json!({"name": "web", "uid": "web", "generation": 2});
        let mut whole = json!({
            "replicas": 4, "strategy": {"type": "RollingUpdate"},
            "template": {"spec": {"containers": [{"image": "new"}]}},
        });
        for (field, value) in spec.as_object().unwrap() {
            whole[field.as_str()] = value.clone();
        }
        (at, Kind::Deployment, json!({"metadata": metadata, "spec": whole, "status": {"observedGeneration": 2}}))
    }

    /// A ReplicaSet by the name of its image, the pods that it wants, its generation and the one that it has observed.
    fn set(at: i64, image: &str, wants: i64, [generation, observed]: [i64; 2]) -> Written {
        let object = json!({
            "metadata": {
                "name": image, "uid": image, "generation": generation, "annotations": {DESIRED_REPLICAS: "4"},
                "ownerReferences": [{"controller": true, "uid": "web", "name": "web"}],
            },
            "spec": {"replicas": wants, "template": {"spec": {"containers": [{"image": image}]}}},
            "status": {"observedGeneration": observed, "replicas": 1},
        });
        (at, Kind::ReplicaSet, object)
    }

    fn broken(writes: &[Written], evidence: &Evidence) -> Vec<String> {
        let seen = writes.iter().zip(1..).map(|((millis, kind, object), version)| Seen {
            epoch: 0,
            version,
            millis: EPOCH_NANOS / 1_000_000 + millis,
            kind: *kind,
            gone: false,
            object: object.clone(),
        });
        let broken = check(&seen.collect::<Vec<_>>(), evidence);
        assert!(broken.iter().all(|broken| broken.law == Law::Reported));
        broken.into_iter().map(|broken| broken.how).collect()
    }

    /// Three old pods and two new ones; then the new ReplicaSet grows at 0 ms, and an old one shrinks at this moment.
    fn shrinks(at: i64) -> Vec<Written> {
        vec![
            deployment(0, &json!({})),
            set(0, "old", 3, [1, 1]),
            set(0, "new", 1, [1, 1]),
            set(0, "new", 2, [2, 1]),
            set(at, "old", 2, [2, 1]),
        ]
    }

    /// Contract: SI-02, DEP-11, B-19
    #[test]
    fn nothing_old_shrinks_before_all_have_reported() {
        let nobody = Evidence::default();
        assert_eq!(broken(&shrinks(101), &nobody), ["5 at 101 ms: old is scaled to 2, and new has not reported"]);
        assert_eq!(broken(&shrinks(100), &nobody).len(), 0, "by the same sync");
        let reports = |report| [&shrinks(101)[..4], &[report], &shrinks(101)[4..]].concat();
        assert_eq!(broken(&reports(set(50, "new", 2, [2, 2])), &nobody).len(), 0);
        assert_eq!(broken(&reports(set(50, "new", 2, [2, 1])), &nobody).len(), 1, "another status");
        // Its own size counts as well, and that of another old one; but for one without pods.
        let mut old = [&reports(set(50, "new", 2, [2, 2]))[..], &[set(202, "old", 1, [3, 1])]].concat();
        assert_eq!(broken(&old, &nobody), ["7 at 202 ms: old is scaled to 1, and old has not reported"]);
        old[6] = set(202, "old", 1, [3, 2]);
        assert_eq!(broken(&old, &nobody).len(), 1, "by what the server had before");
        let mut without = set(0, "older", 0, [2, 1]);
        let with = [&reports(set(50, "new", 2, [2, 2]))[..5], &[without.clone()], &shrinks(101)[4..]].concat();
        assert_eq!(broken(&with, &nobody).len(), 1);
        without.2["status"]["replicas"] = json!(0);
        let with = [&reports(set(50, "new", 2, [2, 2]))[..5], &[without], &shrinks(101)[4..]].concat();
        assert_eq!(broken(&with, &nobody).len(), 0);
        // The first write that is not answered to counts, also where others came after it.
        let mut again = reports(set(60, "new", 3, [3, 1]));
        assert_eq!(broken(&again, &nobody).len(), 1);
        again.insert(5, set(70, "new", 3, [3, 2]));
        assert_eq!(broken(&again, &nobody).len(), 0);
        again[6].0 = 161;
        assert_eq!(broken(&again, &nobody).len(), 1);
        // What is the Deployment's no more holds nothing, nor does what is gone.
        let mut left = shrinks(101);
        left.insert(4, set(50, "new", 2, [2, 1]));
        left[4].2["metadata"]["ownerReferences"][0]["uid"] = json!("other");
        left.insert(4, set(0, "newer", 1, [1, 1]));
        left[4].2["spec"]["template"] = left[3].2["spec"]["template"].clone();
        assert_eq!(broken(&left, &nobody).len(), 0);
    }

    /// Contract: SI-02, DEP-09
    #[test]
    fn what_the_controllers_do_not_know_does_not_hold_them() {
        let by_others = |version| Evidence {
            done: super::super::Done { sets: [version].into(), ..super::super::Done::default() },
            ..Evidence::default()
        };
        let unanswered = |version| Evidence { sets_unanswered: [version].into(), ..Evidence::default() };
        for version in [4, 5] {
            assert_eq!(broken(&shrinks(101), &by_others(version)).len(), 0, "{version}");
            assert_eq!(broken(&shrinks(101), &unanswered(version)).len(), 0, "{version}");
        }
        // No rolling update, or the Deployment is scaled first.
        let nobody = Evidence::default();
        for spec in [json!({"paused": true}), json!({"strategy": {"type": "Recreate"}}), json!({"replicas": 5})] {
            let mut writes = shrinks(101);
            writes[0] = deployment(0, &spec);
            assert_eq!(broken(&writes, &nobody).len(), 0, "{spec}");
        }
        let mut writes = shrinks(101);
        writes[0].2["metadata"]["generation"] = json!(3);
        assert_eq!(broken(&writes, &nobody).len(), 0, "its spec is not observed");
        // What shrinks is the new one, or wants as many as before.
        writes = shrinks(101);
        writes[4] = set(101, "new", 1, [3, 1]);
        assert_eq!(broken(&writes, &nobody).len(), 0);
        writes[4] = set(101, "old", 3, [2, 1]);
        assert_eq!(broken(&writes, &nobody).len(), 0);
    }
}
