//! Progress: the condition `Progressing`, and when to look again.

use std::time::Duration;

use muster_controllers::deployment::progress::{
    deadline, estimate, has_timed_out, is_complete, is_progressing, note_created, note_found, note_pause,
};
use muster_controllers::deployment::requeue::{time_left, until_deadline};
use muster_objects::{Condition, ConditionStatus, Deployment, DeploymentStatus};
use serde_json::{Value, json};

use crate::fixtures::{NOW, ago, deployment, recreating, set};

/// Replicas, updated, ready and available.
fn counts([replicas, updated, ready, available]: [i32; 4]) -> DeploymentStatus {
    DeploymentStatus {
        observed_generation: 1,
        replicas,
        updated_replicas: updated,
        ready_replicas: ready,
        available_replicas: available,
        ..DeploymentStatus::default()
    }
}

fn with_deadline(seconds: impl Into<Value>) -> Deployment {
    let seconds = seconds.into();
    deployment(3, |json| json["spec"]["progressDeadlineSeconds"] = seconds)
}

fn progressing(status: ConditionStatus, reason: &str, seconds_ago: u64) -> Condition {
    let at = Some(ago(seconds_ago));
    Condition { last_update_time: at, ..Condition::new("Progressing", status, reason, "before", ago(seconds_ago)) }
}

/// Contract: DEP-24
#[test]
fn complete_means_all_updated_available_and_observed() {
    let three = deployment(3, |_| ());
    let cases = [
        ([3, 3, 3, 3], true),
        ([4, 3, 3, 3], false),
        ([3, 2, 3, 3], false),
        ([3, 3, 3, 2], false),
        ([3, 3, 0, 3], true),
    ];
    for (numbers, expected) in cases {
        assert_eq!(is_complete(&three, &counts(numbers)), expected, "{numbers:?}");
    }
    assert!(!is_complete(&three, &DeploymentStatus { observed_generation: 0, ..counts([3, 3, 3, 3]) }));
}

/// Contract: DEP-17
#[test]
fn progress_is_more_updated_fewer_old_more_ready_or_more_available() {
    let deployment = Deployment { status: counts([10, 4, 4, 4]), ..deployment(10, |_| ()) };
    let cases = [
        ([10, 4, 4, 4], false),
        ([10, 5, 4, 4], true),
        ([9, 4, 4, 4], true),
        ([10, 4, 5, 4], true),
        ([10, 4, 4, 5], true),
        ([10, 3, 4, 4], false),
        ([11, 4, 4, 4], false),
        ([10, 4, 3, 3], false),
    ];
    for (numbers, expected) in cases {
        assert_eq!(is_progressing(&deployment, &counts(numbers)), expected, "{numbers:?}");
    }
}

/// Contract: DEP-17
#[test]
fn a_deadline_passes_after_the_last_progress() {
    let ten = with_deadline(10);
    let timed_out = |condition| has_timed_out(&ten, &[condition], NOW);
    assert!(timed_out(progressing(ConditionStatus::True, "ReplicaSetUpdated", 11)));
    assert!(!timed_out(progressing(ConditionStatus::True, "ReplicaSetUpdated", 10)), "at the very moment it has not");
    assert!(!timed_out(progressing(ConditionStatus::True, "NewReplicaSetAvailable", 999)), "the rollout is over");
    assert!(timed_out(progressing(ConditionStatus::False, "ProgressDeadlineExceeded", 1)), "once told it stays so");
    assert!(timed_out(Condition { last_update_time: None, ..progressing(ConditionStatus::True, "A", 1) }));
    assert!(!has_timed_out(&ten, &[], NOW), "nothing to count from");
    for none in [json!(null), json!(i32::MAX)] {
        let endless = with_deadline(none);
        assert_eq!(deadline(&endless), None);
        assert!(!has_timed_out(&endless, &[progressing(ConditionStatus::True, "A", 9_999)], NOW));
    }
}

/// Status, reason and message of the condition, with its transition and update times.
fn told(before: Option<Condition>, last: [i32; 4], now: [i32; 4]) -> Option<(String, String, u64, u64)> {
    let deployment = Deployment { status: counts(last), ..with_deadline(10) };
    let mut status = counts(now);
    status.conditions.extend(before);
    estimate(&deployment, &mut status, Some(&*set(2, "b", 3)), NOW);
    let condition = Condition::find(&status.conditions, "Progressing")?;
    let age = |time: Option<_>| NOW.saturating_since(time.expect("a time")).as_secs();
    Some((
        format!("{} {}", condition.status, condition.reason),
        condition.message.clone(),
        age(condition.last_transition_time),
        age(condition.last_update_time),
    ))
}

/// Contract: DEP-17
#[test]
fn progress_is_reported() {
    let before = |status, reason| Some(progressing(status, reason, 5));
    let text = |what: &str| format!("ReplicaSet \"web-2\" {what}");
    let is = |word: &str, text: String, transition, update| Some((word.to_owned(), text, transition, update));
    // Further than before: written though only its time changes.
    assert_eq!(
        told(before(ConditionStatus::True, "ReplicaSetUpdated"), [3, 1, 1, 1], [3, 2, 1, 1]),
        is("True ReplicaSetUpdated", text("is progressing."), 5, 0)
    );
    assert_eq!(
        told(before(ConditionStatus::False, "ProgressDeadlineExceeded"), [3, 1, 1, 1], [3, 2, 1, 1]),
        is("True ReplicaSetUpdated", text("is progressing."), 0, 0)
    );
    assert_eq!(told(None, [3, 1, 1, 1], [3, 2, 1, 1]), is("True ReplicaSetUpdated", text("is progressing."), 0, 0));
    // As before: nothing changes until the deadline has passed.
    assert_eq!(
        told(before(ConditionStatus::True, "ReplicaSetUpdated"), [3, 1, 1, 1], [3, 1, 1, 1]),
        is("True ReplicaSetUpdated", "before".into(), 5, 5)
    );
    assert_eq!(
        told(Some(progressing(ConditionStatus::True, "ReplicaSetUpdated", 11)), [3, 1, 1, 1], [3, 1, 1, 1]),
        is("False ProgressDeadlineExceeded", text("has timed out progressing."), 0, 0)
    );
    // Complete.
    assert_eq!(
        told(before(ConditionStatus::True, "ReplicaSetUpdated"), [4, 3, 3, 3], [3, 3, 3, 3]),
        is("True NewReplicaSetAvailable", text("has successfully progressed."), 5, 0)
    );
    // After that, a pod that is lost is not part of a rollout.
    assert_eq!(
        told(Some(progressing(ConditionStatus::True, "NewReplicaSetAvailable", 99)), [3, 3, 3, 3], [3, 3, 2, 2]),
        is("True NewReplicaSetAvailable", "before".into(), 99, 99)
    );
    assert_eq!(told(None, [3, 3, 1, 1], [3, 3, 1, 1]), None);
    // Old pods are one: a ReplicaSet of an earlier template is the new one again, and was not created.
    assert_eq!(
        told(Some(progressing(ConditionStatus::True, "NewReplicaSetAvailable", 99)), [3, 0, 3, 3], [3, 1, 3, 3]),
        is("True ReplicaSetUpdated", text("is progressing."), 99, 0)
    );
}

/// The deadline of a rollout begins with it also where its counts never show progress: the ReplicaSet of a rollback was there before
/// and cannot make pods, or its pods were counted before. Kubernetes says for ever that the rollout is complete.
///
/// Contract: B-33
#[test]
fn a_rollout_that_never_moves_times_out() {
    let complete = || progressing(ConditionStatus::True, "NewReplicaSetAvailable", 999);
    for (last, now) in [([3, 3, 3, 3], [3, 0, 3, 3]), ([4, 3, 3, 3], [4, 3, 3, 3])] {
        let begins = told(Some(complete()), last, now).expect("a condition");
        let word = "True ReplicaSetUpdated".to_owned();
        assert_eq!(begins, (word, "ReplicaSet \"web-2\" is progressing.".to_owned(), 999, 0), "{now:?}");
        let begun = Some(progressing(ConditionStatus::True, "ReplicaSetUpdated", 11));
        let (word, message, ..) = told(begun, now, now).expect("a condition");
        assert_eq!(
            (&*word, &*message),
            ("False ProgressDeadlineExceeded", "ReplicaSet \"web-2\" has timed out progressing.")
        );
    }
    // A Recreate takes the old ones down first: nothing new could be late.
    let recreates = Deployment { status: counts([3, 3, 3, 3]), ..recreating(3) };
    let mut status = DeploymentStatus { conditions: vec![complete()], ..counts([3, 0, 3, 3]) };
    estimate(&recreates, &mut status, Some(&*set(2, "b", 3)), NOW);
    assert_eq!(&*status.conditions[0].reason, "NewReplicaSetAvailable");
    // Pods that are lost later are no rollout.
    let over = told(Some(complete()), [3, 3, 3, 3], [2, 2, 2, 2]).expect("a condition");
    assert_eq!((&*over.0, over.2), ("True NewReplicaSetAvailable", 999));
}

/// Without a ReplicaSet the Deployment itself is named; without a deadline there is no condition.
///
/// Contract: DEP-17
#[test]
fn the_condition_names_the_set_and_needs_a_deadline() {
    let deployment = Deployment { status: counts([3, 0, 3, 3]), ..with_deadline(10) };
    let mut status = counts([1, 0, 1, 1]);
    estimate(&deployment, &mut status, None, NOW);
    assert_eq!(status.conditions[0].message, "Deployment \"web\" is progressing.");
    estimate(&with_deadline(json!(null)), &mut status, None, NOW);
    assert_eq!(status.conditions, []);
}

/// Contract: DEP-19
#[test]
fn pauses_are_reported() {
    let note = |paused: bool, before: Option<Condition>| {
        let mut conditions: Vec<Condition> = before.into_iter().collect();
        note_pause(&deployment(3, |json| json["spec"]["paused"] = json!(paused)), &mut conditions, NOW);
        conditions.pop().map(|condition| format!("{} {} {}", condition.status, condition.reason, condition.message))
    };
    let updated = || Some(progressing(ConditionStatus::True, "ReplicaSetUpdated", 5));
    let paused = || Some(progressing(ConditionStatus::Unknown, "DeploymentPaused", 5));
    let timed_out = || Some(progressing(ConditionStatus::False, "ProgressDeadlineExceeded", 5));
    assert_eq!(note(true, updated()).as_deref(), Some("Unknown DeploymentPaused Deployment is paused"));
    assert_eq!(note(true, None).as_deref(), Some("Unknown DeploymentPaused Deployment is paused"));
    assert_eq!(note(true, paused()).as_deref(), Some("Unknown DeploymentPaused before"));
    assert_eq!(note(false, paused()).as_deref(), Some("Unknown DeploymentResumed Deployment is resumed"));
    assert_eq!(note(false, updated()).as_deref(), Some("True ReplicaSetUpdated before"));
    assert_eq!(note(true, timed_out()).as_deref(), Some("False ProgressDeadlineExceeded before"));
    assert_eq!(note(false, timed_out()).as_deref(), Some("False ProgressDeadlineExceeded before"));
}

/// Contract: DEP-17
#[test]
fn new_sets_are_reported_if_there_is_a_deadline() {
    let mut conditions = Vec::new();
    note_found(&with_deadline(10), &mut conditions, &set(2, "b", 3), NOW);
    assert_eq!(
        (&*conditions[0].reason, &*conditions[0].message),
        ("FoundNewReplicaSet", "Found new replica set \"web-2\"")
    );
    note_created(&with_deadline(10), &mut conditions, &set(3, "c", 3), NOW);
    let created = ("NewReplicaSetCreated", "Created new replica set \"web-3\"");
    assert_eq!((&*conditions[0].reason, &*conditions[0].message), created);
    note_found(&with_deadline(10), &mut conditions, &set(2, "b", 3), NOW);
    assert_eq!((&*conditions[0].reason, &*conditions[0].message), created, "something was told before");
    let mut none = Vec::new();
    note_created(&with_deadline(json!(null)), &mut none, &set(3, "c", 3), NOW);
    note_found(&with_deadline(i32::MAX), &mut none, &set(3, "c", 3), NOW);
    assert_eq!(none, []);
}

/// Contract: DEP-18
#[test]
fn a_rollout_is_looked_at_when_its_deadline_ends() {
    let left = |deployment: &Deployment, numbers, conditions| {
        let status = DeploymentStatus { conditions, ..counts(numbers) };
        (time_left(deployment, &status, NOW), until_deadline(deployment, &status, NOW))
    };
    let sixty = with_deadline(60);
    let stuck = |seconds| vec![progressing(ConditionStatus::True, "ReplicaSetUpdated", seconds)];
    let seconds = |left, until| (Some(Duration::from_secs(left)), Some(Duration::from_secs(until)));
    assert_eq!(left(&sixty, [3, 3, 1, 1], stuck(30)), seconds(30, 31));
    assert_eq!(left(&sixty, [3, 3, 1, 1], stuck(59)), seconds(1, 2));
    assert_eq!(left(&sixty, [3, 3, 1, 1], stuck(60)), seconds(0, 1));
    assert_eq!(left(&sixty, [3, 3, 1, 1], stuck(61)), seconds(0, 1));
    assert_eq!(left(&sixty, [3, 3, 3, 3], stuck(30)), (None, None), "complete");
    assert_eq!(left(&sixty, [3, 3, 1, 1], Vec::new()), (None, None), "nothing to count from");
    let told = vec![progressing(ConditionStatus::False, "ProgressDeadlineExceeded", 30)];
    assert_eq!(left(&sixty, [3, 3, 1, 1], told), (None, None), "told already");
    let over = vec![progressing(ConditionStatus::True, "NewReplicaSetAvailable", 999)];
    assert_eq!(left(&sixty, [3, 3, 1, 1], over), (None, None), "no rollout runs");
    assert_eq!(left(&with_deadline(i32::MAX), [3, 3, 1, 1], stuck(30)), (None, None));
}
