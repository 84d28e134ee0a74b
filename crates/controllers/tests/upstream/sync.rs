//! `sync_test.go`: scaling in mid-rollout, history, names of new ReplicaSets.

use std::sync::Arc;

use muster_controllers::deployment::creation::{new_set, set_name};
use muster_controllers::deployment::history::clean_up;
use muster_controllers::deployment::scaling::scale;
use muster_objects::{Deployment, ReplicaSet};
use serde_json::{Value, json};

use crate::fixtures::{ago, annotate, deployment, rolling, set_with, sets};

const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// A ReplicaSet of that size without pods yet, scaled for `desired` replicas and that surge. A larger number is a
/// younger ReplicaSet.
fn sized(number: u64, replicas: i32, desired: i32, surge: i32) -> Arc<ReplicaSet> {
    set_with(number, "a", replicas, |json| {
        annotate(json, DESIRED, desired);
        annotate(json, MAX, desired + surge);
        json["status"] = json!({"observedGeneration": 1});
    })
}

/// Sizes of the new ReplicaSet and of the old ones, which are given from the youngest, after scaling.
fn scaled(deployment: &Deployment, new: Option<&Arc<ReplicaSet>>, old: &[Arc<ReplicaSet>]) -> (Option<i32>, Vec<i32>) {
    let oldest_first = old.iter().rev().cloned();
    let updates = scale(deployment, &sets(new.cloned(), oldest_first));
    let after = |set: &Arc<ReplicaSet>| {
        let update = updates.iter().find(|update| update.before.meta.uid == set.meta.uid);
        update.map_or(set.replicas, |update| update.after.replicas)
    };
    (new.map(after), old.iter().map(after).collect())
}

/// `TestScale`.
///
/// Contract: DEP-09
#[test]
fn table_of_scalings() {
    // Replicas and surge before and after, the new one's size, the old ones' from the youngest; then both after.
    type Case = (&'static str, (i32, i32), (i32, i32), Option<i32>, &'static [i32], Option<i32>, &'static [i32]);
    let cases: [Case; 15] = [
        ("10 to 12, alone", (10, 0), (12, 0), Some(10), &[], Some(12), &[]),
        ("10 to 5, alone", (10, 0), (5, 0), Some(10), &[], Some(5), &[]),
        ("5 to 10 in proportion", (5, 0), (10, 0), Some(2), &[3], Some(4), &[6]),
        ("5 to 3 in proportion", (5, 0), (3, 0), Some(2), &[3], Some(1), &[2]),
        ("9 to 4 in proportion", (9, 0), (4, 0), Some(8), &[1], Some(4), &[0]),
        ("7 to 10 in proportion", (7, 0), (10, 0), Some(2), &[3, 2], Some(3), &[4, 3]),
        ("13 to 8 in proportion", (13, 0), (8, 0), Some(2), &[8, 3], Some(1), &[5, 2]),
        ("one more goes to the youngest", (3, 0), (4, 0), Some(1), &[1, 1], Some(2), &[1, 1]),
        ("one less goes from the oldest", (3, 0), (2, 0), Some(1), &[1, 1], Some(1), &[1, 0]),
        ("no new one: the youngest old one grows", (4, 0), (5, 0), None, &[2, 2], None, &[3, 2]),
        ("down to none", (6, 0), (0, 0), Some(3), &[2, 1], Some(0), &[0, 0]),
        ("up from none", (6, 0), (6, 0), Some(0), &[0, 0], Some(6), &[0, 0]),
        ("with surge pods", (10, 2), (20, 2), Some(6), &[6], Some(11), &[11]),
        ("size and surge change", (10, 3), (50, 6), Some(5), &[8], Some(22), &[34]),
        ("size and template change", (10, 0), (14, 0), None, &[7, 3], None, &[10, 4]),
    ];
    for (name, (desired, surge), (replicas, surge_after), new, old, new_after, old_after) in cases {
        let youngest = u64::try_from(old.len()).expect("few") + 1;
        let of = |number, size| sized(number, size, desired, surge);
        let old: Vec<_> = (1..youngest).rev().zip(old).map(|(number, size)| of(number, *size)).collect();
        let new = new.map(|size| of(youngest, size));
        let found = scaled(&rolling(replicas, surge_after, 0), new.as_ref(), &old);
        assert_eq!(found, (new_after, old_after.to_vec()), "{name}");
    }
}

/// `TestScale`, "failed rs update": the write of one ReplicaSet failed when three became five. It alone follows now.
///
/// Contract: DEP-09
#[test]
fn a_set_that_missed_the_last_scaling_makes_up_for_it() {
    let old = [sized(2, 1, 3, 0), sized(1, 1, 5, 0)];
    assert_eq!(scaled(&rolling(5, 0, 0), Some(&sized(3, 2, 5, 0)), &old), (Some(2), vec![2, 1]));
}

/// `TestScale`, "saturated but broken new replica set does not affect old pods".
///
/// Contract: DEP-09
#[test]
fn a_full_new_set_without_available_pods_leaves_the_old_ones() {
    let found = scaled(&rolling(2, 1, 1), Some(&sized(2, 2, 2, 1)), &[sized(1, 1, 2, 1)]);
    assert_eq!(found, (Some(2), vec![1]));
}

fn keeping(limit: i32) -> Deployment {
    deployment(1, |json| json["spec"]["revisionHistoryLimit"] = json!(limit))
}

fn deleted(limit: i32, old: &[Arc<ReplicaSet>]) -> Vec<String> {
    clean_up(&keeping(limit), old).iter().map(|set| set.meta.name.to_string()).collect()
}

/// `TestDeploymentController_cleanupDeployment`.
///
/// Contract: DEP-14
#[test]
fn table_of_histories() {
    // Wanted and present pods of each, the limit, and how many are deleted.
    type Case = (&'static str, &'static [(i32, i32)], i32, usize);
    let cases: [Case; 5] = [
        ("two beyond the limit", &[(0, 0), (0, 0), (0, 0)], 1, 2),
        ("only what neither wants nor has pods", &[(0, 0), (0, 1), (1, 0), (1, 1)], 0, 1),
        ("none is kept", &[(0, 0), (0, 0)], 0, 2),
        ("all are in use", &[(1, 1), (1, 1)], 0, 0),
        ("no limit", &[(0, 0), (0, 0), (0, 0)], i32::MAX, 0),
    ];
    for (name, sizes, limit, expected) in cases {
        let sized = |number, (wanted, present): &(i32, i32)| {
            set_with(number, "a", *wanted, |json| json["status"]["replicas"] = json!(present))
        };
        let old: Vec<_> = (1..).zip(sizes).map(|(number, size)| sized(number, size)).collect();
        assert_eq!(deleted(limit, &old).len(), expected, "{name}");
    }
    let dying = set_with(1, "a", 0, |json| json["metadata"]["deletionTimestamp"] = json!(ago(5)));
    assert_eq!(deleted(0, &[dying]), [""; 0], "being deleted already");
}

/// `TestDeploymentController_cleanupDeploymentOrder`: by revision, whatever the age.
///
/// Contract: DEP-14
#[test]
fn table_of_the_order_of_histories() {
    // Size and revision of each from the oldest, the limit, and the names deleted.
    type Case = (&'static str, &'static [(i32, Option<i64>)], i32, &'static [&'static str]);
    let cases: [Case; 7] = [
        ("rising", &[(0, Some(1)), (0, Some(2))], 1, &["web-1"]),
        ("falling", &[(0, Some(2)), (0, Some(1))], 1, &["web-2"]),
        ("the younger has no revision", &[(0, Some(1)), (0, None)], 1, &["web-2"]),
        ("the older has no revision", &[(0, None), (0, Some(2))], 1, &["web-1"]),
        ("the lowest is in use", &[(1, Some(1)), (0, Some(2)), (0, Some(3))], 1, &["web-2"]),
        ("the two lowest are in use", &[(1, Some(1)), (1, Some(2)), (0, Some(3))], 1, &[]),
        ("mixed", &[(0, Some(3)), (0, Some(1)), (0, Some(4)), (0, Some(2))], 2, &["web-2", "web-4"]),
    ];
    for (name, members, limit, expected) in cases {
        let member = |number, (size, revision): &(i32, Option<i64>)| {
            set_with(number, "a", *size, |json| {
                json["metadata"]["annotations"] = match revision {
                    Some(revision) => json!({ REVISION: revision.to_string() }),
                    None => Value::Null,
                };
            })
        };
        let old: Vec<_> = (1..).zip(members).map(|(number, of)| member(number, of)).collect();
        assert_eq!(deleted(limit, &old), expected, "{name}");
    }
}

/// `TestDeploymentController_generateReplicaSetName`: what is left of the Deployment's name in the new ReplicaSet's.
///
/// Contract: DEP-04
#[test]
fn new_sets_keep_what_fits_of_their_deployments_name() {
    for length in [13, 242, 250] {
        let name = "a".repeat(length);
        let named = deployment(1, |json| json["metadata"]["name"] = json!(name));
        let new = new_set(&named, &sets(None, []), 1).expect("a number");
        let found = new.set.meta.name.strip_suffix(&*format!("-{}", new.hash)).expect("the hash last");
        let fits = 253 - 1 - new.hash.len();
        assert_eq!(found, "a".repeat(length.min(fits)), "{length} of {fits}");
        assert!(new.set.meta.name.len() <= 253);
    }
}

/// `TestGenerateReplicaSetName`.
///
/// Contract: DEP-04
#[test]
fn table_of_names() {
    let hash = "abcde12345";
    let cases = [
        ("web".to_owned(), hash.to_owned(), "web-abcde12345".to_owned()),
        ("a".repeat(242), hash.to_owned(), "a".repeat(242) + "-abcde12345"),
        ("b".repeat(250), hash.to_owned(), "b".repeat(242) + "-abcde12345"),
        ("d".repeat(252), "h".repeat(252), "d".repeat(252) + "-" + &"h".repeat(252)),
    ];
    for (deployment, hash, expected) in cases {
        assert_eq!(set_name(&deployment, &hash), expected, "{} and {}", deployment.len(), hash.len());
    }
}
