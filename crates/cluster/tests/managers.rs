//! Several managers of one cluster, of which one leads, in virtual time.

mod common;

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{PODS, START, World, quick};
use futures::StreamExt as _;
use muster_apiserver::ApiServer;
use muster_cluster::managers::{LEASE_DURATION, Managers, NotKilled};
use muster_objects::Timestamp;
use muster_runtime::client::{Client, Encoding, Form, RequestBody};
use muster_runtime::clock::Clock;
use muster_runtime::manager::Options;
use muster_runtime::shutdown::{self, Trigger};
use serde_json::json;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster-controller-manager";
/// How long each request takes, so that there is a middle of the work to be killed in.
const WAY: Duration = Duration::from_millis(10);
/// By then a Lease has run out, and whoever was about to ask for it has.
const TAKE_OVER: Duration = LEASE_DURATION.saturating_add(Duration::from_secs(2));

struct Scene {
    world: World,
    managers: Arc<Managers>,
    running: JoinHandle<()>,
    stop: Trigger,
    /// Makes all requests of the managers panic.
    trap: Arc<AtomicBool>,
}

impl Scene {
    async fn of(count: usize) -> Self {
        let world = World::new(quick(1)).await;
        let trap = Arc::new(AtomicBool::new(false));
        let client = slow(&world.server, &trap);
        let (stop, stopped) = shutdown::channel();
        let count = NonZeroUsize::new(count).expect("there are some");
        let (managers, run) = Managers::new(&client, Options::default(), count, stopped);
        Self { world, managers, running: tokio::spawn(run), stop, trap }
    }

    /// Who there is, the leader with a star.
    fn seen(&self) -> Vec<String> {
        let seen = self.managers.seen().into_iter();
        seen.map(|seen| seen.identity + if seen.leading { "*" } else { "" }).collect()
    }

    /// Lets time pass until this holds, and says how long that took.
    async fn until(&self, what: &str, limit: Duration, holds: impl AsyncFn() -> bool) -> Duration {
        let begun = Instant::now();
        while !holds().await {
            assert!(begun.elapsed() < limit, "not within {limit:?}: {what}; there are {:?}", self.seen());
            self.world.pass(1).await;
        }
        begun.elapsed()
    }

    async fn somebody_leads(&self) -> Duration {
        self.until("somebody leads", TAKE_OVER, async || self.managers.leader().is_some()).await
    }

    async fn scale(&self, replicas: u64) {
        self.world.merge(&format!("{SETS}/web"), json!({"spec": {"replicas": replicas}})).await;
    }

    /// How many pods there are, by a page of one.
    async fn pods(&self) -> u64 {
        let page = self.world.get(&format!("{PODS}?limit=1")).await;
        let items = page["items"].as_array().map_or(0, Vec::len);
        items as u64 + page["metadata"]["remainingItemCount"].as_u64().unwrap_or_default()
    }

    async fn ends(self) -> Result<(), JoinError> {
        self.stop.stop();
        self.running.await
    }
}

/// A client whose requests take their time.
fn slow(server: &ApiServer, trap: &Arc<AtomicBool>) -> Client {
    let (server, trap) = (server.clone(), Arc::clone(trap));
    let service = tower::service_fn(move |request: http::Request<RequestBody>| {
        assert!(!trap.load(Ordering::Relaxed), "a manager fell into the trap");
        let service = server.service();
        async move {
            tokio::time::sleep(WAY).await;
            Ok::<_, Infallible>(service.answer(request).await)
        }
    });
    let clock = Clock::starting_at(Timestamp::from_seconds(START));
    Client::in_process(service, &muster_runtime::client::Options { clock, ..Default::default() })
}

/// Contract: CM-04, B-12
#[tokio::test(start_paused = true)]
async fn a_leader_killed_at_work_is_followed_without_a_pod_too_many_and_a_new_one_stands_by() {
    let scene = Scene::of(3).await;
    assert_eq!(scene.seen(), ["muster-1", "muster-2", "muster-3"], "they are there before they have asked anything");
    scene.somebody_leads().await;
    let begun = scene.world.post(SETS, web(0)).await["metadata"]["resourceVersion"].clone();
    let mut last = 3;
    for round in 1..=3 {
        let wanted = 400 * round;
        scene.scale(wanted).await;
        scene.until("pods are made", TAKE_OVER, async || scene.pods().await > wanted - 390).await;
        let leader = scene.managers.leader().expect("it is at work").identity;
        assert_eq!(scene.managers.kill_leader(), Ok(leader.clone()));
        assert!(scene.pods().await < wanted, "killed in the middle of the work");
        assert_eq!(scene.managers.kill_leader(), Err(NotKilled::NobodyLeads));
        assert!(!scene.seen().iter().any(|seen| seen.starts_with(&leader)), "{:?}", scene.seen());
        let holder = scene.world.get(LEASE).await["spec"]["holderIdentity"].clone();
        assert_eq!(holder, json!(leader), "its Lease was not given up");
        let before = scene.pods().await;
        let gap = scene.somebody_leads().await;
        assert!(gap > LEASE_DURATION / 3, "the Lease had to run out first: {gap:?}");
        // What was on its way when it was killed is all that came since.
        assert!(scene.pods().await <= before, "the killed one goes on");

        let made = async || scene.pods().await == wanted;
        scene.until("all pods are made", Duration::from_secs(30), made).await;
        last += 1;
        let fresh = format!("muster-{last}");
        assert!(scene.seen().contains(&fresh), "a new one stands by: {:?}", scene.seen());
        assert_eq!(scene.managers.seen().len(), scene.managers.count().get());
    }
    scene.world.pass(30_000).await;
    let since = format!("{PODS}?watch=true&timeoutSeconds=1&resourceVersion={}", begun.as_str().expect("a version"));
    let watch = scene.world.client.watch_in(&since, Form::Full, Encoding::Json).await.expect("a watch");
    let events: Vec<_> = watch.map(|frame| frame.expect("an event")).collect().await;
    let count = |kind: &str| events.iter().filter(|event| event.starts_with(kind.as_bytes())).count();
    assert_eq!((count(r#"{"type":"ADDED""#), count(r#"{"type":"DELETED""#)), (1200, 0));
    scene.ends().await.expect("a killed manager is no failure");
}

#[tokio::test(start_paused = true)]
async fn the_only_manager_leads_without_a_lease_and_is_not_killed() {
    let scene = Scene::of(1).await;
    assert_eq!(scene.seen(), ["muster-1*"]);
    assert_eq!(scene.managers.kill_leader(), Err(NotKilled::Alone));
    scene.world.post(SETS, web(3)).await;
    scene.until("pods are made", TAKE_OVER, async || scene.pods().await == 3).await;
    assert_eq!(scene.world.find(LEASE).await, None);
    scene.ends().await.expect("an orderly end");
}

/// Contract: CM-07
#[tokio::test(start_paused = true)]
async fn at_the_end_the_leader_gives_up_its_lease() {
    let scene = Scene::of(2).await;
    scene.somebody_leads().await;
    let client = scene.world.client.clone();
    scene.ends().await.expect("an orderly end");
    let lease: serde_json::Value = serde_json::from_slice(&client.get(LEASE).await.unwrap().body).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "", "{lease}");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_is_a_failure() {
    let scene = Scene::of(2).await;
    scene.somebody_leads().await;
    scene.trap.store(true, Ordering::Relaxed);
    let ended = tokio::time::timeout(TAKE_OVER, scene.running).await.expect("it ends by itself");
    assert!(ended.expect_err("a failure").is_panic());
}

fn web(replicas: u32) -> serde_json::Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
        },
    })
}
