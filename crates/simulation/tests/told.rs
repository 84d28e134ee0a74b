//! The flight recorder of a manager in virtual time: a key that waits says what for.

#[path = "common/mod.rs"]
mod common;

use std::time::Duration;

use muster_inspect::explain::Role;
use muster_inspect::history::{Answer, History, On, Sync};
use muster_objects::ObjectKey;
use muster_runtime::explain::Kind;
use muster_simulation::{Fault, Faults, Refusal, Rule, Settings, Verb, World};
use serde_json::{Value, json};

use common::{Api, CONTROLLERS, SETS, at_once, in_virtual_time, pass};

/// What the manager tells of `web` after a time in which this fault has struck its controllers.
fn told(kind: Kind, fault: Option<Rule>, annotations: Value, after: Duration) -> History {
    in_virtual_time(async move {
        let faults = Faults::seeded(1);
        if let Some(rule) = fault {
            faults.add(rule.of(muster_simulation::world::CONTROLLERS));
        }
        let world = World::start(Settings { faults: Some(faults), ..at_once(1) }).await.expect("a world");
        let labels = json!({"app": "web"});
        let (path, kind_name, api_version, selector) = match kind {
            Kind::ReplicationController => (CONTROLLERS, "ReplicationController", "v1", labels.clone()),
            _ => (SETS, "ReplicaSet", "apps/v1", json!({"matchLabels": labels})),
        };
        let template = json!({"metadata": {"labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
        let object = json!({"kind": kind_name, "apiVersion": api_version, "metadata": {"name": "web"},
            "spec": {"replicas": 3, "selector": selector, "template": template}});
        let (status, said) = Api::of(&world).post(path, &object).await;
        assert_eq!(status, 201, "{said}");
        pass(after).await;
        let key = ObjectKey::new("default", "web");
        let told = world.explainer().history(kind, &key, Role::Unelected, None).expect("it is recorded");
        world.stop().await;
        told
    })
}

/// How long syncs have waited for this, and that each tells so in words.
fn waited(told: &History, on: impl Fn(&On<'_>) -> bool, words: &str) -> Vec<Duration> {
    let waits = told.syncs.iter().flat_map(|sync| &sync.waits);
    let times: Vec<Duration> = waits.filter(|wait| on(&wait.on)).map(|wait| wait.time).collect();
    assert!(!times.is_empty() && told.to_string().contains(words), "no {words:?} in:\n{told}");
    times
}

fn rules<'t>(sync: &'t Sync<'_>) -> Vec<&'t str> {
    sync.why.iter().map(|reason| &*reason.rule).collect()
}

const LAG: Duration = Duration::from_secs(2);

fn slow_watch_of_pods() -> Rule {
    Rule::always(Fault::Lag(LAG..LAG + Duration::from_millis(1))).verbs(&[Verb::Watch]).resources(&["pods"])
}

/// Contract: FR-01
#[test]
fn for_a_cache_behind_its_own_write() {
    let told = told(Kind::ReplicaSet, Some(slow_watch_of_pods()), json!({}), Duration::from_secs(30));
    let times = waited(&told, |on| matches!(on, On::Cache { .. }), "for the cache of Pod to reach its own write at ");
    assert!(times.iter().any(|time| *time >= LAG / 2), "{times:?}");
    let deferred = told.syncs.iter().find(|sync| sync.summary == "wait for the cache").expect("a sync that waits");
    assert_eq!(rules(deferred), ["RS-19"]);
}

/// Contract: FR-01, RC-02
#[test]
fn for_expectations() {
    // A kind without a record of its writes.
    let told = told(Kind::ReplicationController, Some(slow_watch_of_pods()), json!({}), Duration::from_secs(30));
    let times = waited(&told, |on| *on == On::Expectations, "for the events of its last round");
    assert!(times.iter().any(|time| *time >= LAG / 2), "{times:?}");
    let pending = told.syncs.iter().find(|sync| rules(sync) == ["EX-07"]).expect("a sync that waits");
    assert!(pending.writes.iter().all(|write| write.action == "status"), "{pending}");
}

/// Contract: FR-01, B-08
#[test]
fn for_a_backoff() {
    let rejected = json!({"muster.dev/fate": "reject"});
    let told = told(Kind::ReplicaSet, None, rejected, Duration::from_secs(60));
    let times = waited(&told, |on| *on == On::Creations, "for the backoff of pods that came to nothing at once");
    assert!(times.iter().any(|time| *time >= Duration::from_secs(4)), "it grows: {times:?}");
}

/// Contract: FR-01, WQ-03
#[test]
fn for_a_rate_limit() {
    let refused = Rule::always(Fault::Refuse(Refusal::QuotaExceeded)).verbs(&[Verb::Create]).resources(&["pods"]);
    let told = told(Kind::ReplicaSet, Some(refused), json!({}), Duration::from_secs(20));
    let times = waited(&told, |on| *on == On::Backoff, "for the rate limit of what failed");
    assert!(times.windows(2).any(|two| two[1] >= two[0] * 2 - Duration::from_millis(1)), "it doubles: {times:?}");
    let failed = told.syncs.iter().find(|sync| sync.error.is_some()).expect("a sync that failed");
    let write = failed.writes.iter().find(|write| write.action == "create").expect("a request");
    assert!(matches!(&write.answer, Answer::Failed { code: 403, reason, .. } if reason == "Forbidden"), "{write:?}");
}

/// Contract: FR-01
#[test]
fn the_same_seed_tells_the_same() {
    let once = || told(Kind::ReplicaSet, Some(slow_watch_of_pods()), json!({}), Duration::from_secs(30));
    assert_eq!(once(), once());
}
