//! Tests of event correlation; the cases of client-go's `events_cache_test.go` among them.

use muster_objects::{EventType, ObjectReference, Uid};
use serde_json::Value;

use super::*;

fn wall(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(1_767_366_245 + seconds)
}

fn at(seconds: u64) -> Moment {
    Moment::ORIGIN + Duration::from_secs(seconds)
}

fn involved(name: &str) -> ObjectReference {
    ObjectReference {
        kind: "ReplicaSet".into(),
        namespace: "ns".into(),
        name: name.into(),
        uid: Uid::from_bytes([7; 16]),
        api_version: "apps/v1".into(),
        resource_version: ResourceVersion(42),
        field_path: String::new(),
    }
}

fn event(message: &str, seconds: i64) -> Event {
    let involved = involved("rs");
    Event::new(involved, "replicaset-controller", EventType::Normal, "SuccessfulCreate", message, wall(seconds))
}

/// Correlates an event that happens at a second, by both clocks.
fn send(correlator: &mut EventCorrelator, event: Event, seconds: u64) -> Correlated {
    correlator.correlate(event, wall(seconds.try_into().unwrap()), at(seconds))
}

fn created(correlated: Correlated) -> Event {
    match correlated {
        Correlated::Create(event) => event,
        other => panic!("not created: {other:?}"),
    }
}

/// Contract: EV-01, EV-02
#[test]
fn a_new_event_passes_as_it_is() {
    let mut correlator = EventCorrelator::new();
    assert_eq!(send(&mut correlator, event("Created pod: a", 0), 0), Correlated::Create(event("Created pod: a", 0)));
}

/// Contract: EV-02
#[test]
fn a_repeat_patches_count_and_time_of_the_first() {
    let mut correlator = EventCorrelator::new();
    let mut first = created(send(&mut correlator, event("Error creating: quota", 0), 0));
    first.metadata.resource_version = ResourceVersion(77);
    correlator.update_state(&first);
    for (count, seconds) in [(2, 5), (3, 9)] {
        let again = event("Error creating: quota", seconds);
        let Correlated::Patch { event, body } = send(&mut correlator, again, seconds.try_into().unwrap()) else {
            panic!("a repeat is a patch");
        };
        assert_eq!((event.metadata.name.as_str(), event.count), (first.metadata.name.as_str(), count));
        assert_eq!((event.first_timestamp, event.last_timestamp), (Some(wall(0)), Some(wall(seconds))));
        assert_eq!(event.metadata.resource_version, ResourceVersion(77));
        let patch: Value = serde_json::from_slice(&body).unwrap();
        let expected = serde_json::json!({
            "count": count,
            "lastTimestamp": wall(seconds).to_string(),
            "message": "Error creating: quota",
        });
        assert_eq!(patch, expected);
    }
}

/// An event with any other difference is a new event.
///
/// Contract: EV-02
#[test]
fn another_event_is_no_repeat() {
    let mut correlator = EventCorrelator::new();
    let base = event("message", 0);
    let mut others = vec![base.clone(); 6];
    others[1].message = "other".into();
    others[2].reason = "Other".into();
    others[3].kind = EventType::Warning;
    others[4].involved_object.name = "other".into();
    others[5].source.component = "other".into();
    for event in others {
        assert!(matches!(send(&mut correlator, event, 0), Correlated::Create(_)));
    }
    assert!(matches!(send(&mut correlator, base, 0), Correlated::Patch { .. }));
}

/// Contract: EV-02
#[test]
fn from_the_tenth_distinct_message_on_they_are_combined() {
    let mut correlator = EventCorrelator::new();
    // Of so long a name that no name of an event on its own begins with it.
    let event = |message: &str, at| {
        let mut event = event(message, at);
        event.involved_object.name = "x".repeat(250);
        event
    };
    for number in 1..10 {
        let sent = event(&format!("Created pod: {number}"), 0);
        assert_eq!(created(send(&mut correlator, sent.clone(), number)), sent, "message {number} is on its own");
    }
    let combined = created(send(&mut correlator, event("Created pod: 10", 20), 20));
    assert_eq!(combined.message, "(combined from similar events): Created pod: 10");
    assert_eq!(
        (combined.count, combined.first_timestamp, combined.last_timestamp),
        (1, Some(wall(20)), Some(wall(20)))
    );
    assert_eq!(combined.metadata.name, format!("{}.{:x}", "x".repeat(250), wall(20).as_nanos()));
    assert_eq!((&*combined.source.component, &*combined.reporting_component), ("replicaset-controller", ""));
    for (count, number) in [(2, 11), (3, 12), (4, 10)] {
        let next = event(&format!("Created pod: {number}"), 30);
        let Correlated::Patch { event, body } = send(&mut correlator, next, 30) else { panic!("combined: a patch") };
        assert_eq!((event.metadata.name, event.count), (combined.metadata.name.clone(), count));
        assert_eq!(event.message, format!("(combined from similar events): Created pod: {number}"));
        let patch: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(patch["message"], Value::from(event.message), "the message of the combined one follows");
    }
    assert!(
        matches!(send(&mut correlator, event("Created pod: 3", 31), 31), Correlated::Patch { event, .. }
        if event.message == "Created pod: 3"),
        "the ones before stay on their own"
    );
}

/// Contract: EV-02
#[test]
fn six_hundred_seconds_after_the_last_look_alike_it_begins_anew() {
    for (pause, combined) in [(600, true), (601, false)] {
        let mut correlator = EventCorrelator::new();
        for number in 0..10 {
            send(&mut correlator, event(&number.to_string(), 0), 0);
        }
        let next = event("next", pause);
        let correlated = send(&mut correlator, next, pause.try_into().unwrap());
        let (Correlated::Create(event) | Correlated::Patch { event, .. }) = correlated else { panic!("not spam") };
        assert_eq!(event.message.starts_with("(combined"), combined, "after {pause} s");
    }
}

/// Contract: EV-02
#[test]
fn each_look_alike_begins_the_six_hundred_seconds_anew() {
    let mut correlator = EventCorrelator::new();
    for number in 0..9 {
        send(&mut correlator, event(&number.to_string(), 0), 100 * number);
    }
    let correlated = send(&mut correlator, event("next", 900), 900);
    assert_eq!(created(correlated).message, "(combined from similar events): next");
}

/// Contract: EV-02
#[test]
fn other_reasons_are_not_combined() {
    let mut correlator = EventCorrelator::new();
    for number in 0..9 {
        send(&mut correlator, event(&number.to_string(), 0), 0);
        let other = Event { reason: "FailedCreate".into(), ..event(&number.to_string(), 0) };
        assert!(matches!(send(&mut correlator, other.clone(), 0), Correlated::Create(event) if event == other));
    }
}

/// Contract: EV-03
#[test]
fn twenty_five_at_once_then_one_in_three_hundred_seconds() {
    let mut correlator = EventCorrelator::new();
    let mut passes = |seconds, object: &str| {
        let involved = involved(object);
        let event = Event::new(involved, "replicaset-controller", EventType::Normal, "R", "m", wall(0));
        !matches!(correlator.correlate(event, wall(0), at(seconds)), Correlated::Dropped)
    };
    assert_eq!((0..100).filter(|_| passes(0, "rs")).count(), 25);
    assert!(passes(0, "other"), "each object has its own measure");
    assert!(!passes(299, "rs"));
    assert!(passes(300, "rs"));
    assert!(!passes(301, "rs"));
    assert!(passes(900, "rs") && passes(900, "rs"));
    assert!(!passes(900, "rs"));
}

/// Events that are dropped are still counted, as upstream does.
///
/// Contract: EV-02, EV-03
#[test]
fn dropped_repeats_are_in_the_next_count() {
    let mut correlator = EventCorrelator::new();
    for _ in 0..40 {
        send(&mut correlator, event("m", 0), 0);
    }
    let Correlated::Patch { event, .. } = send(&mut correlator, event("m", 300), 300) else { panic!("a patch") };
    assert_eq!(event.count, 41);
}

/// Contract: EV-03
#[test]
fn the_memory_is_bounded() {
    let mut correlator = EventCorrelator::new();
    for number in 0..5_000 {
        let involved = ObjectReference { name: format!("rs-{number}"), ..involved("rs") };
        let event = Event::new(involved, "c", EventType::Normal, "R", "m", wall(0));
        assert!(matches!(correlator.correlate(event, wall(0), at(0)), Correlated::Create(_)));
    }
    let sizes = [correlator.aggregates.len(), correlator.observations.len(), correlator.buckets.len()];
    assert_eq!(sizes, [MAX_ENTRIES; 3]);
}
