//! What the controllers make is as its owner has it: a pod as the template of its ReplicaSet or ReplicationController
//! (RS-10), a ReplicaSet as its Deployment (DEP-04).
//!
//! A cache may be behind, so any template counts that the owner ever had. The server and a webhook add to what they are
//! sent: what they do not change is compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Broken, Evidence, Kind, Law, Seen};
use crate::api::{controller, name};
use crate::world::EPOCH_NANOS;

/// The label that tells a Deployment's ReplicaSets apart.
const HASH: &str = "pod-template-hash";

/// The most characters of a name.
const LONGEST: usize = 253;

/// Checks everything that was made for a controller owner.
#[must_use]
pub fn check(seen: &[Seen], evidence: &Evidence) -> Vec<Broken> {
    let mut known = BTreeSet::new();
    let mut owners: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut broken = Vec::new();
    for Seen { version, millis, kind, object, .. } in seen {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let is_new = known.insert(uid);
        if *kind != Kind::Pod {
            let versions = owners.entry(uid).or_default();
            let generation = |object: &Value| object["metadata"]["generation"].clone();
            if versions.last().is_none_or(|last| generation(last) != generation(object)) {
                versions.push(object);
            }
        }
        let Some(reference) = controller(object).filter(|_| is_new) else { continue };
        let Some(versions) = reference["uid"].as_str().and_then(|owner| owners.get(owner)) else { continue };
        // What others make is as they have it.
        if evidence.done.pods.contains(name(object)) {
            continue;
        }
        let judge = if *kind == Kind::Pod { pod } else { set };
        let differs: Option<Vec<&str>> = versions.iter().rev().map(|owner| judge(object, owner)).collect();
        if let Some(differs) = differs {
            let (what, owner, at) = (name(object), &reference["name"], millis - EPOCH_NANOS / 1_000_000);
            let how =
                format!("{version} at {at} ms: {kind:?} {what} is made with another {} than {owner} has", differs[0]);
            broken.push(Broken { law: Law::Made, version: *version, how });
        }
    }
    broken
}

/// What of a new pod is not as this version of its owner has it.
fn pod(pod: &Value, owner: &Value) -> Option<&'static str> {
    let (meta, template) = (&pod["metadata"], &owner["spec"]["template"]);
    let wanted = &template["metadata"];
    let mut prefix = format!("{}-", name(owner));
    if prefix.len() > LONGEST {
        prefix.pop();
    }
    let is = [
        ("owner reference", is_owned(meta, owner)),
        ("generateName", meta["generateName"] == prefix.as_str()),
        ("labels", meta["labels"] == wanted["labels"]),
        ("finalizers", meta["finalizers"] == wanted["finalizers"]),
        ("annotations", has(&meta["annotations"], &wanted["annotations"])),
        ("spec", has(&pod["spec"], &template["spec"])),
    ];
    first_that_is_not(&is)
}

/// What of a new ReplicaSet is not as this version of its Deployment has it.
fn set(set: &Value, owner: &Value) -> Option<&'static str> {
    let (meta, wanted) = (&set["metadata"], &owner["spec"]);
    let hash = &meta["labels"][HASH];
    let without_hash = |labels: &Value| {
        let mut labels = labels.clone();
        let taken = labels.as_object_mut().and_then(|labels| labels.remove(HASH));
        (taken.as_ref() == Some(hash)).then_some(labels)
    };
    let mut template = set["spec"]["template"].clone();
    let labels = template["metadata"]["labels"].take();
    template["metadata"]["labels"] = without_hash(&labels).unwrap_or_default();
    let mut selector = set["spec"]["selector"].clone();
    let labels = selector["matchLabels"].take();
    let selects = without_hash(&labels).is_some_and(|labels| {
        let empty = labels.as_object().is_some_and(serde_json::Map::is_empty);
        labels == wanted["selector"]["matchLabels"] || empty && wanted["selector"]["matchLabels"].is_null()
    });
    let is = [
        ("owner reference", is_owned(meta, owner)),
        ("name", hash.as_str().is_some_and(|hash| name(set) == set_name(name(owner), hash))),
        ("labels", without_hash(&meta["labels"]).as_ref() == Some(&wanted["template"]["metadata"]["labels"])),
        ("template", template == wanted["template"]),
        ("selector", selects && selector["matchExpressions"] == wanted["selector"]["matchExpressions"]),
        ("minReadySeconds", set["spec"]["minReadySeconds"] == wanted["minReadySeconds"]),
    ];
    first_that_is_not(&is)
}

/// The Deployment's name, cut where it leaves no room for the hash.
fn set_name(deployment: &str, hash: &str) -> String {
    let room = LONGEST.saturating_sub(hash.len() + 1);
    format!("{}-{hash}", &deployment[..deployment.len().min(room)])
}

fn first_that_is_not(is: &[(&'static str, bool)]) -> Option<&'static str> {
    is.iter().find(|(_, is)| !is).map(|(what, _)| *what)
}

/// Whether it has one owner, which is its controller and waits for its deletion.
fn is_owned(meta: &Value, owner: &Value) -> bool {
    let [reference] = meta["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice) else { return false };
    let same = ["apiVersion", "kind"].iter().all(|field| reference[field] == owner[field]);
    let (named, wanted) = (&reference["name"], &owner["metadata"]["name"]);
    same && named == wanted && reference["controller"] == true && reference["blockOwnerDeletion"] == true
}

/// Whether it has everything that is wanted: every field, and of a list the same items first.
fn has(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (_, Value::Null) => true,
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(field, wanted)| value.get(field).is_some_and(|value| has(value, wanted)))
        }
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() >= wanted.len() && value.iter().zip(wanted).all(|(value, wanted)| has(value, wanted))
        }
        _ => value == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::laws::Done;

    fn owned(kind: &str, api_version: &str, name: &str) -> Value {
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": true, "blockOwnerDeletion": true}])
    }

    fn template(labels: &Value) -> Value {
        json!({
            "metadata": {"labels": labels, "annotations": {"a": "1"}, "finalizers": ["example.com/f"]},
            "spec": {"containers": [{"name": "c", "image": "one"}], "tolerations": [{"key": "k"}]},
        })
    }

    /// A Deployment, its ReplicaSet, and a pod of that.
    fn made() -> [(Kind, Value); 3] {
        let labels = json!({"app": "web", HASH: "x"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "web", "generation": 1},
            "spec": {
                "minReadySeconds": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template(&json!({"app": "web"})),
            },
        });
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": "web-x", "uid": "web-x", "generation": 1, "labels": labels,
                "ownerReferences": owned("Deployment", "apps/v1", "web"),
            },
            "spec": {"minReadySeconds": 5, "selector": {"matchLabels": labels}, "template": template(&labels)},
        });
        let mut pod = template(&labels);
        pod["metadata"]["name"] = json!("web-x-1");
        pod["metadata"]["uid"] = json!("web-x-1");
        pod["metadata"]["generateName"] = json!("web-x-");
        pod["metadata"]["ownerReferences"] = owned("ReplicaSet", "apps/v1", "web-x");
        // What the server adds.
        pod["metadata"]["annotations"]["b"] = json!("2");
        pod["spec"]["nodeName"] = json!("node");
        pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        pod["spec"]["tolerations"] = json!([{"key": "k"}, {"key": "l"}]);
        [(Kind::Deployment, deployment), (Kind::ReplicaSet, set), (Kind::Pod, pod)]
    }

    fn seen(objects: Vec<(Kind, Value)>) -> Vec<Seen> {
        let writes = objects.into_iter().zip(1..);
        writes
            .map(|((kind, object), version)| Seen { epoch: 0, version, millis: 0, kind, gone: false, object })
            .collect()
    }

    /// Contract: SI-02, RS-10, DEP-04
    #[test]
    fn what_is_made_is_held_against_its_owner() {
        type Change = (&'static str, usize, &'static str, Value);
        let changes: [Change; 16] = [
            ("labels", 2, "/metadata/labels/app", json!("other")),
            ("finalizers", 2, "/metadata/finalizers", json!([])),
            ("annotations", 2, "/metadata/annotations/a", json!("2")),
            ("spec", 2, "/spec/containers/0/image", json!("two")),
            ("spec", 2, "/spec/tolerations", json!([])),
            ("generateName", 2, "/metadata/generateName", json!("web-")),
            ("owner reference", 2, "/metadata/ownerReferences/0/blockOwnerDeletion", json!(false)),
            ("owner reference", 2, "/metadata/ownerReferences/0/name", json!("web-y")),
            ("template", 1, "/spec/template/spec/containers/0/image", json!("two")),
            ("template", 1, "/spec/template/metadata/labels/pod-template-hash", json!("y")),
            ("selector", 1, "/spec/selector/matchLabels/pod-template-hash", json!("y")),
            ("selector", 1, "/spec/selector/matchLabels/app", json!("y")),
            ("labels", 1, "/metadata/labels/app", json!("y")),
            ("name", 1, "/metadata/name", json!("web")),
            ("minReadySeconds", 1, "/spec/minReadySeconds", json!(4)),
            ("owner reference", 1, "/metadata/ownerReferences/0/kind", json!("StatefulSet")),
        ];
        assert_eq!(check(&seen(made().into()), &Evidence::default()), []);
        for (differs, at, pointer, value) in changes {
            let mut objects = made();
            *objects[at].1.pointer_mut(pointer).expect(pointer) = value;
            let objects = seen(objects[..=at].to_vec());
            let broken = check(&objects, &Evidence::default());
            let [broken] = &broken[..] else { panic!("{pointer}: {broken:?}") };
            assert_eq!((broken.law, broken.version), (Law::Made, at as u64 + 1), "{pointer}");
            assert!(broken.how.contains(&format!(" another {differs} than ")), "{pointer}: {broken}");
            // What others make, they make as they like.
            let done = Done { pods: [name(&objects[at].object).to_owned()].into(), ..Done::default() };
            assert_eq!(check(&objects, &Evidence { done, ..Evidence::default() }), [], "{pointer}");
        }
    }

    /// A cache may be behind; and what is adopted or changed later was not made so.
    #[test]
    fn a_template_that_was_there_before_counts_too() {
        let [deployment, set, pod] = made();
        let mut newer = set.clone();
        newer.1["metadata"]["generation"] = json!(2);
        newer.1["spec"]["template"]["spec"]["containers"][0]["image"] = json!("two");
        let mut of_newer = pod.clone();
        of_newer.1["metadata"]["uid"] = json!("web-x-2");
        of_newer.1["spec"]["containers"][0]["image"] = json!("two");
        let mut relabelled = pod.clone();
        relabelled.1["metadata"]["labels"] = json!({"app": "other"});
        let objects = vec![deployment, set, newer, pod, of_newer, relabelled];
        assert_eq!(check(&seen(objects), &Evidence::default()), []);
    }

    #[test]
    fn a_name_that_is_too_long_is_cut() {
        let long = "d".repeat(LONGEST);
        assert_eq!(set_name(&long, "abc"), format!("{}-abc", "d".repeat(249)));
        assert_eq!(set_name("web", "abc"), "web-abc");
    }
}
