//! Scaling: a change of size in mid-rollout, or while paused.

use std::sync::Arc;

use muster_controllers::deployment::scaling::{
    active_or_latest, fraction, is_saturated, is_scaling_event, proportional, scale,
};
use muster_controllers::deployment::update::SetUpdate;
use muster_objects::ReplicaSet;
use proptest::prelude::*;
use serde_json::json;

use crate::fixtures::{annotate, deployment, recreating, rolling, set, set_scaled_for, set_with, sets};

/// Name, size before and size after of each.
fn sizes(updates: &[SetUpdate]) -> Vec<(&str, i32, i32)> {
    updates.iter().map(|update| (&*update.before.meta.name, update.before.replicas, update.after.replicas)).collect()
}

/// Contract: DEP-08
#[test]
fn a_scaling_event_is_an_active_set_scaled_for_another_number() {
    let event = |set| is_scaling_event(&deployment(5, |_| ()), &sets(None, [set]));
    assert!(event(set_scaled_for(1, "a", 3, 3, 4)));
    assert!(!event(set_scaled_for(1, "a", 3, 5, 7)), "scaled for this number");
    assert!(!event(set_scaled_for(1, "a", 0, 3, 4)), "not active");
    assert!(!event(set(1, "a", 3)), "does not say");
    assert!(!event(set_with(1, "a", 3, |json| annotate(json, "deployment.kubernetes.io/desired-replicas", "many"))));
}

/// Contract: DEP-09
#[test]
fn one_active_set_or_the_newest_takes_the_full_count() {
    let five = deployment(5, |_| ());
    assert_eq!(sizes(&scale(&five, &sets(set(2, "b", 3), []))), [("web-2", 3, 5)]);
    assert_eq!(sizes(&scale(&five, &sets(set(2, "b", 0), [set(1, "a", 3)]))), [("web-1", 3, 5)]);
    assert_eq!(sizes(&scale(&five, &sets(set(2, "b", 0), [set(1, "a", 0)]))), [("web-2", 0, 5)]);
    assert_eq!(sizes(&scale(&five, &sets(None, [set(1, "a", 0), set(2, "b", 0)]))), [("web-2", 0, 5)]);
    assert_eq!(sizes(&scale(&five, &sets(None, []))), []);
    assert_eq!(active_or_latest(&sets(set(2, "b", 1), [set(1, "a", 1)])), None);
    let update = &scale(&five, &sets(set(2, "b", 3), []))[0];
    assert_eq!(update.after.annotations.get("deployment.kubernetes.io/max-replicas"), Some("7"), "five and two");
}

/// Contract: DEP-09
#[test]
fn a_saturated_new_set_takes_the_old_ones_down() {
    let five = deployment(5, |_| ());
    let new = set_scaled_for(3, "c", 5, 5, 7);
    assert!(is_saturated(&five, &new));
    assert_eq!(sizes(&scale(&five, &sets(new, [set(1, "a", 2), set(2, "b", 1)]))), [("web-1", 2, 0), ("web-2", 1, 0)]);
    for set in [set_scaled_for(3, "c", 4, 5, 7), set_scaled_for(3, "c", 5, 4, 7), set(3, "c", 5)] {
        assert!(!is_saturated(&five, &set));
    }
    let unavailable = set_with(3, "c", 5, |json| {
        annotate(json, "deployment.kubernetes.io/desired-replicas", 5);
        json["status"]["availableReplicas"] = json!(4);
    });
    assert!(!is_saturated(&five, &unavailable));
}

/// What the new one says to be available may be of another size: it was scaled down and up again, and those pods go.
///
/// Contract: DEP-09, B-19
#[test]
fn nothing_old_goes_for_a_saturated_set_that_has_not_reported() {
    let five = deployment(5, |_| ());
    let saturated = |observed: i64, has: i32, ready: i32| {
        set_with(3, "c", 5, |json| {
            annotate(json, "deployment.kubernetes.io/desired-replicas", 5);
            json["metadata"]["generation"] = json!(7);
            json["status"] = json!({"observedGeneration": observed, "replicas": has, "readyReplicas": ready, "availableReplicas": 5});
        })
    };
    // Of eight pods three are to go: those that are not ready, or else any.
    for (new, waits) in [(saturated(6, 5, 5), true), (saturated(7, 8, 8), true), (saturated(7, 8, 5), false)] {
        assert!(is_saturated(&five, &new));
        let down: &[_] = if waits { &[] } else { &[("web-1", 2, 0)] };
        assert_eq!(sizes(&scale(&five, &sets(Arc::clone(&new), [set(1, "a", 2)]))), down);
        // It is a scaling event still, by what it was scaled for.
        let stale = sets(new, [set_scaled_for(1, "a", 2, 9, 11)]);
        assert!(is_scaling_event(&five, &stale));
        assert_eq!(sizes(&scale(&five, &stale)), down);
    }
}

/// Contract: DEP-09
#[test]
fn several_sets_share_the_change() {
    type Case<'a> = (i32, i32, &'a [i32], i32, &'a [(&'a str, i32)]);
    // Replicas, surge, sizes from the oldest, replicas before, and the sizes after in the order of the writes.
    let cases: [Case<'_>; 10] = [
        (10, 0, &[3, 2], 5, &[("web-1", 6), ("web-2", 4)]),
        (10, 2, &[5, 2], 5, &[("web-1", 9), ("web-2", 3)]),
        (3, 0, &[3, 3, 3], 9, &[("web-1", 1), ("web-2", 1), ("web-3", 1)]),
        (6, 0, &[5, 5], 10, &[("web-1", 3), ("web-2", 3)]),
        // Of equal ones the newer grow first and the older shrink first; the first has the remainder.
        (5, 0, &[2, 2], 4, &[("web-2", 3), ("web-1", 2)]),
        (3, 0, &[2, 2], 4, &[("web-1", 1), ("web-2", 2)]),
        // Nobody's share is more than the others have left: of three more the second has one, of two fewer none.
        (13, 0, &[5, 5], 10, &[("web-2", 7), ("web-1", 6)]),
        (8, 0, &[5, 5], 20, &[("web-1", 3), ("web-2", 5)]),
        (0, 0, &[3, 7], 10, &[("web-2", 0), ("web-1", 0)]),
        (4, 0, &[3, 1], 4, &[("web-1", 3), ("web-2", 1)]),
    ];
    for (replicas, surge, before, replicas_before, after) in cases {
        let most = if replicas_before == 0 { 0 } else { replicas_before + surge };
        let all =
            before.iter().zip(1..).map(|(size, number)| set_scaled_for(number, "a", *size, replicas_before, most));
        let found = proportional(&rolling(replicas, surge, 1), all.collect());
        let found: Vec<_> = found.iter().map(|(set, size)| (&*set.meta.name, *size)).collect();
        assert_eq!(found, after, "{before:?} of {replicas_before} to {replicas} and {surge}");
    }
}

/// Half a replica is rounded away from zero, on both sides.
///
/// Contract: DEP-09
#[test]
fn fractions_are_rounded_half_away_from_zero() {
    let fraction_of =
        |size, before, after| fraction(&rolling(after, 0, 1), &set_scaled_for(1, "a", size, before, before));
    assert_eq!(fraction_of(1, 2, 3), 1, "1.5 becomes 2");
    assert_eq!(fraction_of(3, 10, 5), -1, "1.5 becomes 2");
    assert_eq!(fraction_of(3, 10, 8), -1, "2.4 becomes 2");
    assert_eq!(fraction_of(7, 10, 0), -7, "everything goes");
    // Without the annotation `status.replicas` of the Deployment is the whole; without that there is none.
    let counted = deployment(20, |json| {
        json["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = json!(0);
        json["status"]["replicas"] = json!(10);
    });
    assert_eq!(fraction(&counted, &set(1, "a", 5)), 5);
    assert_eq!(fraction(&counted, &set_scaled_for(1, "a", 5, 10, 0)), 5);
    assert_eq!(fraction(&rolling(20, 0, 1), &set(1, "a", 5)), 0);
}

/// 50,000 of 62,500: the product is past an int32.
///
/// Contract: B-10
#[test]
fn products_beyond_an_int32_do_not_overflow() {
    let all = vec![set_scaled_for(1, "a", 40_000, 50_000, 50_000), set_scaled_for(2, "b", 10_000, 50_000, 50_000)];
    let found = proportional(&rolling(50_000, "25%", 0), all);
    assert_eq!(found.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [50_000, 12_500]);
}

/// If nothing is to be scaled, a ReplicaSet annotated with another number gets the current one. It would otherwise
/// count as a scaling event for ever.
///
/// Contract: B-03
#[test]
fn stale_annotations_are_refreshed() {
    let five = deployment(5, |_| ());
    let before = sets(set(2, "b", 0), [set_scaled_for(1, "a", 5, 3, 4)]);
    assert!(is_scaling_event(&five, &before));
    let updates = scale(&five, &before);
    assert_eq!(sizes(&updates), [("web-1", 5, 5)]);
    assert!(!is_scaling_event(&five, &sets(set(2, "b", 0), [Arc::clone(&updates[0].after)])));
    // No rollout waits for it while the Deployment is paused.
    let paused = deployment(5, |json| json["spec"]["paused"] = json!(true));
    assert_eq!(scale(&paused, &before), []);
    // One that recreates shares nothing, and would hang on every active ReplicaSet.
    let both = sets(set_scaled_for(2, "b", 2, 3, 3), [set_scaled_for(1, "a", 1, 3, 3), set(3, "c", 1)]);
    let updates = scale(&recreating(5), &both);
    assert_eq!(sizes(&updates), [("web-1", 1, 1), ("web-2", 2, 2)]);
}

fn set_like() -> impl Strategy<Value = (i32, i32)> {
    let size = prop_oneof![Just(i32::MAX), 1..20_i32, 1..i32::MAX];
    let most = prop_oneof![Just(0), Just(i32::MAX), 1..40_i32, 0..i32::MAX];
    (size, most)
}

proptest! {
    /// The sizes add up to the total that is allowed if int32 sizes can, and none is negative.
    ///
    /// Contract: DEP-09, B-10
    #[test]
    fn shares_conserve_their_total(
        members in prop::collection::vec(set_like(), 2..6),
        replicas in prop_oneof![Just(0), Just(i32::MAX), 0..30_i32, 0..i32::MAX],
        surge in prop_oneof![Just(0), 0..10_i32, Just(i32::MAX)],
    ) {
        let all: Vec<Arc<ReplicaSet>> =
            members.iter().zip(1..).map(|((size, most), number)| set_scaled_for(number, "a", *size, 1, *most)).collect();
        let capacity = i64::from(i32::MAX) * i64::try_from(all.len()).expect("few");
        let found = proportional(&rolling(replicas, surge, 1), all);
        let total: i64 = found.iter().map(|(_, size)| i64::from(*size)).sum();
        let allowed = if replicas == 0 { 0 } else { i64::from(replicas) + i64::from(surge) };
        prop_assert_eq!(total, allowed.min(capacity));
        prop_assert!(found.iter().all(|(_, size)| *size >= 0));
    }

    /// A change that all can follow in proportion leaves each within one replica of its share.
    ///
    /// Contract: DEP-09
    #[test]
    fn shares_are_in_proportion(sizes in prop::collection::vec(1..1_000_i32, 2..6), replicas in 1..5_000_i32) {
        let before: i32 = sizes.iter().sum();
        let all = sizes.iter().zip(1..).map(|(size, number)| set_scaled_for(number, "a", *size, before, before)).collect();
        let found = proportional(&rolling(replicas, 0, 1), all);
        for (set, size) in found.iter().skip(1) {
            let exact = f64::from(set.replicas) * f64::from(replicas) / f64::from(before);
            // Rounding up may use the change up before the smallest have theirs.
            let most_off = f64::from(i32::try_from(sizes.len()).expect("few"));
            prop_assert!((f64::from(*size) - exact).abs() <= most_off, "{} is no share {exact}", size);
        }
    }
}
