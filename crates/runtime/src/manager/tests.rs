//! The manager, and the whole shell around a ReplicaSet or ReplicationController controller, against a scripted
//! server under paused time.

use muster_controllers::pause::{COUNTS_PAUSE, LONGEST_COUNTS_WAIT};
use muster_inspect::explain::Role;
use serde_json::{Value, json};

use super::*;
use crate::{
    script::{Asked, Server, Stream, server},
    shutdown::Trigger,
};

/// Contract: CM-01
#[test]
fn controllers_are_selected_by_name_alias_star_and_minus() {
    let cases: [(&str, &[&str]); 8] = [
        ("*", &["deployment", "replicaset", "replicationcontroller"]),
        ("", &[]),
        ("replicaset", &["replicaset"]),
        ("replicaset-controller,deployment", &["deployment", "replicaset"]),
        ("*,-replicaset", &["deployment", "replicationcontroller"]),
        ("-deployment-controller, *", &["replicaset", "replicationcontroller"]),
        ("-replicaset", &[]),
        ("replicaset,-replicaset", &["replicaset"]),
    ];
    for (list, expected) in cases {
        let selected: Vec<&str> = select(list, CONTROLLERS).unwrap().iter().map(|name| name.alias).collect();
        assert_eq!(selected, expected, "{list:?}");
    }
    let error = select("*,-nodes", CONTROLLERS).unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"nodes\" is not in the list of known controllers: \
         deployment-controller, replicaset-controller, replicationcontroller-controller"
    );
}

fn replica_set(version: u64, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": "ns", "name": "web", "uid": "00000000-0000-0000-0000-000000000001",
            "resourceVersion": version.to_string(), "generation": 1,
        },
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
        "status": {"replicas": 0},
    })
}

/// A pod as the server makes it of what was posted.
fn created(body: &Value, name: &str, version: u64) -> Value {
    let mut pod = body.clone();
    pod["metadata"]["namespace"] = json!("ns");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["uid"] = json!(format!("00000000-0000-0000-0001-{version:012}"));
    pod["metadata"]["resourceVersion"] = json!(version.to_string());
    pod["status"] = json!({"phase": "Pending"});
    pod
}

struct Cluster {
    server: Server,
    sets: Stream,
    pods: Stream,
    trigger: Trigger,
    running: tokio::task::JoinHandle<()>,
    metrics: Metrics,
}

/// Only the ReplicaSet controller.
fn replicaset_only() -> Options {
    Options { controllers: BTreeSet::from([REPLICASET]), ..Options::default() }
}

fn launch(options: Options) -> (Server, Trigger, tokio::task::JoinHandle<()>, Metrics) {
    let (client, server) = server();
    let manager = Manager::new(&client, options);
    let metrics = manager.metrics();
    let (trigger, stop) = shutdown::channel();
    (server, trigger, tokio::spawn(manager.run(stop)), metrics)
}

/// A manager whose caches have synced, with one ReplicaSet.
async fn cluster(replicas: i32) -> Cluster {
    let (mut server, trigger, running, metrics) = launch(replicaset_only());
    let (mut sets, mut pods) = (None, None);
    for _ in 0..2 {
        let asked = server.next().await;
        let of_pods = asked.path.starts_with("/api/v1/pods");
        let stream = asked.stream();
        *(if of_pods { &mut pods } else { &mut sets }) = Some(stream);
    }
    let (sets, pods) = (sets.unwrap(), pods.unwrap());
    sets.event("ADDED", &replica_set(10, replicas));
    sets.bookmark(10, true);
    pods.bookmark(10, true);
    Cluster { server, sets, pods, trigger, running, metrics }
}

impl Cluster {
    /// The next request that is not an Event; Events are accepted.
    async fn next(&mut self) -> Asked {
        loop {
            let asked = self.server.next().await;
            if !asked.path.contains("/events") {
                return asked;
            }
            asked.answer(201, r#"{"kind":"Event","metadata":{"name":"e","uid":"u","resourceVersion":"1"}}"#);
        }
    }

    /// How many syncs were put off for the cache of that kind.
    fn skips(&self, resource: &str) -> u64 {
        let text = self.metrics.encode();
        let label = format!("resource=\"{resource}\"}} ");
        let of_kind =
            |line: &str| line.starts_with("replicaset_controller_stale_sync_skips_total") && line.contains(&label);
        let line = text.lines().find(|line| of_kind(line));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    }

    async fn nothing_more(&mut self) {
        while let Some(asked) = self.server.try_next().await {
            assert!(asked.path.contains("/events"), "{} {}", asked.method, asked.path);
            asked.answer(201, r#"{"kind":"Event","metadata":{"name":"e","uid":"u","resourceVersion":"1"}}"#);
        }
    }

    /// Answers the next request with the ReplicaSet: the owner is read before what others took is replaced.
    async fn read(&mut self, version: u64, replicas: i32) {
        let asked = self.next().await;
        assert_eq!((asked.method.as_str(), &*asked.path), ("GET", "/apis/apps/v1/namespaces/ns/replicasets/web"));
        asked.answer(200, replica_set(version, replicas).to_string());
    }

    /// Answers the next create; what it made.
    async fn create(&mut self, name: &str, version: u64) -> Value {
        let asked = self.next().await;
        assert_eq!((asked.method.as_str(), &*asked.path), ("POST", "/api/v1/namespaces/ns/pods"));
        let pod = created(&serde_json::from_slice(&asked.body).unwrap(), name, version);
        asked.answer(201, pod.to_string());
        pod
    }

    /// Answers the next status write; the status it brings.
    async fn status(&mut self, version: u64) -> Value {
        let asked = self.next().await;
        assert_eq!(asked.method.as_str(), "PATCH", "{}", asked.path);
        assert_eq!(asked.path, "/apis/apps/v1/namespaces/ns/replicasets/web/status");
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        asked.answer(200, replica_set(version, 1).to_string());
        body["status"].clone()
    }
}

/// Contract: INF-02
#[tokio::test(start_paused = true)]
async fn no_worker_starts_before_every_cache_has_synced() {
    let (mut server, _trigger, _running, _metrics) = launch(replicaset_only());
    let first = server.next().await;
    let second = server.next().await;
    let (sets, pods) = if first.path.starts_with("/apis") { (first, second) } else { (second, first) };
    let (sets, pods) = (sets.stream(), pods.stream());
    sets.event("ADDED", &replica_set(10, 1));
    sets.bookmark(10, true);
    assert!(server.try_next().await.is_none(), "the pods are not known yet");
    // Not so long that the streaming list is given up.
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert!(server.try_next().await.is_none());
    pods.bookmark(10, true);
    assert_eq!(server.next().await.path, "/api/v1/namespaces/ns/pods");
}

/// Contract: INF-08
#[tokio::test(start_paused = true)]
async fn every_controller_shares_one_watch_for_a_kind() {
    let (mut server, _trigger, _running, _metrics) = launch(Options::default());
    let mut paths = Vec::new();
    while let Some(asked) = server.try_next().await {
        paths.push(asked.path.split('?').next().unwrap_or_default().to_owned());
        // Kept open, so that it is not requested again.
        std::mem::forget(asked.stream());
    }
    paths.sort_unstable();
    assert_eq!(
        paths,
        ["/api/v1/pods", "/api/v1/replicationcontrollers", "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets"]
    );
}

/// A kind that the server does not serve blocks only its own controller.
///
/// Contract: INF-02
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_blocks_its_own_controller_only() {
    let (mut server, _trigger, _running, _metrics) = launch(Options::default());
    let mut streams = Vec::new();
    let first_write = loop {
        let asked = server.next().await;
        if asked.path.starts_with("/api/v1/replicationcontrollers") || asked.path.starts_with("/apis/apps/v1/deploy") {
            asked.refuse(404, "NotFound", "the server could not find the requested resource");
            continue;
        }
        if asked.method != "GET" {
            break asked;
        }
        let of_sets = asked.path.starts_with("/apis");
        let stream = asked.stream();
        if of_sets {
            stream.event("ADDED", &replica_set(10, 1));
        }
        stream.bookmark(10, true);
        streams.push(stream);
    };
    assert_eq!(first_write.path, "/api/v1/namespaces/ns/pods");
}

/// The same of a kind that a new leader cannot list anew. It is not ready before it can.
///
/// Contract: B-12, INF-02
#[tokio::test(start_paused = true)]
async fn a_kind_that_a_new_leader_cannot_list_blocks_its_own_controller_only() {
    let (client, mut server) = server();
    let options = Options { controllers: BTreeSet::from([REPLICASET, REPLICATIONCONTROLLER]), ..Options::default() };
    let manager = Manager::new(&client, options);
    let unsynced = manager.unsynced();
    let (lead, leading) = watch::channel(false);
    let (_trigger, stop) = shutdown::channel();
    tokio::spawn(manager.run_leading(leading, stop));
    let mut streams = Vec::new();
    while let Some(asked) = server.try_next().await {
        let stream = asked.stream();
        stream.bookmark(10, true);
        streams.push(stream);
    }
    assert_eq!((streams.len(), *unsynced.borrow()), (3, 0));
    lead.send_replace(true);
    let write = loop {
        let asked = server.next().await;
        if asked.method != "GET" {
            break asked;
        }
        if asked.path.starts_with("/api/v1/replicationcontrollers") {
            asked.refuse(500, "InternalError", "no");
            continue;
        }
        let of_sets = asked.path.starts_with("/apis");
        let stream = asked.stream();
        if of_sets {
            stream.event("ADDED", &replica_set(11, 1));
        }
        stream.bookmark(11, true);
        streams.push(stream);
    };
    assert_eq!((&*write.path, *unsynced.borrow()), ("/api/v1/namespaces/ns/pods", 1));
    loop {
        let asked = server.next().await;
        if asked.path.starts_with("/api/v1/replicationcontrollers") {
            let stream = asked.stream();
            stream.bookmark(12, true);
            streams.push(stream);
            break;
        }
    }
    assert!(server.try_next().await.is_none());
    assert_eq!(*unsynced.borrow(), 0);
}

/// Contract: RC-01, RC-02, RC-03
#[tokio::test(start_paused = true)]
async fn a_replication_controller_is_run_by_its_own_names() {
    let (mut server, _trigger, _running, metrics) =
        launch(Options { controllers: BTreeSet::from([REPLICATIONCONTROLLER]), ..Options::default() });
    let controller = |version: u64| {
        let mut controller = replica_set(version, 1);
        controller["apiVersion"] = json!("v1");
        controller["kind"] = json!("ReplicationController");
        controller["spec"]["selector"] = json!({"app": "web"});
        controller
    };
    let mut pods = None;
    let mut controllers = None;
    for _ in 0..2 {
        let asked = server.next().await;
        let of_pods = asked.path.starts_with("/api/v1/pods");
        *(if of_pods { &mut pods } else { &mut controllers }) = Some(asked.stream());
    }
    let (pods, controllers) = (pods.unwrap(), controllers.unwrap());
    controllers.event("ADDED", &controller(10));
    controllers.bookmark(10, true);
    pods.bookmark(10, true);

    let asked = server.next().await;
    assert_eq!(asked.path, "/api/v1/namespaces/ns/pods");
    let pod = created(&serde_json::from_slice(&asked.body).unwrap(), "web-a", 11);
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicationController");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["apiVersion"], "v1");
    asked.answer(201, pod.to_string());

    let (mut event, mut status) = (Value::Null, Value::Null);
    while event.is_null() || status.is_null() {
        let asked = server.next().await;
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        if asked.path.contains("/events") {
            asked.answer(201, r#"{"kind":"Event","metadata":{"name":"e","uid":"u","resourceVersion":"1"}}"#);
            event = body;
        } else {
            assert_eq!(
                (asked.method.as_str(), &*asked.path),
                ("PATCH", "/api/v1/namespaces/ns/replicationcontrollers/web/status")
            );
            asked.answer(200, controller(12).to_string());
            status = body["status"].clone();
        }
    }
    assert_eq!(event["source"]["component"], "replication-controller");
    assert_eq!(event["involvedObject"]["kind"], "ReplicationController");
    assert_eq!(event["involvedObject"]["apiVersion"], "v1");
    assert_eq!(status["observedGeneration"], 1);
    assert!(status.get("terminatingReplicas").is_none(), "{status}");
    // No record is kept: the sync that writes the counts does not wait for the cache to show the pod.
    let text = metrics.encode();
    assert!(text.contains("workqueue_adds_total{name=\"replicationmanager\"} 2"), "{text}");
}

/// Contract: RS-09, RS-10, RS-11, RS-17
#[tokio::test(start_paused = true)]
async fn a_replica_set_gets_its_pods_and_its_status() {
    let mut cluster = cluster(3).await;
    let first = cluster.create("web-a", 11).await;
    assert_eq!(first["metadata"]["generateName"], "web-");
    assert_eq!(first["metadata"]["ownerReferences"][0]["uid"], "00000000-0000-0000-0000-000000000001");
    assert_eq!(first["spec"]["containers"][0]["image"], "i");
    let second = cluster.create("web-b", 12).await;
    let third = cluster.create("web-c", 13).await;
    for pod in [&first, &second, &third] {
        cluster.pods.event("ADDED", pod);
    }
    // The results of the round are written together.
    let status = cluster.status(14).await;
    assert_eq!((&status["replicas"], &status["observedGeneration"]), (&json!(3), &json!(1)), "{status}");
    cluster.nothing_more().await;
}

/// Contract: RS-19, B-17
#[tokio::test(start_paused = true)]
async fn a_sync_waits_for_a_stale_cache_and_is_woken_by_it() {
    let mut cluster = cluster(1).await;
    let pod = cluster.create("web-a", 11).await;
    // Another event of the ReplicaSet; the pods' cache does not show the pod yet.
    cluster.sets.event("MODIFIED", &replica_set(12, 1));
    cluster.nothing_more().await;
    assert_eq!(cluster.skips("pods"), 1);
    let before = tokio::time::Instant::now();
    cluster.pods.event("ADDED", &pod);
    assert_eq!(cluster.status(13).await["replicas"], 1);
    assert_eq!(before.elapsed(), COUNTS_PAUSE, "woken, not retried, and then only the counts wait");
}

/// Contract: B-17
#[tokio::test(start_paused = true)]
async fn a_cache_that_never_catches_up_is_not_waited_for_without_limit() {
    let mut cluster = cluster(1).await;
    cluster.create("web-a", 11).await;
    cluster.sets.event("MODIFIED", &replica_set(12, 1));
    cluster.nothing_more().await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    let put_off = cluster.skips("pods");
    tokio::time::sleep(Duration::from_secs(21)).await;
    let text = cluster.metrics.encode();
    let retries = text.lines().find(|line| line.starts_with("workqueue_retries_total")).unwrap();
    assert!(!retries.ends_with(" 0"), "after the limit it is retried as upstream does: {retries}");
    assert!(cluster.skips("pods") > put_off);
}

/// The ReplicaSets' cache wakes as the pods' does.
///
/// Contract: RS-19, B-17
#[tokio::test(start_paused = true)]
async fn a_sync_is_woken_by_the_cache_of_its_owners() {
    let mut cluster = cluster(1).await;
    let mut pod = cluster.create("web-a", 11).await;
    cluster.pods.event("ADDED", &pod);
    assert_eq!(cluster.status(20).await["replicas"], 1);
    // The watch of ReplicaSets does not show that status yet.
    pod["metadata"]["resourceVersion"] = json!("21");
    pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    cluster.pods.event("MODIFIED", &pod);
    cluster.nothing_more().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.skips("replicasets"), 1);
    let before = tokio::time::Instant::now();
    cluster.sets.bookmark(20, false);
    assert_eq!(cluster.status(22).await["readyReplicas"], 1);
    assert_eq!(before.elapsed(), Duration::ZERO);
}

/// A ReplicaSet that grows all the time puts its counts off with each round, and by a second in all.
///
/// Contract: RS-17
#[tokio::test(start_paused = true)]
async fn counts_of_a_replica_set_that_grows_are_written_within_a_second() {
    let mut cluster = cluster(0).await;
    let before = tokio::time::Instant::now();
    let mut version = 10;
    for replicas in 1..200 {
        version += 2;
        cluster.sets.event("MODIFIED", &replica_set(version, replicas));
        let asked = cluster.next().await;
        if asked.method.as_str() == "PATCH" {
            break;
        }
        let pod = created(&serde_json::from_slice(&asked.body).unwrap(), &format!("web-{replicas}"), version + 1);
        asked.answer(201, pod.to_string());
        cluster.pods.event("ADDED", &pod);
        tokio::time::sleep(COUNTS_PAUSE / 2).await;
    }
    let waited = before.elapsed();
    assert!(waited > COUNTS_PAUSE && waited <= LONGEST_COUNTS_WAIT + COUNTS_PAUSE, "{waited:?}");
}

/// Contract: B-01, B-23, EX-02
#[tokio::test(start_paused = true)]
async fn an_event_that_never_came_does_not_hold_the_owner_for_five_minutes() {
    let mut cluster = cluster(1).await;
    cluster.create("web-a", 11).await;
    cluster.sets.event("MODIFIED", &replica_set(12, 1));
    cluster.nothing_more().await;
    // The pod was created and deleted without an event: the cache has passed both, and shows none.
    cluster.pods.bookmark(20, false);
    let before = tokio::time::Instant::now();
    cluster.read(12, 1).await;
    cluster.create("web-b", 21).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
}

/// Contract: CM-07
#[tokio::test(start_paused = true)]
async fn a_stop_finishes_what_is_in_flight_and_flushes_its_events() {
    let mut cluster = cluster(1).await;
    let asked = cluster.next().await;
    cluster.trigger.stop();
    assert!(cluster.server.try_next().await.is_none());
    let pod = created(&serde_json::from_slice(&asked.body).unwrap(), "web-a", 11);
    asked.answer(201, pod.to_string());
    let told = cluster.server.next().await;
    assert!(told.path.contains("/events"), "{}", told.path);
    told.answer(201, r#"{"kind":"Event","metadata":{"name":"e","uid":"u","resourceVersion":"1"}}"#);
    let before = tokio::time::Instant::now();
    cluster.running.await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert!(!cluster.pods.is_open(), "the watches are let go");
}

/// Contract: CM-07
#[tokio::test(start_paused = true)]
async fn a_sync_that_does_not_finish_is_given_up_after_ten_seconds() {
    let mut cluster = cluster(1).await;
    let stuck = cluster.next().await;
    let before = tokio::time::Instant::now();
    cluster.trigger.stop();
    cluster.running.await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(10));
    drop(stuck);
}

/// A ReplicaSet that has what it wants.
fn content(name: &str, version: u64) -> Value {
    let mut set = replica_set(version, 0);
    set["metadata"]["name"] = json!(name);
    set["metadata"]["uid"] = json!(format!("uid-{name}"));
    set["status"] = json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 1});
    set
}

/// Contract: SH-07
#[tokio::test(start_paused = true)]
async fn what_changed_is_worked_on_before_what_a_resync_added() {
    let (client, mut server) = server();
    let resync = Duration::from_secs(20);
    let options =
        Options { concurrent_replicaset_syncs: NonZeroUsize::MIN, min_resync_period: resync, ..replicaset_only() };
    let manager = Manager::new(&client, options);
    let explainer = manager.explainer();
    let (_trigger, stop) = shutdown::channel();
    tokio::spawn(manager.run(stop));
    let (sets, pods) = both(&mut server).await;
    let (sets, pods) = (sets.stream(), pods.stream());
    ["a", "b"].iter().for_each(|name| sets.event("ADDED", &content(name, 10)));
    sets.bookmark(10, true);
    pods.bookmark(10, true);
    // Its creation is not answered: the only worker has no time for others.
    sets.event("ADDED", &replica_set(11, 1));
    let stuck = server.next().await;
    assert_eq!(stuck.path, "/api/v1/namespaces/ns/pods");
    tokio::time::sleep(2 * resync).await;
    sets.event("ADDED", &content("new", 12));
    sets.event("MODIFIED", &content("b", 13));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let inside = explainer.inside(Role::Leader).unwrap();
    let keys: Vec<&str> = inside.queues[0].keys.iter().map(|key| &*key.name).collect();
    assert_eq!(keys, ["web", "new", "b", "a"], "the one in work, what changed, and what the resync added");
    drop(stuck);
}

/// The two requests that a ReplicaSet controller's informers have sent: for sets, for pods.
async fn both(server: &mut Server) -> (Asked, Asked) {
    let (one, other) = (server.next().await, server.next().await);
    assert!([&one, &other].iter().all(|asked| asked.path.contains("sendInitialEvents=true")));
    if one.path.contains("/replicasets") { (one, other) } else { (other, one) }
}

/// A standby manager with full caches, and the means to make it lead.
async fn standby() -> (Server, Stream, Stream, watch::Sender<bool>, (Trigger, Metrics)) {
    let (client, mut server) = server();
    let manager = Manager::new(&client, replicaset_only());
    let metrics = manager.metrics();
    let unsynced = manager.unsynced();
    let (lead, leading) = watch::channel(false);
    let (trigger, stop) = shutdown::channel();
    tokio::spawn(manager.run_leading(leading, stop));
    let (sets, pods) = both(&mut server).await;
    let (sets, pods) = (sets.stream(), pods.stream());
    sets.bookmark(10, true);
    pods.bookmark(10, true);
    assert!(server.try_next().await.is_none());
    assert_eq!(*unsynced.borrow(), 0, "ready to take over");
    (server, sets, pods, lead, (trigger, metrics))
}

/// Contract: B-12, INF-02
#[tokio::test(start_paused = true)]
async fn a_standby_follows_and_writes_nothing_until_it_leads() {
    let (mut server, sets, _pods, lead, _trigger) = standby().await;
    sets.event("ADDED", &replica_set(11, 1));
    assert!(server.try_next().await.is_none());
    lead.send_replace(true);
    let (sets, pods) = both(&mut server).await;
    let (sets, pods) = (sets.stream(), pods.stream());
    sets.event("ADDED", &replica_set(11, 1));
    sets.bookmark(12, true);
    assert!(server.try_next().await.is_none(), "not before every cache is as new as the lead");
    pods.bookmark(12, true);
    let asked = server.next().await;
    assert_eq!((asked.method.as_str(), &*asked.path), ("POST", "/api/v1/namespaces/ns/pods"));
}

/// Nobody takes keys for as long as it stands by, which may be months: none are kept, and it begins with what is there.
///
/// Contract: B-12, CM-08
#[tokio::test(start_paused = true)]
async fn a_standby_queues_nothing_and_begins_with_everything() {
    let (mut server, sets, _pods, lead, (_trigger, metrics)) = standby().await;
    let told = |name: &str| {
        let text = metrics.encode();
        let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{{name=\"replicaset\"}} ")));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    };
    let mut old = content("old", 11);
    sets.event("ADDED", &old);
    sets.event("ADDED", &replica_set(12, 1));
    old["metadata"]["resourceVersion"] = json!("13");
    sets.event("DELETED", &old);
    assert!(server.try_next().await.is_none());
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!((told("workqueue_depth"), told("workqueue_adds_total")), ("0".to_owned(), "0".to_owned()));
    lead.send_replace(true);
    let (sets, pods) = both(&mut server).await;
    let (sets, pods) = (sets.stream(), pods.stream());
    sets.event("ADDED", &replica_set(12, 1));
    sets.bookmark(14, true);
    pods.bookmark(14, true);
    let asked = server.next().await;
    assert_eq!(asked.path, "/api/v1/namespaces/ns/pods");
    assert_eq!(told("workqueue_adds_total"), "1");
    let waited = told("workqueue_queue_duration_seconds_sum").parse::<f64>().unwrap();
    assert!(waited < 1.0, "{waited} s");
}

/// Pods that the previous leader created and no watch has shown yet are not created again.
///
/// Contract: B-12
#[tokio::test(start_paused = true)]
async fn a_new_leader_does_not_trust_a_watch_that_may_lag() {
    let (mut server, sets, pods, lead, _trigger) = standby().await;
    sets.event("ADDED", &replica_set(11, 1));
    // The event of the pod at version 12 never comes.
    lead.send_replace(true);
    let (new_sets, new_pods) = both(&mut server).await;
    assert!(!sets.is_open() && !pods.is_open(), "one watch of a kind");
    let (sets, pods) = (new_sets.stream(), new_pods.stream());
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "00000000-0000-0000-0000-000000000001",
        "controller": true, "blockOwnerDeletion": true,
    });
    let posted = json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": [owner]}, "spec": {}});
    pods.event("ADDED", &created(&posted, "web-1", 12));
    sets.event("ADDED", &replica_set(11, 1));
    pods.bookmark(12, true);
    sets.bookmark(12, true);
    let asked = server.next().await;
    assert_eq!((asked.method.as_str(), &*asked.path), ("PATCH", "/apis/apps/v1/namespaces/ns/replicasets/web/status"));
}

/// A task without which the process would only look alive takes the process along: its own end is seen by who runs it,
/// and no controller counts as alive from then on.
///
/// Contract: CM-06
#[tokio::test(start_paused = true)]
async fn a_controller_that_panics_ends_the_manager() {
    let (client, _server) = server();
    let mut manager = Manager::new(&client, replicaset_only());
    let broken = Prepared {
        name: DEPLOYMENT,
        synced: Box::new(|| Box::pin(std::future::ready(()))),
        run: Box::new(|_| Box::pin(async { panic!("a worker's own fault") })),
    };
    manager.controllers.push(broken);
    manager.unsynced.send_replace(2);
    let unsynced = manager.unsynced();
    let (_trigger, stop) = shutdown::channel();
    let running = tokio::spawn(manager.run(stop));
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await.expect("it ends").unwrap_err();
    assert!(ended.is_panic());
    tokio::task::yield_now().await;
    assert!(unsynced.has_changed().is_err(), "closed");
}

/// Contract: CM-06
#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_ends_its_queues_work() {
    #[derive(Clone)]
    struct Broken;
    impl Controller for Broken {
        fn sync<'a>(&'a self, _key: &'a muster_objects::meta::ObjectKey) -> BoxFuture<'a, crate::workers::Synced> {
            Box::pin(std::future::pending())
        }

        fn deadline(&self) -> Option<muster_objects::time::Moment> {
            panic!("the books are broken")
        }
    }
    let clock = crate::clock::Clock::system();
    let queue = Queue::new("broken", clock, &Metrics::new(clock));
    let (_trigger, stop) = shutdown::channel();
    let working = tokio::spawn(async move { queue.work(Broken, 2, stop).await });
    let ended = tokio::time::timeout(Duration::from_secs(60), working).await.expect("it ends").unwrap_err();
    assert!(ended.is_panic());
}

/// A server that asks to be left alone for an hour holds no worker, and is asked again after a minute.
///
/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn a_long_retry_after_puts_the_key_back_into_the_queue() {
    let one = NonZeroUsize::MIN;
    let (mut server, _trigger, _running, _metrics) =
        launch(Options { concurrent_replicaset_syncs: one, ..replicaset_only() });
    let (sets, pods) = both(&mut server).await;
    let (sets, pods) = (sets.stream(), pods.stream());
    let mut other = replica_set(11, 1);
    other["metadata"]["name"] = json!("other");
    other["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000002");
    sets.event("ADDED", &replica_set(10, 1));
    sets.event("ADDED", &other);
    sets.bookmark(11, true);
    pods.bookmark(11, true);
    let start = tokio::time::Instant::now();
    let mut created = Vec::new();
    while created.len() < 4 {
        let asked = server.next().await;
        if asked.method == http::Method::POST && asked.path == "/api/v1/namespaces/ns/pods" {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            created.push((start.elapsed().as_secs(), body["metadata"]["generateName"].as_str().unwrap().to_owned()));
            asked.answer_with(429, &[("Retry-After", "3600")], "");
        } else {
            // A status or an Event.
            asked.answer(200, r#"{"metadata":{"name":"x","uid":"u","resourceVersion":"1"}}"#);
        }
    }
    let expected = [(0, "web-"), (0, "other-"), (60, "web-"), (60, "other-")];
    assert_eq!(created, expected.map(|(at, name)| (at, name.to_owned())));
}
