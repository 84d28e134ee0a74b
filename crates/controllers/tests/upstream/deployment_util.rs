//! `util/deployment_util_test.go` and `util/hash_test.go`: the small functions that the decisions are made of.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_controllers::deployment::bounds::{Bounds, resolve_fenceposts};
use muster_controllers::deployment::conditions::{remove, set as set_condition};
use muster_controllers::deployment::progress::{has_timed_out, is_complete, is_progressing};
use muster_controllers::deployment::revision::{
    desired_replicas, new_set_annotations, replicas_need_update, with_replicas,
};
use muster_controllers::deployment::rolling::new_set_replicas;
use muster_controllers::deployment::scaling::{fraction, is_saturated};
use muster_controllers::deployment::sets::{Sets, actual, find_new, terminating, wanted};
use muster_machinery::Cache;
use muster_objects::{
    Annotations, Condition, ConditionStatus, Deployment, DeploymentStatus, IntOrPercent, Labels, ReplicaSet,
};
use muster_schema::template::{equal_ignoring_hash, hash};
use serde_json::{Value, json};

use crate::fixtures::{NOW, ago, annotate, deployment, recreating, rolling, set, set_with, uid};

const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// `TestEqualIgnoreHash`, each both ways round.
///
/// Contract: DEP-03
#[test]
fn table_of_templates() {
    let template = |name: &str, node: &str, annotations: Value, labels: Value| {
        json!({
            "metadata": {"name": name, "annotations": annotations, "labels": labels}, "spec": {"nodeName": node},
        })
        .to_string()
    };
    let of = |labels: Value| template("foo", "node", json!({}), labels);
    let hashed = |hash: &str| json!({"pod-template-hash": hash, "something": "else"});
    let plain = || json!({"something": "else"});
    let only_hash = |hash: &str| json!({ "pod-template-hash": hash });
    let cases = [
        ("the same", of(hashed("1")), of(hashed("1")), true),
        ("another hash", of(hashed("1")), of(hashed("2")), true),
        ("a hash on one side", of(plain()), of(hashed("2")), true),
        ("as many labels, not the same", of(plain()), of(only_hash("2")), false),
        ("as many labels, the hash first", of(only_hash("1")), of(plain()), false),
        ("the same hash and one label more", of(only_hash("1")), of(hashed("1")), false),
        (
            "another annotation",
            template("foo", "node", json!({"former": "value"}), hashed("1")),
            template("foo", "node", json!({"latter": "value"}), hashed("1")),
            false,
        ),
        (
            "another name and hash",
            template("foo-1", "node", json!({}), hashed("1")),
            template("foo-2", "node", json!({}), hashed("2")),
            false,
        ),
        (
            "another name and node, a hash on one side",
            template("foo-1", "node-1", json!({}), plain()),
            template("foo-2", "node-2", json!({}), hashed("2")),
            false,
        ),
        (
            "another node and label",
            template("foo", "node-1", json!({}), plain()),
            template("foo", "node-2", json!({}), json!({"nothing": "else"})),
            false,
        ),
    ];
    for (name, former, latter, expected) in cases {
        assert_eq!(equal_ignoring_hash(&former, &latter), expected, "{name}");
        assert_eq!(equal_ignoring_hash(&latter, &former), expected, "{name}, turned round");
    }
}

/// A ReplicaSet with the Deployment's template; a larger number is a younger one.
fn current(number: u64, replicas: i32) -> Arc<ReplicaSet> {
    set(number, "nginx:1", replicas)
}

/// One with another.
fn outdated(number: u64) -> Arc<ReplicaSet> {
    set(number, "nginx:0", 0)
}

/// `TestFindNewReplicaSet`.
///
/// Contract: DEP-03
#[test]
fn table_of_new_sets() {
    let cases = [
        ("its hash does not matter", vec![current(3, 0), outdated(1)], Some("web-3")),
        ("the oldest of several", vec![current(3, 0), outdated(1), current(2, 0)], Some("web-2")),
        ("none", vec![outdated(1)], None),
    ];
    for (name, all, expected) in cases {
        let found = find_new(&deployment(1, |_| ()), &all);
        assert_eq!(found.as_ref().map(|set| &*set.meta.name), expected, "{name}");
    }
}

/// `TestFindOldReplicaSets`.
///
/// Contract: DEP-03
#[test]
fn table_of_old_sets() {
    // All, the old ones among them, and those of the old ones that want pods.
    type Case = (&'static str, Vec<Arc<ReplicaSet>>, &'static [&'static str], &'static [&'static str]);
    let cases: [Case; 4] = [
        ("one of each", vec![current(3, 1), outdated(1)], &["web-1"], &[]),
        ("no new one", vec![outdated(1)], &["web-1"], &[]),
        (
            "only the oldest of two is new",
            vec![outdated(1), current(3, 1), current(2, 0)],
            &["web-1", "web-3"],
            &["web-3"],
        ),
        ("no old one", vec![current(3, 1)], &[], &[]),
    ];
    for (name, all, old, active) in cases {
        let sets = Sets::of(&deployment(1, |_| ()), &all);
        assert_eq!(sets.old.iter().map(|set| &*set.meta.name).collect::<Vec<_>>(), old, "{name}");
        assert_eq!(sets.active_old().map(|set| &*set.meta.name).collect::<Vec<_>>(), active, "{name}");
    }
}

/// `TestGetReplicaCountForReplicaSets`.
///
/// Contract: DEP-15
#[test]
fn table_of_sums() {
    let with = |number, wanted, present: i32, leaving: Value, observed: i64| {
        set_with(number, "a", wanted, |json| {
            json["status"] =
                json!({"replicas": present, "terminatingReplicas": leaving, "observedGeneration": observed});
        })
    };
    let one = || with(1, 1, 2, json!(3), 1);
    let two = || with(2, 2, 3, json!(1), 0);
    let unseen = || with(3, 3, 0, json!(null), 0);
    let dropped = || with(4, 1, 1, json!(null), 1);
    let cases = [
        ("one shrinks", vec![one()], 1, 2, Some(3)),
        ("two shrink", vec![one(), two()], 3, 5, Some(4)),
        ("one that is not observed yet", vec![unseen()], 3, 0, Some(0)),
        ("that one beside two that shrink", vec![one(), two(), unseen()], 6, 5, Some(4)),
        ("one that does not count", vec![dropped()], 1, 1, None),
        ("that one among the others", vec![one(), two(), unseen(), dropped()], 7, 6, None),
    ];
    for (name, sets, expected, present, leaving) in cases {
        assert_eq!((wanted(&sets), actual(&sets), terminating(&sets)), (expected, present, leaving), "{name}");
    }
}

/// `TestResolveFenceposts`. What is absent is nothing.
///
/// Contract: DEP-07
#[test]
fn table_of_fenceposts() {
    let cases = [
        (Some("0%"), Some("0%"), 0, Some((0, 1))),
        (Some("39%"), Some("39%"), 10, Some((4, 3))),
        (Some("oops"), Some("39%"), 10, None),
        (Some("55%"), Some("urg"), 10, None),
        (None, Some("39%"), 10, Some((0, 3))),
        (Some("39%"), None, 10, Some((4, 0))),
        (None, None, 10, Some((0, 1))),
    ];
    for (surge, unavailable, replicas, expected) in cases {
        let of = |text: Option<&str>| text.map_or(IntOrPercent::Int(0), IntOrPercent::from);
        let found = resolve_fenceposts(&of(surge), &of(unavailable), replicas);
        assert_eq!(found.ok(), expected, "{surge:?} and {unavailable:?} of {replicas}");
        let bounds = Bounds::of(&rolling(replicas, surge, unavailable));
        let (surge_found, unavailable_found) = expected.unwrap_or((0, 0));
        assert_eq!(bounds.surge, surge_found, "{surge:?} and {unavailable:?} as they arrive");
        assert_eq!(i64::from(bounds.unavailable), unavailable_found.min(i64::from(replicas)));
    }
}

/// `TestNewRSNewReplicas`, beside an old ReplicaSet of five.
///
/// Contract: DEP-10, DEP-12
#[test]
fn table_of_sizes_of_the_new_set() {
    let cases = [
        ("no room: as it is", rolling(1, 1, 1), 5, 5),
        ("up to what is wanted", rolling(6, 10, 1), 2, 6),
        ("recreating: all at once", recreating(3), 1, 3),
    ];
    for (name, deployment, size, expected) in cases {
        assert_eq!(new_set_replicas(&deployment, size, 5).expect("numbers"), expected, "{name}");
    }
}

fn said(kind: &str, status: ConditionStatus, reason: &str) -> Condition {
    Condition::new(kind, status, reason, "", NOW)
}

/// `TestGetCondition`, `TestSetCondition` and `TestRemoveCondition`.
///
/// Contract: DEP-21
#[test]
fn table_of_conditions() {
    let stalled = || said("Progressing", ConditionStatus::False, "ForSomeReason");
    let moving = || said("Progressing", ConditionStatus::True, "BecauseItIs");
    let available = || said("Available", ConditionStatus::True, "AwesomeController");
    let both = [stalled(), available()];
    assert_eq!(Condition::find(&both, "Available"), Some(&both[1]));
    assert_eq!(Condition::find(&both, "ReplicaFailure"), None);

    let cases = [
        ("the first", vec![], available(), vec![available()]),
        ("beside another", vec![stalled()], available(), vec![stalled(), available()]),
        ("in the place of what was there", vec![stalled()], moving(), vec![moving()]),
    ];
    for (name, mut conditions, condition, expected) in cases {
        set_condition(&mut conditions, condition);
        assert_eq!(conditions, expected, "{name}");
    }
    let cases = [
        ("from nothing", vec![], "Progressing", vec![]),
        ("the only one", vec![stalled()], "Progressing", vec![]),
        ("one that is not there", both.to_vec(), "ReplicaFailure", both.to_vec()),
    ];
    for (name, mut conditions, kind, expected) in cases {
        remove(&mut conditions, kind);
        assert_eq!(conditions, expected, "{name}");
    }
}

/// All, updated, ready and available pods.
fn counts([replicas, updated_replicas, ready_replicas, available_replicas]: [i32; 4]) -> DeploymentStatus {
    DeploymentStatus {
        observed_generation: 1,
        replicas,
        updated_replicas,
        ready_replicas,
        available_replicas,
        ..Default::default()
    }
}

/// `TestDeploymentComplete`.
///
/// Contract: DEP-24
#[test]
fn table_of_completeness() {
    // Surge, unavailable, wanted; all, updated and available.
    let cases = [
        ("the least that is to be available is, but not all", (0, 1, 5), (5, 5, 4), false),
        ("not even the least", (0, 1, 5), (5, 5, 3), false),
        ("complete", (0, 0, 5), (5, 5, 5), true),
        ("available and not updated", (0, 0, 5), (5, 4, 5), false),
        ("old pods are left", (1, 0, 1), (2, 1, 1), false),
        ("the only pod never comes up", (1, 1, 1), (1, 1, 0), false),
    ];
    for (name, (surge, unavailable, wanted), (all, updated, available), expected) in cases {
        let deployment = rolling(wanted, surge, unavailable);
        assert_eq!(is_complete(&deployment, &counts([all, updated, available, available])), expected, "{name}");
    }
}

/// `TestDeploymentProgressing`.
///
/// Contract: DEP-17
#[test]
fn table_of_progress() {
    let cases = [
        ("updated pods", [10, 4, 4, 4], [10, 6, 4, 4], true),
        ("none", [10, 4, 4, 4], [10, 4, 4, 4], false),
        ("old pods have gone", [10, 4, 6, 6], [8, 4, 6, 6], true),
        ("fewer new pods", [10, 7, 3, 3], [10, 6, 3, 3], false),
        ("fewer in all, and more new ones", [10, 4, 7, 7], [8, 8, 5, 5], true),
        ("more that are ready", [10, 10, 9, 8], [10, 10, 10, 8], true),
        ("more that are available", [10, 10, 10, 9], [10, 10, 10, 10], true),
    ];
    for (name, before, after, expected) in cases {
        let deployment = Deployment { status: counts(before), ..deployment(10, |_| ()) };
        assert_eq!(is_progressing(&deployment, &counts(after)), expected, "{name}");
    }
}

/// `TestDeploymentTimedOut`.
///
/// Contract: DEP-17
#[test]
fn table_of_deadlines() {
    let cases = [
        ("no deadline", json!(null), "", Some(11), false),
        ("an endless one", json!(i32::MAX), "", Some(11), false),
        ("11 of 10 s", json!(10), "", Some(11), true),
        ("9 of 10 s", json!(10), "", Some(9), false),
        ("it was complete", json!(null), "NewReplicaSetAvailable", None, false),
        ("it was complete, with a deadline", json!(10), "NewReplicaSetAvailable", None, false),
    ];
    for (name, seconds, reason, since, expected) in cases {
        let deployment = deployment(1, |json| json["spec"]["progressDeadlineSeconds"] = seconds);
        let said = Condition { last_update_time: since.map(ago), ..said("Progressing", ConditionStatus::True, reason) };
        assert_eq!(has_timed_out(&deployment, &[said], NOW), expected, "{name}");
    }
}

/// `TestMaxUnavailable` and `TestMinAvailable`.
///
/// Contract: DEP-07
#[test]
fn table_of_unavailability() {
    // Replicas, `maxUnavailable`, and the resolved number.
    let cases = [
        (10, json!(5), 5),
        (10, json!(10), 10),
        (5, json!(10), 5),
        (0, json!(10), 0),
        (10, json!("50%"), 5),
        (10, json!("60%"), 6),
        (10, json!("100%"), 10),
        (5, json!("100%"), 5),
    ];
    for (replicas, unavailable, expected) in cases {
        let bounds = Bounds::of(&rolling(replicas, 1, unavailable.clone()));
        assert_eq!(bounds.unavailable, expected, "{unavailable} of {replicas}");
        assert_eq!(bounds.least_available(replicas), i64::from(replicas - expected), "{unavailable} of {replicas}");
    }
    assert_eq!(Bounds::of(&recreating(10)).unavailable, 0);
}

/// `TestGetNonNegativeInt32FromAnnotation`.
///
/// Contract: DEP-08
#[test]
fn table_of_numbers_in_annotations() {
    let cases = [
        (None, None),
        (Some("invalid"), None),
        (Some("-1"), None),
        (Some("0"), Some(0)),
        (Some("13"), Some(13)),
        (Some("2147483647"), Some(i32::MAX)),
        (Some("2147483648"), None),
        (Some("4294967296"), None),
    ];
    for (text, expected) in cases {
        let annotations = text.map_or(json!({}), |text| json!({DESIRED: text, "foo": "2"}));
        let set = set_with(1, "a", 1, |json| json["metadata"]["annotations"] = annotations);
        assert_eq!(desired_replicas(&set), expected, "{text:?}");
    }
}

/// `TestAnnotationUtils`, the history: revisions 11 to 20 in five characters.
///
/// Contract: DEP-06
#[test]
fn the_history_of_a_set_that_is_new_ten_times() {
    let deployment = deployment(1, |_| ());
    let mut annotations = Annotations::EMPTY;
    for revision in 11..=20 {
        let (after, differs) = new_set_annotations(&deployment, &annotations, revision, 5);
        assert!(differs, "the revision rises");
        annotations = after;
        assert_eq!(annotations.get(REVISION), Some(&*revision.to_string()));
        if revision > 12 {
            assert_eq!(annotations.get(HISTORY), Some(&*format!("{},{}", revision - 2, revision - 1)));
        }
    }
}

/// `TestAnnotationUtils`, the rest: what a ReplicaSet was scaled for, and whether it holds all of that.
///
/// Contract: DEP-06, DEP-09
#[test]
fn sizes_are_written_down_and_read_back() {
    let annotations = with_replicas(&rolling(10, 1, 0), &Annotations::EMPTY);
    assert_eq!((annotations.get(DESIRED), annotations.get(MAX)), (Some("10"), Some("11")));
    let full = set_with(1, "a", 1, |json| annotate(json, DESIRED, 1));
    assert!(is_saturated(&deployment(1, |_| ()), &full));
}

/// `TestReplicasAnnotationsNeedUpdate`: ten replicas, twenty at most.
///
/// Contract: DEP-06
#[test]
fn table_of_outdated_annotations() {
    type Case = (&'static str, &'static [(&'static str, &'static str)], bool);
    let cases: [Case; 4] = [
        ("none", &[], true),
        ("another size", &[(DESIRED, "8"), (MAX, "20")], true),
        ("another most", &[(DESIRED, "10"), (MAX, "16")], true),
        ("both as they are", &[(DESIRED, "10"), (MAX, "20")], false),
    ];
    for (name, pairs, expected) in cases {
        let annotations: Annotations = pairs.iter().copied().collect();
        assert_eq!(replicas_need_update(&rolling(10, 10, 0), &annotations), expected, "{name}");
    }
}

/// `TestGetDeploymentsForReplicaSet`: three Deployments, each with a selector of its own.
///
/// Contract: DEP-01
#[test]
fn deployments_are_found_by_what_they_select() {
    let mut all = Cache::new();
    for number in 0..3 {
        all.apply(deployment(1, |json| {
            json["metadata"]["name"] = json!(format!("deployment-{number}"));
            json["metadata"]["uid"] = json!(uid(number));
            json["spec"]["selector"] = json!({"matchLabels": {"app": format!("test-{number}")}});
        }));
    }
    for number in 0..5 {
        let (app, label) = (format!("test-{number}"), format!("label-{number}"));
        let labels: Labels = [("app", &*app), ("label", &*label)].into_iter().collect();
        let found: Vec<_> = all.selecting("default", &labels).map(|found| found.meta.name.to_string()).collect();
        let expected: &[String] = if number < 3 { &[format!("deployment-{number}")] } else { &[] };
        assert_eq!(found, expected);
        assert_eq!(all.selecting("other", &labels).count(), 0);
    }
}

/// `TestGetReplicaSetFraction`.
///
/// Contract: DEP-09
#[test]
fn table_of_fractions() {
    // Replicas and surge, pods by the Deployment's status, the ReplicaSet's size, what it was scaled for, its part.
    let cases = [
        ("to none", (0, 0), 0, 10, None, -10),
        ("nothing known of the whole", (10, 0), 0, 5, None, 0),
        ("a whole of none, and no pods", (10, 0), 0, 5, Some("0"), 0),
        ("a fifth more, by the pods that there are", (120, 0), 100, 50, None, 10),
        ("a fifth more, for the annotation is 0", (120, 0), 100, 50, Some("0"), 10),
        ("a fifth more", (120, 0), 0, 50, Some("100"), 10),
        ("a fifth more, with a surge", (120, 10), 0, 50, Some("110"), 9),
        ("a sixth less", (10, 0), 0, 6, Some("12"), -1),
        ("a sixth less, with a surge", (100, 10), 0, 50, Some("130"), -8),
    ];
    for (name, (replicas, surge), present, size, most, expected) in cases {
        let mut deployment = rolling(replicas, surge, 1);
        deployment.status.replicas = present;
        let annotations = most.map_or(json!({}), |most| json!({ MAX: most }));
        let set = set_with(1, "a", size, |json| json["metadata"]["annotations"] = annotations);
        assert_eq!(fraction(&deployment, &set), expected, "{name}");
    }
}

/// `TestPodTemplateSpecHash`: a thousand templates that differ in one version have a thousand hashes.
///
/// Contract: DEP-04
#[test]
fn a_thousand_templates_have_a_thousand_hashes() {
    let hash_of = |number: usize| {
        let container = json!({"name": "cats", "image": format!("registry/test/cats:v0.{number}.0"), "resources": {}});
        hash(&json!({"metadata": {"labels": {"app": "cats"}}, "spec": {"containers": [container]}}).to_string(), None)
    };
    let hashes: BTreeSet<String> = (0..1_000).map(|number| hash_of(number).text).collect();
    assert_eq!(hashes.len(), 1_000);
}
