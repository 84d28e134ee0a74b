//! Storage against a simple model of it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use muster_tree::{Map, Value, json};
use proptest::prelude::*;

use super::{
    Common, Cursor, Draft, Entry, Event, EventKind, Fallen, Of, Range, Refused, ResourceId, Retention, Storage,
};

const PODS: ResourceId = ResourceId(0);
const OTHERS: ResourceId = ResourceId(1);

fn object(namespace: &str, name: &str, value: u8) -> Map {
    let object = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "labels": {"value": value.to_string()}},
        "spec": {"value": value},
    });
    match object {
        Value::Object(object) => object,
        _ => unreachable!("it is an object"),
    }
}

fn draft(namespace: &str, name: &str, value: u8, previous: Option<&Entry>) -> Draft {
    Draft::new(&object(namespace, name, value), format!("{value}\0"), previous)
}

fn storage(bytes: usize) -> Arc<Storage> {
    let storage = Storage::new(1, Retention { window: Duration::from_secs(300), bytes });
    assert_eq!(["/pods", "/others"].map(|name| storage.add_resource(name, |_| None)), [PODS, OTHERS]);
    Arc::new(storage)
}

fn names(entries: &[Arc<Entry>]) -> Vec<String> {
    entries.iter().map(|e| format!("{}/{}", e.namespace, e.name)).collect()
}

/// Contract: API-07
#[test]
fn versions_are_one_counter_for_all_resources() {
    let storage = storage(1 << 20);
    let a = storage.create(PODS, draft("n", "a", 1, None)).expect("a new name");
    let b = storage.create(OTHERS, draft("n", "a", 1, None)).expect("a new name");
    let a2 = storage.update(PODS, draft("n", "a", 2, Some(&a)), a.version).expect("the present version");
    assert_eq!((a.version, b.version, a2.version, storage.version()), (1, 2, 3, 3));
    let text = String::from_utf8_lossy(&a2.json().joined()).into_owned();
    assert!(text.contains("\"resourceVersion\":\"3\""), "{text}");
    let item = a2.item_tail().joined();
    assert!(!item.starts_with(b"{") && !String::from_utf8_lossy(&item).contains("apiVersion"));
}

/// Contract: API-22
#[test]
fn a_large_member_is_kept_once_for_all_versions() {
    let storage = storage(1 << 20);
    let object = |spec: usize, status: &str| {
        let text = "x".repeat(spec);
        json!({
            "kind": "K", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "n", "uid": "u"},
            "another": 1, "spec": {"text": text}, "status": {"phase": status},
        })
    };
    let draft =
        |object: &Value, last: Option<&Entry>| Draft::new(object.as_object().expect("an object"), String::new(), last);
    // A small one, a large one, the same with another status, another large one, and its deletion.
    let mut last = storage.create(PODS, draft(&object(10, "New"), None)).expect("a new name");
    let mut middles = vec![last.json().nth(1)];
    for (size, status) in [(20_000, "New"), (20_000, "Old"), (20_001, "Old")] {
        let next = draft(&object(size, status), Some(&last));
        assert!(!last.same_as(&next));
        last = storage.update(PODS, next, last.version).expect("the present version");
        assert!(last.same_as(&draft(&object(size, status), Some(&last))));
        let mut expected = object(size, status);
        expected["metadata"]["resourceVersion"] = json!(last.version.to_string());
        assert_eq!(Value::Object(last.object()), expected);
        let line: Value = serde_json::from_slice(&last.line().joined()).expect("a line");
        assert_eq!(line, json!({"type": "MODIFIED", "object": expected}));
        assert_eq!(last.line_at(last.version, "MODIFIED").joined(), last.line().joined());
        middles.push(last.json().nth(1));
    }
    let gone = storage.delete(PODS, "n", "a", last.version).expect("the present version");
    let line: Value = serde_json::from_slice(&gone.line().joined()).expect("a line");
    assert_eq!((&line["type"], &line["object"]["status"]["phase"]), (&json!("DELETED"), &json!("Old")));
    middles.push(gone.json().nth(1));
    let places: Vec<_> = middles.iter().map(|middle| middle.as_ref().map(|bytes| bytes.as_ptr())).collect();
    assert_eq!(places.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true, true, true]);
    assert_eq!((places[1] == places[2], places[2] == places[3], places[3] == places[4]), (true, false, true));
}

/// What was written last is held as a tree: of so many versions, and none that reads as something else than was written.
#[test]
fn an_object_reads_as_its_text_says_whether_its_tree_is_held_or_not() {
    let storage = storage(1 << 20);
    let present = |name: usize| storage.get(PODS, "n", &name.to_string()).expect("it is there");
    let read = |entry: &Entry| (entry.object(), Map::stored(&entry.json().joined(), "metadata"));
    for name in 0..300 {
        // A whole float is written without a fraction; and what is large has no tree.
        let held = ["a", "b"].map(|text| json!({"a": text, "list": [1, {"b": null}], "empty": {}}));
        let others = [json!({"a": 1.0}), json!({"a": [{"b": -0.0}]}), json!({"a": "x".repeat(20_000)})];
        let written = if name % 50 == 7 { &others[name / 50 % 3] } else { &held[name % 2] };
        let metadata = json!({"name": name.to_string(), "namespace": "n", "uid": "u", "resourceVersion": "0"});
        let object = json!({"kind": "K", "apiVersion": "v1", "metadata": metadata, "spec": written});
        let draft = Draft::new(object.as_object().expect("an object"), String::new(), None);
        storage.create(PODS, draft).expect("a new name");
    }
    let held = (0..300).filter(|name| present(*name).is_held()).collect::<Vec<_>>();
    assert_eq!((held.len(), held.last(), held.contains(&257)), (super::TREES, Some(&299), false));
    for name in 0..300 {
        let (read, text) = read(&present(name));
        // As a value and not only as text: a whole number is no float.
        assert!(read == text && format!("{read:?}") == format!("{text:?}"), "{name}");
    }
    let before = present(299);
    let next = Draft::new(&before.object(), String::new(), Some(&before));
    let next = storage.update(PODS, next, before.version).expect("the present version");
    assert_eq!((before.is_held(), next.is_held()), (false, true));
    assert_eq!(next.object()["metadata"]["resourceVersion"], json!(next.version.to_string()));
    let gone = storage.delete(PODS, "n", "299", next.version).expect("the present version");
    assert_eq!((next.is_held(), gone.is_held()), (false, false));
}

/// Contract: API-11
#[test]
fn a_commit_names_the_version_it_was_made_from() {
    let storage = storage(1 << 20);
    let a = storage.create(PODS, draft("n", "a", 1, None)).expect("a new name");
    assert!(matches!(storage.create(PODS, draft("n", "a", 9, None)), Err(Refused::Exists(found)) if found == a));
    assert_eq!(storage.update(PODS, draft("n", "a", 2, None), 7).err(), Some(Refused::Changed));
    assert_eq!(storage.update(PODS, draft("n", "b", 2, None), 1).err(), Some(Refused::Missing));
    assert_eq!(storage.delete(PODS, "n", "a", 7).err(), Some(Refused::Changed));
    let gone = storage.delete(PODS, "n", "a", a.version).expect("the present version");
    assert_eq!((gone.version, storage.count(PODS)), (2, 0));
    assert!(String::from_utf8_lossy(&gone.json().joined()).contains("\"resourceVersion\":\"2\""));
}

/// Contract: API-07
#[test]
fn a_draft_that_says_the_same_is_recognised() {
    let storage = storage(1 << 20);
    let a = storage.create(PODS, draft("n", "a", 1, None)).expect("a new name");
    assert!(a.same_as(&draft("n", "a", 1, Some(&a))));
    assert!(!a.same_as(&draft("n", "a", 2, Some(&a))));
}

/// Contract: API-07
#[test]
fn the_same_object_is_the_same_bytes_however_it_was_put_together() {
    // Telling that nothing changed depends on it: a map that kept the order of insertion would not do.
    let one = json!({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"a": 1, "b": {"c": 1, "d": 2}}});
    let other = json!({"spec": {"b": {"d": 2, "c": 1}, "a": 1}, "metadata": {"name": "a"}, "kind": "Pod"});
    let draft = |value: &Value| Draft::new(value.as_object().expect("an object"), String::new(), None);
    let storage = storage(1 << 20);
    let entry = storage.create(PODS, draft(&one)).expect("a new name");
    assert!(entry.same_as(&draft(&other)));
}

/// Contract: API-08
#[test]
fn keys_are_ordered_as_namespace_slash_name() {
    let storage = storage(1 << 20);
    for (ns, name) in [("a", "x"), ("a-b", "y"), ("b", "c"), ("a", "b")] {
        storage.create(PODS, draft(ns, name, 0, None)).expect("a new name");
    }
    let listed = storage.list(PODS, &Range::default(), None).expect("the present");
    assert_eq!(names(&listed.entries), ["a-b/y", "a/b", "a/x", "b/c"]);
    let range = Range { after: Some(("a", "b")), limit: 1, ..Range::default() };
    let listed = storage.list(PODS, &range, None).expect("the present");
    assert_eq!((names(&listed.entries), listed.remaining), (vec!["a/x".to_owned()], 1));
}

/// Contract: API-08, API-09
#[tokio::test(start_paused = true)]
async fn history_is_kept_for_its_window_and_no_longer() {
    let storage = storage(1 << 30);
    storage.create(PODS, draft("n", "a", 1, None)).expect("a new name");
    tokio::time::advance(Duration::from_secs(299)).await;
    storage.create(PODS, draft("n", "b", 1, None)).expect("a new name");
    assert!(storage.watch(PODS, "", 0).is_ok(), "five minutes have not passed");
    tokio::time::advance(Duration::from_secs(2)).await;
    storage.create(PODS, draft("n", "c", 1, None)).expect("a new name");
    assert_eq!(storage.watch(PODS, "", 0).err(), Some(1));
    assert!(storage.watch(PODS, "", 1).is_ok());
    assert_eq!(storage.list(PODS, &Range::default(), Some(0)).err(), Some(1));
    // Nobody needs to write for time to pass.
    tokio::time::advance(Duration::from_secs(301)).await;
    assert_eq!(storage.list(PODS, &Range::default(), Some(2)).err(), Some(3));
    assert_eq!(storage.watch(PODS, "", 2).err(), Some(3));
    assert!(storage.watch(PODS, "", 3).is_ok(), "the present");
}

/// Contract: API-22
#[tokio::test(start_paused = true)]
async fn a_cursor_that_does_not_read_holds_nothing_and_falls_behind() {
    let storage = storage(10_000);
    let mut slow = storage.watch(PODS, "", 0).expect("the beginning");
    for value in 0..100 {
        storage.create(PODS, draft("n", &format!("p{value}"), value, None)).expect("a new name");
    }
    let mut events = Vec::new();
    assert!(matches!(slow.next(&mut events).await, Err(Fallen(_))), "{}", events.len());
    assert!(events.is_empty());
}

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn a_waiting_cursor_is_woken_by_the_next_commit() {
    let storage = storage(1 << 20);
    let mut cursor = storage.watch(PODS, "n", 0).expect("the beginning");
    let waiting = tokio::spawn(async move {
        let mut events = Vec::new();
        cursor.next(&mut events).await.expect("a short history");
        events.iter().map(|e| e.version).collect::<Vec<_>>()
    });
    tokio::task::yield_now().await;
    storage.create(OTHERS, draft("n", "x", 1, None)).expect("a new name");
    storage.create(PODS, draft("other", "x", 1, None)).expect("a new name");
    storage.create(PODS, draft("n", "x", 1, None)).expect("a new name");
    assert_eq!(waiting.await.expect("no panic"), [3]);
}

/// What can be done to a storage.
#[derive(Debug, Clone)]
enum Step {
    Set(u8, u8, u8),
    Delete(u8, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..3_u8, 0..4_u8, any::<u8>()).prop_map(|(ns, name, value)| Step::Set(ns, name, value)),
        1 => (0..3_u8, 0..4_u8).prop_map(|(ns, name)| Step::Delete(ns, name)),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Objects by namespace and name, with their values.
type Model = BTreeMap<(String, String), u8>;

fn value(entry: &Entry) -> u8 {
    entry.label("value").and_then(|v| v.parse().ok()).expect("a value")
}

fn fold(events: &[Arc<Event>]) -> Model {
    let mut model = Model::new();
    for event in events {
        let key = (event.entry.namespace.to_string(), event.entry.name.to_string());
        match event.kind {
            EventKind::Deleted => model.remove(&key),
            EventKind::Added | EventKind::Modified => model.insert(key, value(&event.entry)),
        };
    }
    model
}

fn read_all(cursor: &mut Cursor) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    loop {
        let before = events.len();
        cursor.read(&mut events).expect("a short history");
        if events.len() == before {
            return events;
        }
    }
}

proptest! {
    /// Contract: API-08, API-09
    #[test]
    fn a_list_at_any_version_and_a_fold_of_events_are_what_was(steps in steps(), limit in 0..5_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _guard = runtime.enter();
        let storage = storage(1 << 30);
        let mut model = Model::new();
        let mut history = vec![(0, model.clone())];
        for step in steps {
            match step {
                Step::Set(ns, name, value) => {
                    let (ns, name) = (format!("n{ns}"), format!("o{name}"));
                    match storage.get(PODS, &ns, &name) {
                        None => storage.create(PODS, draft(&ns, &name, value, None)).expect("a new name"),
                        Some(old) => storage
                            .update(PODS, draft(&ns, &name, value, Some(&old)), old.version)
                            .expect("the present version"),
                    };
                    model.insert((ns, name), value);
                }
                Step::Delete(ns, name) => {
                    let (ns, name) = (format!("n{ns}"), format!("o{name}"));
                    let Some(old) = storage.get(PODS, &ns, &name) else { continue };
                    storage.delete(PODS, &ns, &name, old.version).expect("the present version");
                    model.remove(&(ns, name));
                }
            }
            history.push((storage.version(), model.clone()));
        }
        let mut cursor = storage.watch(PODS, "", 0).expect("the beginning");
        let events = read_all(&mut cursor);
        prop_assert!(events.windows(2).all(|pair| pair[0].version < pair[1].version));
        prop_assert_eq!(fold(&events), model.clone());
        let places = [("", true), ("", false), ("n0", true), ("n1", false)];
        for ((version, then), (namespace, tells)) in history.iter().flat_map(|at| places.iter().map(move |p| (at, p))) {
            let mut then = then.clone();
            then.retain(|(ns, _), _| namespace.is_empty() || ns == namespace);
            let mut found = Model::new();
            let mut after: Option<(String, String)> = None;
            let mut known = None;
            loop {
                let after_key = after.as_ref().map(|(ns, name)| (ns.as_str(), name.as_str()));
                let range = Range { namespace, after: after_key, limit, known: known.filter(|_| *tells) };
                let listed = storage.list(PODS, &range, Some(*version)).expect("all history is there");
                for entry in &listed.entries {
                    let key = (entry.namespace.to_string(), entry.name.to_string());
                    after = Some(key.clone());
                    found.insert(key, value(entry));
                }
                prop_assert_eq!(listed.remaining, then.len() - found.len(), "at version {}", version);
                known = Some(listed.remaining);
                if listed.remaining == 0 {
                    break;
                }
            }
            prop_assert_eq!(found, then, "at version {}", version);
        }
    }
}

/// Contract: API-09
#[tokio::test]
async fn a_compaction_leaves_nothing_to_be_read_but_the_present() {
    let storage = storage(1 << 20);
    let a = storage.create(PODS, draft("n", "a", 1, None)).expect("a new name");
    let mut behind = storage.watch(PODS, "", 0).expect("all of it");
    storage.update(PODS, draft("n", "a", 2, Some(&a)), a.version).expect("the present version");
    storage.compact();
    assert_eq!(behind.read(&mut Vec::new()), Err(Fallen(2)));
    assert_eq!(storage.watch(PODS, "", 1).err(), Some(2));
    assert!(storage.watch(PODS, "", 2).is_ok());
    assert_eq!(storage.list(PODS, &Range::default(), Some(1)).err(), Some(2));
    assert_eq!(storage.list(PODS, &Range::default(), None).expect("the present").entries.len(), 1);
}

/// Contract: API-07
#[test]
fn an_entry_knows_whether_it_is_its_objects_present_state() {
    let storage = storage(1 << 20);
    let first = storage.create(PODS, draft("n", "a", 1, None)).expect("a new name");
    let refused = storage.update(PODS, draft("n", "a", 2, None), first.version + 1);
    assert!(matches!(refused, Err(Refused::Changed)) && first.is_present(), "{refused:?}");
    let missing = storage.update(PODS, draft("n", "b", 2, None), first.version);
    assert!(matches!(missing, Err(Refused::Missing)), "{missing:?}");
    let second = storage.update(PODS, draft("n", "a", 2, Some(&first)), first.version).expect("the present version");
    assert_eq!([&first, &second].map(|entry| entry.is_present()), [false, true]);
    let last = storage.delete(PODS, "n", "a", second.version).expect("the present version");
    assert_eq!([&first, &second, &last].map(|entry| entry.is_present()), [false; 3]);
    storage.restore(first.version).expect("a version that can be seen");
    assert_eq!([&first, &second, &last].map(|entry| entry.is_present()), [true, false, false]);
}

/// Contract: API-07, API-09
#[tokio::test]
async fn a_restored_storage_is_as_it_was_and_gives_later_versions_again() {
    let storage = storage(1 << 20);
    let a = storage.create(PODS, draft("n", "a", 1, None)).expect("a new name");
    storage.create(PODS, draft("n", "b", 1, None)).expect("a new name");
    storage.update(PODS, draft("n", "a", 2, Some(&a)), a.version).expect("the present version");
    storage.create(OTHERS, draft("n", "c", 1, None)).expect("a new name");
    let mut watch = storage.watch(PODS, "", 4).expect("the present");
    let mut late = storage.watch(PODS, "", 4).expect("the present");
    assert_eq!(storage.restore(5), Err(4));
    storage.restore(2).expect("a version that can be seen");
    assert_eq!(watch.read(&mut Vec::new()), Err(Fallen(2)), "a watch of what never was ends");
    let listed = storage.list(PODS, &Range::default(), None).expect("the present");
    assert_eq!((names(&listed.entries), listed.version), (vec!["n/a".to_owned(), "n/b".to_owned()], 2));
    assert_eq!((listed.entries[0].version, storage.count(OTHERS)), (1, 0));
    let again = storage.create(PODS, draft("n", "d", 1, None)).expect("a new name");
    assert_eq!(again.version, 3);
    storage.create(PODS, draft("n", "e", 1, None)).expect("a new name");
    storage.create(PODS, draft("n", "f", 1, None)).expect("a new name");
    assert_eq!(late.read(&mut Vec::new()), Err(Fallen(2)), "even where versions have come as far again");
    storage.compact();
    assert_eq!(storage.restore(2), Err(5));
}

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn a_resource_that_is_removed_takes_its_objects_history_and_watches_along() {
    let storage = storage(1 << 20);
    let mut cursor = storage.watch(PODS, "", 0).expect("nothing is forgotten");
    let mut other = storage.watch(OTHERS, "a", 0).expect("nothing is forgotten");
    storage.create(PODS, draft("a", "x", 1, None)).expect("the name is free");
    let mut seen = Vec::new();
    cursor.next(&mut seen).await.expect("the event is there");
    let waiting = tokio::spawn(async move { cursor.next(&mut Vec::new()).await });
    tokio::task::yield_now().await;
    storage.remove_resource(PODS, storage.undone());
    assert!(waiting.await.expect("no panic").is_err(), "the watch ends");
    assert_eq!((storage.count(PODS), storage.get(PODS, "a", "x")), (0, None));
    assert_eq!(storage.create(PODS, draft("a", "x", 1, None)).err(), Some(Refused::Missing));
    // Others go on, and what comes later is another resource, in which nothing has happened.
    storage.create(OTHERS, draft("a", "y", 1, None)).expect("the name is free");
    let mut seen = Vec::new();
    other.next(&mut seen).await.expect("the event is there");
    let later = storage.add_resource("/later", |_| None);
    assert!(later != PODS && storage.watch(later, "", storage.version()).is_ok());
}

/// How often a future was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Contract: API-09
#[test]
fn a_commit_wakes_the_watchers_of_what_it_is_about_and_no_others() {
    let storage = storage(1 << 20);
    let watch = |namespace: &str, field: Option<(Of, &str)>| {
        let common = Common::from(namespace).with(field);
        let mut cursor = storage.watch(PODS, common, storage.version()).expect("the present");
        let woken = Arc::new(Woken::default());
        let mut next: Pin<Box<dyn Future<Output = usize>>> = Box::pin(async move {
            let mut seen = Vec::new();
            cursor.next(&mut seen).await.expect("the history is there");
            seen.len()
        });
        let waker = Waker::from(Arc::clone(&woken));
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        move || {
            let told = woken.0.load(Ordering::Relaxed) > 0;
            let ready = next.as_mut().poll(&mut Context::from_waker(&waker));
            (told, matches!(ready, Poll::Ready(seen) if seen == 1))
        }
    };
    // By the field, which is the value: a pod that goes from 1 to 2 concerns both.
    let moved = storage.create(PODS, draft("a", "x", 1, None)).expect("the name is free");
    let of = |value: &'static str| Some((Of::Field(0), value));
    let mut about = [
        watch("", None),
        watch("a", None),
        watch("", Some((Of::Name, "x"))),
        watch("a", Some((Of::Name, "x"))),
        watch("", of("1")),
        watch("", of("2")),
        watch("a", of("2")),
    ];
    let mut others = [watch("b", None), watch("", Some((Of::Name, "y"))), watch("", of("3")), watch("a", of(""))];
    let mut elsewhere = watch("b", of("2"));
    storage.update(PODS, draft("a", "x", 2, Some(&moved)), moved.version).expect("the present version");
    for (at, told) in about.iter_mut().enumerate() {
        assert_eq!(told(), (true, true), "{at}");
    }
    for (at, told) in others.iter_mut().enumerate() {
        assert_eq!(told(), (false, false), "{at}");
    }
    assert_eq!(elsewhere(), (true, false), "woken by the field, and not shown what is in another namespace");
}

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_quiet_namespace_outlives_the_history_of_others() {
    let storage = storage(2000);
    let mut quiet = storage.watch(PODS, "quiet", 0).expect("nothing is forgotten");
    let mut behind = storage.watch(PODS, "loud", 0).expect("nothing is forgotten");
    let mut seen = Vec::new();
    quiet.read(&mut seen).expect("nothing has happened");
    for number in 0..100 {
        storage.create(PODS, draft("loud", &format!("x{number}"), 1, None)).expect("the name is free");
    }
    assert!(behind.read(&mut seen).is_err(), "what it should have seen is gone");
    storage.create(PODS, draft("quiet", "y", 1, None)).expect("the name is free");
    quiet.next(&mut seen).await.expect("nothing of its namespace is gone");
    assert_eq!(seen.len(), 1);
}
