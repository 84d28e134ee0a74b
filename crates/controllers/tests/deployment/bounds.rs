//! Bounds: `maxSurge` and `maxUnavailable` in pods.

use muster_controllers::deployment::bounds::{Bounds, resolve_fenceposts};
use muster_objects::IntOrPercent;
use serde_json::{Value, json};

use crate::fixtures::{recreating, rolling};

/// Contract: DEP-07, B-10
#[test]
fn bounds_are_rounded_resolved_and_capped() {
    let cases: [(i32, Value, Value, i64, i32); 14] = [
        (10, json!(3), json!(2), 3, 2),
        (10, json!("25%"), json!("25%"), 3, 2),
        (1, json!("25%"), json!("25%"), 1, 0),
        (4, json!("25%"), json!("25%"), 1, 1),
        // Neither rounds to anything: the rollout has to move all the same.
        (2, json!(0), json!("1%"), 0, 1),
        (10, json!(0), json!(0), 0, 1),
        (10, json!("0%"), json!("0%"), 0, 1),
        (3, json!(0), json!(5), 0, 3),
        (3, json!("200%"), json!("200%"), 6, 3),
        (0, json!(2), json!(2), 2, 0),
        (0, json!("25%"), json!("25%"), 0, 0),
        (2, json!("2147483648%"), json!(0), 42_949_673, 0),
        (i32::MAX, json!("9223372036854775807%"), json!(0), 1 << 62, 0),
        (i32::MAX, json!("1000%"), json!("100%"), 21_474_836_470, i32::MAX),
    ];
    for (replicas, surge, unavailable, expected_surge, expected_unavailable) in cases {
        let bounds = Bounds::of(&rolling(replicas, surge.clone(), unavailable.clone()));
        let expected = Bounds { surge: expected_surge, unavailable: expected_unavailable };
        assert_eq!(bounds, expected, "{replicas} replicas, {surge} and {unavailable}");
        assert_eq!(bounds.most(replicas), i64::from(replicas) + expected_surge);
        assert_eq!(bounds.least_available(replicas), i64::from(replicas) - i64::from(expected_unavailable));
    }
}

/// A Deployment that recreates has no room on either side.
///
/// Contract: DEP-07
#[test]
fn recreating_has_no_bounds() {
    assert_eq!(Bounds::of(&recreating(5)), Bounds { surge: 0, unavailable: 0 });
}

/// Contract: DEP-07
#[test]
fn a_text_that_is_no_percentage_is_an_error() {
    let error = resolve_fenceposts(&IntOrPercent::from("many"), &IntOrPercent::Int(1), 4).unwrap_err();
    assert_eq!(error.to_string(), "invalid value for IntOrString: invalid type: string is not a percentage");
    assert!(resolve_fenceposts(&IntOrPercent::Int(1), &IntOrPercent::from("x%"), 4).is_err());
    assert_eq!(Bounds::of(&rolling(4, "many", 1)), Bounds::default());
}
