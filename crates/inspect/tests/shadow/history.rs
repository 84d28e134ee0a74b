//! The last lines about each owner: what is kept of them, and how they are told.

use std::time::Duration;

use muster_inspect::explain::Reason;
use muster_inspect::shadow::record::{Agreement, Difference, Line, Other, Planned, Record, Subject};
use muster_inspect::shadow::{Keeper, ShadowHistory, Totals};
use muster_objects::Timestamp;
use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};
use serde_json::json;

use super::stage::{Stage, set};

/// 2026-01-01T00:00:00Z, and so many milliseconds.
fn at(millis: i64) -> Timestamp {
    Timestamp::from_nanos((1_767_225_600_000 + millis) * 1_000_000)
}

fn subject(kind: &str, name: &str) -> Subject {
    Subject::new(kind, &ObjectKey::new("default", name), &Uid::new("u"), ResourceVersion(7))
}

fn created(name: &str, pod: &str) -> Record {
    let (action, did) = ("create-pod".to_owned(), format!("created pod {pod}"));
    Record::Agreement(Agreement { subject: subject("ReplicaSet", name), action, did })
}

fn told(keeper: &mut Keeper, name: &str, since: Option<u64>) -> ShadowHistory {
    keeper.told("ReplicaSet", &ObjectKey::new("default", name), since.map(Duration::from_millis), at(60_000))
}

/// Contract: FR-01
#[test]
fn the_oldest_lines_make_room_and_each_owner_has_its_own() {
    let mut keeper = Keeper::new(10_000);
    for number in 0..1_000 {
        let name = if number % 2 == 0 { "web" } else { "api" };
        keeper.keep(&Line::new(at(number * 10), created(name, &number.to_string())));
    }
    let web = told(&mut keeper, "web", None);
    let times: Vec<Timestamp> = web.lines.iter().map(|line| line.time.0).collect();
    assert!((10..40).contains(&times.len()) && times.is_sorted(), "{times:?}");
    assert_eq!(times.last(), Some(&at(9_980)));
    assert!(web.lines.iter().all(|line| line.record.subject().is_some_and(|subject| subject.name == "web")));
    let api = told(&mut keeper, "api", None);
    assert_eq!(api.oldest, web.oldest, "of whatever object");
    assert_eq!(web.oldest, times.first().min(api.lines.first().map(|line| &line.time.0)).copied());
    assert_eq!(told(&mut keeper, "other", None).lines, []);
    let deployment = keeper.told("Deployment", &ObjectKey::new("default", "web"), None, at(60_000));
    assert_eq!(deployment.lines, [], "of that kind");

    let last = told(&mut keeper, "web", Some(50_100)).lines.into_iter().map(|line| line.time.0);
    assert!(last.eq([9_900, 9_920, 9_940, 9_960, 9_980].map(at)));
    assert_eq!(told(&mut keeper, "web", Some(50_000)).lines, []);
}

/// Contract: FR-01
#[test]
fn what_is_about_no_owner_is_not_kept() {
    let mut keeper = Keeper::new(4_000);
    keeper.keep(&Line::new(at(0), Record::Summary(Totals::default())));
    let nothing = told(&mut keeper, "web", None);
    assert_eq!((nothing.oldest, &*nothing.lines), (None, &[][..]));
    assert!(nothing.to_string().ends_with("  Kept:    nothing\n\nNothing that was seen of it is kept.\n"), "{nothing}");
    let mut none = Keeper::new(0);
    none.keep(&Line::new(at(0), created("web", "a")));
    assert_eq!(told(&mut none, "web", None), nothing);
}

/// What Muster would do and what was done to a ReplicaSet: every record there is.
fn story() -> ShadowHistory {
    let subject = || subject("ReplicaSet", "web");
    let reason: Reason = serde_json::from_value(json!({"rule": "RS-09", "text": "1 of 3 are there"})).unwrap();
    let difference = |would: &str, did: &str, why: &str, row: Option<&str>| {
        Record::Difference(Difference {
            subject: subject(),
            action: "delete-pod".to_owned(),
            would: would.to_owned(),
            did: did.to_owned(),
            why: why.to_owned(),
            row: row.map(str::to_owned),
        })
    };
    let deleted = |pod: &str| {
        let (action, did) = ("delete-pod".to_owned(), format!("deleted pod {pod}"));
        Record::Other(Other { subject: subject(), action, did, why: "nothing was to be deleted".to_owned() })
    };
    let mut keeper = Keeper::new(10_000);
    let lines = [
        (1, Record::Plan(Planned { subject: subject(), would: "create 2 pods".to_owned(), why: vec![reason] })),
        (20, created("web", "b")),
        (30, created("web", "c")),
        (40, created("api", "a")),
        (5_000, deleted("a")),
        (6_000, deleted("b")),
        (20_000, difference("delete d", "deleted pod c", "another was deleted", None)),
        (30_000, difference("nothing", "created pod e", "the reference's own rule asks for it", Some("B-08"))),
    ];
    lines.into_iter().for_each(|(millis, record)| keeper.keep(&Line::new(at(millis), record)));
    told(&mut keeper, "web", None)
}

/// Contract: FR-02
#[test]
fn both_voices_are_told_with_times_and_rows() {
    let expected = "\
ReplicaSet default/web
  Source:  a shadow of the cluster's controllers, which writes nothing, at 2026-01-01T00:01:00Z
  Kept:    what was seen since 2026-01-01T00:00:00Z

2026-01-01
  00:00:00.001  Muster would      create 2 pods
                  RS-09           1 of 3 are there
  00:00:00.020  cluster agreed    created pod b, and 1 more like it until 00:00:00.030
  00:00:05.000  not judged        deleted pod a, and 1 more like it until 00:00:06.000
                  because         nothing was to be deleted
  00:00:20.000  cluster differed  deleted pod c
                  because         another was deleted
                  Muster would    delete d
  00:00:30.000  cluster differed  created pod e
                  B-08            the reference's own rule asks for it
                  Muster would    nothing
";
    assert_eq!(story().to_string(), expected);
}

/// Contract: FR-02
#[test]
fn its_json_has_the_lines_as_the_log_has_them() {
    let story = story();
    let mut json = serde_json::to_value(&story).unwrap();
    assert_eq!(json["kind"], "ShadowHistory");
    assert_eq!((&json["format"], &json["at"]), (&json!(1), &json!("2026-01-01T00:01:00.000000Z")));
    assert_eq!(json["object"], json!({"kind": "ReplicaSet", "namespace": "default", "name": "web"}));
    assert_eq!(json["oldest"], "2026-01-01T00:00:00.001000Z");
    let plan = json!({"version": 1, "time": "2026-01-01T00:00:00.001000Z", "record": "plan", "kind": "ReplicaSet",
        "namespace": "default", "name": "web", "uid": "u", "resourceVersion": 7, "would": "create 2 pods",
        "why": [{"rule": "RS-09", "text": "1 of 3 are there"}]});
    assert_eq!(json["lines"][0], plan);
    json["somethingNew"] = json!(1);
    assert_eq!(serde_json::from_value::<ShadowHistory>(json).unwrap(), story, "unknown fields are skipped");
}

/// Contract: FR-01
#[test]
fn a_plan_has_the_rules_that_it_was_made_by() {
    let mut stage = Stage::open();
    stage.set(set(3));
    let plans = stage.records().iter().filter_map(|record| match record {
        Record::Plan(planned) => Some(planned.clone()),
        _ => None,
    });
    let plans: Vec<Planned> = plans.collect();
    assert!(plans[0].would.starts_with("create 3 pods"), "{plans:?}");
    assert_eq!(plans[0].why[0].rule, "RS-09");
    assert_eq!(plans[0].why[0].text, "0 of 3 wanted pods are there: 3 are missing");
}
