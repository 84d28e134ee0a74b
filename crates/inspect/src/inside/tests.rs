//! What is told of a manager, in the tests' own time.

use muster_controllers::plan::Failure;
use muster_machinery::WorkQueue;
use muster_objects::meta::ResourceVersion;
use proptest::prelude::*;

use super::*;
use crate::explain::Role;
use crate::history::{Account, Ended, Happened, Recorder, Woken};

const SET: &str = "ReplicaSet";

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn wall(millis: u64) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000) + Duration::from_millis(millis)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn changed() -> Woken {
    Woken::Event { change: Happened::Updated, kind: "Pod", name: "web-1".into(), version: ResourceVersion(3) }
}

/// A sync of a key that found this.
fn sync(recorder: &mut Recorder, name: &str, began: u64, blocked: Option<On<'static>>, ended: Ended<'_>) {
    let key = key(name);
    recorder.began((SET, &key), &[], at(began), wall(began));
    let account = Account { summary: "wait".into(), why: Vec::new(), expects: None, blocked, uid: None };
    recorder.found((SET, &key), None, account);
    recorder.ended((SET, &key), ended, at(began + 1));
}

fn asked(queue: &mut WorkQueue<ObjectKey>, recorder: &Recorder, now: u64) -> Queue {
    queue.advance(at(now));
    let looked = Looked {
        ready: queue.len(),
        working: queue.in_work(),
        delayed: queue.delayed(),
        first: queue.first(MOST_KEYS, at(now)),
    };
    let waits = recorder.waits(SET, looked.first.iter().map(|(key, _)| key), MOST_KEYS, at(now));
    Queue::of("replicaset-controller", SET, looked, waits)
}

/// Contract: PG-02
#[test]
fn each_key_says_what_it_waits_for() {
    let (mut queue, mut recorder) = (WorkQueue::new(), Recorder::new(1 << 20));
    let expected = Some(On::Expectations);
    sync(&mut recorder, "blocked", 0, expected.clone(), Ended::Done);
    sync(&mut recorder, "older", 0, Some(On::Cache { kind: "Pod".into(), wrote: 9, read: 7 }), Ended::PutOff);
    sync(&mut recorder, "failed", 5, None, Ended::Backoff(millis(100), Some(&Failure::unanswered("no"))));
    queue.add_rate_limited_between(key("failed"), millis(100), millis(100), at(6));
    sync(&mut recorder, "timer", 5, None, Ended::Again(millis(50)));
    queue.add_after(key("timer"), millis(50), at(6));
    for (name, now) in [("working", 10), ("again", 12), ("ready", 14)] {
        recorder.woken((SET, &key(name)), changed(), at(now));
        queue.add(key(name), at(now));
    }
    for name in ["working", "again"] {
        assert_eq!(queue.get(at(15)), Some(key(name)));
        recorder.began((SET, &key(name)), &[], at(15), wall(15));
    }
    recorder.woken((SET, &key("again")), changed(), at(16));
    queue.add(key("again"), at(16));
    // Blocked in its last sync, and woken since.
    sync(&mut recorder, "unblocked", 2, expected, Ended::Done);
    recorder.woken((SET, &key("unblocked")), changed(), at(17));
    queue.add(key("unblocked"), at(17));

    let told = asked(&mut queue, &recorder, 20);
    assert_eq!((told.working, told.ready, told.waiting), (2, 2, 4));
    let keys: Vec<_> = told.keys.iter().map(|key| (&*key.name, key.state, &key.on, key.time, key.due)).collect();
    let waited = |time| Some(millis(time));
    let behind = Some(On::Cache { kind: "Pod".into(), wrote: 9, read: 7 });
    assert_eq!(
        keys,
        [
            ("working", State::Working, &None, waited(5), None),
            ("again", State::Working, &Some(On::Work), waited(5), None),
            ("ready", State::Ready, &Some(On::Queue), waited(6), None),
            ("unblocked", State::Ready, &Some(On::Queue), waited(3), None),
            ("blocked", State::Waiting, &Some(On::Expectations), waited(20), None),
            ("older", State::Waiting, &behind, waited(20), None),
            ("timer", State::Waiting, &None, None, waited(36)),
            ("failed", State::Waiting, &Some(On::Backoff), waited(14), waited(86)),
        ]
    );
    assert_eq!(told.keys[7].retries, 1);
    let text = told.to_string();
    for words in [
        "Queue of the replicaset-controller: 2 in work, 2 ready, 4 waiting\n",
        "default/again                            in work for 5ms, and woken again\n",
        "default/ready                            ready for 6ms\n",
        "default/older                            has waited 20ms for the cache of Pod to reach its own write at 9, from 7\n",
        "default/timer                            waits for its time, due in 36ms\n",
        "has waited 14ms for the rate limit of what failed, due in 86ms, 1 failures\n",
    ] {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
}

proptest! {
    /// However many keys there are, few are named, those in work before all others.
    ///
    /// Contract: PG-02
    #[test]
    fn few_keys_are_named_and_all_are_counted(working in 0_usize..60, ready in 0_usize..60, delayed in 0_usize..60, blocked in 0_usize..60) {
        let (mut queue, mut recorder) = (WorkQueue::new(), Recorder::new(1 << 20));
        for number in 0..working + ready {
            queue.add(key(&format!("key-{number}")), at(0));
        }
        for _ in 0..working {
            queue.get(at(0));
        }
        for number in 0..delayed {
            queue.add_after(key(&format!("delayed-{number}")), millis(1 + number as u64 * 7 % 13), at(0));
        }
        for number in 0..blocked {
            sync(&mut recorder, &format!("blocked-{number}"), number as u64 * 7 % 13, Some(On::Expectations), Ended::Done);
        }
        let told = asked(&mut queue, &recorder, 0);
        prop_assert_eq!((told.working, told.ready, told.waiting), (working as u64, ready as u64, (delayed + blocked) as u64));
        prop_assert_eq!(told.keys.len(), MOST_KEYS.min(working + ready + delayed + blocked));
        prop_assert!(told.keys.is_sorted_by_key(|key| key.state));
        prop_assert_eq!(told.keys.iter().filter(|key| key.state == State::Working).count(), working.min(MOST_KEYS));
        let waiting: Vec<&Key> = told.keys.iter().filter(|key| key.state == State::Waiting).collect();
        prop_assert!(waiting.is_sorted_by_key(|key| (key.due, std::cmp::Reverse(key.time))), "{waiting:?}");
    }
}

/// Contract: PG-02
#[test]
fn the_last_syncs_are_told_by_when_they_ended() {
    let mut recorder = Recorder::new(1 << 20);
    for number in 0..30 {
        // Of each three one is quiet, and repeated.
        match number % 3 {
            0 => sync(&mut recorder, "quiet", number, None, Ended::Done),
            _ => {
                let failed = Failure::unanswered("no");
                sync(
                    &mut recorder,
                    &format!("failed-{number}"),
                    number,
                    None,
                    Ended::Backoff(millis(1), Some(&failed)),
                );
            }
        }
    }
    let told = recorder.last(4).told();
    let names: Vec<_> = told.iter().map(|sync| (&*sync.name, sync.count, sync.error.is_some())).collect();
    assert_eq!(names, [("failed-29", 1, true), ("failed-28", 1, true), ("quiet", 10, false), ("failed-26", 1, true)]);
    assert_eq!((told[2].at, told[2].until), (wall(0), wall(28)));
    assert_eq!(recorder.last(100).told().len(), 21);
    assert!(recorder.last(0).told().is_empty());
}

/// Contract: PG-02
#[test]
fn writes_are_counted_by_how_they_were_answered() {
    let mut tally = Tally::default();
    let failed = |code| Failure { code, ..Failure::unanswered("no") };
    let version = Ok(Some(ResourceVersion(5)));
    for (action, answer) in [
        ("create", version),
        ("create", version),
        ("status", Ok(None)),
        ("read", version),
        ("patch", Err(&failed(409))),
        ("delete", Err(&failed(404))),
        ("create", Err(&failed(0))),
        ("read", Err(&failed(500))),
    ] {
        tally.answered((action, "Pod"), answer, at(0));
    }
    let done = [("create".to_owned(), 2), ("status".to_owned(), 1)].into();
    assert_eq!(tally.writes(), Writes { done, conflicts: 1, failed: 2 });
}

/// Contract: PG-02
#[test]
fn a_cache_is_behind_for_as_long_as_a_write_is_not_seen_in_it() {
    let mut tally = Tally::default();
    let wrote = |tally: &mut Tally, version, now| {
        tally.answered(("create", "Pod"), Ok(Some(ResourceVersion(version))), at(now));
    };
    let lag = |tally: &Tally, now| tally.lag("Pod", at(now)).map(|lag| lag.as_millis());
    tally.reached("Pod", ResourceVersion(10), at(0));
    assert_eq!(lag(&tally, 5), None, "nothing was written");
    wrote(&mut tally, 12, 10);
    wrote(&mut tally, 13, 15);
    assert_eq!(lag(&tally, 30), Some(20), "the first is waited for");
    tally.reached("Pod", ResourceVersion(11), at(40));
    assert_eq!(lag(&tally, 40), Some(30));
    tally.reached("Pod", ResourceVersion(13), at(50));
    assert_eq!(lag(&tally, 90), Some(40), "so long it took");
    wrote(&mut tally, 14, 100);
    assert_eq!(lag(&tally, 110), Some(40), "the next has waited for less");
    assert_eq!(lag(&tally, 200), Some(100));
    tally.reached("Pod", ResourceVersion(14), at(203));
    assert_eq!(lag(&tally, 300), Some(103));
    wrote(&mut tally, 14, 310);
    assert_eq!(lag(&tally, 310), Some(0), "it was there before the answer");
    wrote(&mut tally, 90, 320);
    tally.reached("Pod", ResourceVersion(7), at(330));
    assert_eq!(lag(&tally, 999), Some(0), "a restored server never comes to what was lost");
    assert_eq!(tally.lag("ReplicaSet", at(0)), None);
}

/// Contract: PG-02
#[test]
fn what_is_absent_is_left_out_and_what_is_read_is_the_same() {
    let mut inside = Inside::new(Source::Manager { role: Role::Leader }, wall(1));
    let unmet = |name: &str, since| Unmet { owner: key(name), creations: 1, deletions: 2, since: at(since) };
    let informer = Informer {
        kind: "Pod".to_owned(),
        synced: true,
        objects: 3,
        version: 12,
        changed_ago: Some(millis(1_500)),
        lag: None,
    };
    inside.informers = vec![informer.clone(), Informer { synced: false, changed_ago: None, ..informer }];
    inside.expect(SET, (vec![unmet("young", 500)], 70), at(1_000));
    inside.expect("ReplicationController", (vec![unmet("old", 0)], 1), at(1_000));
    let mut recorder = Recorder::new(1 << 20);
    sync(&mut recorder, "web", 0, None, Ended::Done);
    inside.syncs = recorder.last(9).told();
    let json = serde_json::to_value(&inside).expect("JSON");
    assert_eq!(serde_json::from_value::<Inside>(json.clone()).expect("the same"), inside);
    assert_eq!((&json["kind"], &json["format"]), (&"Inside".into(), &1.into()));
    assert_eq!(
        (&json["informers"][0]["changedSecondsAgo"], &json["informers"][0]["version"]),
        (&1.5.into(), &"12".into())
    );
    assert!(json["informers"][1].get("changedSecondsAgo").is_none() && json["syncs"][0].get("error").is_none());
    assert_eq!((&json["unmet"], &json["expectations"][0]["name"]), (&71.into(), &"old".into()));
    let text = inside.to_string();
    for words in [
        "Inside the manager that leads, at 2023-11-14T22:13:20Z\n",
        "  Pod                          3 objects, at version 12, last heard 1.5s ago\n",
        "  Pod                    not synced\n",
        "Expectations of 71 owners are not met\n  ReplicationController default/old        1 creations, 2 deletions, since 1.0s\n",
        "  and 69 more\n",
        "22:13:20.000  ReplicaSet default/web                   wait\n",
        "Writes since the start: none; 0 conflicts, 0 failed\n",
    ] {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
}
