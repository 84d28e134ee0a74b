use muster_objects::Timestamp;
use serde_json::{Value, json};

use super::terminate::{Remains, conditions};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000 + seconds)
}

fn find<'c>(conditions: &'c Value, kind: &str) -> &'c Value {
    conditions.as_array().and_then(|all| all.iter().find(|c| c["type"] == kind)).expect("the condition is there")
}

/// Contract: API-20
#[test]
fn conditions_say_what_is_left_and_change_only_when_that_does() {
    let mut remains = Remains::default();
    remains.objects.insert("pods.".to_owned(), 3);
    remains.objects.insert("replicasets.apps".to_owned(), 1);
    remains.finalizers.insert("example.com/hold".to_owned(), 2);
    let first = conditions(&Value::Null, &remains, at(0)).expect("there were none");
    assert_eq!(first.as_array().map(Vec::len), Some(5));
    let content = find(&first, "NamespaceContentRemaining");
    assert_eq!((&content["status"], &content["reason"]), (&json!("True"), &json!("SomeResourcesRemain")));
    assert_eq!(
        content["message"],
        "Some resources are remaining: pods. has 3 resource instances, replicasets.apps has 1 resource instances"
    );
    assert_eq!(find(&first, "NamespaceDeletionContentFailure")["reason"], "ContentDeleted");
    assert_eq!(conditions(&first, &remains, at(1)), None);

    remains.objects.remove("replicasets.apps");
    let second = conditions(&first, &remains, at(2)).expect("less is left");
    let content = find(&second, "NamespaceContentRemaining");
    assert_eq!(content["lastTransitionTime"], "2023-11-14T22:13:20Z", "the status is what it was");

    let mut failed = Remains::default();
    failed.errors.extend(["b".to_owned(), "a".to_owned()]);
    let third = conditions(&second, &failed, at(3)).expect("it is otherwise now");
    let failure = find(&third, "NamespaceDeletionContentFailure");
    assert_eq!(failure["message"], "Failed to delete all resource types, 2 remaining: a, b");
    assert_eq!(failure["lastTransitionTime"], "2023-11-14T22:13:23Z");
    assert_eq!(find(&third, "NamespaceFinalizersRemaining")["status"], "False");
}

/// Contract: API-20
#[test]
fn conditions_of_others_stay() {
    let others = json!([{"type": "Mine", "status": "True"}]);
    let new = conditions(&others, &Remains::default(), at(0)).expect("ours are added");
    assert_eq!(new.as_array().map(Vec::len), Some(6));
    assert_eq!(find(&new, "Mine")["status"], "True");
}
