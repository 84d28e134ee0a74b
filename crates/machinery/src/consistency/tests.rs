//! Tests of the consistency record; the cases of upstream's `consistency_test.go` among them.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Pods,
    ReplicaSets,
}

use Kind::{Pods, ReplicaSets};

fn at(seconds: u64) -> Moment {
    Moment::ORIGIN + Duration::from_secs(seconds)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn uid(number: u8) -> Uid {
    Uid::from_bytes([number; 16])
}

fn version(number: u64) -> ResourceVersion {
    ResourceVersion(number)
}

/// The newest versions of the caches of pods and ReplicaSets.
fn newest(pods: u64, sets: u64) -> impl Fn(Kind) -> ResourceVersion {
    move |kind| version(if kind == Pods { pods } else { sets })
}

fn behind(resource: Kind, wrote: u64, read: u64, remedy: Remedy) -> Freshness<Kind> {
    Freshness::Behind { resource, wrote: version(wrote), read: version(read), remedy }
}

/// Contract: RS-19
#[test]
fn a_sync_waits_for_the_highest_version_written() {
    let mut record = Consistency::default();
    assert_eq!(record.check(&key("rs"), newest(1, 1), at(0)), Freshness::Unrecorded);
    for number in [10, 12, 11] {
        record.wrote_at(&key("rs"), &uid(1), Pods, version(number));
    }
    record.wrote_at(&key("rs"), &uid(1), ReplicaSets, version(20));
    assert_eq!(record.check(&key("rs"), newest(11, 20), at(0)), behind(Pods, 12, 11, Remedy::Woken));
    assert_eq!(record.check(&key("rs"), newest(12, 19), at(0)), behind(ReplicaSets, 20, 19, Remedy::Woken));
    assert_eq!(record.check(&key("other"), newest(1, 1), at(0)), Freshness::Unrecorded, "owners do not share");
    assert_eq!(record.check(&key("rs"), newest(12, 20), at(0)), Freshness::CaughtUp);
    assert_eq!(record.check(&key("rs"), newest(1, 1), at(0)), Freshness::Unrecorded, "the record was cleared");
    assert!(record.is_empty() && record.waiting.is_empty() && record.deadlines.is_empty());
}

/// A copy of one owner's record gives the same answers, and has no effect on the record: neither on the versions nor on
/// the time waited.
///
/// Contract: RS-19, B-17
#[test]
fn a_copy_has_one_owner_and_changes_apart() {
    let mut record = Consistency::default();
    record.wrote_at(&key("rs"), &uid(1), Pods, version(12));
    record.wrote_at(&key("other"), &uid(2), Pods, version(99));
    record.check(&key("rs"), newest(11, 1), at(0));
    let late = at(0) + WAIT_LIMIT;
    let mut copy = record.only(&key("rs"));
    assert_eq!((copy.len(), copy.written(&key("rs")).collect::<Vec<_>>()), (1, vec![(Pods, version(12))]));
    assert_eq!(copy.check(&key("rs"), newest(11, 1), late), behind(Pods, 12, 11, Remedy::Retry));
    assert_eq!(copy.check(&key("rs"), newest(12, 1), late), Freshness::CaughtUp);
    assert_eq!(record.caught_up(Pods, version(12)), [key("rs")], "it still waits");
    assert_eq!(record.check(&key("rs"), newest(12, 1), late), Freshness::CaughtUp);
}

/// Contract: RS-19
#[test]
fn a_record_belongs_to_one_object_and_not_to_a_name() {
    let mut record = Consistency::default();
    record.wrote_at(&key("rs"), &uid(1), Pods, version(100));
    record.clear(&key("rs"), Some(&uid(2)));
    assert_eq!(record.len(), 1, "another object's deletion does not clear it");
    record.wrote_at(&key("rs"), &uid(2), Pods, version(50));
    assert_eq!(
        record.check(&key("rs"), newest(60, 0), at(0)),
        Freshness::CaughtUp,
        "the old object's writes are forgotten"
    );
    record.wrote_at(&key("rs"), &uid(2), Pods, version(100));
    record.clear(&key("rs"), Some(&uid(2)));
    assert!(record.is_empty());
    record.wrote_at(&key("rs"), &uid(2), Pods, version(100));
    record.check(&key("rs"), newest(60, 0), at(0));
    record.clear(&key("rs"), None);
    assert!(record.is_empty() && record.waiting.is_empty() && record.deadlines.is_empty());
}

/// One cache says nothing of another, in whichever order the kinds stand.
///
/// Contract: B-17
#[test]
fn nobody_is_woken_by_the_cache_of_another_kind() {
    let mut record = Consistency::default();
    record.wrote_at(&key("a"), &uid(1), Pods, version(5));
    record.wrote_at(&key("b"), &uid(2), ReplicaSets, version(5));
    record.check(&key("a"), newest(1, 1), at(0));
    record.check(&key("b"), newest(1, 1), at(0));
    assert_eq!(record.caught_up(Pods, version(9)), [key("a")]);
    record.wrote_at(&key("a"), &uid(1), Pods, version(12));
    record.check(&key("a"), newest(9, 1), at(0));
    assert_eq!(record.caught_up(ReplicaSets, version(20)), [key("b")]);
    assert_eq!(record.caught_up(Pods, version(20)), [key("a")]);
}

/// Of a write that the server has lost nothing is proved by what was seen of another kind.
///
/// Contract: RS-19, B-01
#[test]
fn a_lost_write_is_not_proved_by_another_kind() {
    let mut record = Consistency::default();
    record.caught_up(Pods, version(10));
    record.wrote_at(&key("rs"), &uid(1), Pods, version(11));
    record.wrote_at(&key("rs"), &uid(1), ReplicaSets, version(12));
    assert_eq!(record.caught_up(Pods, version(3)), [key("rs")]);
    assert_eq!(record.check(&key("rs"), newest(3, 12), at(0)), Freshness::Unrecorded);
}

/// A store without a version is not waited for, as upstream; it proves nothing either.
///
/// Contract: RS-19, B-01
#[test]
fn only_known_versions_prove_anything() {
    let mut record = Consistency::default();
    record.wrote_at(&key("rs"), &uid(1), Pods, version(10));
    assert_eq!(record.check(&key("rs"), newest(0, 0), at(0)), Freshness::Unrecorded);
    record.wrote_at(&key("rs"), &uid(1), Pods, version(10));
    record.wrote_at(&key("rs"), &uid(1), Pods, ResourceVersion::UNKNOWN);
    assert_eq!(record.check(&key("rs"), newest(9, 0), at(0)), behind(Pods, 10, 9, Remedy::Woken));
    assert_eq!(record.check(&key("rs"), newest(10, 0), at(0)), Freshness::Unrecorded);
    record.wrote_at(&key("rs"), &uid(1), Pods, version(11));
    assert_eq!(record.check(&key("rs"), newest(11, 0), at(0)), Freshness::CaughtUp, "a new round is a new proof");
}

/// Upstream retries at a rate limit until the cache has caught up; here the owner is returned once, when it has.
///
/// Contract: B-17
#[test]
fn a_deferred_owner_is_woken_when_the_cache_has_caught_up() {
    let mut record = Consistency::default();
    for (name, number) in [("a", 10), ("b", 20), ("c", 15)] {
        record.wrote_at(&key(name), &uid(1), Pods, version(number));
        assert_eq!(record.check(&key(name), newest(5, 5), at(0)), behind(Pods, number, 5, Remedy::Woken));
    }
    assert_eq!(record.caught_up(ReplicaSets, version(100)), []);
    assert_eq!(record.caught_up(Pods, version(9)), []);
    assert_eq!(record.caught_up(Pods, version(17)), [key("a"), key("c")]);
    assert_eq!(record.caught_up(Pods, version(17)), [], "each is named once");
    assert_eq!(record.check(&key("a"), newest(17, 5), at(0)), Freshness::CaughtUp);
    assert_eq!(record.caught_up(Pods, version(20)), [key("b")]);
    assert_eq!(record.next_deadline(), None, "no owner waits");
}

/// Contract: B-17
#[test]
fn an_owner_that_waits_for_two_kinds_is_woken_for_each() {
    let mut record = Consistency::default();
    record.wrote_at(&key("rs"), &uid(1), Pods, version(10));
    record.wrote_at(&key("rs"), &uid(1), ReplicaSets, version(12));
    assert_eq!(record.check(&key("rs"), newest(5, 5), at(0)), behind(Pods, 10, 5, Remedy::Woken));
    assert_eq!(record.caught_up(ReplicaSets, version(12)), []);
    assert_eq!(record.caught_up(Pods, version(10)), [key("rs")]);
    assert_eq!(record.check(&key("rs"), newest(10, 5), at(4)), behind(ReplicaSets, 12, 5, Remedy::Woken));
    assert_eq!(record.next_deadline(), Some(at(10)), "the time limit is that of the first wait");
}

/// Contract: B-17
#[test]
fn an_owner_that_waited_too_long_is_retried_with_the_rate_limit() {
    let mut record = Consistency::new(Duration::from_secs(10));
    record.wrote_at(&key("rs"), &uid(1), Pods, version(10));
    record.wrote_at(&key("late"), &uid(1), Pods, version(10));
    record.check(&key("rs"), newest(5, 0), at(0));
    record.check(&key("late"), newest(5, 0), at(3));
    assert_eq!(record.next_deadline(), Some(at(10)));
    assert_eq!(record.expired(at(9)), []);
    assert_eq!(record.expired(at(10)), [key("rs")]);
    assert_eq!(record.expired(at(10)), []);
    assert_eq!(record.check(&key("rs"), newest(5, 0), at(10)), behind(Pods, 10, 5, Remedy::Retry));
    assert_eq!(record.check(&key("rs"), newest(6, 0), at(11)), behind(Pods, 10, 6, Remedy::Retry));
    assert_eq!(record.check(&key("rs"), newest(10, 0), at(12)), Freshness::CaughtUp);
    record.wrote_at(&key("rs"), &uid(1), Pods, version(20));
    assert_eq!(record.check(&key("rs"), newest(10, 0), at(12)), behind(Pods, 20, 10, Remedy::Woken), "a fresh limit");
    assert_eq!(record.expired(at(100)), [key("late"), key("rs")]);
}

/// A server that was restored from a backup continues from an earlier version, and may never reach the versions written
/// before. Owners that wait for those, or were retried for them, go on, and the lost writes prove nothing.
///
/// Contract: RS-19, B-01
#[test]
fn a_newest_version_that_falls_clears_what_was_written_of_its_kind() {
    let mut record = Consistency::default();
    assert_eq!(record.caught_up(Pods, version(95)), []);
    for name in ["waits", "retried", "unasked"] {
        record.wrote_at(&key(name), &uid(1), Pods, version(100));
    }
    record.wrote_at(&key("other kind"), &uid(1), ReplicaSets, version(100));
    record.check(&key("retried"), newest(95, 95), at(0));
    assert_eq!(record.expired(at(10)), [key("retried")]);
    assert_eq!(record.check(&key("retried"), newest(95, 95), at(10)), behind(Pods, 100, 95, Remedy::Retry));
    assert_eq!(record.check(&key("waits"), newest(95, 95), at(10)), behind(Pods, 100, 95, Remedy::Woken));

    assert_eq!(record.caught_up(Pods, version(50)), [key("retried"), key("unasked"), key("waits")]);
    for name in ["waits", "retried", "unasked"] {
        assert_eq!(record.check(&key(name), newest(50, 95), at(10)), Freshness::Unrecorded, "{name}");
    }
    assert_eq!(record.next_deadline(), None, "no owner waits");
    assert_eq!(record.check(&key("other kind"), newest(50, 95), at(10)), behind(ReplicaSets, 100, 95, Remedy::Woken));

    // From here on the versions of the restored server count.
    record.wrote_at(&key("waits"), &uid(1), Pods, version(52));
    assert_eq!(record.check(&key("waits"), newest(51, 95), at(10)), behind(Pods, 52, 51, Remedy::Woken));
    assert_eq!(record.caught_up(Pods, version(52)), [key("waits")]);
    assert_eq!(record.check(&key("waits"), newest(52, 95), at(10)), Freshness::CaughtUp);
}

proptest! {
    /// An owner is deferred exactly while some cache has not reached its highest write, and every deferred owner is
    /// woken once the caches have.
    ///
    /// Contract: RS-19, B-17
    #[test]
    fn owners_wait_exactly_while_a_cache_is_behind(
        writes in prop::collection::vec((0_u8..4, any::<bool>(), 1_u64..40), 0..30),
        steps in prop::collection::vec((any::<bool>(), 0_u64..8), 0..30),
    ) {
        let kind = |pods| if pods { Pods } else { ReplicaSets };
        let owner = |number: u8| key(&format!("rs-{number}"));
        let mut record = Consistency::default();
        let mut highest = [[0; 2]; 4];
        for (number, pods, at_version) in writes {
            record.wrote_at(&owner(number), &uid(number), kind(pods), version(at_version));
            let slot = &mut highest[usize::from(number)][usize::from(pods)];
            *slot = at_version.max(*slot);
        }
        let mut seen = [1, 1];
        let mut put_off = BTreeSet::new();
        let mut queued: BTreeSet<u8> = (0..4).collect();
        for (pods, progress) in steps.into_iter().chain([(true, 40), (false, 40), (true, 1), (false, 1)]) {
            while let Some(number) = queued.pop_first() {
                let is_behind = (0..2).any(|side| highest[usize::from(number)][side] > seen[side]);
                match record.check(&owner(number), newest(seen[1], seen[0]), at(0)) {
                    Freshness::Behind { .. } => {
                        prop_assert!(is_behind);
                        put_off.insert(number);
                    }
                    _ => {
                        prop_assert!(!is_behind);
                        highest[usize::from(number)] = [0; 2];
                    }
                }
            }
            seen[usize::from(pods)] += progress;
            for woken in record.caught_up(kind(pods), version(seen[usize::from(pods)])) {
                let number = (0..4).find(|number| owner(*number) == woken).expect("one of ours");
                prop_assert!(put_off.remove(&number));
                queued.insert(number);
            }
        }
        prop_assert!(put_off.is_empty(), "asleep for ever: {put_off:?}");
        prop_assert!(record.waiting.is_empty() && record.deadlines.is_empty());
    }
}
