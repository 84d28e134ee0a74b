//! What the recorder keeps and tells, in its own time.

use std::time::Duration;

use muster_controllers::plan::{Failure, Resource};
use muster_machinery::Remedy;
use muster_objects::meta::{ObjectKey, ResourceVersion};
use muster_objects::{Moment, Timestamp};

use super::*;
use crate::explain::Role;

const SET: &str = "ReplicaSet";
const SOURCE: Source = Source::Manager { role: Role::Leader };

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn wall(millis: u64) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000) + Duration::from_millis(millis)
}

fn pod(name: &str, version: u64) -> Woken {
    Woken::Event { change: Happened::Updated, kind: "Pod", name: name.into(), version: ResourceVersion(version) }
}

fn quiet(rule: &str, text: &str) -> Account {
    Account {
        summary: "leave the pods as they are".into(),
        why: vec![Reason::new(rule, text)],
        expects: None,
        blocked: None,
    }
}

/// A recorder with a key whose syncs it is told of.
struct Told {
    recorder: Recorder,
    key: ObjectKey,
}

impl Told {
    fn new(bytes: usize) -> Self {
        Self { recorder: Recorder::new(bytes), key: ObjectKey::new("default", "web") }
    }

    fn woken(&mut self, woken: Woken, now: u64) {
        self.recorder.woken((SET, &self.key), woken, at(now));
    }

    /// A sync from `began` to `ended`.
    fn sync(&mut self, began: u64, account: Account, requests: &[&str], ended: (u64, Ended<'_>)) {
        let subject = (SET, &self.key);
        self.recorder.began(subject, &[("Pod", ResourceVersion(9))], at(began), wall(began));
        self.recorder.found(subject, Some(ResourceVersion(7)), account);
        for name in requests {
            let answer = Ok(Some(ResourceVersion(10)));
            let took = Duration::from_millis(1);
            let answered = Answered { action: "create", kind: "Pod", name, took, answer };
            self.recorder.answered(subject, answered, at(ended.0));
        }
        self.recorder.ended(subject, ended.1, at(ended.0));
    }

    fn told(&mut self, now: u64) -> History {
        self.recorder.look((SET, &self.key), at(now)).told(None, SOURCE, wall(now))
    }

    fn waits(&mut self) -> Vec<(On<'static>, u128)> {
        let told = self.told(1_000_000);
        let last = told.syncs.last().expect("a sync");
        last.waits.iter().map(|wait| (wait.on.clone(), wait.time.as_millis())).collect()
    }
}

/// Contract: FR-01
#[test]
fn a_sync_is_told_with_its_causes_what_it_saw_did_and_was_answered() {
    let mut told = Told::new(1 << 20);
    for number in 0..5 {
        told.woken(pod(&format!("web-{number}"), number), 10);
    }
    let account = Account {
        expects: Some(Expects { creations: 2, deletions: Vec::new() }),
        ..quiet("RS-09", "0 of 2 wanted pods are there: 2 are missing")
    };
    told.sync(15, account, &["web-a", "web-b"], (18, Ended::Again(Duration::from_secs(30))));
    let history = told.told(20);
    let [sync] = &history.syncs[..] else { panic!("{history}") };
    assert_eq!((sync.at, sync.until, sync.took.as_millis(), sync.count), (wall(15), wall(18), 3, 1));
    assert_eq!((sync.woken.len(), sync.more), (3, 2));
    let (own, cache) = ((true, SET, 7), (false, "Pod", 9));
    assert_eq!(sync.saw.iter().map(|saw| (saw.object, &*saw.kind, saw.version)).collect::<Vec<_>>(), [own, cache]);
    assert_eq!(sync.writes.iter().map(|write| &*write.name).collect::<Vec<_>>(), ["web-a", "web-b"]);
    assert_eq!(sync.again, Again::AfterSeconds(30.0));
    assert_eq!(history.oldest, Some(wall(15)));
    let text = history.to_string();
    for expected in [
        "22:13:20.015  leave the pods as they are, in 3.0ms",
        "woken    by Pod web-0 updated at 0, Pod web-1 updated at 1, Pod web-2 updated at 2, and 2 more",
        "waited   5.0ms for a worker",
        "saw      itself at 7, the cache of Pod at 9",
        "RS-09    0 of 2 wanted pods are there: 2 are missing",
        "expects  2 creations, 0 deletions",
        "create   2 Pods, web-a to web-b, in 1.0ms to 1.0ms, half of them in 1.0ms",
        "again    after 30.0s, or when something changes",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
    }
    // What goes to a reader as JSON is the same when it is read, without what is absent.
    let json = history.to_json().expect("JSON");
    assert_eq!(serde_json::from_value::<History>(json.clone()).expect("a history"), history);
    assert!(json["syncs"][0].get("error").is_none() && json["syncs"][0].get("status").is_none(), "{json}");
}

/// Contract: FR-01
#[test]
fn each_wait_says_what_for() {
    let mut told = Told::new(1 << 20);
    // A worker.
    told.woken(pod("a", 1), 100);
    told.sync(130, quiet("RS-09", ""), &[], (140, Ended::Done));
    assert_eq!(told.waits(), [(On::Queue, 30)]);
    // The sync before it.
    told.woken(pod("a", 2), 200);
    told.recorder.began((SET, &told.key.clone()), &[], at(200), wall(200));
    told.woken(pod("a", 3), 210);
    told.recorder.ended((SET, &told.key.clone()), Ended::Done, at(250));
    told.sync(255, quiet("RS-09", ""), &[], (260, Ended::Done));
    assert_eq!(told.waits(), [(On::Work, 40), (On::Queue, 5)]);
    // A cache behind its own write.
    told.woken(pod("a", 4), 300);
    let behind = Account::behind(Resource::PODS, ResourceVersion(8), ResourceVersion(5), Remedy::Woken);
    told.sync(300, behind, &[], (300, Ended::PutOff));
    let history = told.told(310);
    assert_eq!(history.syncs.last().map(|sync| &*sync.summary), Some("wait for the cache"));
    assert!(history.to_string().contains("Now: it has waited 10ms for the cache of Pod to reach its own write at 8"));
    told.woken(Woken::Cache { kind: "Pod", version: ResourceVersion(8) }, 320);
    told.sync(320, quiet("RS-09", ""), &[], (321, Ended::Done));
    assert_eq!(told.waits(), [(On::Cache { kind: "Pod".into(), wrote: 8, read: 5 }, 20)]);
    // Expectations, seen by two syncs.
    for now in [400, 450] {
        told.woken(pod("a", 5), now);
        let pending = Account { blocked: Some(On::Expectations), ..quiet("EX-07", "") };
        told.sync(now, pending, &[], (now, Ended::Again(Duration::from_secs(300))));
    }
    told.woken(pod("a", 6), 470);
    told.sync(470, quiet("RS-09", ""), &[], (471, Ended::Done));
    assert_eq!(told.waits(), [(On::Expectations, 70)]);
    // A backoff.
    let failure = Failure::local("no");
    told.woken(pod("a", 7), 500);
    told.sync(500, quiet("RS-09", ""), &[], (510, Ended::Backoff(Duration::from_millis(40), Some(&failure))));
    assert!(told.told(520).to_string().contains("Now: it has waited 10ms for the rate limit of what failed"));
    told.sync(553, quiet("RS-09", ""), &[], (554, Ended::Done));
    assert_eq!(told.waits(), [(On::Backoff, 40), (On::Queue, 3)]);
    let history = told.told(560);
    assert_eq!(history.syncs.last().map(|sync| &sync.woken[..]), Some(&[Cause::Retry][..]));
    assert_eq!(history.waiting, None);
}

/// Contract: FR-01
#[test]
fn syncs_that_found_the_same_and_did_nothing_are_one_with_a_count() {
    let mut told = Told::new(1 << 20);
    for number in 0..10 {
        told.woken(pod("a", number), number * 10);
        told.sync(number * 10, quiet("EX-07", &format!("{number} to come")), &[], (number * 10 + 1, Ended::Done));
    }
    told.sync(200, quiet("RS-09", "all are there"), &[], (201, Ended::Done));
    told.sync(300, quiet("RS-09", "one is missing"), &["web-a"], (301, Ended::Done));
    told.sync(400, quiet("RS-09", "all are there"), &[], (401, Ended::Done));
    let history = told.told(500);
    let counts: Vec<_> = history.syncs.iter().map(|sync| (sync.count, sync.writes.len())).collect();
    assert_eq!(counts, [(10, 0), (1, 0), (1, 1), (1, 0)]);
    assert_eq!((history.syncs[0].at, history.syncs[0].until), (wall(0), wall(91)));
    assert_eq!(history.syncs[0].why[0].text, "9 to come", "the last one's");
    let recent =
        told.recorder.look((SET, &told.key), at(500)).told(Some(Duration::from_millis(210)), SOURCE, wall(500));
    assert_eq!(recent.syncs.len(), 2);
}

/// Contract: FR-01
#[test]
fn bytes_are_bounded_however_many_objects_there_are_and_the_newest_are_kept() {
    let mut recorder = Recorder::new(64 << 10);
    let key = |number: u64| ObjectKey::new("default", &*format!("web-{number}"));
    for number in 0..20_000 {
        recorder.woken((SET, &key(number)), pod("a", number), at(number));
    }
    for number in 0..20_000 {
        let key = key(number);
        recorder.began((SET, &key), &[], at(number), wall(number));
        recorder.found((SET, &key), None, quiet("RS-09", "all are there"));
        recorder.ended((SET, &key), Ended::Done, at(number));
        assert!(recorder.size() <= 64 << 10, "{} after {number}", recorder.size());
    }
    let told = |recorder: &mut Recorder, number| {
        recorder.look((SET, &key(number)), at(20_000)).told(None, SOURCE, wall(20_000)).syncs.len()
    };
    assert_eq!((told(&mut recorder, 0), told(&mut recorder, 19_999)), (0, 1));
}

#[test]
fn a_panic_and_a_sync_that_nobody_woke_are_told_too() {
    let mut told = Told::new(1 << 20);
    told.sync(10, quiet("RS-09", ""), &[], (20, Ended::Panicked(Duration::from_millis(5))));
    let history = told.told(30);
    assert_eq!(history.syncs[0].error.as_deref(), Some("it panicked"));
    assert!(history.syncs[0].woken.is_empty());
    assert_eq!(told.recorder.look(("Pod", &told.key), at(30)).told(None, SOURCE, wall(30)).syncs, []);
}

/// Another manager works for the namespace now: what a key waited for here is over, and what it did is kept.
///
/// Contract: FR-01
#[test]
fn what_was_left_to_another_waits_for_nothing() {
    let behind = || Account::behind(Resource::PODS, ResourceVersion(8), ResourceVersion(5), Remedy::Woken);
    for (namespace, waits) in [("default", 0), ("other", 1)] {
        let mut told = Told::new(1 << 20);
        told.woken(pod("a", 4), 300);
        told.sync(300, behind(), &[], (300, Ended::PutOff));
        assert_eq!(told.recorder.waits(SET, [], 9, at(310)).count, 1);
        told.recorder.left(|name| name == namespace);
        assert_eq!(told.recorder.waits(SET, [], 9, at(320)).count, waits);
        let history = told.told(330);
        assert_eq!((history.syncs.len(), history.waiting.is_some()), (1, waits == 1));
    }
}
