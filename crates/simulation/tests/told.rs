//! What a manager tells of itself in virtual time: its flight recorder, and what it is doing. A key that waits says what
//! for.

#[path = "common/mod.rs"]
mod common;

use std::time::Duration;

use muster_inspect::explain::Role;
use muster_inspect::history::{Answer, History, On, Sync};
use muster_inspect::inside::{Informer, Inside, Key, State};
use muster_objects::ObjectKey;
use muster_runtime::explain::{Explainer, Kind};
use muster_simulation::{Fault, Faults, Refusal, Rule, Settings, Verb, World};
use muster_tree::{Value, json};

use common::{Api, CONTROLLERS, SETS, at_once, in_virtual_time, pass};

/// What the manager tells of `web` after a time in which this fault has struck its controllers.
fn told(kind: Kind, fault: Option<Rule>, annotations: Value, after: Duration) -> History {
    asked((kind, fault, annotations), after, move |manager| {
        let key = ObjectKey::new("default", "web");
        manager.history(kind, &key, Role::Unelected, None).expect("it is recorded")
    })
}

/// What the manager is doing then.
fn doing(kind: Kind, fault: Option<Rule>, after: Duration) -> Inside {
    asked((kind, fault, json!({})), after, |manager| manager.inside(Role::Unelected).expect("it runs controllers"))
}

fn asked<R: Send + 'static>(
    (kind, fault, annotations): (Kind, Option<Rule>, Value),
    after: Duration,
    ask: impl FnOnce(&Explainer) -> R + Send + 'static,
) -> R {
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
        let told = ask(world.explainer());
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

/// The only key of the queues, and the informer of pods.
fn waiting(inside: &Inside) -> (&Key, &Informer) {
    let mut keys = inside.queues.iter().flat_map(|queue| &queue.keys);
    let (Some(key), None) = (keys.next(), keys.next()) else { panic!("{inside}") };
    assert_eq!((&*key.namespace, &*key.name, key.state), ("default", "web", State::Waiting));
    (key, inside.informers.iter().find(|informer| informer.kind == "Pod").expect("it is watched"))
}

/// Contract: PG-02
#[test]
fn a_key_that_waits_for_a_cache_is_seen_waiting_and_how_far_the_cache_is_behind() {
    let inside = doing(Kind::ReplicaSet, Some(slow_watch_of_pods()), Duration::from_millis(3_500));
    let (key, pods) = waiting(&inside);
    assert!(matches!(&key.on, Some(On::Cache { kind, wrote, read }) if kind == "Pod" && wrote > read), "{key:?}");
    assert!(key.time > Some(Duration::from_secs(1)) && key.due.is_none(), "{key:?}");
    assert!(
        pods.synced && pods.objects == 0 && pods.lag >= key.time,
        "{pods:?} is behind for as long as {key:?} waits"
    );
    let counts: Vec<_> = inside.queues.iter().map(|queue| (&*queue.controller, queue.waiting)).collect();
    let (deployments, sets) = ("deployment-controller", "replicaset-controller");
    assert_eq!(counts, [(deployments, 0), (sets, 1), ("replicationcontroller-controller", 0)]);

    let later = doing(Kind::ReplicaSet, Some(slow_watch_of_pods()), Duration::from_secs(30));
    let pods = later.informers.iter().find(|informer| informer.kind == "Pod").expect("it is watched");
    assert_eq!(pods.objects, 3);
    assert!(pods.lag.is_some_and(|lag| (LAG..LAG * 2).contains(&lag)), "{pods:?}");
    assert!(later.queues.iter().all(|queue| queue.keys.is_empty()), "{later}");
}

/// Contract: PG-02
#[test]
fn unmet_expectations_are_seen_with_their_key() {
    let inside = doing(Kind::ReplicationController, Some(slow_watch_of_pods()), Duration::from_millis(3_500));
    let (key, _) = waiting(&inside);
    assert_eq!(key.on, Some(On::Expectations));
    assert!(key.due > Some(Duration::from_secs(240)), "it is due when they expire: {key:?}");
    let [expected] = &inside.expectations[..] else { panic!("{inside}") };
    assert_eq!((&*expected.kind, &*expected.name), ("ReplicationController", "web"));
    assert_eq!((expected.creations, expected.deletions, inside.unmet), (3, 0, 1));
    assert!(expected.age > Duration::from_secs(1), "{expected:?}");
}

/// Contract: PG-02, WQ-03
#[test]
fn a_key_in_backoff_is_seen_with_its_retries_and_when_it_is_due() {
    let refused = Rule::always(Fault::Refuse(Refusal::QuotaExceeded)).verbs(&[Verb::Create]).resources(&["pods"]);
    let inside = doing(Kind::ReplicaSet, Some(refused), Duration::from_secs(20));
    let (key, _) = waiting(&inside);
    assert_eq!(key.on, Some(On::Backoff));
    assert!(key.due.is_some_and(|due| !due.is_zero()) && key.retries > 5, "{key:?}");
    let failed = inside.syncs.iter().filter(|sync| sync.error.is_some()).count() as u64;
    assert!(failed > 5 && inside.writes.failed >= failed, "{inside}");
}

/// Contract: PG-02
#[test]
fn what_was_done_is_told_the_newest_first_with_its_totals() {
    let inside = doing(Kind::ReplicaSet, None, Duration::from_secs(30));
    assert_eq!((inside.writes.done["create"], inside.writes.conflicts, inside.writes.failed), (3, 0, 0));
    assert!(inside.syncs.is_sorted_by(|one, other| one.until >= other.until), "{inside}");
    let created = inside.syncs.iter().find(|sync| sync.summary == "create 3 pods").expect("it is one of the last");
    assert_eq!((&*created.kind, &*created.name, &created.rows[..]), ("ReplicaSet", "web", &["RS-09".to_owned()][..]));
    assert!(created.writes >= 3, "{created:?}");
    assert!(inside.informers.iter().all(|informer| informer.synced && informer.changed_ago.is_some()), "{inside}");
    assert!(inside.expectations.is_empty() && inside.unmet == 0);
    assert_eq!(inside, doing(Kind::ReplicaSet, None, Duration::from_secs(30)), "the same seed tells the same");
}
