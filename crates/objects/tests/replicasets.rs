//! ReplicaSets, their templates, the pods made of them, and their status.

use std::sync::Arc;

use muster_objects::{
    Condition, ConditionStatus, ControllerRef, Interner, Labels, Object, ReplicaSet, ReplicaSetStatus, Template,
    TemplateError, Timestamp, Uid,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn decode(json: &str) -> ReplicaSet {
    ReplicaSet::decode(json.as_bytes(), &mut Interner::new()).expect("a ReplicaSet")
}

fn owner(name: &str) -> ControllerRef {
    ControllerRef {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: name.into(),
        uid: Uid::new("3f2c9c1e-6a54-4d0b-9a3e-0c6a4f6f8f11"),
    }
}

#[test]
fn a_whole_replica_set() {
    let set = decode(
        r#"{"kind":"ReplicaSet","apiVersion":"apps/v1","metadata":{"name":"web","namespace":"shop","uid":"u",
        "resourceVersion":"9","generation":2,"labels":{"app":"web"},
        "annotations":{"deployment.kubernetes.io/revision":"3","a\"b":"\n"},"managedFields":[{"a":{}}]},
        "spec":{"replicas":3,"minReadySeconds":5,"selector":{"matchLabels":{"app":"web"},
        "matchExpressions":[{"key":"x","operator":"Exists"}]},"template":{"metadata":{"labels":{"app":"web"}},"spec":{}}},
        "status":{"replicas":2,"readyReplicas":1,"terminatingReplicas":0,"observedGeneration":1,
        "conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"m",
        "lastTransitionTime":"2026-01-02T15:04:05Z","tomorrow":[1]}],"someday":{}}}"#,
    );
    assert_eq!((set.meta.key().to_string().as_str(), set.meta.generation), ("shop/web", 2));
    assert_eq!(set.annotations.get("deployment.kubernetes.io/revision"), Some("3"));
    assert_eq!(set.annotations.get("a\"b"), Some("\n"));
    assert_eq!((set.replicas, set.min_ready_seconds), (3, 5));
    assert_eq!(set.selector.as_ref().map(ToString::to_string).as_deref(), Ok("app=web,x"));
    assert_eq!(set.label_selector.match_labels.get("app"), Some("web"));
    assert_eq!(set.template.labels(), &[("app", "web")].into_iter().collect::<Labels>());
    assert_eq!((set.status.replicas, set.status.ready_replicas, set.status.available_replicas), (2, 1, 0));
    assert_eq!((set.status.terminating_replicas, set.status.observed_generation), (Some(0), 1));
    let condition = Condition::find(&set.status.conditions, "ReplicaFailure").expect("the condition");
    assert_eq!((condition.status, condition.reason.as_str()), (ConditionStatus::True, "FailedCreate"));
    assert_eq!(condition.other.get("tomorrow"), Some(&json!([1])));
}

/// Contract: RS-20
#[test]
fn replicas_default_to_one_and_selectors_may_be_absent_or_invalid() {
    let set = decode(r#"{"metadata":{"name":"a"},"spec":{}}"#);
    assert_eq!((set.replicas, set.min_ready_seconds, &set.status), (1, 0, &ReplicaSetStatus::default()));
    assert!(set.selector.as_ref().is_ok_and(muster_objects::Selector::is_nothing));
    assert_eq!(set.template.pod_body(&owner("a")), Err(TemplateError::NoLabels));
    let set = decode(r#"{"spec":{"replicas":0,"selector":{"matchExpressions":[{"key":"x","operator":"Like"}]}}}"#);
    assert_eq!(set.replicas, 0);
    let error = set.selector.expect_err("an invalid selector").to_string();
    assert_eq!(error, "\"Like\" is not a valid label selector operator");
    assert_eq!(decode(r#"{"spec":{"replicas":-3}}"#).replicas, 0, "no count of pods is negative");
}

/// Byte for byte: spaces, the order of keys, escapes, digits that no float could hold, and fields that
/// nobody knows yet.
///
/// Contract: RS-10, B-13
#[test]
fn a_pod_is_its_template_byte_for_byte() {
    let labels = r#"{ "b":"2" ,"a":"\u0031", "a-field": "x" }"#;
    let annotations = r#"{"n":"1\/2"}"#;
    let finalizers = r#"["example.com/keep" ]"#;
    let spec = r#"{"containers":[ {"name":"c","resources":{"limits":{"x":10000000000000000000000.10}}}],"tomorrow":{"z":null,"a":1}}"#;
    let json = format!(
        r#"{{"spec":{{"template":{{"metadata":{{"labels":{labels},"creationTimestamp":null,"annotations":{annotations},"name":"ignored","finalizers":{finalizers}}},"spec":{spec}}}}}}}"#
    );
    let body = decode(&json).template.pod_body(&owner("web")).expect("a body");
    let owner_reference = r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"3f2c9c1e-6a54-4d0b-9a3e-0c6a4f6f8f11","controller":true,"blockOwnerDeletion":true}"#;
    let expected = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"generateName":"web-","labels":{labels},"annotations":{annotations},"finalizers":{finalizers},"ownerReferences":[{owner_reference}]}},"spec":{spec}}}"#
    );
    assert_eq!(String::from_utf8(body).expect("text"), expected);
}

/// Contract: RS-10
#[test]
fn a_template_without_labels_makes_no_pod() {
    for metadata in ["{}", r#"{"labels":null}"#, r#"{"labels":{}}"#, r#"{"annotations":{"a":"b"}}"#, "null"] {
        let template = Template::decode(&format!(r#"{{"metadata":{metadata},"spec":{{}}}}"#), &mut Interner::new());
        let error = template.expect("a template").pod_body(&owner("web")).expect_err(metadata);
        assert_eq!(error.to_string(), "unable to create pods, no labels");
    }
}

/// The dash is left out where the result would be no valid prefix.
///
/// Contract: RS-10
#[test]
fn the_prefix_of_pod_names() {
    let template = Template::decode(r#"{"metadata":{"labels":{"a":"b"}}}"#, &mut Interner::new()).expect("a template");
    let (longest, too_long) = ("a".repeat(253), "a".repeat(254));
    let cases = [
        ("web", "web-".to_owned()),
        ("a.b", "a.b-".into()),
        (&longest, format!("{longest}-")),
        (&too_long, too_long.clone()),
        ("Web", "Web".into()),
    ];
    for (name, prefix) in cases {
        let body: Value = serde_json::from_slice(&template.pod_body(&owner(name)).expect("a body")).expect("JSON");
        assert_eq!(body["metadata"]["generateName"], Value::from(prefix));
        assert_eq!(body["spec"], json!({}));
    }
}

#[test]
fn a_template_survives_serde() {
    let raw = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"x":1.0,"a":[ ]}}"#;
    let template: Template = serde_json::from_str(raw).expect("a template");
    assert_eq!(serde_json::to_string(&template).expect("JSON"), raw);
    assert_eq!((template.raw(), template.raw_spec()), (raw, Some(r#"{"x":1.0,"a":[ ]}"#)));
    for wrong in ["", "[]", r#"{"metadata":{"labels":{"a":1}}}"#, r#"{"metadata":{"labels":[]}}"#] {
        assert!(Template::decode(wrong, &mut Interner::new()).is_err(), "{wrong}");
    }
}

fn status() -> ReplicaSetStatus {
    let now = Timestamp::parse("2026-01-02T15:04:05Z").expect("a time");
    ReplicaSetStatus {
        replicas: 3,
        fully_labeled_replicas: 3,
        ready_replicas: 0,
        available_replicas: 0,
        terminating_replicas: Some(0),
        observed_generation: 7,
        conditions: vec![Condition::new("ReplicaFailure", ConditionStatus::True, "FailedCreate", "m", now)],
    }
}

/// Contract: RS-15, RS-16
#[test]
fn a_status_is_written_as_go_writes_it() {
    let expected = json!({
        "replicas": 3, "fullyLabeledReplicas": 3, "terminatingReplicas": 0, "observedGeneration": 7,
        "conditions": [{
            "type": "ReplicaFailure", "status": "True", "lastTransitionTime": "2026-01-02T15:04:05Z",
            "reason": "FailedCreate", "message": "m",
        }],
    });
    assert_eq!(serde_json::to_value(status()).expect("JSON"), expected);
    assert_eq!(serde_json::from_value::<ReplicaSetStatus>(expected).expect("a status"), status());
    assert_eq!(serde_json::to_value(ReplicaSetStatus::default()).expect("JSON"), json!({ "replicas": 0 }));
}

/// Contract: RS-15
#[test]
fn fully_labelled_means_all_of_the_templates_labels() {
    let labels = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Labels>();
    let template = labels(&[("a", "1"), ("b", "2")]);
    assert!(labels(&[("a", "1"), ("b", "2"), ("c", "3")]).contains_all(&template));
    assert!(!labels(&[("a", "1")]).contains_all(&template));
    assert!(!labels(&[("a", "1"), ("b", "3")]).contains_all(&template));
    assert!(Labels::EMPTY.contains_all(&Labels::EMPTY));
}

proptest! {
    /// Whatever the spec, it is in the body as it stood.
    ///
    /// Contract: RS-10
    #[test]
    fn the_spec_is_never_touched(text in "[ -~é]{0,20}", number in any::<u64>(), pretty in any::<bool>()) {
        let spec = json!({ "s": text, "n": number, "l": [{ "x": text }, null, true] });
        let spec = if pretty { format!("{spec:#}") } else { spec.to_string() };
        let template = format!(r#"{{"spec":{spec},"metadata":{{"labels":{{"a":"b"}}}}}}"#);
        let template = Arc::new(Template::decode(&template, &mut Interner::new()).expect("a template"));
        let body = template.pod_body(&owner("web")).expect("a body");
        let end = format!("\"spec\":{spec}}}");
        prop_assert!(body.ends_with(end.as_bytes()));
        prop_assert!(serde_json::from_slice::<Value>(&body).is_ok());
    }
}
