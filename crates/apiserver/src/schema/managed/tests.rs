//! Field ownership on ordinary writes: what a real server recorded, and the rules one by one.

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::super::{Format, Object, Validation, decode};
use super::{Subject, update};
use crate::model::Model;

fn subject(group: &'static str, version: &'static str, kind: &'static str) -> Subject<'static> {
    Model { group, version, kind }.into()
}

fn now(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn object(value: &Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}

/// A pod as it comes out of decoding, with the defaults that the test spells out.
fn pod(value: &Value) -> Object {
    let body = value.to_string();
    match decode("", "v1", "Pod", body.as_bytes(), Format::Json, Validation::Strict) {
        Ok((pod, _)) => pod,
        Err(error) => panic!("{error}"),
    }
}

fn write(live: Option<&Object>, new: &Value, manager: &str, subresource: &str, at: &str) -> Object {
    let mut new = pod(new);
    if let Some(live) = live {
        // A client that changed what it read.
        let metadata = new.get_mut("metadata").and_then(Value::as_object_mut);
        if let (Some(metadata), Some(uid)) = (metadata, live["metadata"].get("uid")) {
            metadata.insert("uid", uid.clone());
        }
    }
    update(&subject("", "v1", "Pod"), live, &mut new, manager, subresource, now(at), &super::versions::unconverted);
    new["metadata"].as_object_mut().map(|m| m.insert("uid", json!("u")));
    new
}

fn entries(object: &Object) -> Value {
    object["metadata"].get("managedFields").cloned().unwrap_or(Value::Null)
}

const T1: &str = "2026-01-01T00:00:01Z";
const T2: &str = "2026-01-01T00:00:02Z";

/// Contract: API-13
#[test]
fn a_creation_owns_what_it_and_the_defaults_set() {
    let body = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "fm", "namespace": "x"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "fm"}}, "template": {
            "metadata": {"labels": {"app": "fm"}},
            "spec": {
                "containers": [{"name": "c", "image": "nginx", "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "securityContext": {}, "schedulerName": "default-scheduler",
            },
        }},
    });
    let decoded = decode("apps", "v1", "ReplicaSet", body.to_string().as_bytes(), Format::Json, Validation::Strict);
    let (mut rs, _) = decoded.unwrap_or_else(|e| panic!("{e}"));
    update(&subject("apps", "v1", "ReplicaSet"), None, &mut rs, "me", "", now(T1), &super::versions::unconverted);
    // What a real server wrote for the same request.
    let expected = json!([{
        "manager": "me", "operation": "Update", "apiVersion": "apps/v1", "time": T1, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
                    "f:resources": {}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}},
                "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {},
                "f:terminationGracePeriodSeconds": {},
            },
        }}},
    }]);
    assert_eq!(entries(&rs), expected);
}

/// Contract: API-13
#[test]
fn a_changed_field_changes_hands() {
    let first = json!({"metadata": {"name": "p", "labels": {"a": "1", "b": "1"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let live = write(None, &first, "one", "", T1);
    let second = json!({"metadata": {"name": "p", "labels": {"a": "2", "b": "1", "c": "1"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let live = write(Some(&live), &second, "two", "", T2);
    assert_eq!(
        entries(&live),
        json!([
            {"manager": "one", "operation": "Update", "apiVersion": "v1", "time": T1, "fieldsType": "FieldsV1", "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:b": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}}},
            }},
            {"manager": "two", "operation": "Update", "apiVersion": "v1", "time": T2, "fieldsType": "FieldsV1", "fieldsV1": {
                "f:metadata": {"f:labels": {"f:a": {}, "f:c": {}}},
            }},
        ])
    );
    // Removing everything that one manager has removes its entry.
    let third =
        json!({"metadata": {"name": "p", "labels": {"b": "1"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let live = write(Some(&live), &third, "three", "", T2);
    let managers: Vec<&str> = live["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|e| e["manager"].as_str())
        .collect();
    assert_eq!(managers, ["one"], "a removal gives the remover nothing");
}

/// Contract: API-13
#[test]
fn a_write_that_changes_nothing_changes_no_entry() {
    let body = json!({"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"containers": [{"name": "c"}]}});
    let live = write(None, &body, "one", "", T1);
    let again = write(Some(&live), &body, "two", "", T2);
    assert_eq!(entries(&again), entries(&live));
    let again = write(Some(&live), &body, "one", "", T2);
    assert_eq!(entries(&again), entries(&live), "nor its time");
}

/// Contract: API-13
#[test]
fn subresources_have_entries_of_their_own() {
    let body = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
    let live = write(None, &body, "one", "", T1);
    let status = json!({"metadata": {"name": "p", "ownerReferences": [{"apiVersion": "v1", "kind": "x", "name": "y", "uid": "z"}]},
        "spec": {"containers": [{"name": "d"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "podIPs": [{"ip": "1.2.3.4"}]}});
    let live = write(Some(&live), &status, "kubelet", "status", T2);
    assert_eq!(
        entries(&live)[1],
        json!({"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "subresource": "status", "time": T2,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {
            "f:conditions": {".": {}, "k:{\"type\":\"Ready\"}": {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {},
                "f:status": {}, "f:type": {}}},
            "f:phase": {},
            "f:podIPs": {".": {}, "k:{\"ip\":\"1.2.3.4\"}": {".": {}, "f:ip": {}}},
        }}})
    );
    // The main URL does not write status, and owns nothing of it.
    let body =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Failed"}});
    assert_eq!(entries(&write(None, &body, "one", "", T1))[0]["fieldsV1"].get("f:status"), None);
}

/// Contract: API-13
#[test]
fn a_client_may_send_entries_back_or_have_them_forgotten() {
    let body = json!({"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"containers": [{"name": "c"}]}});
    let live = write(None, &body, "one", "", T1);
    for reset in [json!([]), json!([{}])] {
        let mut sent = body.clone();
        sent["metadata"]["managedFields"] = reset;
        sent["metadata"]["labels"]["a"] = json!("2");
        assert_eq!(entries(&write(Some(&live), &sent, "two", "", T2)), Value::Null);
    }
    let mut sent = body.clone();
    sent["metadata"]["managedFields"] = json!([{"manager": "own", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}}}]);
    let written = write(Some(&live), &sent, "two", "", T2);
    assert_eq!(entries(&written)[0]["manager"], "own");
    // What is not valid is as if it had not been sent.
    sent["metadata"]["managedFields"] = json!([{"manager": "own", "operation": "Fly"}]);
    assert_eq!(entries(&write(Some(&live), &sent, "two", "", T2)), entries(&live));
}

/// Contract: API-13
#[test]
fn the_oldest_updaters_are_folded() {
    let at = |n: usize| format!("2026-01-01T00:00:{n:02}Z");
    let body = |n: usize| {
        let labels: muster_tree::Map = (0..=n).map(|n| (format!("l{n:02}"), json!("x"))).collect();
        json!({"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [{"name": "c"}]}})
    };
    let mut live = write(None, &body(0), "m00", "", &at(0));
    for n in 1..13 {
        live = write(Some(&live), &body(n), &format!("m{n:02}"), "", &at(n));
    }
    let list = entries(&live);
    let managers: Vec<&str> = list.as_array().into_iter().flatten().filter_map(|e| e["manager"].as_str()).collect();
    assert_eq!(managers, ["ancient-changes", "m04", "m05", "m06", "m07", "m08", "m09", "m10", "m11", "m12"]);
    assert!(list[0]["fieldsV1"]["f:metadata"]["f:labels"].get("f:l02").is_some());
}

/// Contract: API-13
#[test]
fn elements_that_share_a_key_are_one() {
    let port = |name: &str| json!({"containerPort": 80, "protocol": "TCP", "name": name});
    let body =
        |ports: Value| json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "ports": ports}]}});
    let live = write(None, &body(json!([port("a"), port("b")])), "one", "", T1);
    assert_eq!(
        entries(&live)[0]["fieldsV1"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["f:ports"],
        json!({".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}})
    );
}

/// Contract: API-13
#[test]
fn objects_without_entries_stay_without() {
    let mut live = object(&json!({"metadata": {"name": "p", "uid": "u"}, "spec": {}}));
    live.insert("status", json!({}));
    let body = json!({"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"containers": [{"name": "c"}]}});
    assert_eq!(entries(&write(Some(&live), &body, "one", "", T1)), Value::Null);
}
