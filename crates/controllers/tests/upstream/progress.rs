//! `progress_test.go`: when to sync again, and the condition `Progressing`.

use std::sync::Arc;
use std::time::Duration;

use muster_controllers::deployment::progress::estimate;
use muster_controllers::deployment::requeue::{time_left, until_deadline};
use muster_controllers::deployment::status::calculate;
use muster_objects::{Condition, ConditionStatus, Deployment, DeploymentStatus, ReplicaSet, Timestamp};
use serde_json::{Value, json};

use crate::fixtures::{NOW, ago, deployment, set_with, sets};

/// A Deployment that recreates, of that deadline and size.
fn with_deadline(seconds: impl Into<Value>, replicas: i32) -> Deployment {
    let seconds = seconds.into();
    deployment(replicas, |json| {
        json["spec"]["strategy"] = json!({"type": "Recreate"});
        json["spec"]["progressDeadlineSeconds"] = seconds;
    })
}

/// All, updated and available pods.
fn counts([replicas, updated_replicas, available_replicas]: [i32; 3]) -> DeploymentStatus {
    DeploymentStatus { observed_generation: 1, replicas, updated_replicas, available_replicas, ..Default::default() }
}

fn progressing(status: ConditionStatus, reason: &str, at: Timestamp) -> Condition {
    Condition { last_update_time: Some(at), ..Condition::new("Progressing", status, reason, "before", at) }
}

/// `TestRequeueStuckDeployment`.
///
/// Contract: DEP-18
#[test]
fn table_of_stuck_rollouts() {
    let stuck_for = |seconds| Some(progressing(ConditionStatus::True, "", ago(seconds)));
    let failed = || Some(progressing(ConditionStatus::False, "ProgressDeadlineExceeded", ago(1)));
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    type Case = (&'static str, Value, i32, [i32; 3], Option<Condition>, Timestamp, Option<Duration>);
    let cases: [Case; 11] = [
        ("no deadline", json!(null), 4, [3, 3, 2], None, NOW, None),
        ("an endless deadline", json!(i32::MAX), 4, [3, 3, 2], None, NOW, None),
        ("no condition", json!(60), 4, [3, 3, 2], None, NOW, None),
        ("complete", json!(60), 3, [3, 3, 3], None, NOW, None),
        ("told already", json!(60), 3, [3, 3, 0], failed(), NOW, None),
        ("30 s are left", json!(60), 3, [3, 3, 1], stuck_for(30), NOW, seconds(30)),
        ("1 s is left", json!(60), 3, [3, 3, 1], stuck_for(59), NOW, seconds(1)),
        ("less than 1 s is left", json!(60), 3, [3, 3, 1], stuck_for(59), NOW.plus_nanos(1), seconds(0)),
        ("now", json!(60), 3, [3, 3, 1], stuck_for(60), NOW, seconds(0)),
        ("1 s late", json!(60), 3, [3, 3, 1], stuck_for(61), NOW, seconds(0)),
        ("60 s late", json!(60), 3, [3, 3, 1], stuck_for(120), NOW, seconds(0)),
    ];
    for (name, deadline, replicas, numbers, condition, now, expected) in cases {
        let deployment = with_deadline(deadline, replicas);
        let status = DeploymentStatus { conditions: condition.into_iter().collect(), ..counts(numbers) };
        let left = time_left(&deployment, &status, now);
        let whole = left.map(|left| if left < Duration::from_secs(1) { Duration::ZERO } else { left });
        assert_eq!(whole, expected, "{name}");
        assert_eq!(until_deadline(&deployment, &status, now).is_some(), expected.is_some(), "{name}");
    }
}

/// A ReplicaSet of that size with these numbers of pods and available pods.
fn sized(number: u64, size: i32, replicas: i32, available: i32) -> Arc<ReplicaSet> {
    set_with(number, "a", size, |json| {
        json["status"] = json!({"replicas": replicas, "availableReplicas": available, "observedGeneration": 1});
    })
}

/// `TestSyncRolloutStatus`, of a deadline of a minute and a last word an hour ago.
///
/// Contract: DEP-17, DEP-21
#[test]
fn table_of_rollout_statuses() {
    let hour = ago(3_600);
    let updated = || Some(progressing(ConditionStatus::True, "ReplicaSetUpdated", hour));
    let available = || Some(progressing(ConditionStatus::True, "NewReplicaSetAvailable", hour));
    let timed_out = || Some(progressing(ConditionStatus::False, "ProgressDeadlineExceeded", hour));
    let new = |size, replicas, available| Some(sized(2, size, replicas, available));
    let old = |size, replicas, available| Some(sized(1, size, replicas, available));
    let says = |status, reason, transition, update| Some((status, reason, transition, update));
    let (yes, no) = (ConditionStatus::True, ConditionStatus::False);
    // Deadline, replicas, last counts and condition; new and old ReplicaSet; what is said, and since when.
    type Told = Option<(ConditionStatus, &'static str, Timestamp, Timestamp)>;
    type Set = Option<Arc<ReplicaSet>>;
    type Case = (&'static str, Value, i32, [i32; 3], Option<Condition>, Set, Set, Told);
    let minute = || json!(60);
    let cases: [Case; 11] = [
        ("no deadline: it goes", json!(null), 3, [2, 2, 2], updated(), new(3, 2, 2), old(0, 1, 1), None),
        (
            "nothing is rolled out: not estimated",
            minute(),
            3,
            [3, 3, 3],
            available(),
            None,
            old(3, 3, 3),
            says(yes, "NewReplicaSetAvailable", hour, hour),
        ),
        (
            "progress, known before: the transition stays",
            minute(),
            3,
            [2, 2, 2],
            updated(),
            new(3, 2, 2),
            old(0, 1, 1),
            says(yes, "ReplicaSetUpdated", hour, NOW),
        ),
        (
            "progress after a deadline",
            minute(),
            3,
            [2, 2, 2],
            timed_out(),
            new(3, 2, 2),
            old(0, 1, 1),
            says(yes, "ReplicaSetUpdated", NOW, NOW),
        ),
        (
            "progress, the first",
            minute(),
            3,
            [2, 2, 2],
            None,
            new(3, 2, 2),
            old(0, 1, 1),
            says(yes, "ReplicaSetUpdated", NOW, NOW),
        ),
        (
            "complete after progress: the transition stays",
            minute(),
            3,
            [3, 3, 3],
            updated(),
            new(3, 3, 3),
            None,
            says(yes, "NewReplicaSetAvailable", hour, NOW),
        ),
        (
            "complete after a deadline",
            minute(),
            3,
            [3, 3, 3],
            timed_out(),
            new(3, 3, 3),
            None,
            says(yes, "NewReplicaSetAvailable", NOW, NOW),
        ),
        (
            "complete at first sight",
            minute(),
            3,
            [3, 3, 3],
            None,
            new(3, 3, 3),
            None,
            says(yes, "NewReplicaSetAvailable", NOW, NOW),
        ),
        (
            "complete without a new ReplicaSet",
            minute(),
            0,
            [3, 3, 3],
            updated(),
            None,
            old(0, 0, 0),
            says(yes, "NewReplicaSetAvailable", hour, NOW),
        ),
        (
            "the deadline has passed",
            minute(),
            3,
            [2, 2, 2],
            updated(),
            new(3, 2, 2),
            None,
            says(no, "ProgressDeadlineExceeded", NOW, NOW),
        ),
        (
            "the deadline had passed before",
            minute(),
            3,
            [2, 2, 2],
            timed_out(),
            new(3, 2, 2),
            None,
            says(no, "ProgressDeadlineExceeded", hour, hour),
        ),
    ];
    for (name, deadline, replicas, last, condition, new, old, expected) in cases {
        let mut deployment = with_deadline(deadline, replicas);
        deployment.status = DeploymentStatus { conditions: condition.into_iter().collect(), ..counts(last) };
        let conditions = deployment.status.conditions.clone();
        let mut status = calculate(&deployment, &sets(new.clone(), old), conditions, NOW);
        estimate(&deployment, &mut status, new.as_deref(), NOW);
        let found = Condition::find(&status.conditions, "Progressing").map(|found| {
            let since = found.last_transition_time.expect("a time");
            (found.status, &*found.reason, since, found.last_update_time.expect("a time"))
        });
        assert_eq!(found, expected, "{name}");
    }
}
