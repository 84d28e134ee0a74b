//! `rolling_test.go`: one step of a rolling update.

use muster_controllers::deployment::rolling::{clean_up_unhealthy, reconcile_new, reconcile_old, scale_down_old};

use crate::fixtures::{rolling, set, set_available, sets};

/// `TestDeploymentController_reconcileNewReplicaSet`, of ten replicas.
///
/// Contract: DEP-10
#[test]
fn table_of_new_sets() {
    // Surge, size of the old and of the new one, and the size to come.
    let cases = [(0, 10, 0, None), (2, 10, 0, Some(2)), (2, 5, 0, Some(7)), (2, 10, 2, None), (2, 2, 11, Some(10))];
    for (surge, old, new, expected) in cases {
        let update = reconcile_new(&rolling(10, surge, 0), &sets(set(2, "b", new), [set(1, "a", old)]));
        let found = update.expect("numbers").map(|update| update.after.replicas);
        assert_eq!(found, expected, "{old} and {new} with a surge of {surge}");
    }
}

/// `TestDeploymentController_reconcileOldReplicaSets`, of ten replicas.
///
/// Contract: DEP-11
#[test]
fn table_of_old_sets() {
    // Unavailable, old and available, new and available, and the old size to come.
    let cases = [
        (0, (10, 10), (0, 0), Some(9)),
        (2, (10, 10), (0, 0), Some(8)),
        (2, (10, 8), (0, 0), Some(8)),
        (2, (10, 9), (0, 0), Some(8)),
        (2, (8, 8), (2, 0), None),
    ];
    for (unavailable, old, new, expected) in cases {
        let both = sets(set_available(2, "b", new.0, new.1), [set_available(1, "a", old.0, old.1)]);
        let found = reconcile_old(&rolling(10, 0, unavailable), &both).last().map(|update| update.after.replicas);
        assert_eq!(found, expected, "{old:?} and {new:?} with {unavailable} unavailable");
    }
}

/// `TestDeploymentController_cleanupUnhealthyReplicas`.
///
/// Contract: DEP-11
#[test]
fn table_of_unhealthy_pods() {
    // Available pods of ten, the most to remove, and how many are removed.
    for (available, most, expected) in [(8, 1, 1), (8, 3, 2), (8, 0, 0), (10, 3, 0)] {
        let mut old = [set_available(1, "a", 10, available)];
        let updates = clean_up_unhealthy(&rolling(10, 2, 2), &mut old, most);
        let gone: i32 = updates.iter().map(|update| update.before.replicas - update.after.replicas).sum();
        assert_eq!(gone, expected, "{available} available, {most} may go");
        assert_eq!(old[0].replicas, 10 - expected);
    }
}

/// `TestDeploymentController_scaleDownOldReplicaSetsForRollingUpdate`, of ten replicas.
///
/// Contract: DEP-11
#[test]
fn table_of_scaling_down() {
    // Unavailable, available, size, and the size to come.
    let cases = [(0, 10, 10, Some(9)), (2, 10, 10, Some(8)), (2, 8, 10, None), (2, 10, 0, None), (2, 1, 10, None)];
    for (unavailable, available, size, expected) in cases {
        let old = [set_available(1, "a", size, available)];
        let updates = scale_down_old(&rolling(10, 0, unavailable), None, &old, i64::MAX);
        let found: Vec<i32> = updates.iter().map(|update| update.after.replicas).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{available} of {size}, {unavailable} may lack");
    }
}
