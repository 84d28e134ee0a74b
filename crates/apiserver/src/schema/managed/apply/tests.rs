//! Applying, rule by rule and law by law. What the reference server answers is compared over HTTP.

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};
use proptest::prelude::*;

use super::super::super::{Format, Object, Validation, decode};
use super::{Configuration, Refusal, apply, message};
use crate::model::Model;

const T1: &str = "2026-01-01T00:00:01Z";
const T2: &str = "2026-01-01T00:00:02Z";

fn send(live: Option<&Object>, manager: &str, body: &Value, force: bool, at: &str) -> Result<Object, Refusal> {
    let now = Timestamp::parse(at).unwrap_or_else(|e| panic!("{at}: {e}"));
    let (group, version, subresource) = ("", "v1", "");
    let kind = body["kind"].as_str().unwrap_or_default();
    let configuration =
        Configuration { subject: Model { group, version, kind }.into(), subresource, tree: body, manager, force, now };
    let mut object = apply(&configuration, live, &super::super::versions::unconverted)?;
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid", json!("u"));
    }
    Ok(object)
}

fn sent(live: Option<&Object>, manager: &str, body: &Value, force: bool, at: &str) -> Object {
    send(live, manager, body, force, at).unwrap_or_else(|refusal| panic!("{manager}: {refusal:?}"))
}

fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

fn containers(names: &[&str]) -> Value {
    let list: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    pod(&json!({"containers": list}))
}

fn names(object: &Object) -> Vec<String> {
    let list = object["spec"]["containers"].as_array().into_iter().flatten();
    list.map(|c| c["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Contract: API-13
#[test]
fn elements_come_in_the_order_in_which_they_are_applied() {
    // What is there, what somebody else applies, what becomes of it.
    let cases: [(&[&str], &[&str], &[&str]); 7] = [
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b", "c"], &["x"], &["a", "b", "c", "x"]),
        (&["a", "b", "c"], &["x", "b"], &["a", "x", "b", "c"]),
        (&["a", "b", "c"], &["b", "x"], &["a", "b", "c", "x"]),
        (&["a", "b", "c"], &["a", "x", "c"], &["a", "b", "x", "c"]),
        (&["a", "b", "c", "d"], &["d", "x", "b"], &["a", "c", "d", "x", "b"]),
        (&["a"], &[], &["a"]),
    ];
    for (live, applied, expected) in cases {
        let object = sent(None, "one", &containers(live), false, T1);
        let object = sent(Some(&object), "two", &containers(applied), false, T2);
        assert_eq!(names(&object), expected, "{live:?} + {applied:?}");
    }
}

/// Contract: API-13
#[test]
fn what_is_applied_no_more_goes_unless_another_has_it() {
    let both =
        json!({"containers": [{"name": "c", "image": "i", "env": [{"name": "A"}, {"name": "B"}]}, {"name": "d"}]});
    let live = sent(None, "one", &pod(&both), false, T1);
    let part = json!({"containers": [{"name": "c", "env": [{"name": "B"}]}]});
    let live = sent(Some(&live), "two", &pod(&part), false, T1);
    let live = sent(Some(&live), "one", &pod(&json!({"containers": [{"name": "d"}]})), false, T2);
    let found: Vec<&Value> = live["spec"]["containers"].as_array().into_iter().flatten().collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].get("image"), None, "it was the first's alone");
    assert_eq!(found[0]["env"], json!([{"name": "B"}]), "the second has the other");
}

/// Contract: API-13
#[test]
fn conflicts_are_told_by_manager_and_path() {
    let port = |port: u16, name: &str| json!({"containerPort": port, "name": name});
    let with_ports =
        |ports: Value, image: &str| pod(&json!({"containers": [{"name": "c", "image": image, "ports": ports}]}));
    let live = sent(None, "one", &with_ports(json!([port(443, "s"), port(80, "p")]), "i"), false, T1);
    let refusal = send(Some(&live), "two", &with_ports(json!([port(443, "x"), port(80, "y")]), "j"), false, T2);
    let Err(Refusal::Conflicts(conflicts)) = refusal else { panic!("{refusal:?}") };
    assert_eq!(
        message(&conflicts),
        "Apply failed with 3 conflicts: conflicts with \"one\":\n\
         - .spec.containers[name=\"c\"].image\n\
         - .spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"].name\n\
         - .spec.containers[name=\"c\"].ports[containerPort=443,protocol=\"TCP\"].name"
    );
    assert_eq!(
        message(&conflicts[..1]),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.containers[name=\"c\"].image"
    );
}

/// Contract: API-13
#[test]
fn what_has_not_the_form_of_its_kind_is_refused() {
    let cases = [
        (
            json!({"containers": [{"name": "c"}, {"name": "c"}]}),
            ".spec.containers: duplicate entries for key [name=\"c\"]",
        ),
        (
            json!({"containers": [1]}),
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (json!({"contaners": []}), ".spec.contaners: field not declared in schema"),
        (json!({"nodeName": 1}), ".spec.nodeName: expected string, got &value.valueUnstructured{Value:1}"),
        (
            json!({"nodeName": [1], "hostNetwork": "x"}),
            "errors:\n  .spec.hostNetwork: expected boolean, got &{x}\n  \
             .spec.nodeName: expected string, got &value.valueUnstructured{Value:[]interface {}{1}}",
        ),
        (
            json!({"tolerations": [{"key": []}]}),
            ".spec.tolerations[0].key: expected string, got &value.valueUnstructured{Value:[]interface {}{}}",
        ),
    ];
    for (spec, why) in cases {
        let expected = format!("failed to create typed patch object (/p; /v1, Kind=Pod): {why}");
        assert_eq!(send(None, "one", &pod(&spec), false, T1), Err(Refusal::Malformed(expected)));
    }
}

fn trees() -> impl Strategy<Value = Value> {
    let env = proptest::collection::btree_map("[ab]", "[xy]", 0..3);
    let container = ("[cd]", proptest::option::of("[ij]"), env);
    // An empty map is owned, but not stored: applied again, it is a change again.
    let labels = proptest::option::of(proptest::collection::btree_map("[ab]", "[xy]", 1..3));
    (labels, proptest::collection::vec(container, 0..3)).prop_map(|(labels, containers)| {
        let mut list: Vec<Value> = Vec::new();
        for (name, image, env) in containers {
            if list.iter().any(|c| c["name"] == name.as_str()) {
                continue;
            }
            let mut container = json!({"name": name});
            if let Some(image) = image {
                container["image"] = json!(image);
            }
            if !env.is_empty() {
                container["env"] = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            }
            list.push(container);
        }
        let mut tree = pod(&json!({"containers": list}));
        if let Some(labels) = labels {
            tree["metadata"]["labels"] = json!(labels);
        }
        tree
    })
}

/// Whether everything that a tree says is in another one; elements by their names.
fn says(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(key, value)| {
            whole.get(key).map_or(value.as_object().is_some_and(muster_tree::Map::is_empty), |found| says(found, value))
        }),
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|value| whole.iter().any(|found| found["name"] == value["name"] && says(found, value)))
        }
        (Value::Null, Value::Array(part)) => part.is_empty(),
        _ => whole == part,
    }
}

/// An object as storage holds it.
fn stored(object: &Object) -> Object {
    let body = Value::Object(object.clone()).to_string();
    match decode("", "v1", "Pod", body.as_bytes(), Format::Json, Validation::Strict) {
        Ok((object, _)) => object,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    /// Contract: API-13
    #[test]
    fn a_forced_apply_says_what_it_says_and_again_changes_nothing(
        first in trees(), second in trees(), third in trees(),
    ) {
        let live = stored(&sent(None, "one", &first, false, T1));
        let live = stored(&sent(Some(&live), "two", &second, true, T1));
        let live = stored(&sent(Some(&live), "one", &third, true, T1));
        let tree = Value::Object(live.clone());
        prop_assert!(says(&tree, &third), "{third} in {tree}");
        let again = stored(&sent(Some(&live), "one", &third, false, T2));
        prop_assert_eq!(&again["spec"], &live["spec"]);
        prop_assert_eq!(again["metadata"].get("labels"), live["metadata"].get("labels"));
    }

    /// Contract: API-13
    #[test]
    fn who_applies_nothing_leaves_what_the_other_applied(first in trees(), second in trees()) {
        let alone = stored(&sent(None, "one", &first, false, T1));
        let both = stored(&sent(Some(&alone), "two", &second, true, T1));
        let nothing = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
        let left = stored(&sent(Some(&both), "two", &nothing, false, T2));
        // What the second took over is gone; everything else of the first is there.
        let left = Value::Object(left);
        let managers: Vec<&str> = left["metadata"]["managedFields"]
            .as_array().into_iter().flatten().filter_map(|e| e["manager"].as_str()).collect();
        prop_assert!(!managers.contains(&"two"));
        let again = stored(&sent(left.as_object(), "one", &first, false, T2));
        prop_assert!(says(&Value::Object(again), &first));
    }
}
