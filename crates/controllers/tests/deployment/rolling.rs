//! Rolling: the new ReplicaSet grows and the old ones shrink, within two bounds.

use std::sync::Arc;

use muster_controllers::deployment::rolling::{
    clean_up_unhealthy, new_set_replicas, reconcile_new, reconcile_old, scale_down_old,
};
use muster_controllers::deployment::sets::{Sets, wanted};
use muster_controllers::deployment::update::SetUpdate;
use muster_objects::ReplicaSet;
use proptest::prelude::*;
use serde_json::json;

use crate::fixtures::{amount, deployment, most_and_least, recreating, rolling, set, set_available, set_with, sets};

fn sizes(updates: &[SetUpdate]) -> Vec<(&str, i32, i32)> {
    updates.iter().map(|update| (&*update.before.meta.name, update.before.replicas, update.after.replicas)).collect()
}

/// Contract: DEP-10
#[test]
fn the_new_set_grows_into_the_room_that_the_surge_leaves() {
    // Replicas, surge, size of the new one, of all, and its size after.
    let cases = [
        (10, 3, 0, 10, 3),
        (10, 3, 3, 13, 3),
        (10, 3, 3, 11, 5),
        (10, 3, 8, 8, 10),
        (10, 0, 0, 10, 0),
        (10, 0, 0, 8, 2),
        (10, 3, 0, 20, 0),
        (0, 3, 0, 0, 0),
        (i32::MAX, i32::MAX, 1, 2, i32::MAX),
    ];
    for (replicas, surge, current, total, expected) in cases {
        let found = new_set_replicas(&rolling(replicas, surge, 1), current, total);
        assert_eq!(found.expect("a number"), expected, "{current} of {total} to {replicas} and {surge}");
    }
    assert_eq!(new_set_replicas(&recreating(4), 0, 9).expect("a number"), 4, "all at once, for the old ones are gone");
    let error = new_set_replicas(&rolling(4, "many", 1), 0, 0).unwrap_err();
    assert_eq!(error.message, "invalid value for IntOrString: invalid type: string is not a percentage");
}

/// Contract: DEP-10
#[test]
fn a_new_set_that_is_too_large_shrinks() {
    let update = reconcile_new(&rolling(4, 1, 1), &sets(set(2, "b", 9), [set(1, "a", 3)])).expect("a number");
    assert_eq!(sizes(update.as_slice()), [("web-2", 9, 4)]);
    let none = reconcile_new(&rolling(4, 1, 1), &sets(set(2, "b", 4), [set(1, "a", 3)])).expect("a number");
    assert_eq!(none, None);
}

/// Contract: DEP-11
#[test]
fn old_sets_shrink_by_what_is_available_beyond_the_least() {
    // Of ten replicas, with two unavailable: the old one's size and available, the new one's, and the old one's sizes after.
    let cases: [(i32, i32, i32, i32, &[i32]); 7] = [
        (10, 10, 0, 0, &[8]),
        (10, 8, 0, 0, &[8]),
        (10, 9, 0, 0, &[9, 8]),
        (8, 8, 5, 0, &[]),
        (10, 10, 3, 3, &[5]),
        (6, 0, 4, 4, &[4]),
        (0, 0, 10, 5, &[]),
    ];
    for (old, old_available, new, new_available, after) in cases {
        let sets = sets(set_available(2, "b", new, new_available), [set_available(1, "a", old, old_available)]);
        let found = reconcile_old(&rolling(10, 3, 2), &sets);
        let found: Vec<i32> = found.iter().map(|update| update.after.replicas).collect();
        assert_eq!(found, after, "{old_available} of {old}, {new_available} of {new}");
    }
}

/// The oldest are scaled down first, and unhealthy pods before all others.
///
/// Contract: DEP-11
#[test]
fn the_oldest_shrink_first() {
    let old = [set_available(1, "a", 3, 3), set_available(2, "b", 4, 2), set_available(3, "c", 3, 3)];
    let found = reconcile_old(&rolling(10, 0, 5), &sets(set_available(4, "d", 0, 0), old));
    assert_eq!(sizes(&found), [("web-2", 4, 2), ("web-1", 3, 0)]);
    let mut old = [set_available(2, "b", 4, 2), set_available(1, "a", 3, 0)];
    let found = clean_up_unhealthy(&rolling(10, 0, 5), &mut old, 4);
    assert_eq!(sizes(&found), [("web-1", 3, 0), ("web-2", 4, 3)]);
    assert_eq!(old.iter().map(|set| set.replicas).collect::<Vec<_>>(), [0, 3], "as they are after");
    assert_eq!(sizes(&clean_up_unhealthy(&rolling(10, 0, 5), &mut old, 0)), []);
    let old = [set(2, "b", 4), set(1, "a", 3)];
    let found = scale_down_old(&rolling(10, 0, 5), Some(&set(3, "c", 6)), &old, 9);
    assert_eq!(sizes(&found), [("web-1", 3, 0), ("web-2", 4, 0)]);
    let found = scale_down_old(&rolling(10, 0, 5), Some(&set(3, "c", 6)), &old, 4);
    assert_eq!(sizes(&found), [("web-1", 3, 0), ("web-2", 4, 3)]);
}

/// A status from before the last scale-down counts pods that are about to be deleted, which cannot be spared again.
///
/// Contract: DEP-11
#[test]
fn pods_about_to_be_deleted_are_not_counted_as_available() {
    // The old one was just scaled from ten to eight and reports ten yet; one new pod has come up.
    let sets = sets(set_available(2, "b", 5, 1), [set_available(1, "a", 8, 10)]);
    assert_eq!(sizes(&reconcile_old(&rolling(10, 3, 2), &sets)), [("web-1", 8, 7)]);
}

/// Without a new ReplicaSet the old ones are kept.
///
/// Contract: DEP-11
#[test]
fn nothing_shrinks_without_a_new_set() {
    assert_eq!(reconcile_old(&deployment(3, |_| ()), &sets(None, [set(1, "a", 3)])), []);
    assert_eq!(reconcile_new(&deployment(3, |_| ()), &sets(None, [set(1, "a", 3)])).expect("no need"), None);
}

/// A ReplicaSet of some size, with some of its pods ready and of these some available. It may have more pods than its
/// size, or fewer.
fn member(number: u64) -> impl Strategy<Value = Arc<ReplicaSet>> {
    let pods = (0..14_i32).prop_flat_map(|pods| (Just(pods), 0..=pods));
    let pods = pods.prop_flat_map(|(pods, ready)| (Just(pods), Just(ready), 0..=ready));
    (0..12_i32, pods).prop_map(move |(size, (pods, ready, available))| {
        set_with(number, &format!("v{number}"), size, |json| {
            json["status"]["replicas"] = json!(pods);
            json["status"]["readyReplicas"] = json!(ready);
            json["status"]["availableReplicas"] = json!(available);
        })
    })
}

/// The pods that are available for certain once every ReplicaSet has its size: of the pods that are ready it may take any.
fn available_after(sets: &Sets, updates: &[SetUpdate]) -> i64 {
    let size_after = |set: &ReplicaSet| {
        let last = updates.iter().rev().find(|update| update.before.meta.uid == set.meta.uid);
        last.map_or(set.replicas, |update| update.after.replicas)
    };
    let available = |set: &Arc<ReplicaSet>| {
        let status = &set.status;
        let goes = (status.replicas - size_after(set)).max(0);
        let of_ready = (goes - (status.replicas - status.ready_replicas).max(0)).max(0);
        i64::from((status.available_replicas - of_ready).clamp(0, size_after(set)))
    };
    sets.all().map(available).sum()
}

proptest! {
    /// No step plans more pods than replicas and surge, and no step takes an available pod that is needed.
    ///
    /// Contract: DEP-10, DEP-11
    #[test]
    fn steps_stay_within_the_bounds(
        new in member(9), old in prop::collection::vec(0..3_u8, 0..4).prop_flat_map(|old| {
            old.into_iter().zip(1..).map(|(_, number)| member(number)).collect::<Vec<_>>()
        }),
        replicas in 0..12_i32, surge in amount(), unavailable in amount(),
    ) {
        let (most, least) = most_and_least(replicas, &surge, &unavailable);
        let deployment = rolling(replicas, surge, unavailable);
        let sets = sets(new, old);
        let up = reconcile_new(&deployment, &sets).expect("numbers");
        let total = wanted(sets.all());
        if let Some(up) = &up {
            let after = total + i64::from(up.after.replicas) - i64::from(up.before.replicas);
            prop_assert!(after <= most.max(total), "{after} of {most}");
            prop_assert!(up.after.replicas <= replicas);
        }
        let down = reconcile_old(&deployment, &sets);
        let least = least.min(available_after(&sets, &[]));
        prop_assert!(available_after(&sets, &down) >= least);
        for update in &down {
            prop_assert!((0..update.before.replicas).contains(&update.after.replicas), "{update:?}");
            prop_assert!(Some(&update.before.meta.uid) != sets.new.as_ref().map(|new| &new.meta.uid));
        }
    }
}

/// Which pods a ReplicaSet deletes is not known, except that those that are not ready come first.
///
/// Contract: DEP-11
#[test]
fn only_what_will_be_available_for_certain_counts() {
    // Of ten replicas, no surge and three unavailable: size, pods, ready and available of the old one, and its sizes
    // after. There is no new pod yet.
    let cases: [(i32, i32, i32, i32, &[i32]); 5] = [
        (10, 10, 10, 10, &[7]),
        // Ready for less than minReadySeconds: any of the ten may be deleted, so none is.
        (10, 10, 10, 7, &[]),
        (10, 10, 8, 8, &[8, 7]),
        // One is to be deleted already, and may be any.
        (9, 10, 10, 8, &[]),
        // It is the one that is not ready.
        (9, 10, 9, 9, &[7]),
    ];
    for (size, pods, ready, available, after) in cases {
        let old = set_with(1, "a", size, |json| {
            json["status"]["replicas"] = json!(pods);
            json["status"]["readyReplicas"] = json!(ready);
            json["status"]["availableReplicas"] = json!(available);
        });
        let found = reconcile_old(&rolling(10, 0, 3), &sets(set(2, "b", 0), [old]));
        let found: Vec<i32> = found.iter().map(|update| update.after.replicas).collect();
        assert_eq!(found, after, "{available} available and {ready} ready of {pods}, to be {size}");
    }
}

/// A canary that is ready but not available is removed at once by an undo or by a fix, as in Kubernetes. No available
/// pod can be deleted in its place, since it has none, or since all that it has can be spared.
///
/// Contract: DEP-11, B-19
#[test]
fn replicas_that_cannot_cost_an_available_pod_go_at_once() {
    // Of ten replicas, three above and two unavailable. New: size, available. Old ones: size, ready, available; and
    // their sizes after, those that shrink.
    type Old = (i32, i32, i32);
    type Case = (&'static str, (i32, i32), &'static [Old], &'static [(&'static str, i32)]);
    let cases: [Case; 9] = [
        ("undo while the canary bakes", (8, 8), &[(5, 5, 0)], &[("web-1", 0)]),
        ("forward to a fix", (0, 0), &[(8, 8, 8), (5, 5, 0)], &[("web-2", 0)]),
        ("two of the canary's pods may be spared, so all may go", (8, 8), &[(5, 5, 2)], &[("web-1", 0)]),
        ("one of three may be spared, and it may be any", (8, 6), &[(5, 5, 3)], &[("web-1", 4)]),
        ("none of three may be spared", (8, 5), &[(5, 5, 3)], &[]),
        ("those not ready go first and cost nothing", (8, 5), &[(5, 3, 3)], &[("web-1", 3)]),
        ("new ones that are not available hold as many back", (8, 6), &[(5, 5, 0)], &[("web-1", 2)]),
        ("the oldest first", (5, 5), &[(4, 4, 0), (4, 4, 4)], &[("web-1", 0), ("web-2", 3)]),
        ("nothing available anywhere", (3, 0), &[(10, 10, 0)], &[("web-1", 8)]),
    ];
    for (name, (size, available), old, after) in cases {
        let old = old.iter().zip(1..).map(|(&(size, ready, available), number)| {
            set_with(number, "a", size, |json| {
                json["status"]["readyReplicas"] = json!(ready);
                json["status"]["availableReplicas"] = json!(available);
            })
        });
        let new = set_with(9, "b", size, |json| json["status"]["availableReplicas"] = json!(available));
        let found = reconcile_old(&rolling(10, 3, 2), &sets(new, old));
        let found: Vec<(&str, i32)> =
            found.iter().map(|update| (&*update.before.meta.name, update.after.replicas)).collect();
        assert_eq!(found, after, "{name}");
    }
}

/// A ReplicaSet that shrank and grew again before it reported may say more than it has: the old ones wait for it.
///
/// Contract: DEP-11
#[test]
fn nothing_shrinks_before_every_size_is_answered_to() {
    let unreported = |observed: i64| {
        set_with(2, "b", 5, |json| {
            json["metadata"]["generation"] = json!(3);
            json["status"]["observedGeneration"] = json!(observed);
            json["status"]["readyReplicas"] = json!(5);
            json["status"]["availableReplicas"] = json!(5);
        })
    };
    let old = || [set_available(1, "a", 8, 8)];
    assert_eq!(reconcile_old(&rolling(10, 3, 2), &sets(unreported(2), old())), []);
    assert_eq!(sizes(&reconcile_old(&rolling(10, 3, 2), &sets(unreported(3), old()))), [("web-1", 8, 3)]);
}

/// An old ReplicaSet that has not deleted its surplus takes its room.
///
/// Contract: DEP-10
#[test]
fn room_is_what_old_pods_have_really_left() {
    let old = |pods: i32| set_with(1, "a", 8, |json| json["status"]["replicas"] = json!(pods));
    let grown = |pods| reconcile_new(&rolling(10, 3, 2), &sets(set(2, "b", 3), [old(pods)])).expect("a number");
    assert_eq!(grown(10), None);
    assert_eq!(sizes(grown(9).as_slice()), [("web-2", 3, 4)]);
    assert_eq!(sizes(grown(8).as_slice()), [("web-2", 3, 5)]);
}
