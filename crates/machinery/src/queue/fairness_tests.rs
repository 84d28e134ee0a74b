//! Tests of who comes first in the queue: turns of namespaces, lanes and retries.

use std::collections::{BTreeMap, BTreeSet};

use muster_objects::ObjectKey;
use proptest::prelude::*;

use super::slots::Slots;
use super::turns::Turns;
use super::*;

/// A namespace and a number in it.
type Key = (u8, u32);

impl Namespaced for Key {
    type Namespace = u8;

    fn namespace(&self) -> &u8 {
        &self.0
    }
}

const QUIET: u8 = 0;
const NOISY: u8 = 1;

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Everything that is ready, in the order in which it is handed out.
fn served(queue: &mut WorkQueue<Key>, now: Moment) -> Vec<Key> {
    let next = || {
        let key = queue.get(now)?;
        queue.done(&key, now);
        Some(key)
    };
    std::iter::from_fn(next).collect()
}

/// kubernetes#25744: fifty thousand keys of one namespace do not hold up another.
///
/// Contract: B-27, SH-07
#[test]
fn a_namespace_waits_for_one_key_of_another_that_has_fifty_thousand() {
    let mut queue = WorkQueue::new();
    for number in 0..50_000 {
        queue.add((NOISY, number), at(0));
    }
    assert_eq!(queue.get(at(0)), Some((NOISY, 0)));
    queue.add((QUIET, 0), at(1));
    assert_eq!((queue.get(at(1)), queue.get(at(1))), (Some((NOISY, 1)), Some((QUIET, 0))));
    // A namespace that was just served waits for one turn of the other as well.
    queue.done(&(QUIET, 0), at(2));
    queue.add((QUIET, 0), at(2));
    assert_eq!((queue.get(at(2)), queue.get(at(2))), (Some((NOISY, 2)), Some((QUIET, 0))));
}

/// Contract: B-27
#[test]
fn a_key_of_a_namespaced_object_is_of_its_namespace() {
    let mut queue = WorkQueue::new();
    let keys = [("a", "1"), ("a", "2"), ("b", "1")].map(|(namespace, name)| ObjectKey::new(namespace, name));
    keys.iter().for_each(|key| queue.add(key.clone(), at(0)));
    let served: Vec<String> = std::iter::from_fn(|| queue.get(at(0))).map(|key| key.to_string()).collect();
    assert_eq!(served, ["a/1", "b/1", "a/2"]);
}

/// Contract: SH-07
#[test]
fn what_changed_comes_before_what_a_start_added_and_a_key_that_changes_is_moved() {
    let mut queue = WorkQueue::new();
    for number in 0..4 {
        queue.add_with((NOISY, number), Priority::Low, at(0));
    }
    queue.add((NOISY, 10), at(1));
    queue.add((NOISY, 2), at(2));
    // What waits as changed stays so, whatever a resync says of it.
    queue.add_with((NOISY, 10), Priority::Low, at(3));
    assert_eq!(queue.place(&(NOISY, 2), at(5)).ready_for, Some(millis(5)), "it waits since it was added first");
    assert_eq!(queue.len(), 5, "each once");
    assert_eq!(served(&mut queue, at(5)), [10, 2, 0, 1, 3].map(|number| (NOISY, number)));
}

/// A key in work that a resync adds, and then a change, is ready as changed.
///
/// Contract: SH-07, WQ-01
#[test]
fn the_highest_priority_with_which_a_key_in_work_was_added_counts() {
    for (first, then) in [(Priority::Low, Priority::Normal), (Priority::Normal, Priority::Low)] {
        let mut queue = WorkQueue::new();
        queue.add((QUIET, 0), at(0));
        queue.get(at(0));
        queue.add_with((QUIET, 1), Priority::Low, at(1));
        queue.add_with((QUIET, 0), first, at(1));
        queue.add_with((QUIET, 0), then, at(1));
        queue.done(&(QUIET, 0), at(2));
        assert_eq!(served(&mut queue, at(2)), [(QUIET, 0), (QUIET, 1)]);
    }
    let mut queue = WorkQueue::new();
    queue.add((QUIET, 0), at(0));
    queue.get(at(0));
    queue.add_with((QUIET, 0), Priority::Low, at(1));
    queue.add((QUIET, 1), at(1));
    queue.done(&(QUIET, 0), at(2));
    assert_eq!(served(&mut queue, at(2)), [(QUIET, 1), (QUIET, 0)], "low where nothing else asked for it");
}

/// The resync of a crowd comes to its end beside changes without end.
///
/// Contract: SH-07
#[test]
fn one_key_of_eight_is_of_low_priority() {
    let mut queue = WorkQueue::new();
    for number in 0..10 {
        queue.add_with((QUIET, number), Priority::Low, at(0));
    }
    let mut low = Vec::new();
    for turn in 0..80 {
        queue.add((NOISY, turn), at(0));
        let key = queue.get(at(0)).expect("there are keys");
        queue.done(&key, at(0));
        if key.0 == QUIET {
            low.push(turn);
        }
    }
    assert_eq!(low, [7, 15, 23, 31, 39, 47, 55, 63, 71, 79]);
    // Turns that nobody waited for are not saved up.
    queue.add_with((QUIET, 0), Priority::Low, at(1));
    assert!(served(&mut queue, at(1))[..7].iter().all(|key| key.0 == NOISY));
}

/// What was added while nobody worked was added by a start.
///
/// Contract: SH-07, B-12
#[test]
fn what_waits_when_the_work_begins_comes_after_what_changes_then() {
    let mut queue = WorkQueue::new();
    queue.add_with((QUIET, 0), Priority::Low, at(0));
    for number in 1..4 {
        queue.add((QUIET, number), at(0));
    }
    queue.lower_all();
    queue.add((QUIET, 3), at(1));
    queue.add((QUIET, 9), at(1));
    assert_eq!(queue.len(), 5);
    assert_eq!(served(&mut queue, at(1)), [3, 9, 0, 1, 2].map(|number| (QUIET, number)));
}

/// Fifty thousand keys that fail book nothing ahead: the first retry of another namespace comes when its own backoff is
/// over, and so do further ones, while it has few.
///
/// Contract: B-28
#[test]
fn a_quiet_namespace_is_retried_beside_fifty_thousand_keys_that_fail() {
    let mut queue = WorkQueue::new();
    let last = (0..50_000).map(|number| queue.add_rate_limited((NOISY, number), at(0))).last();
    assert_eq!(last, Some(Duration::from_secs(4_990)), "ten a second, after a hundred");
    let mut now = at(1_000);
    for backoff in [5, 10, 20, 40, 80] {
        let delay = queue.add_rate_limited((QUIET, 0), now);
        assert_eq!(delay, millis(backoff));
        now += delay;
        let place = queue.place(&(QUIET, 0), now);
        assert_eq!(place.due_in, Some(Duration::ZERO));
        let ready = served(&mut queue, now);
        assert!(ready.contains(&(QUIET, 0)), "{ready:?}");
    }
    // Its own bucket is empty: from here on it waits for one turn of the other, and for the tokens that it was lent.
    let delay = queue.add_rate_limited((QUIET, 0), now);
    assert!(delay <= millis(800), "{delay:?}");
}

/// A hundred namespaces fail: the total stays what it is, and each gets its share.
///
/// Contract: B-28, WQ-03
#[test]
fn all_retries_together_stay_bounded_and_are_shared_by_turns() {
    let mut queue = WorkQueue::new();
    for number in 0..100 {
        for namespace in 0..100 {
            queue.add_rate_limited((namespace, number), at(0));
        }
    }
    let mut by_namespace: BTreeMap<u8, u32> = BTreeMap::new();
    let mut total = 0;
    for second in 0..=60 {
        let now = at(second * 1_000);
        for key in served(&mut queue, now) {
            *by_namespace.entry(key.0).or_default() += 1;
            total += 1;
        }
        // A burst of 100, ten that are owed, and ten a second.
        assert!(total <= 110 + 10 * second, "{total} in {second} s");
    }
    assert!(total >= 100 + 10 * 59, "no token is lost: {total}");
    let (fewest, most) = (by_namespace.values().min(), by_namespace.values().max());
    assert!(most.unwrap() - fewest.unwrap() <= 2, "{by_namespace:?}");
}

/// Namespaces that are quiet, but many, do not keep a noisy one from its turns.
///
/// Contract: B-28
#[test]
fn the_reserve_is_a_tenth_of_the_tokens() {
    let mut queue = WorkQueue::new();
    for number in 0..2_000 {
        queue.add_rate_limited((NOISY, number), at(0));
    }
    let mut noisy = 0;
    for second in 1..=100 {
        // Twice as many as there are tokens, each from a namespace that has one retry in a second.
        for namespace in 2..22 {
            queue.add_rate_limited((namespace, 0), at(second * 1_000));
            queue.forget(&(namespace, 0));
        }
        noisy += served(&mut queue, at(second * 1_000)).iter().filter(|key| key.0 == NOISY).count();
    }
    assert!(noisy > 100 + 40, "{noisy}: nine tokens a second for 21 namespaces, after a hundred");
}

/// Contract: B-28
#[test]
fn nothing_is_kept_of_namespaces_that_are_done() {
    let mut retries = Retries::<u32>::default();
    let (mut keys, mut most) = (Slots::default(), 0);
    for number in 0..100_000 {
        let now = at(u64::from(number) * 100);
        let key = keys.insert(());
        assert!(retries.ask(&number, key, now, now).is_none());
        keys.remove(key);
        most = most.max(retries.buckets());
    }
    assert!(most < 100, "{most} buckets, of namespaces that retried within a second");
}

/// Of a delay and a wait for a token the first counts, and the other is dropped (WQ-02).
///
/// Contract: B-28, WQ-02
#[test]
fn a_delay_ends_the_wait_for_a_token() {
    let mut queue = WorkQueue::new();
    for number in 0..300 {
        queue.add_rate_limited((NOISY, number), at(0));
    }
    assert_eq!(queue.place(&(NOISY, 299), at(0)).due_in, Some(Duration::from_secs(20)));
    queue.add_after((NOISY, 299), Duration::from_secs(30), at(0));
    queue.add_after((NOISY, 298), Duration::from_secs(1), at(0));
    assert_eq!(queue.place(&(NOISY, 299), at(0)).due_in, Some(Duration::from_secs(20)), "the token comes first");
    assert_eq!(queue.place(&(NOISY, 298), at(0)).due_in, Some(Duration::from_secs(1)), "the timer comes first");
    assert_eq!((queue.delayed(), queue.first(usize::MAX, at(0)).len()), (300, 300), "each once");
    // Both are told among the first, by when they are due.
    assert!(queue.first(usize::MAX, at(0)).is_sorted_by_key(|(_, place)| place.due_in));
    let mut times: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
    for tenth in 0..500 {
        for key in served(&mut queue, at(tenth * 100)) {
            times.entry(key).or_default().push(tenth);
        }
    }
    assert_eq!((&times[&(NOISY, 298)], &times[&(NOISY, 299)]), (&vec![10], &vec![199]), "once, and a token was saved");
    assert_eq!((times.len(), queue.delayed(), queue.next_wakeup(at(0))), (300, 0, None));
}

/// A backoff that is longer than the wait for a token is waited for after it.
///
/// Contract: WQ-03, B-28
#[test]
fn a_token_that_comes_first_waits_for_the_backoff() {
    let mut queue = WorkQueue::new();
    for number in 0..101 {
        queue.add_rate_limited((NOISY, number), at(0));
    }
    let (floor, cap) = (Duration::from_secs(7), Duration::ZERO);
    assert_eq!(queue.add_rate_limited_between((NOISY, 200), floor, cap, at(0)), floor);
    // A second failure while it waits for its token counts, and delays nothing.
    assert_eq!(queue.add_rate_limited((NOISY, 100), at(0)), millis(100));
    assert_eq!(queue.num_requeues(&(NOISY, 100)), 2);
    assert_eq!(served(&mut queue, at(6_999)).len(), 101);
    assert_eq!(queue.next_wakeup(at(6_999)), Some(at(7_000)));
    assert_eq!(served(&mut queue, at(7_000)), [(NOISY, 200)]);
}

/// Contract: WQ-05, B-28
#[test]
fn shutting_down_drops_what_waits_for_a_token() {
    let mut queue = WorkQueue::new();
    for number in 0..200 {
        queue.add_rate_limited((NOISY, number), at(0));
        queue.forget(&(NOISY, number));
    }
    queue.shut_down();
    assert_eq!((queue.delayed(), queue.next_wakeup(at(0)), queue.keys.len()), (0, None, 0));
    assert_eq!(served(&mut queue, at(1_000_000)), []);
}

#[derive(Debug, Clone)]
enum Call {
    Add(Key, Priority),
    Retry(Key),
    Forget(Key),
    Get,
    Done(usize),
    Wait(u64),
    LowerAll,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let key = || (0_u8..4, 0_u32..6);
    let priority = prop_oneof![Just(Priority::Low), Just(Priority::Normal)];
    let call = prop_oneof![
        8 => (key(), priority).prop_map(|(key, priority)| Call::Add(key, priority)),
        6 => key().prop_map(Call::Retry),
        1 => key().prop_map(Call::Forget),
        6 => Just(Call::Get),
        5 => (0_usize..8).prop_map(Call::Done),
        2 => (0_u64..300).prop_map(Call::Wait),
        1 => Just(Call::LowerAll),
    ];
    prop::collection::vec(call, 0..400)
}

/// What the order must be: each lane as a list of namespaces, each with the list of its keys.
#[derive(Default)]
struct Model {
    normal: Vec<(u8, Vec<Key>)>,
    low: Vec<(u8, Vec<Key>)>,
    passed: u32,
}

impl Model {
    fn lane(&mut self, priority: Priority) -> &mut Vec<(u8, Vec<Key>)> {
        if priority == Priority::Low { &mut self.low } else { &mut self.normal }
    }

    fn push(&mut self, key: Key, priority: Priority) {
        let lane = self.lane(priority);
        match lane.iter_mut().find(|(namespace, _)| *namespace == key.0) {
            Some((_, keys)) => keys.push(key),
            None => lane.push((key.0, vec![key])),
        }
    }

    fn remove_low(&mut self, key: Key) {
        self.low.iter_mut().for_each(|(_, keys)| keys.retain(|other| *other != key));
        self.low.retain(|(_, keys)| !keys.is_empty());
    }

    fn pop(&mut self) -> Option<Key> {
        let low = !self.low.is_empty() && (self.normal.is_empty() || self.passed == 7);
        self.passed = if low || self.low.is_empty() { 0 } else { self.passed + 1 };
        self.pop_of(if low { Priority::Low } else { Priority::Normal })
    }

    fn pop_of(&mut self, priority: Priority) -> Option<Key> {
        let lane = self.lane(priority);
        if lane.is_empty() {
            return None;
        }
        let (namespace, mut keys) = lane.remove(0);
        let key = keys.remove(0);
        if !keys.is_empty() {
            lane.push((namespace, keys));
        }
        Some(key)
    }
}

proptest! {
    /// For any sequence of calls the keys are handed out in the order of the model, which is the one that `first` tells,
    /// and none is lost, none twice at once.
    ///
    /// Contract: SH-07, B-27, WQ-01
    #[test]
    fn keys_are_handed_out_by_lanes_and_turns(calls in calls()) {
        let (mut queue, mut model) = (WorkQueue::new(), Model::default());
        // The dirty keys with their priorities, and those in work.
        let mut dirty: BTreeMap<Key, Priority> = BTreeMap::new();
        let mut in_work: Vec<Key> = Vec::new();
        let mut now = 0;
        let add = |model: &mut Model, dirty: &mut BTreeMap<Key, Priority>, in_work: &[Key], key: Key, priority| {
            let was = dirty.get(&key).copied();
            if was >= Some(priority) {
                return;
            }
            dirty.insert(key, priority);
            if !in_work.contains(&key) {
                model.remove_low(key);
                model.push(key, priority);
            }
        };
        for call in calls {
            match call {
                Call::Add(key, priority) => {
                    queue.add_with(key, priority, at(now));
                    add(&mut model, &mut dirty, &in_work, key, priority);
                }
                Call::Retry(key) => { queue.add_rate_limited(key, at(now)); }
                Call::Forget(key) => queue.forget(&key),
                Call::Get => {
                    // What has come due is ready as changed, in the order in which it is told.
                    let before = queue.first(usize::MAX, at(now));
                    queue.advance(at(now));
                    let mut due: Vec<Key> = before
                        .iter()
                        .map(|(key, _)| *key)
                        .filter(|key| queue.place(key, at(now)).due_in.is_none())
                        .filter(|key| queue.place(key, at(now)).ready_for.is_some())
                        .filter(|key| dirty.get(key) != Some(&Priority::Normal))
                        .filter(|key| queue.keys[queue.keys.find(key).unwrap()].priority == Priority::Normal)
                        .collect();
                    // Of those that come due at once, the queue's own order counts.
                    let order: Vec<Key> = queue.first(usize::MAX, at(now)).iter().map(|(key, _)| *key).collect();
                    due.sort_by_key(|key| order.iter().position(|other| other == key));
                    due.into_iter().for_each(|key| add(&mut model, &mut dirty, &in_work, key, Priority::Normal));
                    let got = queue.get(at(now));
                    prop_assert_eq!(got, model.pop());
                    if let Some(key) = got {
                        prop_assert!(!in_work.contains(&key), "twice at once");
                        dirty.remove(&key);
                        in_work.push(key);
                    }
                }
                Call::Done(at_work) => {
                    if !in_work.is_empty() {
                        let key = in_work.remove(at_work % in_work.len());
                        queue.done(&key, at(now));
                        if let Some(priority) = dirty.get(&key) {
                            model.push(key, *priority);
                        }
                    }
                }
                Call::Wait(delay) => now += delay,
                Call::LowerAll => {
                    queue.lower_all();
                    while let Some(key) = model.pop_of(Priority::Normal) {
                        dirty.insert(key, Priority::Low);
                        model.push(key, Priority::Low);
                    }
                }
            }
            let ready = dirty.keys().filter(|key| !in_work.contains(key)).count();
            let told = queue.first(usize::MAX, at(now));
            prop_assert_eq!(queue.delayed(), told.iter().filter(|(_, place)| place.due_in.is_some()).count());
            prop_assert!(queue.len() >= ready);
        }
        in_work.iter().for_each(|key| queue.done(key, at(now)));
        while let Some(wakeup) = queue.next_wakeup(at(now)) {
            now = now.max(wakeup.as_nanos().div_ceil(1_000_000));
            let told: Vec<Key> = {
                queue.advance(at(now));
                queue.first(queue.len(), at(now)).into_iter().map(|(key, _)| key).collect()
            };
            for expected in told {
                let key = queue.get(at(now));
                prop_assert_eq!(key, Some(expected), "as `first` told");
                queue.done(&expected, at(now));
                dirty.remove(&expected);
            }
        }
        prop_assert!(queue.is_drained() && dirty.is_empty() && queue.delayed() == 0, "{:?}", dirty);
    }

    /// Whatever waits, a namespace waits for at most one key of each other, keys of one namespace keep their order, and
    /// the order told is that of handing out.
    ///
    /// Contract: B-27
    #[test]
    fn a_namespace_waits_for_one_turn_of_each_other(steps in prop::collection::vec((0_u8..5, 0_u8..4), 1..300)) {
        let mut turns: Turns<u8, (u8, usize)> = Turns::default();
        let mut slots = BTreeMap::new();
        // The keys of others that were handed out since a namespace came to wait, or had its last turn.
        let mut passed: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
        let mut last: BTreeMap<u8, usize> = BTreeMap::new();
        for (number, (namespace, step)) in steps.into_iter().enumerate() {
            match step {
                0 | 1 => {
                    passed.entry(namespace).or_default();
                    slots.insert((namespace, number), turns.push(&namespace, (namespace, number)));
                }
                2 => {
                    let told: Vec<_> = turns.iter().copied().collect();
                    prop_assert_eq!(told.len(), turns.len());
                    let Some((from, item)) = turns.pop() else { continue };
                    prop_assert_eq!(Some(&(from, item)), told.first());
                    prop_assert!(last.insert(from, item).is_none_or(|before| before < item), "first in, first out");
                    slots.remove(&(from, item));
                    passed.remove(&from);
                    for (waits, others) in &mut passed {
                        prop_assert!(others.insert(from), "{} waits for a second turn of {}", waits, from);
                    }
                    if slots.keys().any(|(namespace, _)| *namespace == from) {
                        passed.entry(from).or_default();
                    }
                }
                _ => {
                    let first = slots.iter().find(|((other, _), _)| *other == namespace);
                    let Some((&(namespace, number), &slot)) = first else { continue };
                    prop_assert_eq!(turns.remove(slot), (namespace, number));
                    slots.remove(&(namespace, number));
                    if !slots.keys().any(|(other, _)| *other == namespace) {
                        passed.remove(&namespace);
                    }
                }
            }
            prop_assert_eq!((turns.len(), turns.is_empty()), (slots.len(), slots.is_empty()));
        }
        let told: Vec<_> = turns.iter().copied().collect();
        let handed: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        prop_assert_eq!(told, handed);
    }

    /// However retries come: never more than the burst, what is owed, and ten a second, in any stretch of time; and each
    /// that waits gets its token in the end.
    ///
    /// Contract: B-28, WQ-03
    #[test]
    fn retries_are_bounded_in_any_stretch_of_time(asks in prop::collection::vec((0_u64..200, 0_u8..6), 1..600)) {
        let mut retries: Retries<u8> = Retries::default();
        let mut keys = Slots::default();
        let (mut now, mut waiting) = (0, 0_usize);
        let mut granted: Vec<u64> = Vec::new();
        for (wait, namespace) in asks {
            now += wait / 10;
            while retries.grant(at(now)).is_some() {
                granted.push(now);
                waiting -= 1;
            }
            match retries.ask(&namespace, keys.insert(()), at(now), at(now)) {
                Some(_) => waiting += 1,
                None => granted.push(now),
            }
        }
        while let Some(next) = retries.next() {
            now = now.max(next.as_nanos().div_ceil(1_000_000));
            prop_assert!(retries.grant(at(now)).is_some(), "a token was promised");
            granted.push(now);
            waiting -= 1;
        }
        prop_assert_eq!(waiting, 0);
        for (place, began) in granted.iter().enumerate() {
            for (count, ended) in (1_u64..).zip(&granted[place..]) {
                prop_assert!(count <= 110 + (ended - began) / 100 + 1, "{} within {} ms", count, ended - began);
            }
        }
    }
}
