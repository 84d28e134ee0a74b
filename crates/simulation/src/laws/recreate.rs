//! With the strategy Recreate pods of two ReplicaSets of a Deployment never run together (DEP-12), where there are several workloads.
//!
//! A Deployment waits for what it knows to be its own. So of its ReplicaSets those count that it has made, for as long as they are
//! there and its own; of pods those that somebody knows of.

use std::collections::{BTreeMap, BTreeSet};

use super::rollout::is_over;
use super::{Broken, Evidence, Kind, Law, Seen};
use crate::api::{controller, name, owner_uid};
use crate::world::EPOCH_NANOS;

/// Checks every Deployment whose strategy is Recreate from its beginning to its end; nothing where the server was restored.
#[must_use]
pub fn check(seen: &[Seen], evidence: &Evidence) -> Vec<Broken> {
    if seen.iter().any(|write| write.epoch > 0) {
        return Vec::new();
    }
    let (judged, known, sets, pods) = (judged(seen, evidence), BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    let mut laws = Laws { evidence, judged, known, sets, pods, broken: Vec::new() };
    seen.iter().for_each(|write| laws.take(write));
    laws.broken
}

/// The uids of those that always recreate, and none of whose ReplicaSets somebody wrote without its knowledge.
fn judged<'s>(seen: &'s [Seen], evidence: &Evidence) -> BTreeSet<&'s str> {
    let of = |kind| seen.iter().filter(move |write| write.kind == kind);
    let recreates = |write: &&Seen| write.object["spec"]["strategy"]["type"] == "Recreate";
    let mut judged: BTreeSet<&str> = of(Kind::Deployment).filter(recreates).map(uid).collect();
    for write in of(Kind::Deployment).filter(|write| !recreates(write)) {
        judged.remove(uid(write));
    }
    let is_unknown = |write: &&Seen| {
        evidence.sets_unanswered.contains(&write.version) || evidence.done.sets.contains(&write.version)
    };
    for write in of(Kind::ReplicaSet).filter(is_unknown) {
        if let Some(owner) = owner_uid(&write.object) {
            judged.remove(owner);
        }
    }
    judged
}

struct Laws<'s> {
    evidence: &'s Evidence,
    judged: BTreeSet<&'s str>,
    /// ReplicaSets that were seen, by their uids.
    known: BTreeSet<&'s str>,
    /// The Deployment of each that it made and has.
    sets: BTreeMap<&'s str, &'s str>,
    /// Pods that run or may run, each with the uid of its owner.
    pods: BTreeMap<&'s str, &'s str>,
    broken: Vec<Broken>,
}

impl<'s> Laws<'s> {
    fn take(&mut self, write: &'s Seen) {
        match write.kind {
            Kind::ReplicaSet => {
                let is_new = self.known.insert(uid(write));
                let owner = owner_uid(&write.object).filter(|owner| !write.gone && self.judged.contains(owner));
                match owner {
                    Some(owner) if is_new => {
                        self.sets.insert(uid(write), owner);
                    }
                    Some(owner) if self.sets.get(uid(write)) == Some(&owner) => {}
                    _ => {
                        self.sets.remove(uid(write));
                    }
                }
            }
            Kind::Pod => self.take_pod(write),
            Kind::Deployment | Kind::ReplicationController => {}
        }
    }

    fn take_pod(&mut self, write: &'s Seen) {
        let Evidence { created_unanswered, done, .. } = self.evidence;
        let pod = name(&write.object);
        let is_unknown = created_unanswered.contains(pod) || done.pods.contains(pod);
        let runs = !write.gone && !is_over(&write.object) && !is_unknown;
        let Some(set) = owner_uid(&write.object).filter(|_| runs) else {
            self.pods.remove(pod);
            return;
        };
        if self.pods.insert(pod, set).is_some() {
            return;
        }
        let Some(deployment) = self.sets.get(set) else { return };
        let is_its = |set: &&str| self.sets.get(set) == Some(deployment);
        let running: BTreeSet<&str> = self.pods.values().copied().filter(is_its).collect();
        if running.len() > 1 && self.evidence.is_sure(write.millis) {
            let at = write.millis - EPOCH_NANOS / 1_000_000;
            let owner = controller(&write.object).map_or("", |owner| owner["name"].as_str().unwrap_or_default());
            let how = format!("{} at {at} ms: {pod} of {owner} runs beside pods of another ReplicaSet", write.version);
            self.broken.push(Broken::by(Law::Recreate, write, how));
        }
    }
}

fn uid(write: &Seen) -> &str {
    write.object["metadata"]["uid"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::*;

    fn deployment(strategy: &str) -> (Kind, bool, Value) {
        (Kind::Deployment, false, json!({"metadata": {"uid": "web"}, "spec": {"strategy": {"type": strategy}}}))
    }

    fn owned(kind: Kind, uid: &str, owner: &str, gone: bool) -> (Kind, bool, Value) {
        let owners = json!([{"controller": true, "uid": owner, "name": owner}]);
        (kind, gone, json!({"metadata": {"name": uid, "uid": uid, "ownerReferences": owners}}))
    }

    fn set(uid: &str, owner: &str) -> (Kind, bool, Value) {
        owned(Kind::ReplicaSet, uid, owner, false)
    }

    fn pod(uid: &str, owner: &str) -> (Kind, bool, Value) {
        owned(Kind::Pod, uid, owner, false)
    }

    fn broken(writes: &[(Kind, bool, Value)], evidence: &Evidence) -> usize {
        let seen = writes.iter().zip(1..).map(|((kind, gone, object), version)| {
            let object = object.clone();
            Seen { epoch: 0, version, millis: 5, kind: *kind, gone: *gone, object }
        });
        let broken = check(&seen.collect::<Vec<_>>(), evidence);
        assert!(broken.iter().all(|broken| broken.law == Law::Recreate));
        broken.len()
    }

    /// Contract: SI-02, DEP-12
    #[test]
    fn pods_of_two_replicasets_that_a_deployment_has_made_never_run_together() {
        let nobody = Evidence::default();
        let one = [deployment("Recreate"), set("a", "web"), set("b", "web"), pod("p", "a")];
        let two = |before: &[(Kind, bool, Value)]| [&one[..], before, &[pod("q", "b")]].concat();
        assert_eq!(broken(&two(&[]), &nobody), 1);
        assert_eq!(broken(&two(&[owned(Kind::Pod, "p", "a", true)]), &nobody), 0);
        let mut ended = pod("p", "a");
        ended.2["status"] = json!({"phase": "Failed"});
        assert_eq!(broken(&two(&[ended]), &nobody), 0);
        let mut leaving = pod("p", "a");
        leaving.2["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(broken(&two(&[leaving]), &nobody), 1, "it still runs");
        // What is not the Deployment's any more, or never was what it made, is not waited for.
        assert_eq!(broken(&two(&[owned(Kind::ReplicaSet, "a", "web", true)]), &nobody), 0);
        assert_eq!(broken(&two(&[set("a", "another")]), &nobody), 0);
        assert_eq!(broken(&two(&[set("a", "another"), set("a", "web")]), &nobody), 0, "adopted");
        // Nor is what it does not know of.
        assert_eq!(broken(&two(&[deployment("RollingUpdate")]), &nobody), 0);
        let unanswered = Evidence { created_unanswered: ["p".to_owned()].into(), ..Evidence::default() };
        assert_eq!(broken(&two(&[]), &unanswered), 0);
        let sets_unanswered = Evidence { sets_unanswered: [3].into(), ..Evidence::default() };
        assert_eq!(broken(&two(&[]), &sets_unanswered), 0);
    }
}
