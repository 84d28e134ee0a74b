//! Events against a scripted server, under paused time.

use muster_objects::meta::{ObjectKey, Uid};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::*;
use crate::{
    script::{Asked, Server, server},
    shutdown::{self, Trigger},
};

fn owner() -> Owner {
    Owner {
        resource: Resource::REPLICA_SETS,
        key: ObjectKey::new("ns", "web"),
        uid: Uid::new("web-uid"),
        resource_version: ResourceVersion(7),
        generation: 1,
        component: "replicaset-controller",
    }
}

fn start() -> (EventSink, Server, Trigger, JoinHandle<()>, Metrics) {
    let (client, server) = server();
    let clock = Clock::starting_at(Timestamp::from_seconds(1_700_000_000));
    let metrics = Metrics::new(clock);
    let writer: Arc<dyn Writer> = Arc::new(client);
    let (sink, sender) = channel(&writer, &metrics, clock);
    let (trigger, stop) = shutdown::channel();
    let task = tokio::spawn(sender.run(stop));
    (sink, server, trigger, task, metrics)
}

fn say(sink: &EventSink, message: &str) {
    say_of(sink, &owner(), message);
}

fn say_of(sink: &EventSink, owner: &Owner, message: &str) {
    sink.announce(owner, Announcement { warning: false, reason: "SuccessfulCreate", message: message.into() });
}

fn json(asked: &Asked) -> Value {
    serde_json::from_slice(&asked.body).unwrap()
}

/// Answers a create or patch as the server does.
fn accept(asked: Asked) -> Value {
    let body = json(&asked);
    let answer = serde_json::json!({"kind": "Event", "metadata": {"name": "x", "uid": "u", "resourceVersion": "9"}});
    asked.answer(201, answer.to_string());
    body
}

fn dropped(metrics: &Metrics) -> u64 {
    let text = metrics.encode();
    let line = text.lines().find(|line| line.starts_with("muster_events_dropped_total")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Contract: EV-01, RS-11
#[tokio::test(start_paused = true)]
async fn an_event_is_created_in_the_namespace_of_its_object() {
    let (sink, mut server, _trigger, _task, _metrics) = start();
    say(&sink, "Created pod: web-x");
    let asked = server.next().await;
    assert_eq!((asked.method.as_str(), &*asked.path), ("POST", "/api/v1/namespaces/ns/events"));
    let event = accept(asked);
    assert_eq!(event["involvedObject"]["kind"], "ReplicaSet");
    assert_eq!(event["involvedObject"]["apiVersion"], "apps/v1");
    assert_eq!(event["involvedObject"]["resourceVersion"], "7");
    assert_eq!(event["source"]["component"], "replicaset-controller");
    assert_eq!(event["type"], "Normal");
    assert_eq!(event["message"], "Created pod: web-x");
}

/// Contract: EV-02
#[tokio::test(start_paused = true)]
async fn a_repeat_patches_the_first_and_creates_it_where_that_is_gone() {
    let (sink, mut server, _trigger, _task, _metrics) = start();
    say(&sink, "Created pod: a");
    let first = accept(server.next().await);
    let name = first["metadata"]["name"].as_str().unwrap();
    say(&sink, "Created pod: a");
    let asked = server.next().await;
    assert_eq!((asked.method.as_str(), &*asked.path), ("PATCH", &*format!("/api/v1/namespaces/ns/events/{name}")));
    assert_eq!(json(&asked)["count"], 2);
    asked.refuse(404, "NotFound", "events \"x\" not found");
    let again = server.next().await;
    assert_eq!(again.method.as_str(), "POST");
    let again = accept(again);
    assert_eq!((&again["count"], &again["metadata"]["name"]), (&Value::from(2), &first["metadata"]["name"]));
    assert!(again["metadata"].get("resourceVersion").is_none());
}

/// Contract: EV-01
#[tokio::test(start_paused = true)]
async fn events_of_one_moment_have_names_of_their_own() {
    let (sink, mut server, _trigger, _task, _metrics) = start();
    let mut names = std::collections::BTreeSet::new();
    for pod in 0..5 {
        say(&sink, &format!("Created pod: {pod}"));
    }
    for _ in 0..5 {
        names.insert(accept(server.next().await)["metadata"]["name"].to_string());
    }
    assert_eq!(names.len(), 5);
}

/// Contract: EV-04
#[tokio::test(start_paused = true)]
async fn a_dead_server_is_tried_twelve_times_ten_seconds_apart() {
    let (sink, mut server, _trigger, _task, metrics) = start();
    say(&sink, "Created pod: a");
    let start = tokio::time::Instant::now();
    for tries in 0..TRIES {
        let asked = server.next().await;
        assert_eq!(start.elapsed(), RETRY * tries);
        asked.fail();
    }
    say(&sink, "Created pod: b");
    assert_eq!(accept(server.next().await)["message"], "Created pod: b", "then it goes on with the next");
    assert_eq!(dropped(&metrics), 1);
}

/// Where namespaces come and go nobody is to be told of that.
///
/// Contract: EV-04
#[tokio::test(start_paused = true)]
async fn an_event_that_is_there_or_whose_namespace_goes_is_not_lost() {
    let (sink, mut server, _trigger, _task, metrics) = start();
    let details = serde_json::json!({"causes": [{"reason": "NamespaceTerminating"}]});
    let status = |code: u16, reason: &str| serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code, "reason": reason, "details": details});
    for (code, reason) in [(403, "Forbidden"), (409, "AlreadyExists")] {
        say(&sink, &format!("Created pod: {reason}"));
        server.next().await.answer(code, status(code, reason).to_string());
        assert!(server.try_next().await.is_none(), "{reason}");
        assert_eq!(dropped(&metrics), 0, "{reason}");
    }
    say(&sink, "Created pod: z");
    server.next().await.refuse(403, "Forbidden", "no");
    assert!(server.try_next().await.is_none());
    assert_eq!(dropped(&metrics), 1);
}

/// Contract: EV-02, EV-04
#[tokio::test(start_paused = true)]
async fn one_object_waits_for_its_own_events_and_not_for_those_of_others() {
    let (sink, mut server, _trigger, _task, _metrics) = start();
    let objects: Vec<Owner> = (0..50).map(|n| Owner { uid: Uid::new(&format!("uid-{n}")), ..owner() }).collect();
    for object in &objects {
        say_of(&sink, object, "first");
        say_of(&sink, object, "second");
    }
    // The server answers nothing: this many requests are in flight, and no object has two of them.
    let mut on_their_way = Vec::new();
    while let Some(asked) = server.try_next().await {
        assert_eq!(json(&asked)["message"], "first");
        on_their_way.push(asked);
    }
    assert_eq!(on_their_way.len(), LANES);
    let mut told = std::collections::BTreeMap::<String, Vec<Value>>::new();
    let mut answer = |asked| {
        let event = accept(asked);
        told.entry(event["involvedObject"]["uid"].to_string()).or_default().push(event["message"].clone());
    };
    on_their_way.into_iter().for_each(&mut answer);
    for _ in LANES..2 * objects.len() {
        answer(server.next().await);
    }
    assert_eq!(told.len(), objects.len());
    assert!(told.values().all(|messages| *messages == ["first", "second"]), "{told:?}");
}

/// Contract: EV-04
#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_tried_again() {
    let (sink, mut server, _trigger, _task, metrics) = start();
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid"), (500, "InternalError")] {
        say(&sink, "Created pod: a");
        server.next().await.refuse(code, reason, "refused");
        assert!(server.try_next().await.is_none());
        tokio::time::sleep(RETRY * 20).await;
        assert!(server.try_next().await.is_none(), "{code}");
    }
    assert_eq!(dropped(&metrics), 3);
}

/// Contract: EV-04
#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_does_not_block() {
    let (sink, mut server, _trigger, _task, metrics) = start();
    say(&sink, "first");
    let stuck = server.next().await;
    for n in 0..QUEUE + 30 {
        say(&sink, &format!("n {n}"));
    }
    assert_eq!(dropped(&metrics), 30);
    drop(stuck);
}

/// Contract: CM-07, EV-04
#[tokio::test(start_paused = true)]
async fn a_shutdown_flushes_what_is_pending_and_does_not_wait_for_a_dead_server() {
    let (sink, mut server, trigger, task, _metrics) = start();
    for pod in ["a", "b", "c"] {
        say(&sink, pod);
    }
    let in_flight = server.next().await;
    trigger.stop();
    let start = tokio::time::Instant::now();
    in_flight.fail();
    let second = server.next().await;
    assert_eq!(json(&second)["message"], "b");
    second.fail();
    assert_eq!(accept(server.next().await)["message"], "c");
    task.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}
