//! Where pods of an owner fail at once, no others are made for 1 s, then for 2 s, doubling to 5 minutes, until one turns
//! ready (B-08).
//!
//! A manager remembers that as long as it lives, and by what it is told when: judged is one manager that nothing disturbs.

use std::collections::BTreeMap;

use muster_objects::Timestamp;
use muster_tree::{List, Value};

use super::{Broken, Kind, Law, Seen};
use crate::api::{condition, controller, is_being_deleted, name};
use crate::world::EPOCH_NANOS;

/// A pod that ends no later than this after its creation failed at once.
const AT_ONCE: i64 = 10_000;
/// The first delay, and the longest.
const DELAYS: [i64; 2] = [1_000, 300_000];
/// How long a creation may be on its way when a pod fails.
const ON_THE_WAY: i64 = 100;

/// How long nothing is to be made for an owner.
#[derive(Clone, Copy)]
struct Wait {
    delay: i64,
    since: i64,
}

/// Checks all creations of pods.
#[must_use]
pub fn check(seen: &[Seen]) -> Vec<Broken> {
    let mut pods: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut waits: BTreeMap<&str, Wait> = BTreeMap::new();
    let mut broken = Vec::new();
    for write in seen {
        let Seen { millis, kind, gone, object, .. } = write;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if *kind != Kind::Pod {
            if *gone {
                waits.remove(uid);
            }
            continue;
        }
        let before = pods.insert(uid, object);
        let Some(owner) = controller(object).and_then(|owner| owner["uid"].as_str()) else { continue };
        let wait = waits.get(owner).copied();
        if before.is_none()
            && let Some(wait) = wait.filter(|wait| wait.forbids(*millis))
        {
            broken.push(wait.broken(write));
        }
        if is_being_deleted(object) {
            continue;
        }
        let was_ready = before.is_some_and(is_ready);
        let is_change = before.is_none_or(|before| before["status"]["phase"] != object["status"]["phase"]);
        if is_change && !was_ready && failed_at_once(object) {
            if wait.is_none_or(|wait| *millis >= wait.since + wait.delay) {
                let delay = wait.map_or(DELAYS[0], |wait| (2 * wait.delay).min(DELAYS[1]));
                waits.insert(owner, Wait { delay, since: *millis });
            }
        } else if !was_ready && is_ready(object) {
            waits.remove(owner);
        }
    }
    broken
}

impl Wait {
    /// Whether nothing is to be made at this moment.
    fn forbids(self, millis: i64) -> bool {
        (ON_THE_WAY..self.delay).contains(&(millis - self.since))
    }

    fn broken(self, seen: &Seen) -> Broken {
        let Seen { version, millis, object, .. } = seen;
        let (at, after) = (millis - EPOCH_NANOS / 1_000_000, millis - self.since);
        let how = format!(
            "{version} at {at} ms: {} is made {after} ms after a pod of its owner failed at once, and {} ms are to be waited",
            name(object),
            self.delay
        );
        Broken::by(Law::BackOff, seen, how)
    }
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

/// Whether a pod failed within seconds of its creation: by its containers' ends, else by when it was last ready or not, else by its
/// start.
fn failed_at_once(pod: &Value) -> bool {
    let time = |value: &Value| value.as_str().and_then(|text| Timestamp::parse(text).ok());
    let status = &pod["status"];
    let containers = status["containerStatuses"].as_array().map_or(&[][..], List::as_slice);
    let ends = containers.iter().filter_map(|container| time(&container["state"]["terminated"]["finishedAt"]));
    let end = ends.max().or_else(|| time(&condition(pod, "Ready")["lastTransitionTime"]));
    let lifetime = end.or_else(|| time(&status["startTime"])).zip(time(&pod["metadata"]["creationTimestamp"]));
    let is_short = lifetime.is_none_or(|(end, begun)| (end.as_nanos() - begun.as_nanos()) / 1_000_000 <= AT_ONCE);
    status["phase"] == "Failed" && is_short
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;
    use crate::laws::Place;

    /// What becomes of pods of one owner, each at its time in milliseconds.
    fn seen(lives: &[(i64, u32, &str)]) -> Vec<Seen> {
        let begun = Timestamp::parse("2026-01-01T00:00:00Z").expect("a time");
        let writes = lives.iter().zip(1..).map(|((millis, pod, is), version)| {
            let time = begun.plus_nanos(millis / 1_000 * 1_000_000_000).to_string();
            let mut object = json!({
                "metadata": {
                    "name": format!("p{pod}"), "uid": format!("p{pod}"), "creationTimestamp": begun.to_string(),
                    "ownerReferences": [{"uid": "set", "controller": true}],
                },
                "status": {"phase": "Running", "conditions": []},
            });
            let ready = |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": time}]);
            match *is {
                "ready" => object["status"]["conditions"] = ready("True"),
                "failed" => {
                    object["metadata"]["creationTimestamp"] = json!(time);
                    object["status"] = json!({"phase": "Failed", "startTime": time});
                }
                "failed late" => object["status"] = json!({"phase": "Failed", "conditions": ready("False")}),
                "failed and deleted" => {
                    object["metadata"]["deletionTimestamp"] = json!(time);
                    object["status"]["phase"] = json!("Failed");
                }
                _ => {}
            }
            Seen { epoch: 0, version, millis: *millis, kind: Kind::Pod, gone: false, object }
        });
        writes.collect()
    }

    /// Contract: SI-02, B-08
    #[test]
    fn what_is_made_after_failures_comes_late_enough() {
        type Case = (&'static str, &'static [(i64, u32, &'static str)], &'static [u64]);
        let two = [(0, 1, "made"), (1_000, 1, "failed"), (2_000, 2, "made"), (3_000, 2, "failed")];
        let cases: [Case; 8] = [
            ("after the second failure 2 s are to be waited", &[(5_000, 3, "made")], &[]),
            ("what was on its way comes", &[(3_099, 3, "made")], &[]),
            ("one comes too early", &[(3_100, 3, "made"), (4_999, 4, "made")], &[5, 6]),
            ("one was ready", &[(3_500, 2, "ready"), (4_000, 3, "made")], &[]),
            (
                "a failure in the meantime is the same one",
                &[
                    (3_050, 3, "made"),
                    (4_500, 3, "failed"),
                    (5_000, 4, "made"),
                    (5_500, 4, "failed"),
                    (9_499, 5, "made"),
                ],
                &[9],
            ),
            ("it doubles", &[(5_000, 3, "failed"), (8_999, 4, "made"), (9_000, 5, "made")], &[6]),
            ("who lived for longer failed for other reasons", &[(11_000, 3, "failed late"), (12_000, 4, "made")], &[]),
            ("who was deleted did not fail", &[(5_000, 3, "failed and deleted"), (6_000, 4, "made")], &[]),
        ];
        for (what, more, expected) in cases {
            let seen = seen(&[&two[..], more].concat());
            let broken = check(&seen);
            let places: Vec<_> = broken.iter().map(|broken| Some(broken.place)).collect();
            let of_version = |version: &u64| seen.iter().find(|seen| seen.version == *version).map(Place::of);
            let expected: Vec<_> = expected.iter().map(of_version).collect();
            assert_eq!(places, expected, "{what}: {broken:?}");
            assert!(broken.iter().all(|broken| broken.law == Law::BackOff), "{what}");
        }
    }

    #[test]
    fn it_is_never_longer_than_five_minutes_and_ends_with_the_owner() {
        let mut lives = Vec::new();
        let mut at = 0;
        for pod in 0..12 {
            lives.extend([(at, pod, "made"), (at, pod, "failed")]);
            at += (1_000 << pod).min(DELAYS[1]);
        }
        let mut seen = seen(&lives);
        assert_eq!(check(&seen), []);
        let mut early = seen.pop().expect("a failure");
        seen.pop();
        early.millis -= 1;
        early.object["metadata"]["uid"] = json!("early");
        seen.push(early);
        assert_eq!(check(&seen).len(), 1);
        let owner = json!({"metadata": {"name": "set", "uid": "set"}});
        let gone = Seen { kind: Kind::ReplicaSet, gone: true, object: owner, ..seen[0].clone() };
        seen.insert(seen.len() - 1, gone);
        assert_eq!(check(&seen), []);
    }
}
