//! Handlers: which change looks at which Deployment.

use std::sync::Arc;

use muster_controllers::deployment::{Effect, deployment_changed, pod_changed, replica_set_changed};
use muster_machinery::{Cache, Change};
use muster_objects::{Deployment, Pod, PodPhase, ReplicaSet};
use serde_json::{Value, json};

use crate::fixtures::{ago, decode, deployment, deployment_json, pod, set_json, uid};

fn cache_of(deployments: impl IntoIterator<Item = Deployment>) -> Cache<Deployment> {
    let mut cache = Cache::new();
    deployments.into_iter().for_each(|deployment| _ = cache.apply(deployment));
    cache
}

/// `web`, and `other` with the same selector.
fn two() -> Cache<Deployment> {
    let other = deployment(1, |json| {
        (json["metadata"]["name"], json["metadata"]["uid"]) = (json!("other"), json!(uid(2)));
    });
    cache_of([deployment(1, |_| ()), other])
}

fn set(change: impl FnOnce(&mut Value)) -> Arc<ReplicaSet> {
    let mut json = set_json(1, "a", 1);
    change(&mut json);
    Arc::new(decode(&json))
}

fn orphaned(json: &mut Value) {
    json["metadata"]["ownerReferences"] = json!([]);
}

fn newer(json: &mut Value) {
    json["metadata"]["resourceVersion"] = json!("95");
}

/// The names that are queued, in order.
fn queued(change: &Change<ReplicaSet>, deployments: &Cache<Deployment>) -> Vec<String> {
    let mut queued = Vec::new();
    replica_set_changed(change, deployments, |effect| {
        if let Effect::Enqueue(key) = effect {
            queued.push(key.name.to_string());
        }
    });
    queued
}

/// Contract: DEP-01
#[test]
fn a_deployment_is_queued_whatever_changes() {
    let effects = |change: &Change<Deployment>| {
        let mut effects = Vec::new();
        deployment_changed(change, |effect| effects.push(effect));
        effects
    };
    let web = Arc::new(deployment(1, |_| ()));
    let again = Arc::new(deployment(1, |json| json["metadata"]["uid"] = json!(uid(9))));
    let enqueue = Effect::Enqueue(web.meta.key());
    let forget = Effect::Forget { owner: web.meta.key(), uid: uid(1) };
    assert_eq!(effects(&Change::Added(Arc::clone(&web))), std::slice::from_ref(&enqueue));
    assert_eq!(
        effects(&Change::Updated { old: Arc::clone(&web), new: Arc::clone(&web) }),
        std::slice::from_ref(&enqueue)
    );
    assert_eq!(effects(&Change::Updated { old: Arc::clone(&web), new: again }), [forget.clone(), enqueue.clone()]);
    assert_eq!(effects(&Change::Deleted { last: web, tombstone: true }), [forget, enqueue]);
}

/// Contract: DEP-01
#[test]
fn a_set_queues_its_deployment() {
    let all = two();
    assert_eq!(queued(&Change::Added(set(|_| ())), &all), ["web"]);
    assert_eq!(queued(&Change::Updated { old: set(|_| ()), new: set(newer) }, &all), ["web"]);
    assert_eq!(queued(&Change::Deleted { last: set(|_| ()), tombstone: true }, &all), ["web"]);
    assert_eq!(queued(&Change::Updated { old: set(|_| ()), new: set(|_| ()) }, &all), [""; 0], "a resync");
    let restored = set(|json| json["status"]["replicas"] = json!(7));
    assert_eq!(queued(&Change::Updated { old: set(|_| ()), new: restored }, &all), ["web"], "a version given twice");
    let another = |field: &'static str, value: &'static str| {
        set(move |json| json["metadata"]["ownerReferences"][0][field] = json!(value))
    };
    assert_eq!(queued(&Change::Added(another("uid", "of an earlier one")), &all), [""; 0]);
    assert_eq!(queued(&Change::Added(another("kind", "CronJob")), &all), [""; 0]);
    assert_eq!(queued(&Change::Added(another("name", "gone")), &all), [""; 0]);
}

/// Nobody but others deletes the ReplicaSet of the Deployment's template.
///
/// Contract: B-23
#[test]
fn the_end_of_the_new_set_is_told_until_another_is_there() {
    let all = two();
    let told = |change: &Change<ReplicaSet>| {
        let mut told = Vec::new();
        replica_set_changed(change, &all, |effect| {
            if let Effect::New { owner, gone } = effect {
                told.push((owner.name.to_string(), gone));
            }
        });
        told
    };
    let image = |image: &'static str| move |json: &mut Value| *json = set_json(1, image, 1);
    let deleted = |json: &mut Value| json["metadata"]["deletionTimestamp"] = json!(ago(5));
    let new = || set(image("nginx:1"));
    let leaving = set(|json| {
        image("nginx:1")(json);
        deleted(json);
    });
    let gone = ("web".to_owned(), true);
    assert_eq!(told(&Change::Deleted { last: new(), tombstone: false }), std::slice::from_ref(&gone));
    assert_eq!(told(&Change::Added(leaving)), [gone], "first seen on its way out");
    assert_eq!(told(&Change::Deleted { last: set(image("nginx:0")), tombstone: false }), [], "an old one: history");
    assert_eq!(told(&Change::Deleted { last: set(orphaned), tombstone: false }), []);
    assert_eq!(told(&Change::Added(new())), [("web".to_owned(), false)]);
    assert_eq!(told(&Change::Added(set(image("nginx:0")))), [], "an old one is not in its place");
    assert_eq!(told(&Change::Updated { old: new(), new: set(newer) }), []);
}

/// Contract: DEP-01
#[test]
fn an_orphan_queues_every_deployment_that_selects_it() {
    let all = two();
    assert_eq!(queued(&Change::Added(set(orphaned)), &all), ["other", "web"]);
    let mut overlaps = Vec::new();
    replica_set_changed(&Change::Added(set(orphaned)), &all, |effect| {
        if let Effect::Overlap { owners, .. } = effect {
            overlaps.push(owners.len());
        }
    });
    assert_eq!(overlaps, [2]);
    let unlabelled = set(|json| {
        orphaned(json);
        json["metadata"]["labels"] = json!({});
    });
    assert_eq!(queued(&Change::Added(unlabelled), &all), [""; 0]);
    let empty = cache_of([deployment(1, |json| json["spec"]["selector"] = json!({}))]);
    assert_eq!(queued(&Change::Added(set(orphaned)), &empty), [""; 0], "an empty selector selects nothing here");
    // A deleted orphan queues nothing; one that is being deleted when first seen counts as deleted.
    assert_eq!(queued(&Change::Deleted { last: set(orphaned), tombstone: false }, &all), [""; 0]);
    let leaving = |change: fn(&mut Value)| {
        set(|json| {
            change(json);
            json["metadata"]["deletionTimestamp"] = json!(ago(5));
        })
    };
    assert_eq!(queued(&Change::Added(leaving(orphaned)), &all), [""; 0]);
    assert_eq!(queued(&Change::Added(leaving(|_| ())), &all), ["web"]);
}

/// Contract: DEP-01
#[test]
fn a_set_that_changes_hands_queues_both_sides() {
    let all = two();
    let of_other = set(|json| {
        newer(json);
        json["metadata"]["ownerReferences"][0]["name"] = json!("other");
        json["metadata"]["ownerReferences"][0]["uid"] = json!(uid(2));
    });
    assert_eq!(queued(&Change::Updated { old: set(|_| ()), new: of_other }, &all), ["web", "other"]);
    let released = set(|json| {
        newer(json);
        orphaned(json);
    });
    let change = Change::Updated { old: set(|_| ()), new: Arc::clone(&released) };
    assert_eq!(queued(&change, &all), ["web", "other", "web"]);
    // An orphan whose labels change may be selected now; one whose status changes is of no interest.
    let relabelled = set(|json| {
        orphaned(json);
        json["metadata"]["labels"] = json!({"app": "web", "tier": "front"});
    });
    assert_eq!(queued(&Change::Updated { old: Arc::clone(&released), new: relabelled }, &all), ["other", "web"]);
    assert_eq!(queued(&Change::Updated { old: set(orphaned), new: released }, &all), [""; 0]);
    // One went and another came under its name.
    let again = set(|json| json["metadata"]["uid"] = json!(uid(77)));
    assert_eq!(queued(&Change::Updated { old: set(|_| ()), new: again }, &all), ["web", "web"]);
}

/// Whether the change queues the Deployment, which has these pods left.
fn pod_queues(strategy: &str, change: &Change<Pod>, left: impl IntoIterator<Item = Pod>) -> bool {
    let mut json = deployment_json(1);
    json["spec"]["strategy"] = json!({ "type": strategy });
    let deployments = cache_of([decode(&json)]);
    let (mut sets, mut pods) = (Cache::new(), Cache::new());
    for number in [1, 2] {
        sets.apply(decode::<ReplicaSet>(&set_json(number, "a", 1)));
    }
    left.into_iter().for_each(|pod| _ = pods.apply(pod));
    let mut effects = Vec::new();
    pod_changed(change, &pods, &sets, &deployments, |effect| effects.push(effect));
    !effects.is_empty()
}

/// Contract: DEP-01, B-05
#[test]
fn the_last_pod_of_a_recreating_deployment_queues_it() {
    let gone = || Change::Deleted { last: Arc::new(pod("a", 1, PodPhase::Running)), tombstone: false };
    assert!(pod_queues("Recreate", &gone(), []));
    assert!(!pod_queues("RollingUpdate", &gone(), []));
    assert!(!pod_queues("Recreate", &gone(), [pod("b", 1, PodPhase::Running)]));
    // Where a rolling update was changed into a Recreate, the new ReplicaSet has pods before the last old one goes.
    assert!(pod_queues("Recreate", &gone(), [pod("b", 2, PodPhase::Running)]), "of another of its ReplicaSets");
    assert!(pod_queues("Recreate", &gone(), [pod("b", 9, PodPhase::Running)]), "of somebody else's");
    // Finished pods block nothing, whether or not they are deleted.
    assert!(pod_queues("Recreate", &gone(), [pod("b", 1, PodPhase::Failed), pod("c", 2, PodPhase::Succeeded)]));
    let orphan = Pod {
        meta: muster_objects::Meta { controller: None, ..pod("a", 1, PodPhase::Running).meta },
        ..pod("a", 1, PodPhase::Running)
    };
    assert!(!pod_queues("Recreate", &Change::Deleted { last: Arc::new(orphan), tombstone: false }, []));
}

/// A pod that ends while others wait for it queues the Deployment as if it had gone.
///
/// Contract: B-05
#[test]
fn a_pod_that_ends_queues_a_recreating_deployment() {
    let update = |old: PodPhase, new: PodPhase| Change::Updated {
        old: Arc::new(pod("a", 1, old)),
        new: Arc::new(pod("a", 1, new)),
    };
    let failed = || [pod("a", 1, PodPhase::Failed)];
    assert!(pod_queues("Recreate", &update(PodPhase::Running, PodPhase::Failed), failed()));
    assert!(!pod_queues("Recreate", &update(PodPhase::Failed, PodPhase::Failed), failed()));
    assert!(!pod_queues("Recreate", &update(PodPhase::Pending, PodPhase::Running), [pod("a", 1, PodPhase::Running)]));
    assert!(!pod_queues("Recreate", &Change::Added(Arc::new(pod("a", 1, PodPhase::Failed))), failed()));
}

/// A pod that is not its ReplicaSet's any more is not waited for, whatever becomes of it.
///
/// Contract: DEP-01
#[test]
fn a_pod_that_changes_hands_queues_a_recreating_deployment() {
    let own = || pod("a", 1, PodPhase::Running);
    let orphan = || Pod { meta: muster_objects::Meta { controller: None, ..own().meta }, ..own() };
    let update = |new: Pod| Change::Updated { old: Arc::new(own()), new: Arc::new(new) };
    assert!(pod_queues("Recreate", &update(orphan()), [orphan()]));
    assert!(pod_queues("Recreate", &update(pod("a", 2, PodPhase::Running)), [pod("a", 2, PodPhase::Running)]));
    assert!(!pod_queues("Recreate", &update(orphan()), [orphan(), pod("b", 1, PodPhase::Running)]));
    assert!(!pod_queues("RollingUpdate", &update(orphan()), [orphan()]));
}
