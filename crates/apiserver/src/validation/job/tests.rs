//! Sets of indexes, and what may follow what in a status.

use muster_tree::{Value, json};

use super::{Errors, indexes, status};

/// Contract: API-25
#[test]
fn indexes_by_the_table() {
    for (text, want) in [
        ("", Ok(0)),
        ("0", Ok(1)),
        ("0,2-4", Ok(4)),
        ("1-3,4", Ok(4)),
        ("5", Err("too large index: \"5\"")),
        ("0-5", Err("too large index: \"5\"")),
        ("x", Err("cannot convert string to integer for index: \"x\"")),
        ("1,", Err("cannot convert string to integer for index: \"\"")),
        ("-1", Err("cannot convert string to integer for index: \"\"")),
        ("3-3", Err("non-increasing order, previous: 3, current: 3")),
        ("2,1", Err("non-increasing order, previous: 2, current: 1")),
        (
            "1-2-3",
            Err(
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
        ),
    ] {
        assert_eq!(indexes::count(text, 5), want.map_err(str::to_owned), "{text}");
    }
    for (completed, failed, want) in [
        ("0-2", "3,4", None),
        ("0-2", "2", Some(2)),
        ("0,4", "1-3", None),
        ("0,3", "1-4", Some(3)),
        ("x,3", "1,y,3", Some(3)),
        ("", "1", None),
    ] {
        assert_eq!(indexes::overlap(completed, failed, 5), want, "{completed} and {failed}");
    }
}

/// A rule that was broken before stands in the way only of a write that has to do with it.
///
/// Contract: API-25
#[test]
fn an_old_sin_is_no_new_one() {
    let wrong = |old: Value, new: Value| -> Vec<String> {
        let job = |status: Value| json!({"spec": {"completions": 3, "parallelism": 1}, "status": status});
        let (old, new) = (job(old), job(new));
        let mut errors = Errors::new();
        status::validate_status(new.as_object().expect("object"), old.as_object().expect("object"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    };
    let complete = json!([{"type": "Complete", "status": "True"}, {"type": "SuccessCriteriaMet", "status": "True"}]);
    let time = "2026-01-01T00:00:00Z";
    let odd = json!({"conditions": complete, "startTime": time, "completionTime": time, "active": 2, "completedIndexes": "9"});
    let mut next = odd.clone();
    next["succeeded"] = 3.into();
    assert_eq!(wrong(odd.clone(), next), Vec::<String>::new());
    let mut next = odd.clone();
    next["active"] = 1.into();
    assert_eq!(wrong(odd.clone(), next), ["status.active: Invalid value: 1: active>0 is invalid for finished job"]);
    let mut next = odd.clone();
    next["conditions"] = json!([]);
    assert_eq!(
        wrong(odd, next),
        [
            "status.completionTime: Invalid value: \"2026-01-01T00:00:00Z\": cannot set completionTime when there is no Complete=True condition",
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ]
    );
}
