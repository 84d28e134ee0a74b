//! The controllers delete no pod that is not theirs to delete (B-02): one that was released, or that somebody has given other labels
//! than its owner selects. And they adopt nothing for an owner that is on its way out (RS-07).

use std::collections::BTreeMap;

use muster_tree::{Map, Value};

use super::rollout::uid;
use super::{Broken, Evidence, Kind, Law, Seen};
use crate::api::{is_being_deleted, name, owner_uid};
use crate::world::EPOCH_NANOS;

/// Checks all deletions of pods that were the controllers' and were answered; nothing where the server was restored.
#[must_use]
pub fn check(seen: &[Seen], evidence: &Evidence) -> Vec<Broken> {
    if seen.iter().any(|write| write.epoch > 0) {
        return Vec::new();
    }
    // The selector of a ReplicationController may change.
    let mut owners: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut pods: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut broken = Vec::new();
    for write in seen {
        let object = &write.object;
        if write.kind != Kind::Pod {
            owners.entry(uid(object)).or_default().push(object);
            continue;
        }
        // As it was when it was deleted.
        let Some(before) = pods.insert(uid(object), object).filter(|before| !is_being_deleted(before)) else {
            continue;
        };
        let is_deleted = write.gone || is_being_deleted(object);
        if !is_deleted || !evidence.deleted_by_controllers.contains(name(object)) {
            continue;
        }
        let why = match owner_uid(before).and_then(|owner| owners.get(owner)) {
            None => "none of the workloads owns it",
            Some(versions) if versions.iter().any(|owner| selects(owner, before)) => continue,
            Some(_) => "its owner does not select its labels",
        };
        let at = write.millis - EPOCH_NANOS / 1_000_000;
        let how = format!("{} at {at} ms: {} is deleted by the controllers, and {why}", write.version, name(before));
        broken.push(Broken::by(Law::Own, write, how));
    }
    broken
}

/// Checks that nothing is adopted for an owner that is being deleted, where requests take no time: that is asked of the server right
/// before (RS-07, DEP-13). What such an owner has goes with it, though it was to be left.
#[must_use]
pub fn check_adoptions(seen: &[Seen]) -> Vec<Broken> {
    /// How long a sync takes from its question to its last adoption.
    const ON_THE_WAY: i64 = 100;
    let mut ending: BTreeMap<&str, i64> = BTreeMap::new();
    let mut owned: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    let mut broken = Vec::new();
    for write in seen {
        let object = &write.object;
        if write.gone || is_being_deleted(object) {
            ending.entry(uid(object)).or_insert(write.millis);
        }
        let owner = owner_uid(object);
        // What is created for an owner is judged by other laws.
        let Some(None) = owned.insert(uid(object), owner) else { continue };
        let over = owner.and_then(|owner| ending.get(owner)).filter(|ended| *ended + ON_THE_WAY <= write.millis);
        if over.is_some() {
            let at = write.millis - EPOCH_NANOS / 1_000_000;
            let what = name(object);
            let how = format!("{} at {at} ms: {what} is adopted for an owner that is being deleted", write.version);
            broken.push(Broken::by(Law::Own, write, how));
        }
    }
    broken
}

/// Whether the labels that a selector names are those of the pod. What else it asks is not looked at.
pub(super) fn selects(owner: &Value, pod: &Value) -> bool {
    let selector = &owner["spec"]["selector"];
    let is_classic = owner["kind"] == "ReplicationController";
    let wanted = if is_classic { selector.as_object() } else { selector["matchLabels"].as_object() };
    let labels = &pod["metadata"]["labels"];
    wanted.is_none_or(|wanted: &Map| wanted.iter().all(|(label, value)| labels[label] == *value))
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    fn workload(kind: Kind) -> (Kind, bool, Value) {
        let labels = json!({"app": "web"});
        let (kind_name, selector) = match kind {
            Kind::ReplicationController => ("ReplicationController", labels),
            _ => ("ReplicaSet", json!({"matchLabels": labels})),
        };
        let metadata = json!({"name": "web", "uid": "web"});
        (kind, false, json!({"kind": kind_name, "metadata": metadata, "spec": {"selector": selector}}))
    }

    fn pod(app: &str, owner: &str, going: bool) -> (Kind, bool, Value) {
        let mut metadata = json!({"name": "p", "uid": "p", "labels": {"app": app, "tier": "front"}});
        if !owner.is_empty() {
            metadata["ownerReferences"] = json!([{"controller": true, "uid": owner, "name": owner}]);
        }
        if going {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        (Kind::Pod, false, json!({"metadata": metadata}))
    }

    fn gone((kind, _, object): (Kind, bool, Value)) -> (Kind, bool, Value) {
        (kind, true, object)
    }

    /// Contract: SI-02, RS-07
    #[test]
    fn nothing_is_adopted_for_an_owner_that_is_being_deleted() {
        let going = |(kind, gone, mut object): (Kind, bool, Value)| {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            (kind, gone, object)
        };
        let set = || workload(Kind::ReplicaSet);
        let (orphan, adopted) = (pod("web", "", false), pod("web", "web", false));
        for (writes, found) in [
            (vec![(0, set()), (0, orphan.clone()), (5, adopted.clone())], 0),
            (vec![(0, set()), (0, orphan.clone()), (1, going(set())), (101, adopted.clone())], 1),
            (vec![(0, set()), (0, orphan.clone()), (1, gone(set())), (101, adopted.clone())], 1),
            (vec![(0, set()), (0, orphan.clone()), (1, going(set())), (100, adopted.clone())], 0),
            (vec![(0, set()), (0, orphan), (0, adopted.clone()), (1, going(set())), (101, adopted.clone())], 0),
            (vec![(0, set()), (1, going(set())), (101, adopted)], 0),
        ] {
            let seen = writes.into_iter().zip(1..).map(|((millis, (kind, gone, object)), version)| Seen {
                epoch: 0,
                version,
                millis,
                kind,
                gone,
                object,
            });
            let broken = check_adoptions(&seen.collect::<Vec<_>>());
            assert_eq!(broken.len(), found, "{broken:?}");
            assert!(broken.iter().all(|broken| broken.law == Law::Own));
        }
    }

    /// Contract: SI-02, B-02
    #[test]
    fn what_is_not_theirs_the_controllers_do_not_delete() {
        let theirs = Evidence { deleted_by_controllers: ["p".to_owned()].into(), ..Evidence::default() };
        for kind in [Kind::ReplicaSet, Kind::ReplicationController] {
            for (writes, found) in [
                (vec![pod("web", "web", false), pod("web", "web", true)], 0),
                (vec![pod("web", "web", false), gone(pod("web", "web", false))], 0),
                (vec![pod("web", "web", false), pod("api", "web", false), pod("api", "web", true)], 1),
                (vec![pod("web", "web", false), pod("api", "", false), gone(pod("api", "", false))], 1),
                (vec![pod("web", "web", false), pod("web", "other", false), pod("web", "other", true)], 1),
                // It was theirs when it was deleted.
                (vec![pod("web", "web", false), pod("web", "web", true), pod("api", "", true)], 0),
                (vec![pod("web", "web", false), pod("api", "", false)], 0),
            ] {
                let seen = [workload(kind)]
                    .into_iter()
                    .chain(writes)
                    .zip(1..)
                    .map(|((kind, gone, object), version)| Seen { epoch: 0, version, millis: 5, kind, gone, object });
                let seen: Vec<Seen> = seen.collect();
                let broken = check(&seen, &theirs);
                assert_eq!(broken.len(), found, "{broken:?}");
                assert!(broken.iter().all(|broken| broken.law == Law::Own));
                assert_eq!(check(&seen, &Evidence::default()), [], "somebody else deleted it");
            }
        }
    }
}
