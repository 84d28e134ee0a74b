//! What the recorder keeps and tells, in its own time.

use std::time::Duration;

use muster_controllers::plan::{Failure, Resource};
use muster_machinery::Remedy;
use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};
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
        uid: None,
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
fn another_object_of_the_name_is_told_apart() {
    let mut told = Told::new(1 << 20);
    for (number, uid) in (0..).zip([Some("one"), Some("one"), None, Some("one"), Some("two"), Some("two"), None]) {
        let account = match uid {
            Some(uid) => Account { uid: Some(Uid::new(uid)), ..quiet("RS-09", "all are there") },
            None => Account::gone(),
        };
        told.sync(number * 10, account, &[], (number * 10 + 1, Ended::Done));
    }
    let history = told.told(100);
    let found: Vec<_> = history.syncs.iter().map(|sync| (sync.count, sync.uid.as_deref())).collect();
    assert_eq!(found, [(2, Some("one")), (1, None), (1, Some("one")), (2, Some("two")), (1, None)]);
    let text = history.to_string();
    let line = "  From here on it is another object of that name, of uid two\n";
    assert_eq!((text.matches(line).count(), text.matches("From here on").count()), (1, 1), "{text}");
    let json = history.to_json().expect("JSON");
    assert_eq!((&json["syncs"][0]["uid"], json["syncs"][1].get("uid")), (&Value::from("one"), None));
    assert_eq!(serde_json::from_value::<History>(json).expect("a history"), history);
}

/// Contract: FR-02
#[test]
fn syncs_that_are_older_than_was_asked_for_are_not_told_to_be_lost() {
    // One in the ring, and one that may be followed by more of the same.
    for (requests, ended) in [(&["web-a"][..], 20), (&[][..], 30)] {
        let mut told = Told::new(1 << 20);
        let ask = |told: &Told, since: Option<u64>| {
            let since = since.map(Duration::from_millis);
            told.recorder.look((SET, &told.key), at(5_000)).told(since, SOURCE, wall(5_000))
        };
        assert!(ask(&told, Some(100)).is_empty() && ask(&told, None).is_empty());
        assert!(ask(&told, Some(100)).to_string().contains("None of its syncs is kept."));
        told.sync(10, quiet("RS-09", ""), requests, (ended, Ended::Done));
        for (since, syncs, earlier) in [(None, 1, None), (Some(4_990), 1, None), (Some(100), 0, Some(wall(ended)))] {
            let history = ask(&told, since);
            assert_eq!((history.syncs.len(), history.earlier, history.is_empty()), (syncs, earlier, false));
            let said = "None of its syncs was in that time: the last one ended at 2023-11-14T22:13:20Z.";
            let text = history.to_string();
            assert_eq!(text.contains(said), earlier.is_some(), "{text}");
            assert!(!text.contains("is kept."), "{text}");
            // One who knows nothing of it finds what was always there, and the other way round.
            let mut json = history.to_json().expect("JSON");
            assert_eq!(json.get("earlier").is_some(), earlier.is_some(), "{json}");
            assert_eq!(serde_json::from_value::<History>(json.clone()).expect("a history"), history);
            json.as_object_mut().expect("an object").remove("earlier");
            let older = serde_json::from_value::<History>(json).expect("a history of an older manager");
            assert_eq!(older, History { earlier: None, ..history });
        }
    }
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

/// Deployments with a deadline, or what fails and is tried again: that something is to be looked at much later keeps out
/// no other object.
///
/// Contract: FR-01
#[test]
fn what_is_due_much_later_keeps_out_nothing_new() {
    let failure = Failure::local("no");
    let later = Duration::from_secs(600);
    let cases: [(&str, &[&str], Ended<'_>); 4] = [
        ("a timer after a quiet sync", &[], Ended::Again(later)),
        ("a timer after a write", &["web-a"], Ended::Again(later)),
        ("a retry", &[], Ended::Backoff(later, Some(&failure))),
        ("a panic", &[], Ended::Panicked(later)),
    ];
    for (case, requests, ended) in cases {
        let mut told = Told::new(64 << 10);
        let causes = |told: &mut Told, now| told.told(now).syncs.last().expect("a sync").woken.clone();
        told.key = ObjectKey::new("default", "soon");
        told.sync(0, quiet("DEP-17", "progressing"), &[], (1, Ended::Again(Duration::from_secs(30))));
        for number in 1..=300 {
            told.key = ObjectKey::new("default", &*format!("web-{number}"));
            let now = number * 10;
            told.woken(pod("a", number), now);
            told.sync(now + 5, quiet("DEP-17", "progressing"), requests, (now + 6, ended));
            let event =
                Cause::Event { change: Happened::Updated, kind: "Pod".into(), name: "a".into(), version: number };
            assert_eq!(causes(&mut told, now + 7), [event], "{case}: {number}");
            assert_eq!(told.waits(), [(On::Queue, 5)], "{case}: {number}");
            let size = told.recorder.size();
            assert!(size <= 64 << 10, "{case}: {size} after {number}");
        }
        // Of what waits, that which is due first is known.
        told.key = ObjectKey::new("default", "soon");
        told.sync(30_006, quiet("DEP-17", "progressing"), &["web-a"], (30_007, Ended::Done));
        assert_eq!(causes(&mut told, 30_008), [Cause::Timer], "{case}");
        assert_eq!(told.waits(), [(On::Queue, 5)], "{case}");
    }
}

/// Contract: FR-01
#[test]
fn bytes_are_bounded_where_everything_waits_too() {
    let mut told = Told::new(64 << 10);
    for number in 0..2_000 {
        told.key = ObjectKey::new("default", &*format!("web-{number}"));
        let subject = (SET, &told.key);
        told.recorder.began(subject, &[], at(number), wall(number));
        told.recorder.found(subject, None, quiet("RS-09", "all are there"));
        // Woken while it runs, it waits for ever: no worker takes it.
        told.recorder.woken(subject, pod("a", number), at(number));
        told.recorder.ended(subject, Ended::Again(Duration::from_secs(600)), at(number));
        assert!(told.recorder.size() <= 64 << 10, "{} after {number}", told.recorder.size());
        assert_eq!(told.told(number).syncs.len(), 1, "{number}");
    }
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
