//! Tests of the work queue; the cases of client-go's queue tests among them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Keys of one namespace.
macro_rules! of_one_namespace {
    ($($key:ty)*) => {$(
        impl Namespaced for $key {
            type Namespace = ();

            fn namespace(&self) -> &() {
                &()
            }
        }
    )*};
}

of_one_namespace!(&'static str i32 u8);

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The state of a key at each stage.
///
/// Contract: WQ-01, WQ-02, WQ-03
#[test]
fn a_key_has_a_place() {
    let mut queue = WorkQueue::new();
    assert_eq!(queue.place(&"a", at(0)), Place::default());
    queue.add("a", at(0));
    assert_eq!(queue.place(&"a", at(0)), Place { ready_for: Some(Duration::ZERO), ..Place::default() });
    assert_eq!(queue.get(at(0)), Some("a"));
    assert_eq!(queue.place(&"a", at(0)), Place { in_work_for: Some(Duration::ZERO), ..Place::default() });
    queue.add("a", at(1));
    let both = Place { ready_for: Some(millis(2)), in_work_for: Some(millis(3)), ..Place::default() };
    assert_eq!(queue.place(&"a", at(3)), both);
    queue.done(&"a", at(1));
    queue.get(at(1));
    let delay = queue.add_rate_limited("a", at(1));
    queue.done(&"a", at(1));
    let expected = Place { due_in: Some(delay), requeues: 1, ..Place::default() };
    assert_eq!(queue.place(&"a", at(1)), expected);
}

/// Contract: WQ-01
#[test]
fn a_key_queued_twice_is_served_once() {
    let mut queue = WorkQueue::new();
    for key in ["a", "b", "a", "a", "c", "b"] {
        queue.add(key, at(0));
    }
    assert_eq!(queue.len(), 3);
    let served: Vec<_> = std::iter::from_fn(|| queue.get(at(1))).collect();
    assert_eq!(served, ["a", "b", "c"], "first in, first out");
}

/// Contract: WQ-01
#[test]
fn a_key_added_while_in_work_is_served_again_after() {
    let mut queue = WorkQueue::new();
    queue.add("a", at(0));
    assert_eq!(queue.get(at(0)), Some("a"));
    queue.add("a", at(1));
    queue.add("a", at(1));
    assert_eq!((queue.get(at(1)), queue.len()), (None, 0), "never worked on by two workers");
    queue.done(&"a", at(2));
    assert_eq!(queue.get(at(2)), Some("a"));
    queue.done(&"a", at(3));
    assert_eq!(queue.get(at(3)), None);
    assert!(queue.is_drained());
    assert_eq!(queue.keys.len(), 0, "nothing is remembered of a key that is done");
}

/// A delay that ends while the key is in work adds it again when the work is done.
///
/// Contract: WQ-01, WQ-02
#[test]
fn a_delay_that_ends_during_work_waits_for_its_end() {
    let mut queue = WorkQueue::new();
    queue.add("a", at(0));
    assert_eq!(queue.get(at(0)), Some("a"));
    queue.add_after("a", millis(10), at(0));
    assert_eq!(queue.get(at(20)), None);
    queue.done(&"a", at(21));
    assert_eq!(queue.get(at(21)), Some("a"));
}

/// Contract: WQ-02
#[test]
fn the_earliest_of_several_delays_counts() {
    let mut queue = WorkQueue::new();
    queue.add_after("late then early", millis(100), at(0));
    queue.add_after("late then early", millis(30), at(10));
    queue.add_after("early then late", millis(50), at(0));
    queue.add_after("early then late", millis(500), at(0));
    assert_eq!(queue.next_wakeup(at(0)), Some(at(40)));
    assert_eq!(queue.get(at(39)), None);
    assert_eq!(queue.get(at(40)), Some("late then early"));
    assert_eq!(queue.next_wakeup(at(40)), Some(at(50)));
    assert_eq!(queue.get(at(50)), Some("early then late"));
    assert_eq!((queue.next_wakeup(at(50)), queue.get(at(10_000))), (None, None), "each delay counts once");
}

/// Contract: WQ-02
#[test]
fn no_delay_is_now_and_equal_delays_keep_their_order() {
    let mut queue = WorkQueue::new();
    for key in ["c", "a", "b"] {
        queue.add_after(key, millis(5), at(0));
    }
    queue.add_after("now", Duration::ZERO, at(0));
    assert_eq!(queue.next_wakeup(at(0)), Some(at(0)));
    assert_eq!(queue.get(at(0)), Some("now"));
    let served: Vec<_> = std::iter::from_fn(|| queue.get(at(5))).collect();
    assert_eq!(served, ["c", "a", "b"]);
}

/// Contract: WQ-03
#[test]
fn a_key_backs_off_from_5_ms_to_1000_s_until_it_is_forgotten() {
    let mut queue = WorkQueue::new();
    let mut now = at(0);
    let mut expected = 5;
    for failures in 0..25 {
        assert_eq!(queue.num_requeues(&"a"), failures);
        let delay = queue.add_rate_limited("a", now);
        assert_eq!(delay, millis(expected), "after {failures} failures");
        assert_eq!(queue.next_wakeup(now), Some(now + delay));
        now += delay;
        assert_eq!(queue.get(now), Some("a"));
        queue.done(&"a", now);
        expected = (expected * 2).min(1_000_000);
    }
    assert_eq!(expected, 1_000_000, "the backoff reached its end");
    assert_eq!(queue.num_requeues(&"other"), 0);
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
    assert_eq!(queue.add_rate_limited("a", now), millis(5));
}

/// Contract: WQ-03
#[test]
fn the_bucket_that_all_keys_share_holds_back_when_it_is_empty() {
    let mut queue = WorkQueue::new();
    let delays: Vec<_> = (0..103).map(|key| queue.add_rate_limited(key, at(0))).collect();
    assert!(delays[..100].iter().all(|delay| *delay == millis(5)), "the key's own backoff is the longer");
    assert_eq!(delays[100..], [millis(100), millis(200), millis(300)], "the bucket's wait is the longer");
}

/// Contract: B-09
#[test]
fn a_refusal_that_can_end_backs_off_to_its_cap() {
    let mut queue = WorkQueue::new();
    let cap = Duration::from_secs(60);
    let mut now = at(0);
    let mut longest = Duration::ZERO;
    for _ in 0..30 {
        let delay = queue.add_rate_limited_at_most("a", cap, now);
        longest = longest.max(delay);
        now += delay;
        queue.get(now);
        queue.done(&"a", now);
    }
    assert_eq!(longest, cap);
}

/// The queue never gives up a key, however often it fails.
///
/// Contract: WQ-04
#[test]
fn a_key_is_retried_without_limit() {
    let mut queue = WorkQueue::new();
    let mut now = at(0);
    for _ in 0..10_000 {
        now += queue.add_rate_limited("a", now);
        assert_eq!(queue.get(now), Some("a"));
        queue.done(&"a", now);
    }
    assert_eq!(queue.num_requeues(&"a"), 10_000);
}

/// Contract: WQ-05
#[test]
fn shutting_down_refuses_keys_and_lets_work_finish() {
    let mut queue = WorkQueue::new();
    queue.add("in work", at(0));
    queue.add("dirty", at(0));
    assert_eq!((queue.get(at(0)), queue.get(at(0))), (Some("in work"), Some("dirty")));
    queue.add("dirty", at(1));
    queue.add("ready", at(1));
    queue.add_after("waiting", millis(5), at(1));
    queue.shut_down();
    assert!(queue.is_shutting_down());
    for key in ["new", "in work"] {
        queue.add(key, at(2));
        queue.add_after(key, millis(1), at(2));
        queue.add_rate_limited(key, at(2));
    }
    assert_eq!(queue.get(at(2)), Some("ready"));
    queue.done(&"ready", at(2));
    assert!(!queue.is_drained(), "two keys are in work");
    queue.done(&"in work", at(3));
    queue.done(&"dirty", at(3));
    assert_eq!(queue.get(at(3)), Some("dirty"), "what was asked for before the end is still served");
    queue.done(&"dirty", at(4));
    assert!(queue.is_drained());
    assert_eq!((queue.get(at(100_000)), queue.next_wakeup(at(100_000))), (None, None));
}

#[derive(Default, Debug, PartialEq)]
struct Counts {
    added: u32,
    retried: u32,
    queued: Vec<Duration>,
    worked: Vec<Duration>,
}

impl QueueObserver for Counts {
    fn added(&mut self) {
        self.added += 1;
    }

    fn started(&mut self, queued: Duration) {
        self.queued.push(queued);
    }

    fn finished(&mut self, worked: Duration) {
        self.worked.push(worked);
    }

    fn retried(&mut self) {
        self.retried += 1;
    }
}

/// The cases of client-go's metrics tests.
///
/// Contract: CM-08
#[test]
fn an_observer_hears_what_the_metrics_need() {
    let mut queue = WorkQueue::observed(Counts::default());
    queue.add("a", at(0));
    queue.add("a", at(10));
    assert_eq!(queue.get(at(50)), Some("a"));
    queue.add("a", at(75));
    queue.add_after("b", millis(25), at(75));
    assert_eq!(queue.unfinished_work(at(80)), (millis(30), millis(30)));
    queue.done(&"a", at(90));
    assert_eq!(queue.get(at(95)), Some("a"), "queued since 75");
    assert_eq!(queue.get(at(107)), Some("b"), "queued since the delay was noticed to be over");
    assert_eq!(queue.unfinished_work(at(110)), (millis(18), millis(15)));
    queue.done(&"a", at(110));
    queue.done(&"b", at(111));
    queue.done(&"b", at(500));
    let expected = Counts {
        added: 3,
        retried: 1,
        queued: vec![millis(50), millis(20), millis(0)],
        worked: vec![millis(40), millis(15), millis(4)],
    };
    assert_eq!(*queue.observer(), expected);
}

#[derive(Debug, Clone)]
enum Call {
    Add(u8),
    AddAfter(u8, u64),
    AddRateLimited(u8),
    Forget(u8),
    Get,
    Done(u8),
    Wait(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let key = 0_u8..4;
    let call = prop_oneof![
        4 => key.clone().prop_map(Call::Add),
        2 => (key.clone(), 0_u64..40).prop_map(|(key, delay)| Call::AddAfter(key, delay)),
        1 => key.clone().prop_map(Call::AddRateLimited),
        1 => key.clone().prop_map(Call::Forget),
        4 => Just(Call::Get),
        4 => key.prop_map(Call::Done),
        2 => (0_u64..30).prop_map(Call::Wait),
    ];
    prop::collection::vec(call, 0..200)
}

proptest! {
    /// For any sequence of calls: no key is handed out while it is in work, no key that was added is lost, and every
    /// delayed key is handed out in the end.
    ///
    /// Contract: WQ-01, WQ-02, WQ-03
    #[test]
    fn nothing_is_lost_and_nothing_is_worked_on_twice_at_once(calls in calls()) {
        let mut queue = WorkQueue::new();
        let mut now = 0;
        let mut in_work = BTreeSet::new();
        // The keys that must be handed out, and from when: at once, and after a delay.
        let mut owed: BTreeSet<u8> = BTreeSet::new();
        let mut owed_later: BTreeMap<u8, u64> = BTreeMap::new();
        let owe_later = |owed: &mut BTreeMap<u8, u64>, key, due: u64| {
            owed.entry(key).and_modify(|earliest| *earliest = due.min(*earliest)).or_insert(due);
        };
        let fall_due = |owed: &mut BTreeSet<u8>, later: &mut BTreeMap<u8, u64>, now: u64| {
            owed.extend(later.iter().filter(|(_, due)| **due <= now).map(|(key, _)| *key));
            later.retain(|_, due| *due > now);
        };
        let mut requeues: BTreeMap<u8, u32> = BTreeMap::new();
        for call in calls {
            match call {
                Call::Add(key) => {
                    queue.add(key, at(now));
                    owed.insert(key);
                }
                Call::AddAfter(key, delay) => {
                    queue.add_after(key, millis(delay), at(now));
                    if delay == 0 {
                        owed.insert(key);
                    } else {
                        owe_later(&mut owed_later, key, now + delay);
                    }
                }
                Call::AddRateLimited(key) => {
                    let delay = queue.add_rate_limited(key, at(now));
                    owe_later(&mut owed_later, key, now + u64::try_from(delay.as_millis()).unwrap());
                    *requeues.entry(key).or_default() += 1;
                }
                Call::Forget(key) => {
                    queue.forget(&key);
                    requeues.remove(&key);
                }
                Call::Get => {
                    fall_due(&mut owed, &mut owed_later, now);
                    if let Some(key) = queue.get(at(now)) {
                        prop_assert!(in_work.insert(key), "{key} is in work already");
                        prop_assert!(owed.remove(&key), "{key} came without having been asked for");
                    }
                }
                Call::Done(key) => {
                    if in_work.remove(&key) {
                        queue.done(&key, at(now));
                    }
                }
                Call::Wait(delay) => now += delay,
            }
            for key in 0..4 {
                prop_assert_eq!(queue.num_requeues(&key), requeues.get(&key).copied().unwrap_or(0));
            }
            prop_assert_eq!(queue.in_work(), in_work.len());
            let first = queue.first(usize::MAX, at(now));
            let (working, ready) = (in_work.len(), queue.len());
            let rank = |(_, place): &(_, Place)| (place.in_work_for.is_none(), place.ready_for.is_none());
            prop_assert!(first.is_sorted_by_key(|key| rank(key).0) && first[working..].is_sorted_by_key(|key| rank(key).1));
            prop_assert!(first[working + ready..].is_sorted_by_key(|(_, place)| place.due_in));
            let keys: BTreeSet<u8> = first.iter().map(|(key, _)| *key).collect();
            prop_assert_eq!(keys.len(), first.len(), "each once");
            let known = (0..4).filter(|key| {
                let Place { ready_for, in_work_for, due_in, requeues: _ } = queue.place(key, at(now));
                ready_for.is_some() || in_work_for.is_some() || due_in.is_some()
            });
            prop_assert_eq!(keys, known.collect::<BTreeSet<_>>());
            prop_assert_eq!(queue.first(2, at(now)), &first[..first.len().min(2)]);
        }
        for key in std::mem::take(&mut in_work) {
            queue.done(&key, at(now));
        }
        while let Some(wakeup) = queue.next_wakeup(at(now)) {
            now = now.max(wakeup.as_nanos().div_ceil(1_000_000));
            let key = queue.get(at(now)).expect("the wakeup was for a key");
            fall_due(&mut owed, &mut owed_later, now);
            owed.remove(&key);
            queue.done(&key, at(now));
        }
        prop_assert!(owed.is_empty() && owed_later.is_empty(), "never served: {owed:?} {owed_later:?}");
        prop_assert!(queue.is_drained());
    }
}
