//! The audit against a scripted server, under paused time.

use std::sync::Mutex;

use muster_machinery::Change;
use muster_objects::{Object, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::{
    clock::Clock,
    informer::{Informer, Informers},
    script::{Asked, Server, Stream, protobuf, server},
};

/// Short, so that the next audit comes soon and the watch outlives several.
const RESYNC: Duration = Duration::from_secs(10);
const PROTOBUF: (&str, &str) = ("Content-Type", "application/vnd.kubernetes.protobuf");

struct Scene {
    server: Server,
    watch: Stream,
    store: Store<Pod>,
    metrics: Metrics,
    told: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    /// An informer that has read the pods `a` at 5 and `b` at 6, as of 10, in this scope.
    async fn start_in(resource: WatchedResource) -> Self {
        let (client, mut server) = server();
        let metrics = Metrics::new(Clock::system());
        let mut informers = Informers::new(client, RESYNC, 3).counted_by(&metrics);
        let informer: &mut Informer<Pod> = informers.of(&resource);
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        informer.add_handler(move |change: &Change<Pod>| {
            let name = &change.object().meta().name;
            let what = match change {
                Change::Added(_) => "added",
                Change::Updated { old, new } if old.meta().resource_version == new.meta().resource_version => return,
                Change::Updated { .. } => "updated",
                Change::Deleted { tombstone: true, .. } => "tombstone",
                Change::Deleted { .. } => "deleted",
            };
            log.lock().unwrap().push(format!("{what} {name}@{}", change.object().meta().resource_version));
        });
        let store = informer.store();
        for run in informers.into_runs() {
            tokio::spawn(run);
        }
        let watch = server.next().await.stream();
        watch.event("ADDED", &pod("a", 5));
        watch.event("ADDED", &pod("b", 6));
        watch.bookmark(10, true);
        store.synced().await;
        told.lock().unwrap().clear();
        Self { server, watch, store, metrics, told }
    }

    async fn start() -> Self {
        Self::start_in(WatchedResource::pods()).await
    }

    /// The first page that the audit asks for.
    async fn audit(&mut self) -> Asked {
        let asked = self.server.next().await;
        assert_eq!(asked.path, "/api/v1/pods?limit=500");
        asked
    }

    /// Answers the list that the informer asks for because of the audit.
    async fn relist(&mut self, pods: &[Value], version: u64) {
        let asked = self.server.next().await;
        assert!(asked.path.contains("sendInitialEvents=true"), "{}", asked.path);
        self.watch = asked.stream();
        for pod in pods {
            self.watch.event("ADDED", pod);
        }
        self.watch.bookmark(version, true);
        settle().await;
    }

    /// Nothing is relisted, and the next request is the next resync's audit.
    async fn nothing_happens(&mut self) {
        let before = Instant::now();
        self.audit().await;
        assert!(before.elapsed() > Duration::ZERO, "at the next resync only");
        assert!(self.watch.is_open());
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    /// How many audits were counted, and how many of them as differences.
    fn counted(&self) -> (u64, u64) {
        let text = self.metrics.encode();
        let value = |name: &str| {
            let prefix = format!("muster_informer_{name}_total{{resource=\"pods\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&prefix)).map_or(0, |value| value.parse().unwrap())
        };
        (value("audits"), value("audit_differences"))
    }
}

fn pod(name: &str, version: u64) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()}})
}

fn list(items: &[Value], version: u64, token: &str) -> Value {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
    json!({"kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})
}

fn page(asked: Asked, items: &[Value], version: u64) {
    asked.answer(200, list(items, version, "").to_string());
}

async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Contract: B-07
#[tokio::test(start_paused = true)]
async fn an_event_that_was_lost_is_found_and_made_up_for() {
    for (lost, truth, told) in [
        ("ADDED", vec![pod("a", 5), pod("b", 6), pod("c", 15)], "added c@15"),
        ("MODIFIED", vec![pod("a", 15), pod("b", 6)], "updated a@15"),
        ("DELETED", vec![pod("b", 6)], "tombstone a@5"),
        ("DELETED and ADDED", vec![pod("c", 15), pod("b", 6)], "added c@15"),
    ] {
        let mut scene = Scene::start().await;
        page(scene.audit().await, &truth, 20);
        settle().await;
        assert!(scene.server.try_next().await.is_none(), "{lost}: the event may still come");
        // The event has not come when the bookmark shows that everything was delivered.
        scene.watch.bookmark(20, false);
        let before = Instant::now();
        scene.relist(&truth, 30).await;
        assert_eq!(before.elapsed(), Duration::ZERO, "{lost}: at once");
        assert_eq!(scene.told().first().map(String::as_str), Some(told), "{lost}");
        assert_eq!(scene.store.read().len(), truth.len(), "{lost}");
        assert_eq!(scene.counted(), (1, 1), "{lost}");

        page(scene.audit().await, &truth, 40);
        scene.nothing_happens().await;
        assert_eq!(scene.counted(), (2, 1), "{lost}: and now they agree");
    }
}

/// Contract: B-07
#[tokio::test(start_paused = true)]
async fn a_later_event_counts_like_a_bookmark() {
    let mut scene = Scene::start().await;
    page(scene.audit().await, &[pod("a", 5), pod("b", 6), pod("c", 15)], 20);
    scene.watch.event("MODIFIED", &pod("b", 21));
    scene.relist(&[pod("a", 5), pod("b", 21), pod("c", 15)], 22).await;
    assert_eq!(scene.told(), ["updated b@21", "added c@15"]);
    assert_eq!(scene.counted(), (1, 1));
}

/// Contract: B-07
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_behind_is_waited_for() {
    let mut scene = Scene::start().await;
    page(scene.audit().await, &[pod("a", 15), pod("c", 17)], 20);
    tokio::time::sleep(CATCH_UP / 2).await;
    scene.watch.event("MODIFIED", &pod("a", 15));
    scene.watch.event("DELETED", &pod("b", 16));
    settle().await;
    assert_eq!(scene.counted(), (0, 0), "not all of it has come");
    scene.watch.event("ADDED", &pod("c", 17));
    scene.nothing_happens().await;
    assert_eq!(scene.counted(), (1, 0));
}

/// Contract: B-07
#[tokio::test(start_paused = true)]
async fn a_cache_that_is_ahead_of_the_list_is_compared_as_it_was() {
    let mut scene = Scene::start().await;
    let first = scene.audit().await;
    // Some of it is in the list, and some is newer.
    scene.watch.event("ADDED", &pod("c", 18));
    scene.watch.event("MODIFIED", &pod("a", 19));
    scene.watch.event("MODIFIED", &pod("a", 21));
    scene.watch.event("DELETED", &pod("b", 22));
    scene.watch.event("ADDED", &pod("d", 23));
    settle().await;
    first.answer(200, list(&[pod("a", 19)], 20, "more").to_string());
    let second = scene.server.next().await;
    scene.watch.event("DELETED", &pod("c", 24));
    settle().await;
    page(second, &[pod("b", 6), pod("c", 18)], 20);
    settle().await;
    assert_eq!(scene.counted(), (1, 0), "without waiting");
    scene.nothing_happens().await;
}

/// Contract: B-07
#[tokio::test(start_paused = true)]
async fn a_watch_that_fell_silent_is_given_up() {
    let mut scene = Scene::start().await;
    let truth = [pod("a", 5), pod("b", 6), pod("c", 15)];
    page(scene.audit().await, &truth, 20);
    let before = Instant::now();
    scene.relist(&truth, 30).await;
    assert_eq!(before.elapsed().as_secs(), CATCH_UP.as_secs());
    assert_eq!((scene.told(), scene.counted()), (vec!["added c@15".to_owned()], (1, 1)));
}

/// Contract: B-07
#[tokio::test(start_paused = true)]
async fn an_audit_that_fails_does_no_harm() {
    let answers: [fn(Asked); 4] = [
        |asked| asked.refuse(500, "InternalError", "no"),
        |asked| asked.fail(),
        |asked| asked.answer(200, "{\"items\": 7}"),
        |asked| asked.answer(200, list(&[json!({"metadata": {"uid": 7}})], 20, "").to_string()),
    ];
    for answer in answers {
        let mut scene = Scene::start().await;
        answer(scene.audit().await);
        scene.nothing_happens().await;
        assert_eq!((scene.counted(), scene.store.read().len()), ((0, 0), 2));
    }
    let later: [fn(Asked); 2] =
        [|asked| asked.refuse(410, "Expired", "too old"), |asked| page(asked, &[pod("c", 9)], 21)];
    for answer in later {
        let mut scene = Scene::start().await;
        scene.audit().await.answer(200, list(&[pod("a", 5)], 20, "more").to_string());
        answer(scene.server.next().await);
        scene.watch.bookmark(30, false);
        scene.nothing_happens().await;
        assert_eq!((scene.counted(), scene.store.read().len()), ((0, 0), 2));
    }
}

/// Contract: B-07
#[tokio::test(start_paused = true)]
async fn it_asks_for_metadata_of_its_own_scope_page_by_page() {
    let mut pods = WatchedResource::pods();
    pods.namespace = Some("ns".into());
    pods.label_selector = "app=web".into();
    let mut scene = Scene::start_in(pods).await;
    let first = scene.server.next().await;
    assert_eq!(first.path, "/api/v1/namespaces/ns/pods?limit=500&labelSelector=app%3Dweb");
    let accept = first.headers["accept"].to_str().unwrap();
    assert!(
        accept.starts_with("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"),
        "{accept}"
    );
    let before = Instant::now();
    first.answer_with(200, &[PROTOBUF], protobuf::body(&list(&[pod("b", 6)], 20, "t")));
    let second = scene.server.next().await;
    assert_eq!(second.path, "/api/v1/namespaces/ns/pods?limit=500&labelSelector=app%3Dweb&continue=t");
    assert_eq!(before.elapsed(), BETWEEN_PAGES);
    second.answer_with(200, &[PROTOBUF], protobuf::body(&list(&[pod("a", 5)], 20, "")));
    settle().await;
    assert_eq!(scene.counted(), (1, 0));
}

/// Contract: B-07
#[tokio::test(start_paused = true)]
async fn a_list_that_is_read_meanwhile_makes_it_void() {
    let mut scene = Scene::start().await;
    let asked = scene.audit().await;
    scene.watch.event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}));
    scene.relist(&[pod("c", 40)], 41).await;
    page(asked, &[pod("a", 5), pod("b", 6)], 20);
    scene.nothing_happens().await;
    assert_eq!(scene.counted(), (0, 0));
}

/// Contract: B-07
#[tokio::test(start_paused = true)]
async fn a_server_that_was_restored_from_a_backup_is_noticed() {
    let mut scene = Scene::start().await;
    page(scene.audit().await, &[pod("a", 3)], 4);
    scene.relist(&[pod("a", 3)], 4).await;
    assert_eq!(scene.told(), ["updated a@3", "tombstone b@6"]);
}
