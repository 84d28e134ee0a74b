//! The protocol against a scripted server, under paused time.

use std::sync::{Arc, Mutex};

use muster_objects::Pod;
use rand::SeedableRng;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::script::{Asked, Server, server};

#[path = "protobuf_tests.rs"]
mod protobuf;

/// Records its calls as text.
#[derive(Clone)]
struct Log {
    told: Arc<Mutex<Vec<String>>>,
    resync_at: Instant,
}

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }
}

impl Target<Pod> for Log {
    fn listing(&mut self) {}

    fn replace(&mut self, objects: Vec<Arc<Pod>>, version: ResourceVersion) {
        let names: Vec<&str> = objects.iter().map(|pod| &*pod.meta().name).collect();
        self.tell(format!("all {} at {version}", names.join(" ")));
    }

    fn apply(&mut self, batch: &mut Vec<Delta<Pod>>) {
        for delta in batch.drain(..) {
            self.tell(match delta {
                Delta::Put(pod) => format!("put {} {}", pod.meta().name, pod.meta().resource_version),
                Delta::Gone(pod) => format!("gone {} {}", pod.meta().name, pod.meta().resource_version),
                Delta::Reached(version) => format!("reached {version}"),
            });
        }
    }

    fn resync_at(&self) -> Instant {
        self.resync_at
    }

    fn resync(&mut self) {
        self.tell("resync".into());
        self.resync_at += Duration::from_secs(1_000_000);
    }
}

fn pod(name: &str, version: u64) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()}})
}

fn list(items: &[Value], version: u64, token: &str) -> String {
    json!({"kind": "PodList", "metadata": {"resourceVersion": version.to_string(), "continue": token}, "items": items})
        .to_string()
}

fn start(seed: u64) -> (Server, Log, JoinHandle<()>) {
    let (client, server) = server();
    let log = Log { told: Arc::default(), resync_at: Instant::now() + Duration::from_secs(1_000_000) };
    let mut target = log.clone();
    let task = tokio::spawn(async move {
        let mut reflector = Reflector::new(client, WatchedResource::pods(), None, SmallRng::seed_from_u64(seed));
        match reflector.keep(&mut target).await {}
    });
    (server, log, task)
}

/// Lets every task run until nothing can happen without time passing.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn query(asked: &Asked, name: &str) -> Option<String> {
    let query = asked.path.split_once('?')?.1;
    query.split('&').find_map(|part| part.strip_prefix(&format!("{name}="))).map(str::to_owned)
}

/// Brings a reflector to a watch at version 10 with the pod `a`.
async fn watching(seed: u64) -> (Server, Log, crate::script::Stream, JoinHandle<()>) {
    let (mut server, log, task) = start(seed);
    let stream = server.next().await.stream();
    stream.event("ADDED", &pod("a", 7));
    stream.bookmark(10, true);
    settle().await;
    assert_eq!(log.take(), ["all a at 10"]);
    (server, log, stream, task)
}

/// Contract: INF-01
#[tokio::test(start_paused = true)]
async fn a_streaming_list_becomes_the_watch() {
    let (mut server, log, _task) = start(1);
    let asked = server.next().await;
    for (name, value) in [
        ("watch", "true"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
    ] {
        assert_eq!(query(&asked, name).as_deref(), Some(value), "{}", asked.path);
    }
    assert_eq!(query(&asked, "resourceVersion"), None, "not served from an older cache");
    let stream = asked.stream();
    stream.event("ADDED", &pod("a", 7));
    stream.event("ADDED", &pod("b", 3));
    stream.bookmark(9, false);
    settle().await;
    assert!(log.take().is_empty(), "half a list is no state");
    stream.bookmark(10, true);
    stream.event("MODIFIED", &pod("b", 11));
    settle().await;
    assert_eq!(log.take(), ["all a b at 10", "put b 11"]);
    assert!(server.try_next().await.is_none(), "one watch serves for both");
}

/// Contract: INF-01
#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_by_pages_of_500() {
    let (mut server, log, _task) = start(1);
    server.next().await.refuse(422, "Invalid", "sendInitialEvents is forbidden for watch unless ...");
    let first = server.next().await;
    assert_eq!(first.path, "/api/v1/pods?limit=500");
    first.answer(200, list(&[pod("a", 1)], 10, "t/1"));
    let second = server.next().await;
    assert_eq!(second.path, "/api/v1/pods?limit=500&continue=t%2F1");
    second.answer(200, list(&[pod("b", 2)], 10, ""));
    let watch = server.next().await;
    assert_eq!(query(&watch, "resourceVersion").as_deref(), Some("10"));
    assert_eq!(query(&watch, "sendInitialEvents"), None);
    let stream = watch.stream();
    stream.event("ADDED", &pod("c", 12));
    settle().await;
    assert_eq!(log.take(), ["all a b at 10", "put c 12"]);

    // No second streaming list is tried: the next list is by pages at once.
    stream.event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}));
    assert_eq!(server.next().await.path, "/api/v1/pods?limit=500");
}

/// After any failure of a streaming list the objects are listed by pages at once, and the next list is a streaming one
/// again.
///
/// Contract: INF-01
#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_fails_is_followed_by_pages() {
    type Fault = fn(Asked);
    let faults: [(&str, Fault); 7] = [
        ("403", |asked| asked.refuse(403, "Forbidden", "no")),
        ("500", |asked| asked.refuse(500, "InternalError", "no")),
        ("an answer that was lost", Asked::fail),
        ("a stream that ends", |asked| drop(asked.stream())),
        ("a stream that breaks", |asked| asked.stream().fail()),
        ("an error in the stream", |asked| {
            asked.stream().event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "x"}));
        }),
        ("no watch", |asked| asked.stream().raw("no\n")),
    ];
    for (name, fault) in faults {
        let (mut server, log, _task) = start(1);
        let before = Instant::now();
        fault(server.next().await);
        let pages = server.next().await;
        assert_eq!((pages.path.as_str(), before.elapsed()), ("/api/v1/pods?limit=500", Duration::ZERO), "{name}");
        pages.answer(200, list(&[pod("a", 1)], 10, ""));
        let watch = server.next().await;
        assert_eq!(query(&watch, "resourceVersion").as_deref(), Some("10"), "{name}");
        settle().await;
        assert_eq!(log.take(), ["all a at 10"], "{name}");
        watch.refuse(410, "Expired", "too old");
        assert_eq!(query(&server.next().await, "sendInitialEvents").as_deref(), Some("true"), "{name}");
    }
}

/// Contract: INF-01, CM-03
#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_is_not_asked_for_pages_instead() {
    let (mut server, _log, _task) = start(1);
    let before = Instant::now();
    server.next().await.answer_with(429, &[("Retry-After", "45")], "");
    let again = server.next().await;
    assert_eq!(query(&again, "sendInitialEvents").as_deref(), Some("true"));
    assert_eq!(before.elapsed(), Duration::from_secs(45));
}

/// The events of a streaming list, and after how many seconds without more it is given up.
///
/// Contract: INF-01
#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_never_ends_is_given_up_in_seconds() {
    let given_up = async |says: &[&str]| {
        let (mut server, log, _task) = start(1);
        let asked = server.next().await;
        let mut stream = None;
        let mut waiting = Some(asked);
        for what in says {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let stream = stream.get_or_insert_with(|| waiting.take().unwrap().stream());
            match *what {
                "headers" => {}
                "bookmark" => stream.bookmark(8, false),
                kind => stream.event(kind, &pod("a", 7)),
            }
        }
        let said = Instant::now();
        let pages = server.next().await;
        assert_eq!(pages.path, "/api/v1/pods?limit=500", "{says:?}");
        assert!(!stream.is_some_and(|stream| stream.is_open()), "{says:?}: it is let go");
        pages.answer(200, list(&[pod("b", 9)], 10, ""));
        settle().await;
        assert_eq!(log.take(), ["all b at 10"], "{says:?}");
        said.elapsed().as_secs()
    };
    assert_eq!(given_up(&[]).await, 30, "no answer");
    assert_eq!(given_up(&["headers"]).await, 25, "30 s for the first byte of the list");
    assert_eq!(given_up(&["headers", "ADDED", "ADDED", "ADDED"]).await, 10, "silence on the way");
    assert_eq!(given_up(&["ADDED", "bookmark", "MODIFIED", "bookmark", "ADDED"]).await, 15, "30 s for the end");
}

/// Contract: INF-01
#[tokio::test(start_paused = true)]
async fn pages_that_grow_too_old_are_read_again_in_one() {
    let (mut server, log, _task) = start(1);
    server.next().await.refuse(400, "BadRequest", "unknown parameter");
    server.next().await.answer(200, list(&[pod("a", 1), pod("x", 1)], 10, "t"));
    server.next().await.refuse(410, "Expired", "the provided continue parameter is too old");
    let all = server.next().await;
    assert_eq!(all.path, "/api/v1/pods?limit=0");
    all.answer(200, list(&[pod("a", 1)], 20, ""));
    settle().await;
    assert_eq!(log.take(), ["all a at 20"]);
}

/// A server that makes pages of what was asked for in one, and forgets them too, is not asked on and on.
///
/// Contract: INF-01
#[tokio::test(start_paused = true)]
async fn pages_that_grow_too_old_again_are_a_failure_with_a_pause() {
    let (mut server, _log, _task) = start(1);
    server.next().await.refuse(400, "BadRequest", "unknown parameter");
    let before = Instant::now();
    for path in ["/api/v1/pods?limit=500", "/api/v1/pods?limit=0"] {
        let page = server.next().await;
        assert_eq!(page.path, path);
        page.answer(200, list(&[pod("a", 1)], 10, "t"));
        server.next().await.refuse(410, "Expired", "the provided continue parameter is too old");
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(server.next().await.path, "/api/v1/pods?limit=500");
    assert!(before.elapsed() >= Duration::from_millis(800), "{:?}", before.elapsed());
}

/// Contract: INF-05
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_resumes_from_the_last_version_bookmarks_included() {
    let (mut server, log, stream, _task) = watching(1).await;
    stream.event("MODIFIED", &pod("a", 12));
    stream.bookmark(40, false);
    settle().await;
    assert_eq!(log.take(), ["put a 12", "reached 40"]);
    let before = Instant::now();
    drop(stream);
    let again = server.next().await;
    assert_eq!(query(&again, "resourceVersion").as_deref(), Some("40"));
    assert_eq!(before.elapsed(), Duration::ZERO, "an end in good order is no failure");

    // A break in the middle of a line loses nothing: what was not whole comes again.
    let stream = again.stream();
    stream.event("DELETED", &pod("a", 41));
    stream.raw("{\"type\":\"ADDED\",\"obj");
    stream.fail();
    let again = server.next().await;
    assert_eq!(query(&again, "resourceVersion").as_deref(), Some("41"));
    assert!(before.elapsed() >= Duration::from_millis(800), "a broken one is");
    assert_eq!(log.take(), ["gone a 41"]);
}

/// Contract: INF-05
#[tokio::test(start_paused = true)]
async fn expired_in_either_form_relists() {
    let expired = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old resource version: 10 (20)"});
    let (mut server, log, stream, _task) = watching(1).await;
    stream.event("ERROR", &expired);
    let relist = server.next().await;
    assert_eq!(query(&relist, "sendInitialEvents").as_deref(), Some("true"));
    let stream = relist.stream();
    stream.event("ADDED", &pod("b", 30));
    stream.bookmark(31, true);
    settle().await;
    assert_eq!(log.take(), ["all b at 31"]);

    // One that ends at once is no such end.
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(stream);
    let resumed = server.next().await;
    assert_eq!(query(&resumed, "resourceVersion").as_deref(), Some("31"));
    resumed.refuse(410, "Gone", "gone");
    assert_eq!(query(&server.next().await, "sendInitialEvents").as_deref(), Some("true"));
}

/// As in client-go: what a watch cannot go on after, a list may.
///
/// Contract: INF-05
#[tokio::test(start_paused = true)]
async fn whatever_else_a_watch_reports_relists_after_a_pause_but_a_busy_server_does_not() {
    let reported = |code: u16, reason: &str| json!({"kind": "Status", "code": code, "reason": reason, "message": "x"});
    for (error, relists) in [(reported(500, "InternalError"), true), (reported(429, "TooManyRequests"), false)] {
        let (mut server, _log, stream, _task) = watching(1).await;
        let before = Instant::now();
        stream.event("ERROR", &error);
        let again = server.next().await;
        assert!(before.elapsed() >= Duration::from_millis(800), "{error}");
        assert_eq!(query(&again, "sendInitialEvents").is_some(), relists, "{error}: {}", again.path);
    }
    let (mut server, _log, stream, _task) = watching(1).await;
    stream.raw("no event\n");
    assert_eq!(query(&server.next().await, "sendInitialEvents").as_deref(), Some("true"));
}

/// Contract: INF-05
#[tokio::test(start_paused = true)]
async fn watch_timeouts_are_random_in_five_to_ten_minutes() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let (mut server, _log, task) = start(seed);
        let seconds: u64 = query(&server.next().await, "timeoutSeconds").unwrap().parse().unwrap();
        assert!((300..600).contains(&seconds));
        seen.insert(seconds);
        task.abort();
    }
    assert!(seen.len() > 10, "{seen:?}");
}

/// Contract: INF-05
#[tokio::test(start_paused = true)]
async fn a_watch_whose_connection_died_is_given_up() {
    let (mut server, _log, stream, _task) = watching(1).await;
    let before = Instant::now();
    let again = server.next().await;
    assert_eq!(query(&again, "resourceVersion").as_deref(), Some("10"));
    let waited = before.elapsed().as_secs();
    assert!((300..=631).contains(&waited), "{waited}");
    settle().await;
    assert!(!stream.is_open());
}

/// Contract: INF-05
#[tokio::test(start_paused = true)]
async fn reconnects_back_off_and_forget_after_two_quiet_minutes() {
    let (mut server, _log, stream, _task) = watching(1).await;
    stream.fail();
    let mut last = Instant::now();
    let mut waits = Vec::new();
    for _ in 0..8 {
        let asked = server.next().await;
        waits.push(last.elapsed());
        last = Instant::now();
        asked.fail();
    }
    assert!(waits[0] >= Duration::from_millis(800) && waits[0] < Duration::from_millis(1_601), "{waits:?}");
    assert!(waits.windows(2).take(4).all(|pair| pair[1] >= pair[0]), "{waits:?}");
    assert!(waits[7] >= Duration::from_secs(15) && waits[7] <= Duration::from_millis(30_001), "{waits:?}");

    let stream = server.next().await.stream();
    tokio::time::sleep(Duration::from_secs(121)).await;
    last = Instant::now();
    stream.fail();
    let asked = server.next().await;
    assert!(last.elapsed() < Duration::from_millis(1_601));
    // A server that ends every watch at once is not asked in a circle.
    last = Instant::now();
    drop(asked.stream());
    server.next().await;
    assert!(last.elapsed() >= Duration::from_millis(800));
}

/// Contract: INF-06
#[tokio::test(start_paused = true)]
async fn a_resync_falls_due_on_a_silent_watch() {
    let (client, mut server) = server();
    let log = Log { told: Arc::default(), resync_at: Instant::now() + Duration::from_secs(60) };
    let mut target = log.clone();
    tokio::spawn(async move {
        match Reflector::<Pod>::new(client, WatchedResource::pods(), None, SmallRng::seed_from_u64(1))
            .keep(&mut target)
            .await {}
    });
    let stream = server.next().await.stream();
    stream.bookmark(10, true);
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(log.take(), ["all  at 10"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(log.take(), ["resync"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_does_not_stop_the_others() {
    let (_server, log, stream, _task) = watching(1).await;
    stream.event("ADDED", &json!({"metadata": {"name": 3}}));
    stream.event("ADDED", &pod("b", 12));
    settle().await;
    assert_eq!(log.take(), ["put b 12"]);
}

/// Contract: INF-03
#[tokio::test(start_paused = true)]
async fn between_two_batches_of_a_watch_that_is_behind_other_tasks_run() {
    let (_server, log, stream, _task) = watching(1).await;
    // One piece, as a server sends them that has many: nothing is waited for within it.
    let line = |number: u64| format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", pod("a", 11 + number));
    stream.raw((0..1_000).map(line).collect::<String>());
    let (mut told, mut most) = (0, 0);
    for _ in 0..50 {
        tokio::task::yield_now().await;
        let now = log.take().len();
        (told, most) = (told + now, most.max(now));
    }
    assert_eq!((told, most), (1_000, BATCH));
}
