//! What must hold once nothing happens any more: what workloads say of themselves is what their pods are, and of a Deployment's past as
//! much is kept as it asks for.
//!
//! A history comes to its end by what statuses say. A status that lies would let it end too early, and is what users go by.

use std::collections::BTreeMap;

use muster_controllers::deployment::revision::REVISION;
use muster_tree::{Map, Text, Value};

use super::rollout::{bounds, is_active, is_available};
use super::{Broken, Law};
use crate::api::{Api, condition, controller, is_being_deleted, name, number};

/// What begins so is a Deployment's own annotation, or a ReplicaSet's, and is not copied ...
const OWN: &str = "deployment.kubernetes.io/";
/// ... nor are these. The controllers have a list of their own.
const NOT_COPIED: [&str; 2] = ["kubectl.kubernetes.io/last-applied-configuration", "deprecated.deployment.rollback.to"];

/// Everything that there is at the end.
pub(crate) struct Rest {
    /// All Deployments.
    pub(crate) deployments: Vec<Value>,
    /// All ReplicaSets.
    pub(crate) sets: Vec<Value>,
    /// All ReplicationControllers.
    pub(crate) controllers: Vec<Value>,
    /// All pods.
    pub(crate) pods: Vec<Value>,
    /// Virtual milliseconds since the Unix epoch.
    pub(crate) now: i64,
    /// Whether a Deployment may have been made without seeing what an earlier one of its name had left.
    pub(crate) unseen: bool,
}

/// What of it breaks a law; only where nothing happens any more statuses have come to be true.
pub(crate) fn check(rest: &Rest, at_rest: bool) -> Vec<Broken> {
    let mut broken = Vec::new();
    for deployment in &rest.deployments {
        let sets = rest.sets.iter().filter(|set| is_of(set, deployment) || is_left_of(set, deployment));
        broken.extend(templates_twice(sets.filter(|_| !rest.unseen)));
        if at_rest {
            let sets: Vec<&Value> = rest.sets.iter().filter(|set| is_of(set, deployment)).collect();
            broken.extend(Rest::differs(deployment, &rest.counts_of_deployment(deployment, &sets)));
            if number(deployment, "/status/availableReplicas") == number(deployment, "/spec/replicas") {
                broken.extend(too_old(deployment, &sets));
                broken.extend(annotated_otherwise(deployment, &sets));
            }
        }
    }
    if at_rest {
        // Who is being deleted hears nothing of pods that are made orphans on their way out (RS-03).
        let owners = rest.sets.iter().chain(&rest.controllers).filter(|owner| !is_being_deleted(owner));
        broken.extend(owners.filter_map(|owner| {
            let mut counts = rest.counts(&[owner]);
            counts.push(("fullyLabeledReplicas", rest.fully_labeled(owner)));
            Rest::differs(owner, &counts)
        }));
    }
    broken
}

/// Fields of a status, each with what it should say.
type Counts = Vec<(&'static str, i64)>;

impl Rest {
    /// What there is now.
    pub(crate) async fn of(api: Api<'_>, now: i64, unseen: bool) -> Self {
        Self {
            unseen,
            deployments: api.list("/apis/apps/v1/deployments").await,
            sets: api.list("/apis/apps/v1/replicasets").await,
            controllers: api.list("/api/v1/replicationcontrollers").await,
            pods: api.list("/api/v1/pods").await,
            now,
        }
    }

    /// How many active pods of an owner have all labels of its template (RS-15).
    fn fully_labeled(&self, owner: &Value) -> i64 {
        let wanted = owner["spec"]["template"]["metadata"]["labels"].as_object();
        let has_all = |pod: &Value| {
            wanted.is_none_or(|labels| labels.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value))
        };
        let its = self.pods.iter().filter(|pod| is_of(pod, owner) && is_active(pod) && has_all(pod));
        i64::try_from(its.count()).unwrap_or(i64::MAX)
    }

    /// What the status of whoever has the pods of these owners should say (RS-15, DEP-15).
    fn counts(&self, owners: &[&Value]) -> Counts {
        let mut counts = [0; 4];
        for owner in owners {
            let min_ready = number(owner, "/spec/minReadySeconds");
            let its: Vec<&Value> = self.pods.iter().filter(|pod| is_of(pod, owner)).collect();
            let active = || its.iter().filter(|pod| is_active(pod));
            counts[0] += active().count();
            counts[1] += active().filter(|pod| condition(pod, "Ready")["status"] == "True").count();
            counts[2] += active().filter(|pod| is_available(pod, min_ready, self.now)).count();
            counts[3] += its.iter().filter(|pod| is_being_deleted(pod)).count();
        }
        let fields = ["replicas", "readyReplicas", "availableReplicas", "terminatingReplicas"];
        fields.into_iter().zip(counts.map(|count| i64::try_from(count).unwrap_or(i64::MAX))).collect()
    }

    fn counts_of_deployment(&self, deployment: &Value, sets: &[&Value]) -> Counts {
        let template = template(deployment);
        let newest: Vec<&Value> = sets.iter().copied().filter(|set| self::template(set) == template).collect();
        let mut counts = self.counts(sets);
        // One that is being deleted wants pods and gets none.
        let wanted: i64 = sets.iter().map(|set| number(set, "/spec/replicas")).sum();
        let available = counts[2].1;
        counts.push(("updatedReplicas", self.counts(&newest)[0].1));
        counts.push(("unavailableReplicas", (wanted - available).max(0)));
        counts
    }

    /// Where the status of a workload is not that of its pods.
    fn differs(workload: &Value, counts: &Counts) -> Option<Broken> {
        let observed = workload["status"]["observedGeneration"] == workload["metadata"]["generation"];
        let told = |field: &str| number(workload, &format!("/status/{field}"));
        let enough = number(workload, "/spec/replicas") <= counts[2].1;
        let said = condition(workload, "Available")["status"].as_str().unwrap_or_default();
        let how = if !observed {
            format!("generation {} is not observed", workload["metadata"]["generation"])
        } else if let Some((field, count)) = counts.iter().find(|(field, count)| told(field) != *count) {
            format!("says {} {field}, and has {count}", told(field))
        } else if let Some(expected) = available_of(workload, counts[2].1).filter(|expected| said != *expected) {
            format!("has {} pods available, and its condition Available is {said:?}, not {expected}", counts[2].1)
        } else if enough && !condition(workload, "ReplicaFailure").is_null() {
            // No pod is to be made or deleted any more (RS-16).
            format!("has all its pods, and says {}", condition(workload, "ReplicaFailure"))
        } else {
            return None;
        };
        let namespace = &workload["metadata"]["namespace"];
        let how = format!("{} in {namespace} {how}, when nothing happens any more", name(workload));
        Some(Broken::at_the_end(Law::Statuses, &how))
    }
}

/// What the condition Available of a workload should be, with so many available pods: only Deployments have it (DEP-16).
fn available_of(workload: &Value, available: i64) -> Option<&'static str> {
    let spec = &workload["spec"];
    let least = match spec["strategy"]["type"].as_str()? {
        "RollingUpdate" => bounds(spec).1,
        _ => number(spec, "/replicas"),
    };
    Some(if available >= least { "True" } else { "False" })
}

/// Whether it is another's, as its controller.
pub(crate) fn is_of(object: &Value, owner: &Value) -> bool {
    controller(object).is_some_and(|controller| controller["uid"] == owner["metadata"]["uid"])
}

/// Whether it is nobody's and stays, and has the labels by which a Deployment would find it.
fn is_left_of(set: &Value, deployment: &Value) -> bool {
    let alone = !set["metadata"]["ownerReferences"].is_array() && !is_being_deleted(set);
    let (labels, wanted) = (&set["metadata"]["labels"], deployment["spec"]["selector"]["matchLabels"].as_object());
    let same_namespace = set["metadata"]["namespace"] == deployment["metadata"]["namespace"];
    alone && same_namespace && wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels[key] == *value))
}

/// The template without the label that a ReplicaSet adds.
pub(super) fn template(workload: &Value) -> Value {
    let mut template = workload["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove("pod-template-hash");
    }
    template
}

/// ReplicaSets with the template of another.
fn templates_twice<'s>(sets: impl Iterator<Item = &'s Value>) -> Vec<Broken> {
    let mut templates = BTreeMap::new();
    let mut twice = Vec::new();
    for set in sets {
        if let Some(other) = templates.insert(template(set).to_string(), name(set)) {
            let law = format!("{other} and {} have one template", name(set));
            twice.push(Broken::at_the_end(Law::Templates, &law));
        }
    }
    twice
}

/// Whether there are more old ReplicaSets than asked for: once a rollout is complete, for until then none need be deleted
/// (DEP-14).
fn too_old(deployment: &Value, sets: &[&Value]) -> Option<Broken> {
    const UNLIMITED: i64 = i32::MAX as i64;
    let limit = deployment["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(UNLIMITED);
    let newest = template(deployment);
    let old = sets.iter().filter(|set| template(set) != newest).count();
    let is_over = i64::try_from(old).is_ok_and(|old| old > limit);
    is_over.then(|| {
        let how = format!("{old} old ReplicaSets of {} are there, and {limit} are to be kept", name(deployment));
        Broken::at_the_end(Law::Past, &how)
    })
}

/// An annotation of a Deployment that the ReplicaSet of its template has not, or its revision, which is that of this ReplicaSet
/// and the highest (DEP-06).
fn annotated_otherwise<'s>(deployment: &Value, sets: &[&'s Value]) -> Option<Broken> {
    let annotation = |object: &Value, key: &str| object["metadata"]["annotations"][key].clone();
    let newest = template(deployment);
    // Rarely there are several, and the oldest is its own (DEP-03).
    let age = |set: &&&'s Value| (set["metadata"]["creationTimestamp"].as_str(), name(set));
    let set = sets.iter().filter(|set| template(set) == newest).min_by_key(age)?;
    let its = deployment["metadata"]["annotations"].as_object().into_iter().flat_map(Map::keys);
    let copied = its.map(Text::as_str).filter(|key| !key.starts_with(OWN) && !NOT_COPIED.contains(key));
    let differs = copied.chain([REVISION]).find(|key| annotation(set, key) != annotation(deployment, key));
    let revision = |set: &Value| annotation(set, REVISION).as_str().and_then(|text| text.parse::<i64>().ok());
    let how = if let Some(key) = differs {
        let (its, value) = (annotation(set, key), annotation(deployment, key));
        format!("{} has {key}: {its}, and {} has {value}", name(set), name(deployment))
    } else {
        // There is none after the last one (B-10).
        let its = revision(set).filter(|its| *its < i64::MAX)?;
        let higher = sets.iter().find(|other| name(other) != name(set) && revision(other) >= Some(its))?;
        let other = revision(higher).unwrap_or_default();
        format!("{} has revision {its}, and {} is older and has {other}", name(set), name(higher))
    };
    Some(Broken::at_the_end(Law::Annotations, &format!("{how}, when nothing happens any more")))
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::*;

    const NOW: i64 = 1_767_225_700_000;

    fn workload(uid: &str, owner: &str, image: &str, status: &Value) -> Value {
        let mut status = status.clone();
        status["observedGeneration"] = json!(1);
        json!({
            "metadata": {
                "name": uid, "namespace": "default", "uid": uid, "generation": 1,
                "ownerReferences": [{"controller": true, "uid": owner}],
            },
            "spec": {
                "replicas": status["replicas"], "minReadySeconds": 5, "revisionHistoryLimit": 1,
                "template": {"metadata": {"labels": {"pod-template-hash": uid}}, "spec": {"image": image}},
            },
            "status": status,
        })
    }

    fn pod(name: &str, owner: &str) -> Value {
        let labels = json!({"pod-template-hash": owner});
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"});
        json!({
            "metadata": {"name": name, "labels": labels, "ownerReferences": [{"controller": true, "uid": owner}]},
            "status": {"phase": "Running", "conditions": [ready]},
        })
    }

    /// A Deployment of two pods with one old ReplicaSet, and a ReplicationController of one pod.
    fn rest() -> Rest {
        let two = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "fullyLabeledReplicas": 2});
        let mut web = two.clone();
        let at_most_one = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}});
        web["updatedReplicas"] = json!(2);
        web["conditions"] = json!([{"type": "Available", "status": "True"}]);
        let one = json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "fullyLabeledReplicas": 1});
        let mut deployment = workload("web", "", "b", &web);
        deployment["spec"]["strategy"] = at_most_one;
        Rest {
            deployments: vec![deployment],
            sets: vec![workload("old", "web", "a", &json!({"replicas": 0})), workload("new", "web", "b", &two)],
            controllers: vec![workload("classic", "", "a", &one)],
            pods: vec![pod("p", "new"), pod("q", "new"), pod("r", "classic")],
            now: NOW,
            unseen: false,
        }
    }

    /// Annotations of the Deployment, and of its old and its newest ReplicaSet.
    fn annotate(rest: &mut Rest, deployment: Value, sets: [Value; 2]) {
        rest.deployments[0]["metadata"]["annotations"] = deployment;
        for (set, annotations) in rest.sets.iter_mut().zip(sets) {
            set["metadata"]["annotations"] = annotations;
        }
    }

    /// Contract: SI-02, RS-15, DEP-06, DEP-14, DEP-15, DEP-16
    #[test]
    fn what_statuses_say_at_the_end_is_held_against_the_pods() {
        type Change = (&'static str, fn(&mut Rest), &'static [(Law, &'static str)]);
        let changes: [Change; 27] = [
            ("nothing", |_| {}, &[]),
            ("a status that counts a pod that is gone", |rest| drop(rest.pods.pop()), &[(Law::Statuses, "classic")]),
            (
                "a pod that is ready for less than minReadySeconds",
                |rest| rest.pods[0]["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:01:38Z"),
                &[(Law::Statuses, "web"), (Law::Statuses, "new")],
            ),
            (
                "a pod that is not ready",
                |rest| rest.pods[2]["status"]["conditions"][0]["status"] = json!("False"),
                &[(Law::Statuses, "classic")],
            ),
            (
                "a pod without a label of the template",
                |rest| rest.pods[2]["metadata"]["labels"] = json!({}),
                &[(Law::Statuses, "classic")],
            ),
            (
                "a pod that is being deleted and not told of",
                |rest| {
                    let mut leaving = pod("s", "new");
                    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
                    rest.pods.push(leaving);
                },
                &[(Law::Statuses, "web"), (Law::Statuses, "new")],
            ),
            (
                "a generation that was not observed",
                |rest| rest.sets[0]["metadata"]["generation"] = json!(2),
                &[(Law::Statuses, "old")],
            ),
            (
                "updatedReplicas that count an old template's pods",
                |rest| rest.deployments[0]["status"]["updatedReplicas"] = json!(3),
                &[(Law::Statuses, "web")],
            ),
            (
                "unavailable pods that there are not",
                |rest| rest.deployments[0]["status"]["unavailableReplicas"] = json!(1),
                &[(Law::Statuses, "web")],
            ),
            (
                "a condition that denies what the counts say",
                |rest| rest.deployments[0]["status"]["conditions"][0]["status"] = json!("False"),
                &[(Law::Statuses, "web")],
            ),
            (
                "no such condition",
                |rest| rest.deployments[0]["status"]["conditions"] = json!([]),
                &[(Law::Statuses, "web")],
            ),
            (
                "as many as must be, of more",
                |rest| {
                    rest.deployments[0]["spec"]["replicas"] = json!(3);
                    rest.deployments[0]["spec"]["revisionHistoryLimit"] = json!(9);
                },
                &[],
            ),
            (
                "a condition that says yes to too few",
                |rest| rest.deployments[0]["spec"]["replicas"] = json!(4),
                &[(Law::Statuses, "web")],
            ),
            (
                "too few for Recreate, which keeps none back",
                |rest| {
                    rest.deployments[0]["spec"]["replicas"] = json!(3);
                    rest.deployments[0]["spec"]["strategy"] = json!({"type": "Recreate"});
                },
                &[(Law::Statuses, "web")],
            ),
            (
                "a failure that is over",
                |rest| rest.sets[1]["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True"}]),
                &[(Law::Statuses, "new")],
            ),
            (
                "an old ReplicaSet more than is kept",
                |rest| rest.sets.push(workload("older", "web", "c", &json!({"replicas": 0}))),
                &[(Law::Past, "web")],
            ),
            (
                "as many before the rollout is complete",
                |rest| {
                    rest.deployments[0]["spec"]["replicas"] = json!(3);
                    rest.sets.push(workload("older", "web", "c", &json!({"replicas": 0})));
                },
                &[],
            ),
            (
                "annotations that are the Deployment's and the newest ReplicaSet's",
                |rest| {
                    annotate(
                        rest,
                        json!({REVISION: "2", "note": "b"}),
                        [json!({REVISION: "1"}), json!({REVISION: "2", "note": "b"})],
                    );
                },
                &[],
            ),
            (
                "an annotation that was not copied",
                |rest| {
                    annotate(
                        rest,
                        json!({"note": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}),
                        [json!({}), json!({"note": "a"})],
                    );
                },
                &[(Law::Annotations, "note")],
            ),
            (
                "a revision that is not the newest ReplicaSet's",
                |rest| annotate(rest, json!({REVISION: "1"}), [json!({REVISION: "1"}), json!({REVISION: "2"})]),
                &[(Law::Annotations, "revision")],
            ),
            (
                "a revision that was not told",
                |rest| annotate(rest, json!({}), [json!({REVISION: "1"}), json!({REVISION: "2"})]),
                &[(Law::Annotations, "revision")],
            ),
            (
                "a revision that is not the highest",
                |rest| annotate(rest, json!({REVISION: "9"}), [json!({REVISION: "10"}), json!({REVISION: "9"})]),
                &[(Law::Annotations, "old")],
            ),
            (
                "the last one that there is",
                |rest| {
                    let last = || json!({REVISION: i64::MAX.to_string()});
                    annotate(rest, last(), [last(), last()]);
                },
                &[],
            ),
            (
                "a revision that another has as well",
                |rest| annotate(rest, json!({REVISION: "9"}), [json!({REVISION: "9"}), json!({REVISION: "9"})]),
                &[(Law::Annotations, "old")],
            ),
            (
                "the template of a ReplicaSet that is nobody's",
                |rest| {
                    rest.deployments[0]["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
                    let mut left = workload("left", "", "b", &json!({"replicas": 0}));
                    left["metadata"]["ownerReferences"].take();
                    left["metadata"]["labels"] = json!({"app": "web"});
                    rest.sets.push(left);
                },
                &[(Law::Templates, "left")],
            ),
            (
                "a template of two ReplicaSets",
                |rest| rest.sets.push(workload("again", "web", "b", &json!({"replicas": 0}))),
                &[(Law::Templates, "again")],
            ),
            (
                "the same where the first may not have been seen",
                |rest| {
                    rest.unseen = true;
                    rest.sets.push(workload("again", "web", "b", &json!({"replicas": 0})));
                },
                &[],
            ),
        ];
        for (what, change, expected) in changes {
            let mut rest = rest();
            change(&mut rest);
            let broken = check(&rest, true);
            let laws: Vec<Law> = broken.iter().map(|broken| broken.law).collect();
            assert_eq!(laws, expected.iter().map(|(law, _)| *law).collect::<Vec<_>>(), "{what}: {broken:?}");
            for (broken, (_, of)) in broken.iter().zip(expected) {
                assert!(broken.how.contains(of), "{what}: {broken}");
            }
            let early = check(&rest, false);
            assert!(
                early.iter().all(|broken| broken.law == Law::Templates),
                "{what}, before all is at rest: {early:?}"
            );
        }
    }
}
