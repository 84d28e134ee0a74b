//! History: which old ReplicaSets are deleted.

use std::sync::Arc;

use muster_controllers::deployment::history::{clean_up, deletions};
use muster_controllers::plan::{AfterConflict, Deletion};
use muster_objects::{Deployment, ReplicaSet};
use serde_json::{Value, json};

use crate::fixtures::{ago, annotate, deployment, set, set_json, set_with};

fn keeping(limit: impl Into<Value>) -> Deployment {
    let limit = limit.into();
    deployment(3, |json| json["spec"]["revisionHistoryLimit"] = limit)
}

fn deleted(deployment: &Deployment, old: &[Arc<ReplicaSet>]) -> Vec<String> {
    clean_up(deployment, old).iter().map(|set| set.meta.name.to_string()).collect()
}

/// Contract: DEP-14
#[test]
fn the_lowest_revisions_beyond_the_limit_are_deleted() {
    let old: Vec<_> = (1..=4).map(|number| set(number, "a", 0)).collect();
    assert_eq!(deleted(&keeping(4), &old), [""; 0]);
    assert_eq!(deleted(&keeping(2), &old), ["web-1", "web-2"]);
    assert_eq!(deleted(&keeping(0), &old), ["web-1", "web-2", "web-3", "web-4"]);
    assert_eq!(deleted(&keeping(i32::MAX), &old), [""; 0]);
    assert_eq!(deleted(&keeping(json!(null)), &old), [""; 0]);
    // The revision counts, and the age only where it is the same.
    let of = |number, revision: &str| {
        set_with(number, "a", 0, |json| annotate(json, "deployment.kubernetes.io/revision", revision))
    };
    assert_eq!(deleted(&keeping(1), &[of(1, "30"), of(2, "9"), of(3, "9")]), ["web-2", "web-3"]);
    // One whose revision is not a number is compared by age, in whatever order they come.
    for old in [[of(1, "30"), of(2, "9"), of(3, "seven")], [of(3, "seven"), of(2, "9"), of(1, "30")]] {
        assert_eq!(deleted(&keeping(2), &old), ["web-2"]);
    }
    assert_eq!(deleted(&keeping(1), &[of(1, "1"), of(2, "abc")]), ["web-1"]);
    assert_eq!(deleted(&keeping(1), &[of(1, "abc"), of(2, "1")]), ["web-1"]);
    let mut circle = [of(1, "5"), of(2, "abc"), of(3, "1")];
    assert_eq!(deleted(&keeping(2), &circle), ["web-1"], "in a circle");
    circle.reverse();
    assert_eq!(deleted(&keeping(2), &circle), ["web-2"], "in a circle, the youngest first");
}

/// Of many, one whose revision is not a number has its place by age, and the others theirs by their revisions.
///
/// Contract: DEP-14
#[test]
fn of_many_one_without_a_revision_goes_with_those_of_its_age() {
    let of = |number: u64| {
        // The second was rolled back to.
        let revision = [(2, "40"), (5, "five"), (9, "99999999999999999999")].into_iter().find(|(at, _)| *at == number);
        let revision = revision.map_or(number.to_string(), |(_, revision)| revision.to_owned());
        set_with(number, "a", 0, |json| annotate(json, "deployment.kubernetes.io/revision", revision.clone()))
    };
    let mut old: Vec<_> = (1..=20).map(of).collect();
    for _ in 0..2 {
        let expected = ["web-1", "web-3", "web-4", "web-5", "web-6", "web-7", "web-8", "web-9", "web-10"];
        assert_eq!(deleted(&keeping(11), &old), expected);
        old.reverse();
    }
    // The oldest of all has none before it.
    old[0] = set_with(1, "a", 0, |json| annotate(json, "deployment.kubernetes.io/revision", "one"));
    assert_eq!(deleted(&keeping(18), &old), ["web-1", "web-3"]);
}

/// A ReplicaSet that is still in use is kept, and no other is deleted in its place.
///
/// Contract: DEP-14
#[test]
fn sets_in_use_are_not_deleted() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &[&str]); 5] = [
        ("wants pods", |json| json["spec"]["replicas"] = json!(1), &["web-2"]),
        ("has pods", |json| json["status"]["replicas"] = json!(1), &["web-2"]),
        ("has pods on their way out", |json| json["status"]["terminatingReplicas"] = json!(1), &["web-2"]),
        ("not observed", |json| json["metadata"]["generation"] = json!(2), &["web-2"]),
        // It is as good as gone, and the limit is one for the rest.
        ("being deleted", |json| json["metadata"]["deletionTimestamp"] = json!(ago(5)), &["web-2"]),
    ];
    for (what, change, expected) in cases {
        let old = [set_with(1, "a", 0, change), set(2, "a", 0), set(3, "a", 0)];
        assert_eq!(deleted(&keeping(1), &old), expected, "{what}");
    }
}

/// A ReplicaSet that was scaled up after the snapshot is not deleted; one whose status changed is.
///
/// Contract: DEP-14
#[test]
fn a_set_that_was_scaled_up_meanwhile_is_not_deleted() {
    let deletion: Deletion = deletions(&keeping(0), &[set(1, "a", 0)]).remove(0);
    assert_eq!(
        serde_json::from_slice::<Value>(&deletion.options()).expect("JSON")["preconditions"],
        json!({"uid": crate::fixtures::uid(101), "resourceVersion": "90"})
    );
    let mut fresh = set_json(1, "a", 0);
    fresh["metadata"]["resourceVersion"] = json!("95");
    assert!(matches!(deletion.after_conflict(Ok(fresh.to_string().as_bytes())), AfterConflict::Again(_)));
    fresh["metadata"]["generation"] = json!(2);
    assert!(matches!(deletion.after_conflict(Ok(fresh.to_string().as_bytes())), AfterConflict::Leave { .. }));
}
