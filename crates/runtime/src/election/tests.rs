//! One candidate against a scripted server under paused time.

use muster_objects::Timestamp;
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;
use crate::{
    client::{Client, PatchType},
    clock::Clock,
    events,
    script::{Asked, Server, server_at},
    shutdown::{self, Trigger},
    writer::Writer,
};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster";
const START: i64 = 1_700_000_000;

struct World {
    server: Server,
    client: Client,
    leadership: Leadership,
    metrics: Metrics,
    trigger: Trigger,
    running: tokio::task::JoinHandle<Result<(), Lost>>,
}

/// A candidate `a` that has just begun.
fn begin() -> World {
    let (client, server) = server_at(Clock::starting_at(Timestamp::from_seconds(START)));
    let metrics = Metrics::new(client.clock());
    let writer: Arc<dyn Writer> = Arc::new(client.clone());
    let (sink, sender) = events::channel(&writer, &metrics, client.clock());
    let config = Config::new("kube-system", "muster", "a".to_owned());
    let elector = Elector::new(config, client.clone(), 7).unwrap();
    elector.register(&metrics);
    let leadership = elector.leadership();
    let (trigger, stop) = shutdown::channel();
    tokio::spawn(sender.run(trigger.subscribe()));
    let running = tokio::spawn(elector.run(sink, stop));
    World { server, client, leadership, metrics, trigger, running }
}

/// A candidate `a` that has acquired the lease.
async fn lead() -> World {
    let mut world = begin();
    let asked = world.next("GET", LEASE).await;
    asked.refuse(404, "NotFound", "no lease");
    let asked = world.next("POST", LEASE.strip_suffix("/muster").unwrap()).await;
    let created = stored(&asked, 1);
    asked.answer(201, created.to_string());
    let event = world.server.next().await;
    assert_eq!(event.path, "/api/v1/namespaces/kube-system/events");
    let sent: Value = serde_json::from_slice(&event.body).unwrap();
    assert_eq!((&sent["reason"], &sent["message"]), (&json!("LeaderElection"), &json!("a became leader")));
    assert_eq!(sent["involvedObject"]["uid"], "u");
    assert_eq!(sent["involvedObject"]["kind"], "Lease");
    event.answer(201, r#"{"kind":"Event","metadata":{"name":"e","uid":"u","resourceVersion":"1"}}"#);
    world
}

/// What was written, as the server gives it back.
fn stored(asked: &Asked, version: u64) -> Value {
    let mut lease: Value = serde_json::from_slice(&asked.body).unwrap();
    lease["metadata"]["uid"] = json!("u");
    lease["metadata"]["resourceVersion"] = json!(version.to_string());
    lease
}

fn held_by(holder: &str, version: u64) -> String {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "kube-system", "name": "muster", "uid": "u", "resourceVersion": version.to_string()},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 4,
            "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z"},
    });
    lease.to_string()
}

impl World {
    async fn next(&mut self, method: &str, path: &str) -> Asked {
        let asked = self.server.next().await;
        assert_eq!((asked.method.as_str(), &*asked.path), (method, path));
        asked
    }

    fn status(&self) -> String {
        let text = self.metrics.encode();
        let line = text.lines().find(|line| line.starts_with("leader_election_master_status{")).unwrap_or_default();
        line.to_owned()
    }
}

/// Contract: CM-04, CM-05, CM-08
#[tokio::test(start_paused = true)]
async fn a_candidate_acquires_announces_and_renews() {
    let world = begin();
    assert_eq!(world.status(), "leader_election_master_status{name=\"muster\"} 0");
    assert!(!world.leadership.may_write());
    world.trigger.stop();
    drop(world);

    let mut world = lead().await;
    assert_eq!(world.status(), "leader_election_master_status{name=\"muster\"} 1");
    assert!(world.leadership.may_write());
    assert!(*world.leadership.leading().borrow());
    for version in 2..20 {
        let before = tokio::time::Instant::now();
        let asked = world.next("PUT", LEASE).await;
        assert_eq!(before.elapsed(), Duration::from_secs(2), "every retry period");
        let renewed = stored(&asked, version);
        let sent: Value = serde_json::from_slice(&asked.body).unwrap();
        assert_eq!(sent["metadata"]["resourceVersion"], (version - 1).to_string());
        assert_eq!(sent["spec"]["acquireTime"], "2023-11-14T22:13:20.000000Z");
        assert_eq!(sent["spec"]["leaseTransitions"], 0);
        asked.answer(200, renewed.to_string());
    }
    assert!(world.leadership.may_write());
    assert_eq!(world.leadership.health(), Ok(()));
}

/// Contract: CM-05, B-31
#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_ends_the_run_at_the_deadline() {
    let mut world = lead().await;
    let acquired = tokio::time::Instant::now();
    let leadership = world.leadership.clone();
    let watching = tokio::spawn(async move {
        while leadership.may_write() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::Instant::now()
    });
    let refusing = tokio::spawn(async move {
        // Some are refused, some get no answer at all.
        for number in 0.. {
            let asked = world.server.next().await;
            if number % 3 == 0 {
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
            asked.refuse(500, "InternalError", "etcd is away");
        }
    });
    let lost = world.running.await.unwrap().unwrap_err();
    assert_eq!(lost.to_string(), "the lease kube-system/muster is lost: it could not be renewed within 10s");
    let ended = watching.await.unwrap() - acquired;
    assert_eq!(ended, Duration::from_secs(10));
    refusing.abort();
}

/// Contract: CM-04, CM-08
#[tokio::test(start_paused = true)]
async fn a_renewal_that_had_to_read_first_is_counted() {
    let mut world = lead().await;
    let slow = |world: &World| world.metrics.encode().contains("leader_election_slowpath_total{name=\"muster\"} 1\n");
    let renewed = world.next("PUT", LEASE).await;
    let stored = stored(&renewed, 2);
    renewed.answer(200, stored.to_string());
    world.next("PUT", LEASE).await.refuse(409, "Conflict", "somebody set a label");
    assert!(!slow(&world));
    world.next("GET", LEASE).await.answer(200, held_by("a", 9));
    let again = world.next("PUT", LEASE).await;
    assert!(slow(&world));
    drop(again);
}

/// Contract: CM-05
#[tokio::test(start_paused = true)]
async fn a_lease_that_another_took_ends_the_run_at_once() {
    let mut world = lead().await;
    world.next("PUT", LEASE).await.refuse(409, "Conflict", "somebody wrote");
    world.next("GET", LEASE).await.answer(200, held_by("b", 9));
    let lost = world.running.await.unwrap().unwrap_err();
    assert_eq!(lost.to_string(), "the lease kube-system/muster is lost: \"b\" holds it");
    assert!(!world.leadership.may_write());
    let text = world.metrics.encode();
    assert!(text.contains("leader_election_master_status{name=\"muster\"} 0"), "{text}");
}

/// Contract: CM-04, CM-05
#[tokio::test(start_paused = true)]
async fn a_candidate_that_was_frozen_past_its_lease_finds_itself_without_it() {
    let world = lead().await;
    // As after SIGSTOP and SIGCONT: time has passed, and nothing ran.
    advance(Duration::from_secs(16)).await;
    assert!(!world.leadership.may_write(), "before anything else has run");
    assert!(world.running.await.unwrap().is_err());
}

/// Contract: CM-04
#[tokio::test(start_paused = true)]
async fn a_standby_looks_every_retry_period_with_jitter_and_takes_over_once() {
    let mut world = begin();
    world.next("GET", LEASE).await.answer(200, held_by("b", 4));
    let start = tokio::time::Instant::now();
    let mut last = start;
    let taken = loop {
        let asked = world.server.next().await;
        let now = tokio::time::Instant::now();
        if asked.method == http::Method::PUT {
            break asked;
        }
        let pause = (now - last).as_millis();
        // The last look comes when the lease that was first seen at the start runs out.
        assert!((2_000..=4_401).contains(&pause) || now - start == Duration::from_secs(15), "{pause} ms");
        last = now;
        asked.answer(200, held_by("b", 4));
    };
    assert_eq!(start.elapsed().as_millis(), 15_000);
    let sent: Value = serde_json::from_slice(&taken.body).unwrap();
    assert_eq!(sent["spec"]["leaseTransitions"], 5);
    assert!(!world.leadership.may_write(), "not yet");
    let stored = stored(&taken, 5);
    taken.answer(200, stored.to_string());
    let mut leading = world.leadership.leading();
    leading.wait_for(|leading| *leading).await.unwrap();
    assert!(world.leadership.may_write());
}

/// Contract: CM-07
#[tokio::test(start_paused = true)]
async fn an_orderly_end_releases_the_lease_and_a_standby_writes_nothing() {
    let mut world = lead().await;
    world.trigger.stop();
    let asked = world.next("PUT", LEASE).await;
    let sent: Value = serde_json::from_slice(&asked.body).unwrap();
    assert_eq!((&sent["spec"]["holderIdentity"], &sent["spec"]["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    assert!(!world.leadership.may_write(), "nothing is written from here on");
    asked.answer(200, held_by("", 3));
    assert_eq!(world.running.await.unwrap(), Ok(()));

    let mut standby = begin();
    standby.next("GET", LEASE).await.answer(200, held_by("b", 4));
    standby.trigger.stop();
    assert_eq!(standby.running.await.unwrap(), Ok(()));
    assert!(standby.server.try_next().await.is_none());
}

/// Contract: CM-05
#[tokio::test(start_paused = true)]
async fn every_write_asks_right_before_it_is_sent() {
    let mut world = lead().await;
    let fenced = world.client.fenced(world.leadership.fence());
    let write = |client: Client| async move {
        client.patch("/api/v1/namespaces/ns/pods/a", PatchType::Merge, Bytes::from_static(b"{}")).await
    };
    let writing = tokio::spawn(write(fenced.clone()));
    let asked = world.next("PATCH", "/api/v1/namespaces/ns/pods/a").await;
    // It is to be sent again after the lease has ended.
    asked.answer_with(429, &[("Retry-After", "10")], "");
    let refused = writing.await.unwrap().unwrap_err();
    assert_eq!(refused.to_string(), "PATCH /api/v1/namespaces/ns/pods/a: not sent, for the leader's lease is not held");
    assert!(!refused.may_have_been_received());
    assert!(write(fenced.clone()).await.is_err());

    let reading = tokio::spawn(async move { fenced.get("/api/v1/namespaces/ns/pods/a").await });
    while let asked = world.server.next().await
        && asked.path != "/api/v1/namespaces/ns/pods/a"
    {}
    reading.abort();
}
