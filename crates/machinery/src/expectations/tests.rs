//! Tests of the expectations; the cases of upstream's `TestControllerExpectations` and
//! `TestUIDExpectations` among them.

use proptest::prelude::*;

use super::*;

fn at(seconds: u64) -> Moment {
    Moment::ORIGIN + Duration::from_secs(seconds)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Contract: EX-01, EX-02
#[test]
fn an_owner_without_expectations_is_satisfied() {
    let mut expectations = Expectations::new();
    assert!(expectations.satisfied(&key("rs"), at(0)));
    expectations.creation_observed(&key("rs"));
    expectations.deletion_observed(&key("rs"), &key("pod"));
    assert!(expectations.satisfied(&key("rs"), at(0)), "an observation alone expects nothing");
    assert!(expectations.is_empty());
}

/// Contract: EX-01, EX-02, EX-03
#[test]
fn creations_are_counted_down_and_below_zero_is_satisfied_too() {
    let mut expectations = Expectations::new();
    expectations.expect_creations(&key("rs"), 3, at(0));
    for left in [2, 1] {
        expectations.creation_observed(&key("rs"));
        assert_eq!(expectations.pending(&key("rs")), (left, 0));
        assert!(!expectations.satisfied(&key("rs"), at(0)));
    }
    for left in [0, -1] {
        expectations.creation_observed(&key("rs"));
        assert_eq!(expectations.pending(&key("rs")), (left, 0));
        assert!(expectations.satisfied(&key("rs"), at(0)));
    }
    assert!(expectations.satisfied(&key("other"), at(0)), "owners do not share");
}

/// Contract: EX-02, PG-02
#[test]
fn those_that_are_not_met_are_told_the_oldest_first() {
    let mut expectations = Expectations::new();
    expectations.expect_creations(&key("young"), 3, at(200));
    expectations.expect_deletions(&key("old"), [key("a"), key("b")], at(100));
    expectations.expect_creations(&key("expired"), 1, at(0));
    expectations.expect_creations(&key("met"), 1, at(200));
    expectations.creation_observed(&key("met"));
    expectations.creation_observed(&key("young"));
    let old = Unmet { owner: key("old"), creations: 0, deletions: 2, since: at(100) };
    let young = Unmet { owner: key("young"), creations: 2, deletions: 0, since: at(200) };
    assert_eq!(expectations.unmet(9, at(301)), (vec![old.clone(), young], 2));
    assert_eq!(expectations.unmet(1, at(301)), (vec![old], 2));
    assert_eq!(expectations.unmet(0, at(301)), (vec![], 2));
}

/// Contract: EX-01
#[test]
fn setting_an_expectation_replaces_the_earlier_one_and_stamps_the_time() {
    let mut expectations = Expectations::new();
    expectations.expect_deletions(&key("rs"), [key("a"), key("b")], at(0));
    expectations.expect_creations(&key("rs"), 2, at(200));
    assert_eq!(expectations.pending(&key("rs")), (2, 0));
    assert!(!expectations.satisfied(&key("rs"), at(500)), "the time is that of the second");
    expectations.expect_deletions(&key("rs"), [key("c")], at(200));
    assert_eq!(expectations.pending(&key("rs")), (0, 1));
    expectations.deletion_observed(&key("rs"), &key("a"));
    assert!(!expectations.satisfied(&key("rs"), at(200)), "a is not expected to go any more");
}

/// Contract: EX-02
#[test]
fn expectations_expire_after_five_minutes() {
    let mut expectations = Expectations::new();
    expectations.expect_creations(&key("rs"), 1, at(10));
    assert_eq!(expectations.expires_at(&key("rs")), Some(at(310)));
    assert!(!expectations.satisfied(&key("rs"), at(310)));
    assert!(expectations.satisfied(&key("rs"), at(310) + Duration::from_nanos(1)));
    expectations.creation_observed(&key("rs"));
    assert_eq!(expectations.expires_at(&key("rs")), None);
}

/// The deletion of a pod is seen twice: as an update with a timestamp, and as a removal. Deletions that were not
/// expected are seen as well.
///
/// Contract: EX-03, EX-04
#[test]
fn a_deletion_counts_once_for_each_expected_pod() {
    let mut expectations = Expectations::new();
    expectations.expect_deletions(&key("rs"), [key("a"), key("b")], at(0));
    for _ in 0..2 {
        expectations.deletion_observed(&key("rs"), &key("a"));
        expectations.deletion_observed(&key("rs"), &key("x"));
        expectations.deletion_observed(&key("rs"), &ObjectKey::new("other", "b"));
        assert!(!expectations.satisfied(&key("rs"), at(0)));
    }
    expectations.deletion_observed(&key("rs"), &key("b"));
    assert!(expectations.satisfied(&key("rs"), at(0)));
}

/// Contract: EX-05
#[test]
fn creations_that_failed_or_were_not_tried_are_not_expected() {
    let mut expectations = Expectations::new();
    expectations.expect_creations(&key("rs"), 10, at(0));
    expectations.lower_creations(&key("rs"), 7);
    assert_eq!(expectations.pending(&key("rs")), (3, 0));
    expectations.lower_creations(&key("rs"), 3);
    assert!(expectations.satisfied(&key("rs"), at(0)));
}

/// Contract: EX-06
#[test]
fn an_owner_that_is_gone_expects_nothing() {
    let mut expectations = Expectations::new();
    expectations.expect_creations(&key("rs"), 1, at(0));
    expectations.delete(&key("rs"));
    assert!(expectations.satisfied(&key("rs"), at(0)));
    assert_eq!(expectations.len(), 0);
}

/// Upstream waits five minutes for an event that will never come; here the wait ends when the cache has reached every
/// write of the round.
///
/// Contract: B-01
#[test]
fn a_cache_that_has_passed_every_write_settles_what_is_left() {
    let mut expectations = Expectations::new();
    expectations.expect_creations(&key("rs"), 2, at(0));
    expectations.creation_observed(&key("rs"));
    assert!(!expectations.satisfied(&key("rs"), at(1)));
    assert!(expectations.settle(&key("rs")), "a wait was ended");
    assert!(expectations.satisfied(&key("rs"), at(1)));
    expectations.expect_creations(&key("rs"), 1, at(2));
    expectations.creation_observed(&key("rs"));
    assert!(!expectations.settle(&key("rs")), "nothing was being waited for");
}

/// A copy has the expectations of one owner only, and its changes do not affect the original.
///
/// Contract: EX-01, EX-06
#[test]
fn a_copy_has_one_owner_and_changes_apart() {
    let mut expectations = Expectations::new();
    expectations.expect_deletions(&key("rs"), [key("b"), key("a")], at(0));
    expectations.expect_creations(&key("other"), 2, at(0));
    let mut copy = expectations.only(&key("rs"));
    assert_eq!(copy.len(), 1);
    assert_eq!(copy.deletions(&key("rs")).map(|pod| &*pod.name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(copy.pending(&key("other")), (0, 0));
    copy.deletion_observed(&key("rs"), &key("a"));
    assert_eq!((copy.pending(&key("rs")), expectations.pending(&key("rs"))), ((0, 1), (0, 2)));
}

proptest! {
    /// In whatever order and however often the deletions are seen, they are satisfied exactly when each
    /// expected one was seen.
    ///
    /// Contract: EX-04
    #[test]
    fn deletions_are_a_set(expected in prop::collection::btree_set(0_u8..12, 0..8), seen in prop::collection::vec(0_u8..12, 0..40)) {
        let pod = |number: &u8| key(&format!("pod-{number}"));
        let mut expectations = Expectations::new();
        expectations.expect_deletions(&key("rs"), expected.iter().map(pod), at(0));
        let mut left = expected;
        for number in &seen {
            expectations.deletion_observed(&key("rs"), &pod(number));
            left.remove(number);
            prop_assert_eq!(expectations.satisfied(&key("rs"), at(0)), left.is_empty());
        }
    }
}
