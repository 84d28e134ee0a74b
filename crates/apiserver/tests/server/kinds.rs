//! Objects as a real Kubernetes v1.36.2 took them: what it stored after defaulting, or what it said was wrong.
//!
//! The vectors were measured with dry runs. `pods.json` has pods to create, `pod-changes.json` merge patches of a
//! pod that is there, and `kinds.json` for the other kinds a base object with merge patches of it: to create, and
//! to change what is there. Order is not compared: the reference walks maps in a random one. What admission plugins add (the taint of
//! a new node) was left out.

use muster_apiserver::kinds::pod::Pod;
use muster_apiserver::kinds::{self, Kind};
use muster_apiserver::model::{Fields, Object, Part, metadata};
use muster_apiserver::schema::{Format, Validation, decode};
use muster_tree::{Value, json};

fn vectors() -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../vectors/pods.json")).expect("the vectors are JSON");
    all["pods"].as_array().expect("a list").to_vec()
}

/// The pod as it is read.
fn read(pod: &Value) -> Object {
    let body = serde_json::to_vec(pod).expect("JSON");
    let (mut object, _) =
        decode("", "v1", "Pod", &body, Format::Json, Validation::Ignore).expect("each vector can be decoded");
    object.object_or_new("metadata").insert("namespace".to_owned(), json!("b3"));
    Pod.default(&mut object);
    object
}

/// The pod as it is before it would be stored.
fn prepared(pod: &Value) -> Object {
    let mut object = read(pod);
    Pod.prepare_create(&mut object);
    object
}

/// Contract: API-16
#[test]
fn what_is_stored_after_defaulting() {
    let mut seen = 0;
    for vector in vectors().iter().filter(|v| v.get("stored").is_some()) {
        let object = prepared(&vector["pod"]);
        assert_eq!(object["spec"], vector["stored"], "{}", vector["pod"]);
        assert_eq!(object["status"], vector["status"], "{}", vector["pod"]);
        assert_eq!(Pod.validate_create(&object), [], "{}", vector["pod"]);
        seen += 1;
    }
    assert!(seen > 150, "{seen}");
}

/// Contract: API-06, API-14, API-17
#[test]
fn what_is_wrong_with_a_pod() {
    let mut seen = 0;
    for vector in vectors() {
        let Some(causes) = vector["causes"].as_array() else { continue };
        let object = prepared(&vector["pod"]);
        let mut got: Vec<Value> = Pod.validate_create(&object).iter().map(|e| json!([e.field, e.body()])).collect();
        let mut want = causes.to_vec();
        let key = ToString::to_string;
        got.sort_by_key(key);
        want.sort_by_key(key);
        assert_eq!(got, want, "{}", vector["pod"]);
        seen += 1;
    }
    assert!(seen > 150, "{seen}");
}

/// Contract: API-06
#[test]
fn what_a_pod_is_warned_of() {
    for vector in vectors().iter().filter(|v| v.get("stored").is_some()) {
        let mut got = Pod.early_warnings(&read(&vector["pod"]));
        got.extend(Pod.warnings(&prepared(&vector["pod"]), None));
        got.sort();
        let mut want: Vec<&str> =
            vector["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        want.sort_unstable();
        assert_eq!(got, want, "{}", vector["pod"]);
    }
}

/// The pod as admission leaves it: with a priority and the tolerations that every pod gets.
fn admitted(pod: &Value) -> Object {
    let mut object = prepared(pod);
    let spec = object.object_or_new("spec");
    spec.insert("priority".to_owned(), json!(0));
    spec.insert("preemptionPolicy".to_owned(), json!("PreemptLowerPriority"));
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        tolerations
            .as_array_mut()
            .expect("a list")
            .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
    }
    object
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("an object");
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

/// The pod after a merge patch, as far as its kind takes it.
fn changed(old: &Object, patch: &Value, part: Part) -> Object {
    let mut new = Value::Object(old.clone());
    merge(&mut new, patch);
    let body = serde_json::to_vec(&new).expect("JSON");
    let (mut new, _) =
        decode("", "v1", "Pod", &body, Format::Json, Validation::Ignore).expect("each vector can be decoded");
    Pod.default(&mut new);
    Pod.prepare_update(part, &mut new, old);
    // The registry lets nobody touch this.
    new.object_or_new("metadata").carry("creationTimestamp", metadata(old));
    new
}

/// Contract: API-06, API-15, API-17
#[test]
fn what_of_a_pod_may_change() {
    let all: Value = serde_json::from_str(include_str!("../vectors/pod-changes.json")).expect("the vectors are JSON");
    let mut seen = 0;
    for vector in all["pods"].as_array().expect("a list") {
        let mut old = admitted(&vector["pod"]);
        if let Some(first) = vector.get("first") {
            old = changed(&old, &json!({"status": first}), Part::Status);
        }
        for change in vector["changes"].as_array().expect("a list") {
            let part = if change["status"] == json!(true) { Part::Status } else { Part::Main };
            let new = changed(&old, &change["patch"], part);
            let key = ToString::to_string;
            let mut got: Vec<Value> = kinds::validate_update(&Pod, part, &new, &old, &mut Vec::new())
                .iter()
                .map(|e| json!([e.field, e.body()]))
                .collect();
            got.sort_by_key(key);
            let mut want = change["causes"].as_array().cloned().unwrap_or_default();
            want.sort_by_key(key);
            assert_eq!(got, want, "{} of {}", change["patch"], vector["pod"]);
            if want.is_empty() {
                assert_eq!(new["metadata"]["generation"], change["generation"], "{}", change["patch"]);
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

fn kind(name: &str) -> std::sync::Arc<dyn Kind> {
    let mut known = kinds::all().into_iter();
    known.find(|kind| kind.resource().kind == name).expect("each kind is known")
}

fn decoded(kind: &dyn Kind, object: &Value) -> Object {
    let resource = kind.resource();
    let body = serde_json::to_vec(object).expect("JSON");
    let (mut object, _) =
        decode(&resource.group, &resource.version, &resource.kind, &body, Format::Json, Validation::Ignore)
            .expect("each vector can be decoded");
    kind.default(&mut object);
    object
}

/// What the base object with a patch becomes before it would be stored.
fn created(kind: &dyn Kind, base: &Value, patch: &Value) -> Object {
    let mut object = base.clone();
    merge(&mut object, patch);
    // The registry sees to the namespace: it takes away what does not belong.
    object["metadata"]["namespace"] = if kind.resource().namespaced { json!("b3") } else { Value::Null };
    let mut object = decoded(kind, &object);
    kind.prepare_create(&mut object);
    object
}

/// Compares what came of a write with what was measured.
fn compare(kind: &dyn Kind, object: &Object, warnings: &[String], wrong: Vec<Value>, vector: &Value) {
    let about = format!("{} {} {}", kind.resource().kind, vector["part"], vector["patch"]);
    let mut wrong = wrong;
    let mut expected = vector["causes"].as_array().cloned().unwrap_or_default();
    wrong.sort_by_key(ToString::to_string);
    expected.sort_by_key(ToString::to_string);
    assert_eq!(wrong, expected, "{about}");
    if let Some(stored) = vector.get("stored") {
        let mut rest = object.clone();
        let meta = rest.remove("metadata").unwrap_or_default();
        rest.remove("apiVersion");
        rest.remove("kind");
        assert_eq!(&Value::Object(rest), stored, "{about}");
        assert_eq!(meta.get("generation"), vector.get("generation"), "{about}");
        let told: Vec<&str> = vector["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        assert_eq!(warnings, told, "{about}");
    }
}

/// Contract: API-06, API-14, API-15, API-16, API-17
#[test]
fn what_the_other_kinds_become() {
    let all: Value = serde_json::from_str(include_str!("../vectors/kinds.json")).expect("the vectors are JSON");
    let mut seen = 0;
    for group in all["kinds"].as_array().expect("a list") {
        let kind = kind(group["kind"].as_str().expect("a name"));
        for vector in group["creates"].as_array().expect("a list") {
            let object = created(&*kind, &group["base"], &vector["patch"]);
            let wrong: Vec<Value> = kind.validate_create(&object).iter().map(|e| json!([e.field, e.body()])).collect();
            compare(&*kind, &object, &kind.warnings(&object, None), wrong, vector);
            seen += 1;
        }
        let old = created(&*kind, &group["base"], &json!({}));
        for vector in group["updates"].as_array().expect("a list") {
            let part = if vector["part"] == json!("status") { Part::Status } else { Part::Main };
            let mut object = Value::Object(old.clone());
            merge(&mut object, &vector["patch"]);
            let mut object = decoded(&*kind, &object);
            kind.prepare_update(part, &mut object, &old);
            // The registry lets nobody touch this.
            object.object_or_new("metadata").carry("creationTimestamp", metadata(&old));
            let wrong: Vec<Value> = kinds::validate_update(&*kind, part, &object, &old, &mut Vec::new())
                .iter()
                .map(|e| json!([e.field, e.body()]))
                .collect();
            compare(&*kind, &object, &kind.warnings(&object, Some(&old)), wrong, vector);
            seen += 1;
        }
    }
    assert!(seen > 300, "{seen}");
}
