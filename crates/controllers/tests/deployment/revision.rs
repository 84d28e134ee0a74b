//! Revision: the annotations that a Deployment keeps.

use muster_controllers::deployment::revision::{
    desired_replicas, last_revision, max_replicas, max_revision, new_set_annotations, replicas_need_update,
    with_replicas,
};
use muster_objects::Annotations;
use proptest::prelude::*;
use serde_json::json;

use crate::fixtures::{annotate, deployment, rolling, set_scaled_for, set_with};

const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

fn annotations(pairs: &[(&str, &str)]) -> Annotations {
    pairs.iter().copied().collect()
}

/// Contract: DEP-06
#[test]
fn revisions_of_sets() {
    let of = |number, revision: &str| {
        set_with(number, "a", 0, |json| json["metadata"]["annotations"] = json!({ REVISION: revision }))
    };
    let none = set_with(4, "a", 0, |json| json["metadata"]["annotations"] = json!({}));
    let sets = [of(1, "3"), of(2, "seven"), of(3, "5"), none];
    assert_eq!((max_revision(&sets), last_revision(&sets)), (5, 3));
    assert_eq!((max_revision(&sets[1..2]), last_revision(&sets[1..2])), (0, 0));
    assert_eq!(last_revision(&sets[..1]), 0);
}

/// The revision is raised and never lowered, one that is not a number is kept, and the history grows.
///
/// Contract: DEP-06, B-10
#[test]
fn the_new_set_gets_the_next_revision() {
    let deployment = deployment(3, |_| ());
    type Case<'a> = (&'a [(&'a str, &'a str)], i64, Option<&'a [(&'a str, &'a str)]>);
    let cases: [Case<'_>; 8] = [
        (&[], 1, Some(&[(REVISION, "1")])),
        (&[(REVISION, "2")], 3, Some(&[(REVISION, "3"), (HISTORY, "2")])),
        (&[(REVISION, "3"), (HISTORY, "1,2")], 5, Some(&[(REVISION, "5"), (HISTORY, "1,2,3")])),
        (&[(REVISION, "3"), (HISTORY, "1")], 3, None),
        // Old ReplicaSets were deleted, and their revisions with them.
        (&[(REVISION, "7"), (HISTORY, "1")], 3, None),
        (&[(REVISION, "seven")], 3, None),
        (&[(REVISION, "")], 3, Some(&[(REVISION, "3"), (HISTORY, "")])),
        (&[(REVISION, "9223372036854775807")], i64::MAX, None),
    ];
    for (before, revision, after) in cases {
        let found = new_set_annotations(&deployment, &annotations(before), revision, 2_000);
        let due = after.is_some();
        assert_eq!(found, (annotations(after.unwrap_or(before)), due), "{before:?} at {revision}");
    }
}

/// Contract: DEP-06
#[test]
fn the_history_drops_its_oldest() {
    let deployment = deployment(3, |_| ());
    let cases =
        [("1,2,3", 7, "1,2,3,4"), ("1,2,3", 6, "2,3,4"), ("1,2,3", 3, "3,4"), ("100,2", 3, "2,4"), ("", 1, "4")];
    for (history, most, after) in cases {
        let before = annotations(&[(REVISION, "4"), (HISTORY, history)]);
        let (found, differs) = new_set_annotations(&deployment, &before, 5, most);
        assert!(differs, "the revision rises");
        assert_eq!(found.get(HISTORY), Some(after), "{history} in {most}");
    }
}

/// Contract: DEP-06
#[test]
fn the_deployments_annotations_are_copied_but_for_its_own() {
    let deployment = deployment(3, |json| {
        for key in [
            REVISION,
            HISTORY,
            "deployment.kubernetes.io/desired-replicas",
            "deployment.kubernetes.io/max-replicas",
            "deprecated.deployment.rollback.to",
            "kubectl.kubernetes.io/last-applied-configuration",
            "kubernetes.io/change-cause",
        ] {
            annotate(json, key, "1");
        }
    });
    let copied = new_set_annotations(&deployment, &annotations(&[(REVISION, "4"), ("own", "kept")]), 2, 2_000);
    let expected = annotations(&[(REVISION, "4"), ("own", "kept"), ("kubernetes.io/change-cause", "1")]);
    assert_eq!(copied, (expected, true));
    // Beside a revision that is not a number they are copied, and wait for another reason to be written.
    let copied = new_set_annotations(&deployment, &annotations(&[(REVISION, "four")]), 2, 2_000);
    assert_eq!(copied, (annotations(&[(REVISION, "four"), ("kubernetes.io/change-cause", "1")]), false));
}

/// Contract: DEP-06
#[test]
fn the_replicas_annotations_hold_replicas_and_surge() {
    let deployment = rolling(4, "25%", 1);
    let after = with_replicas(&deployment, &annotations(&[("own", "kept")]));
    assert_eq!(after.get("deployment.kubernetes.io/desired-replicas"), Some("4"));
    assert_eq!(after.get("deployment.kubernetes.io/max-replicas"), Some("5"));
    assert!(replicas_need_update(&deployment, &Annotations::EMPTY));
    assert!(!replicas_need_update(&deployment, &after));
    assert!(replicas_need_update(&rolling(4, 2, 1), &after));
    // What would not fit an int32 is as much as does.
    let most = with_replicas(&rolling(i32::MAX, "100%", 0), &Annotations::EMPTY);
    assert_eq!(most.get("deployment.kubernetes.io/max-replicas"), Some("2147483647"));
}

/// Contract: DEP-08
#[test]
fn the_replicas_annotations_are_read_back() {
    let set = set_scaled_for(1, "a", 1, 4, 5);
    assert_eq!((desired_replicas(&set), max_replicas(&set)), (Some(4), Some(5)));
    for text in ["", "-1", "+1", "2147483648", "many", "1.0"] {
        let set = set_with(1, "a", 1, |json| annotate(json, "deployment.kubernetes.io/desired-replicas", text));
        assert_eq!(desired_replicas(&set), None, "{text:?}");
    }
}

proptest! {
    /// Whatever the annotations are, a numeric revision never falls, and the history stays within its length.
    ///
    /// Contract: DEP-06
    #[test]
    fn revisions_only_rise(before in 0..1_000_i64, next in 0..1_000_i64, history in "([0-9]{1,3}(,[0-9]{1,3}){0,9})?", most in 0..30_usize) {
        let before_text = before.to_string();
        let set = annotations(&[(REVISION, &before_text), (HISTORY, &history)]);
        let (after, _) = new_set_annotations(&deployment(1, |_| ()), &set, next, most);
        let revision: i64 = after.get(REVISION).expect("kept").parse().expect("a number");
        prop_assert_eq!(revision, before.max(next));
        let kept = after.get(HISTORY).unwrap_or("");
        prop_assert!(kept == history || history.is_empty() || kept.len() <= most, "{}", kept);
    }
}
