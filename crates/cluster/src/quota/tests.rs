use muster_apiserver::quota::{Evaluator, ResourceList};
use muster_tree::{Value, json};

use super::*;
use crate::testing::{slim, uid_text};

fn quota(spec: &Value, status: &Value) -> Slim<Quota> {
    slim(&serde_json::json!({
        "metadata": {"name": "quota", "namespace": "ns", "uid": uid_text(900), "resourceVersion": "5"},
        "spec": spec,
        "status": status,
    }))
}

fn list(amounts: &Value) -> ResourceList {
    ResourceList::read(amounts.as_object())
}

/// The status after these evaluators found these amounts.
fn decided(quota: &Slim<Quota>, found: &[(Evaluator, Value)]) -> Option<Value> {
    let mut sums = Sums::of(&quota.body.spec);
    for (evaluator, amounts) in found {
        if sums.begins(evaluator) {
            sums.add(&list(amounts));
        }
    }
    decide(quota, &sums).map(|patch| patch["status"].clone())
}

/// Contract: API-21
#[test]
fn a_status_says_what_is_used_of_what_is_limited() {
    let hard = json!({"pods": "10", "requests.cpu": "2", "secrets": "5", "count/widgets.example.com": "3"});
    let new = quota(&json!({"hard": hard}), &json!({}));
    let used = json!({"pods": "2", "count/pods": "3", "requests.cpu": "1500m"});
    let status = decided(&new, &[(Evaluator::Pods, used.clone())]).expect("it is new");
    assert_eq!(status["hard"], hard);
    assert_eq!(status["used"], json!({"pods": "2", "requests.cpu": "1500m"}), "what is limited and measured");
    let right = quota(&json!({"hard": hard}), &status);
    assert_eq!(decided(&right, &[(Evaluator::Pods, used)]), None);
    // Amounts are compared, not their texts.
    let same = json!({"pods": "2000m", "requests.cpu": "1.5"});
    assert_eq!(decided(&right, &[(Evaluator::Pods, same)]), None);
    let nothing = decided(&right, &[(Evaluator::Pods, json!({}))]).expect("it changed");
    assert_eq!(nothing["used"], json!({"pods": "0", "requests.cpu": "0"}));
    // What is limited no more is taken away, and what could not be measured stays.
    let fewer = quota(
        &json!({"hard": {"pods": "10", "secrets": "5"}}),
        &json!({"hard": hard, "used": {"secrets": "4", "requests.cpu": "1"}}),
    );
    let status = decided(&fewer, &[(Evaluator::Pods, json!({"pods": "1"}))]).expect("it changed");
    assert_eq!(status["used"], json!({"pods": "1", "secrets": "4", "requests.cpu": null}));
    assert_eq!(
        status["hard"],
        json!({"pods": "10", "secrets": "5", "requests.cpu": null, "count/widgets.example.com": null})
    );
}

/// Contract: API-21
#[test]
fn what_could_not_be_listed_is_left_out_of_the_sums() {
    let old = json!({"hard": {"pods": "10", "services": "5"}, "used": {"pods": "7", "services": "1"}});
    let quota = quota(&json!({"hard": {"pods": "10", "services": "5"}}), &old);
    let mut sums = Sums::of(&quota.body.spec);
    assert!(sums.begins(&Evaluator::Pods));
    assert!(sums.begins(&Evaluator::Services));
    assert!(!sums.begins(&Evaluator::Claims));
    sums.exclude(&Evaluator::Pods);
    sums.add(&list(&json!({"services": "2"})));
    let patch = decide(&quota, &sums).expect("it changed");
    assert_eq!(patch["status"]["used"], json!({"pods": "7", "services": "2"}));
}

/// Contract: API-21
#[test]
fn quotas_that_track_what_was_freed_are_queued() {
    let mut quotas: Cache<Slim<Quota>> = Cache::new();
    for (name, hard) in
        [("pods", json!({"pods": "1"})), ("cpu", json!({"limits.cpu": "1"})), ("maps", json!({"configmaps": "1"}))]
    {
        let mut quota = quota(&json!({"hard": hard}), &json!({"hard": hard}));
        quota.meta.name = name.into();
        quota.meta.uid = muster_objects::Uid::new(name);
        quotas.apply(quota);
    }
    let names = |group: &str, plural: &str, namespace: &str| -> Vec<String> {
        let evaluator = Evaluator::of(group, plural).expect("it is counted");
        tracking(&quotas, &namespace.into(), &evaluator).iter().map(|key| key.name.to_string()).collect()
    };
    assert_eq!(names("", "pods", "ns"), ["pods", "cpu"]);
    assert_eq!(names("", "configmaps", "ns"), ["maps"]);
    assert_eq!(names("", "secrets", "ns"), Vec::<String>::new());
    assert_eq!(names("", "pods", "other"), Vec::<String>::new());
}
