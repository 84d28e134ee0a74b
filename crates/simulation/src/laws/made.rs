//! What the controllers make is as its owner has it: a pod as the template of its ReplicaSet or ReplicationController
//! (RS-10), a ReplicaSet as its Deployment (DEP-04), but for annotations (DEP-06).
//!
//! Judged is what was sent: webhooks and admission may change it. A cache may be behind, and then any version of the owner counts; where nothing
//! disturbs, the one that was there at that moment.

use std::collections::BTreeMap;

use muster_tree::{List, Value};

use super::{Broken, Kind, Law, Seen};
use crate::api::{controller, name};
use crate::history::Write;

/// The label that tells a Deployment's ReplicaSets apart.
const HASH: &str = "pod-template-hash";
/// The most characters of a name.
const LONGEST: usize = 253;
/// For how long a version may still be acted on where nothing disturbs, in milliseconds.
const ON_THE_WAY: i64 = 1_000;

/// A version of an owner, and since when it was there.
type Version<'s> = (i64, &'s Value);

/// Checks everything that the managers made; `is_manager` says who is one.
pub fn check(writes: &[Write], seen: &[Seen], is_manager: impl Fn(&str) -> bool, is_undisturbed: bool) -> Vec<Broken> {
    let mut owners: BTreeMap<&str, Vec<Version<'_>>> = BTreeMap::new();
    for Seen { millis, object, .. } in seen.iter().filter(|seen| seen.kind != Kind::Pod) {
        let versions = owners.entry(object["metadata"]["uid"].as_str().unwrap_or_default()).or_default();
        if versions.last().is_none_or(|(_, last)| last["spec"] != object["spec"]) {
            versions.push((*millis, object));
        }
    }
    // What was made and undone by a restore may not have been seen.
    let is_all_seen = seen.iter().all(|seen| seen.epoch == 0);
    let mut broken = Vec::new();
    for write in writes.iter().filter(|write| is_manager(write.who)) {
        let made = write.made.as_deref().and_then(|body| serde_json::from_slice(body).ok());
        let Some(object): Option<Value> = made else { continue };
        let owner = controller(&object).unwrap_or(&Value::Null);
        let versions = owner["uid"].as_str().and_then(|uid| owners.get(uid));
        let how = match versions {
            None if is_all_seen => "for nobody who is there".to_owned(),
            None => continue,
            Some(versions) => {
                let ended = |at: usize| versions.get(at + 1).map_or(i64::MAX, |(since, _)| *since);
                let counts = |at: usize, since: i64| {
                    !is_undisturbed || since <= write.millis && ended(at).saturating_add(ON_THE_WAY) > write.millis
                };
                let judge = if write.resource() == "pods" { pod } else { set };
                let counting = versions.iter().enumerate().rev().filter(|(at, (since, _))| counts(*at, *since));
                let differs: Option<Vec<&str>> = counting.map(|(_, (_, owner))| judge(&object, owner)).collect();
                let Some(differs) = differs else { continue };
                let differs = differs.first().unwrap_or(&"owner");
                format!("and its {differs} is not what {} has", owner["name"].as_str().unwrap_or_default())
            }
        };
        broken.push(Broken::by_request(Law::Made, write, &format!(", {how}")));
    }
    broken
}

/// What of a new pod is not as this version of its owner has it.
fn pod(pod: &Value, owner: &Value) -> Option<&'static str> {
    let (meta, template) = (&pod["metadata"], &owner["spec"]["template"]);
    let wanted = &template["metadata"];
    let is = [
        ("owner reference", is_owned(meta, owner)),
        ("generateName", meta["generateName"] == format!("{}-", name(owner)).as_str()),
        ("set of labels", same(&meta["labels"], &wanted["labels"])),
        ("set of finalizers", same(&meta["finalizers"], &wanted["finalizers"])),
        ("set of annotations", same(&meta["annotations"], &wanted["annotations"])),
        ("spec", same(&pod["spec"], &template["spec"])),
    ];
    first_that_is_not(&is)
}

/// What of a new ReplicaSet is not as this version of its Deployment has it.
fn set(set: &Value, owner: &Value) -> Option<&'static str> {
    let (meta, spec, wanted) = (&set["metadata"], &set["spec"], &owner["spec"]);
    let hash = &meta["labels"][HASH];
    let is = [
        ("owner reference", is_owned(meta, owner)),
        ("name", hash.as_str().is_some_and(|hash| name(set) == set_name(name(owner), hash))),
        ("set of labels", is_hashed(&meta["labels"], "", &wanted["template"]["metadata"]["labels"], hash)),
        ("template", is_hashed(&spec["template"], "/metadata/labels", &wanted["template"], hash)),
        ("selector", is_hashed(&spec["selector"], "/matchLabels", &wanted["selector"], hash)),
        ("minReadySeconds", same(&spec["minReadySeconds"], &wanted["minReadySeconds"])),
    ];
    first_that_is_not(&is)
}

/// The Deployment's name, cut where it leaves no room for the hash.
fn set_name(deployment: &str, hash: &str) -> String {
    let room = LONGEST.saturating_sub(hash.len() + 1);
    format!("{}-{hash}", &deployment[..deployment.len().min(room)])
}

/// Whether it is what is wanted, with this hash among the labels at the pointer. What is wanted may have a hash of its own there.
fn is_hashed(value: &Value, labels: &str, wanted: &Value, hash: &Value) -> bool {
    let without = |value: &Value| {
        let mut value = value.clone();
        let labels = value.pointer_mut(labels).and_then(Value::as_object_mut);
        let taken = labels.and_then(|labels| labels.remove(HASH));
        (value, taken)
    };
    let ((value, taken), (wanted, _)) = (without(value), without(wanted));
    taken.as_ref() == Some(hash) && same(&value, &wanted)
}

fn first_that_is_not(is: &[(&'static str, bool)]) -> Option<&'static str> {
    is.iter().find(|(_, is)| !is).map(|(what, _)| *what)
}

/// Whether it has one owner, which is its controller and waits for its deletion.
fn is_owned(meta: &Value, owner: &Value) -> bool {
    let [reference] = meta["ownerReferences"].as_array().map_or(&[][..], List::as_slice) else { return false };
    let same = ["apiVersion", "kind"].iter().all(|field| reference[field] == owner[field]);
    let (named, wanted) = (&reference["name"], &owner["metadata"]["name"]);
    same && named == wanted && reference["controller"] == true && reference["blockOwnerDeletion"] == true
}

/// Whether both are the same; absent, null and empty are.
fn same(value: &Value, other: &Value) -> bool {
    has(value, other) && has(other, value)
}

fn has(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (_, Value::Null) => true,
        (Value::Object(_) | Value::Null, Value::Object(wanted)) => {
            wanted.iter().all(|(field, wanted)| has(&value[field], wanted))
        }
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() >= wanted.len() && value.iter().zip(wanted).all(|(value, wanted)| has(value, wanted))
        }
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        _ => value == wanted,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Method;
    use muster_tree::json;

    use super::*;

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
    fn made() -> [Value; 3] {
        let labels = json!({"app": "web", HASH: "x"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "web"},
            "spec": {
                "minReadySeconds": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template(&json!({"app": "web"})),
            },
        });
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": "web-x", "uid": "web-x", "labels": labels, "ownerReferences": owned("Deployment", "apps/v1", "web"),
            },
            "spec": {"minReadySeconds": 5, "selector": {"matchLabels": labels}, "template": template(&labels)},
        });
        let mut pod = template(&labels);
        pod["metadata"]["generateName"] = json!("web-x-");
        pod["metadata"]["ownerReferences"] = owned("ReplicaSet", "apps/v1", "web-x");
        [deployment, set, pod]
    }

    fn seen(owners: &[&Value]) -> Vec<Seen> {
        let kind = |object: &Value| if object["kind"] == "Deployment" { Kind::Deployment } else { Kind::ReplicaSet };
        let writes = owners.iter().zip(1..).map(|(object, version)| {
            let millis = i64::try_from(version).unwrap() * 10_000;
            Seen { epoch: 0, version, millis, kind: kind(object), gone: false, object: (*object).clone() }
        });
        writes.collect()
    }

    fn sent(millis: i64, object: &Value) -> Write {
        let resource = if object["kind"] == "ReplicaSet" {
            "apis/apps/v1/namespaces/d/replicasets"
        } else {
            "api/v1/namespaces/d/pods"
        };
        let (path, made) = (format!("/{resource}"), Some(Bytes::from(object.to_string())));
        Write {
            millis,
            who: "controllers",
            method: Method::POST,
            path,
            sent: 0,
            status: 201,
            answered: 0,
            lease: None,
            made,
        }
    }

    /// What is broken where this is made in the end.
    fn broken(owners: &[&Value], millis: i64, object: &Value, is_undisturbed: bool) -> Vec<String> {
        let broken = check(&[sent(millis, object)], &seen(owners), |who| who == "controllers", is_undisturbed);
        assert!(broken.iter().all(|broken| broken.law == Law::Made));
        assert_eq!(check(&[sent(millis, object)], &seen(owners), |_| false, is_undisturbed), [], "of others");
        broken.into_iter().map(|broken| broken.how).collect()
    }

    /// Contract: SI-02, RS-10, DEP-04
    #[test]
    fn what_is_made_is_held_against_its_owner() {
        type Change = (&'static str, usize, &'static str, Value);
        let changes: [Change; 19] = [
            ("set of labels", 2, "/metadata/labels/app", json!("other")),
            ("set of finalizers", 2, "/metadata/finalizers", json!([])),
            ("set of annotations", 2, "/metadata/annotations/a", json!("2")),
            ("set of annotations", 2, "/metadata/annotations", json!({"a": "1", "b": "2"})),
            ("spec", 2, "/spec/containers/0/image", json!("two")),
            ("spec", 2, "/spec/tolerations", json!([])),
            ("spec", 2, "/spec/tolerations", json!([{"key": "k"}, {"key": "l"}])),
            ("generateName", 2, "/metadata/generateName", json!("web-")),
            ("owner reference", 2, "/metadata/ownerReferences/0/blockOwnerDeletion", json!(false)),
            ("owner reference", 2, "/metadata/ownerReferences/0/name", json!("web-y")),
            ("for nobody who is there", 2, "/metadata/ownerReferences", json!([])),
            ("template", 1, "/spec/template/spec/containers/0/image", json!("two")),
            ("template", 1, "/spec/template/metadata/labels/pod-template-hash", json!("y")),
            ("selector", 1, "/spec/selector/matchLabels/pod-template-hash", json!("y")),
            ("selector", 1, "/spec/selector/matchLabels/app", json!("y")),
            ("set of labels", 1, "/metadata/labels/app", json!("y")),
            ("name", 1, "/metadata/name", json!("web")),
            ("minReadySeconds", 1, "/spec/minReadySeconds", json!(4)),
            ("owner reference", 1, "/metadata/ownerReferences/0/kind", json!("StatefulSet")),
        ];
        let [deployment, set, pod] = &made();
        assert_eq!(broken(&[deployment, set], 30_000, pod, true), Vec::<String>::new());
        assert_eq!(broken(&[deployment], 30_000, set, true), Vec::<String>::new());
        for (differs, at, pointer, value) in changes {
            let mut objects = made();
            *objects[at].pointer_mut(pointer).expect(pointer) = value;
            let owners: Vec<&Value> = objects[..at].iter().collect();
            let broken = broken(&owners, 30_000, &objects[at], true);
            assert!(broken.len() == 1 && broken[0].contains(differs), "{pointer}: {broken:?}");
        }
    }

    /// Where nothing disturbs a template counts for as long as it is there.
    #[test]
    fn a_template_of_another_time_counts_where_caches_may_be_behind() {
        let [deployment, set, pod] = &made();
        let mut newer = set.clone();
        newer["spec"]["template"]["spec"]["containers"][0]["image"] = json!("two");
        let owners = [deployment, set, &newer];
        // The newer one is there after 30 s.
        for (millis, undisturbed) in [(19_000, 1), (29_000, 0), (30_999, 0), (31_000, 1)] {
            assert_eq!(broken(&owners, millis, pod, true).len(), undisturbed, "after {millis} ms");
            assert_eq!(broken(&owners, millis, pod, false).len(), 0, "after {millis} ms");
        }
    }

    #[test]
    fn a_template_may_have_a_hash() {
        let [mut deployment, set, _] = made();
        deployment["spec"]["template"]["metadata"]["labels"][HASH] = json!("another");
        assert_eq!(broken(&[&deployment], 30_000, &set, true), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_is_too_long_is_cut() {
        let long = "d".repeat(LONGEST);
        assert_eq!(set_name(&long, "abc"), format!("{}-abc", "d".repeat(249)));
        assert_eq!(set_name("web", "abc"), "web-abc");
    }
}
