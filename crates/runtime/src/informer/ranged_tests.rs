//! Informers of ranges against a scripted server, under paused time.

use std::{sync::Mutex, time::Duration};

use bytes::Bytes;
use muster_machinery::Change;
use muster_objects::{HashRange, Pod};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::{
    informer::{Informers, Store, subscription::MOST_WAITING},
    script::{Asked, Server, Stream, server},
};

const HALF: u64 = 1 << 63;

fn lower() -> HashRange {
    HashRange::new(0, HALF - 1).unwrap()
}

fn upper() -> HashRange {
    HashRange::new(HALF, u64::MAX).unwrap()
}

const NAMESPACES: &str = "namespaces?limit=500";
const PRESENT: &str = "pods?limit=1";
const NOT_OLDER: &str = "/pods?limit=500&resourceVersion=20&resourceVersionMatch=NotOlderThan";

/// A list of so many namespaces of the lower half and as many of the upper one.
fn namespaces(version: u64, of_each: usize) -> String {
    let of = |range: HashRange| {
        let within = (0..).map(|at| format!("{at}-space")).filter(move |name| range.has_namespace(name)).take(of_each);
        within.map(|name| json!({"metadata": {"name": name}}))
    };
    let items: Vec<Value> = of(lower()).chain(of(upper())).collect();
    json!({"metadata": {"resourceVersion": version.to_string()}, "items": items}).to_string()
}

/// A namespace within a range.
fn namespace(range: HashRange) -> String {
    (0..).map(|at| format!("{at}-space")).find(|name| range.has_namespace(name)).unwrap()
}

fn pod(namespace: &str, name: &str, version: u64) -> Value {
    json!({"metadata": {
        "namespace": namespace, "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
    }})
}

/// A list that says that it is of a shard, or does not.
fn list(sharded: bool, version: u64, items: &[Value]) -> String {
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if sharded {
        metadata["shardInfo"] = json!({"selector": "as asked"});
    }
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}).to_string()
}

async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// What a request asks for: a list or watch with its parameters, the shard selector as a range's name.
fn asks(asked: &Asked) -> String {
    let mut path = asked.path.clone();
    for (name, range) in [("lower", lower()), ("upper", upper()), ("all", HashRange::ALL)] {
        let mut query = WatchedResource::pods();
        query.range = Some(range);
        let list = query.list(1, &Page::First);
        let selector = list.split_once("shardSelector=").unwrap().1.to_owned();
        path = path.replace(&selector, name);
    }
    let timeout = path.split('&').find(|part| part.starts_with("timeoutSeconds")).map(|part| format!("&{part}"));
    path.replace(&timeout.unwrap_or_default(), "").replace("/api/v1/", "").replace("&allowWatchBookmarks=true", "")
}

struct Scene {
    server: Server,
    client: Client,
}

/// An informer that runs.
struct Running {
    store: Store<Pod>,
    told: Arc<Mutex<Vec<String>>>,
    run: JoinHandle<()>,
}

impl Running {
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

impl Scene {
    fn new() -> Self {
        let (client, server) = server();
        Self { server, client }
    }

    fn run(&self, range: HashRange, resync: Duration) -> Running {
        let mut informers = Informers::new(self.client.clone(), resync, 3).within(Some(range));
        let informer = informers.of::<Pod>(&WatchedResource::pods());
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        informer.add_handler(move |change: &Change<Pod>| {
            let meta = &change.object().meta;
            let what = match change {
                Change::Added(_) => "added",
                Change::Updated { old, new } if old.meta.resource_version == new.meta.resource_version => return,
                Change::Updated { .. } => "updated",
                Change::Deleted { tombstone: true, .. } => "tombstone",
                Change::Deleted { .. } => "deleted",
            };
            log.lock().unwrap().push(format!("{what} {}@{}", meta.name, meta.resource_version));
        });
        let store = informer.store();
        let run = informers.into_runs().pop().unwrap();
        Running { store, told, run: tokio::spawn(run) }
    }

    /// The next request, which must be this one. Unless it is expected, who asks for the present version is told 20, and who asks
    /// for the namespaces of many.
    async fn next(&mut self, expected: &str) -> Asked {
        let asked = self.server.next().await;
        if asks(&asked) == PRESENT && expected != PRESENT {
            asked.answer(200, list(false, 20, &[]));
            return Box::pin(self.next(expected)).await;
        }
        if asks(&asked) == NAMESPACES && expected != NAMESPACES {
            asked.answer(200, namespaces(20, FEW + 1));
            return Box::pin(self.next(expected)).await;
        }
        assert_eq!(asks(&asked), expected);
        asked
    }

    /// Answers how the shared watch of the lower half begins, at 10.
    async fn begun(&mut self, sharded: bool) -> Stream {
        self.next("pods?limit=1&shardSelector=all").await.answer(200, list(sharded, 10, &[]));
        let watch = if sharded {
            "pods?watch=true&shardSelector=lower&resourceVersion=10"
        } else {
            "pods?watch=true&resourceVersion=10"
        };
        self.next(watch).await.stream()
    }

    /// A lower half that has `a` at 5, as of 12.
    async fn started(&mut self, resync: Duration) -> (Running, Stream) {
        let running = self.run(lower(), resync);
        let watch = self.begun(true).await;
        let asked = self.next("pods?limit=500&shardSelector=lower").await;
        asked.answer(200, list(true, 12, &[pod(&namespace(lower()), "a", 5)]));
        running.store.synced().await;
        assert_eq!(running.told(), ["added a@5"]);
        (running, watch)
    }

    async fn nobody_asks(&mut self) {
        assert_eq!(self.server.try_next().await.map(|asked| asks(&asked)), None);
    }
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn events_before_during_and_after_the_list_are_applied_once_and_none_is_lost() {
    let mut scene = Scene::new();
    let near = namespace(lower());
    let running = scene.run(lower(), Duration::ZERO);
    let watch = scene.begun(true).await;
    let asked = scene.next("pods?limit=500&shardSelector=lower").await;
    // The list shows what came up to 12; these are on their way to the cache meanwhile.
    for (kind, name, version) in [
        ("ADDED", "gone", 11),
        ("ADDED", "a", 11),
        ("MODIFIED", "a", 12),
        ("DELETED", "gone", 12),
        ("MODIFIED", "a", 13),
    ] {
        watch.event(kind, &pod(&near, name, version));
    }
    settle().await;
    assert!(!running.store.is_synced());
    asked.answer(200, list(true, 12, &[pod(&near, "a", 12)]));
    settle().await;
    watch.event("ADDED", &pod(&near, "b", 14));
    settle().await;
    assert_eq!(running.told(), ["added a@12", "updated a@13", "added b@14"]);
    assert_eq!(running.store.newest(), ResourceVersion(14));
    watch.bookmark(20, false);
    settle().await;
    assert_eq!(running.store.newest(), ResourceVersion(20));
    scene.nobody_asks().await;
}

/// Each list of a range costs a server that shards a look at every object of all ranges.
///
/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_range_of_few_namespaces_is_listed_by_these_where_the_server_shards_too() {
    let mut scene = Scene::new();
    let running = scene.run(lower(), Duration::ZERO);
    let watch = scene.begun(true).await;
    scene.next(PRESENT).await.answer(200, list(false, 20, &[]));
    scene.next(NAMESPACES).await.answer(200, namespaces(900, FEW));
    for at in 0..FEW {
        let asked = scene.server.next().await;
        let asks = asks(&asked);
        let name = asks.strip_prefix("namespaces/").and_then(|rest| rest.strip_suffix(NOT_OLDER)).unwrap();
        assert!(lower().has_namespace(name), "{name}");
        asked.answer(200, list(false, 30, &[pod(name, &format!("pod-{at}"), 25)]));
    }
    running.store.synced().await;
    watch.event("ADDED", &pod(&namespace(lower()), "new", 31));
    settle().await;
    assert_eq!(running.store.read().len(), FEW + 1);
    scene.nobody_asks().await;
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn where_the_server_does_not_shard_each_namespace_has_a_version_of_its_own() {
    let mut scene = Scene::new();
    let (near, far) = (namespace(lower()), namespace(upper()));
    let new = (0..).map(|at| format!("{at}-new")).find(|name| lower().has_namespace(name)).unwrap();
    let running = scene.run(lower(), Duration::ZERO);
    let watch = scene.begun(false).await;
    // Namespaces may be in another storage, whose versions say nothing.
    let namespaces = json!({"metadata": {"resourceVersion": "900"}, "items": [
        {"metadata": {"name": far}}, {"metadata": {"name": near}},
    ]});
    scene.next("namespaces?limit=500").await.answer(200, namespaces.to_string());
    let asked = scene.next(&format!("namespaces/{near}{NOT_OLDER}")).await;
    watch.event("ADDED", &pod(&near, "a", 25));
    watch.event("ADDED", &pod(&far, "x", 26));
    // A namespace that came after they were listed: nothing of it was.
    watch.event("ADDED", &pod(&new, "n", 27));
    watch.event("MODIFIED", &pod(&near, "a", 31));
    asked.answer(200, list(false, 30, &[pod(&near, "a", 25)]));
    settle().await;
    assert_eq!(running.told(), ["added a@25", "added n@27", "updated a@31"]);
    assert_eq!(running.store.read().len(), 2);
    scene.nobody_asks().await;
}

/// A server's cache that is behind answers nothing of a version that it has not reached, and its storage answers a list without
/// one. A page that follows has the version of the first in its token, and may not ask for another.
///
/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_cache_that_is_behind_is_passed_by() {
    let mut scene = Scene::new();
    let near = namespace(lower());
    let running = scene.run(lower(), Duration::from_secs(60));
    let _watch = scene.begun(false).await;
    let pods = format!("namespaces/{near}/pods?limit=500");
    let (cached, second) = (format!("namespaces/{near}{NOT_OLDER}"), format!("{pods}&continue=next"));
    let too_new = json!({"kind": "Status", "status": "Failure", "code": 504, "reason": "Timeout", "message": "too large",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}});
    // The filling of the cache, and its audit.
    for audits in [false, true] {
        if audits {
            scene.next(NAMESPACES).await.answer(200, json!({"metadata": {}, "items": []}).to_string());
        }
        scene.next(PRESENT).await.answer(200, list(false, 20, &[]));
        let namespaces = json!({"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": near}}]});
        scene.next(NAMESPACES).await.answer(200, namespaces.to_string());
        scene.next(&cached).await.answer(504, too_new.to_string());
        let mut page: Value = serde_json::from_str(&list(false, 21, &[pod(&near, "a", 5)])).unwrap();
        page["metadata"]["continue"] = json!("next");
        scene.next(&pods).await.answer(200, page.to_string());
        scene.next(&second).await.answer(200, list(false, 21, &[pod(&near, "b", 6)]));
        settle().await;
        assert_eq!(running.told(), if audits { vec![] } else { vec!["added a@5", "added b@6"] });
    }
    scene.next(NAMESPACES).await;
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn who_may_not_list_namespaces_lists_everything_and_keeps_what_is_within() {
    let mut scene = Scene::new();
    let running = scene.run(lower(), Duration::ZERO);
    let _watch = scene.begun(false).await;
    scene.next("namespaces?limit=500").await.refuse(403, "Forbidden", "no");
    let items = [pod(&namespace(lower()), "a", 5), pod(&namespace(upper()), "x", 6)];
    scene.next("pods?limit=500").await.answer(200, list(false, 12, &items));
    running.store.synced().await;
    assert_eq!(running.told(), ["added a@5"]);
}

/// A list that does not say that it is of a shard is none, whatever the server has said before.
///
/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_server_that_stops_to_shard_is_noticed_by_the_next_list() {
    let mut scene = Scene::new();
    let (near, far) = (namespace(lower()), namespace(upper()));
    let (running, watch) = scene.started(Duration::ZERO).await;
    // The watch of an older server tells everything.
    watch.event("ADDED", &pod(&far, "x", 13));
    watch.event("ADDED", &pod(&near, "b", 14));
    settle().await;
    assert_eq!(running.told(), ["added b@14"]);

    let anew = tokio::spawn({
        let store = running.store.clone();
        async move { store.read_anew().await }
    });
    let watch = scene.next("pods?watch=true&shardSelector=lower&resourceVersion=14").await.stream();
    let unsharded = list(false, 15, &[pod(&far, "x", 13), pod(&near, "b", 14)]);
    scene.next("pods?limit=500&shardSelector=lower").await.answer(200, unsharded);
    let namespaces = json!({"metadata": {"resourceVersion": "16"}, "items": [{"metadata": {"name": near}}]});
    scene.next("namespaces?limit=500").await.answer(200, namespaces.to_string());
    let asked = scene.next(&format!("namespaces/{near}{NOT_OLDER}")).await;
    asked.answer(200, list(false, 17, &[pod(&near, "b", 14)]));
    anew.await.unwrap();
    assert_eq!(running.told(), ["tombstone a@5"]);
    // And from then on the watch is of everything.
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(watch);
    scene.next("pods?watch=true&resourceVersion=14").await.stream();
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_parameter_that_is_refused_is_not_sent_again() {
    for code in [400, 500] {
        let mut scene = Scene::new();
        scene.run(lower(), Duration::ZERO);
        scene.next("pods?limit=1&shardSelector=all").await.refuse(code, "BadRequest", "unknown parameter");
        scene.next("pods?limit=1").await.answer(200, list(false, 10, &[]));
        let _watch = scene.next("pods?watch=true&resourceVersion=10").await.stream();
        scene.next("namespaces?limit=500").await;
    }
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn ranges_share_one_watch_and_only_the_one_that_comes_is_listed() {
    let mut scene = Scene::new();
    let (near, far) = (namespace(lower()), namespace(upper()));
    let (first, watch) = scene.started(Duration::ZERO).await;
    watch.event("MODIFIED", &pod(&near, "a", 13));
    settle().await;
    let second = scene.run(upper(), Duration::ZERO);
    // Both halves are everything; the watch goes on from where it was.
    let both = scene.next("pods?watch=true&shardSelector=all&resourceVersion=13").await;
    settle().await;
    assert!(!watch.is_open());
    let both = both.stream();
    both.event("ADDED", &pod(&near, "b", 14));
    both.event("ADDED", &pod(&far, "x", 15));
    scene.next("pods?limit=500&shardSelector=upper").await.answer(200, list(true, 16, &[pod(&far, "x", 15)]));
    both.event("DELETED", &pod(&far, "x", 17));
    both.bookmark(20, false);
    settle().await;
    assert_eq!(first.told(), ["updated a@13", "added b@14"]);
    assert_eq!(second.told(), ["added x@15", "deleted x@17"]);
    assert_eq!((first.store.newest().0, second.store.newest().0), (20, 20), "bookmarks are for all");
    scene.nobody_asks().await;

    // One that goes leaves the watch as it is; the next opening is of those who are left.
    first.run.abort();
    settle().await;
    both.event("ADDED", &pod(&near, "c", 21));
    both.event("ADDED", &pod(&far, "y", 22));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((first.told().len(), second.told()), (0, vec!["added y@22".to_owned()]));
    drop(both);
    let last = scene.next("pods?watch=true&shardSelector=upper&resourceVersion=22").await.stream();
    second.run.abort();
    settle().await;
    assert!(!last.is_open(), "a watch that is nobody's ends");
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_position_that_has_expired_has_everyone_list_again() {
    // What else a watch reports is nothing to go on after either, as in client-go.
    for (code, reason) in [(410, "Expired"), (500, "InternalError")] {
        let mut scene = Scene::new();
        let near = namespace(lower());
        let (running, watch) = scene.started(Duration::ZERO).await;
        watch.event("ERROR", &json!({"kind": "Status", "code": code, "reason": reason, "message": "too old"}));
        scene.next("pods?limit=1&shardSelector=all").await.answer(200, list(true, 40, &[]));
        let watch = scene.next("pods?watch=true&shardSelector=lower&resourceVersion=40").await.stream();
        let asked = scene.next("pods?limit=500&shardSelector=lower").await;
        watch.event("ADDED", &pod(&near, "c", 42));
        asked.answer(200, list(true, 41, &[pod(&near, "b", 30)]));
        settle().await;
        assert_eq!(running.told(), ["added b@30", "tombstone a@5", "added c@42"]);
    }
}

/// A server that is busy, a watch that breaks off, and a probe that cannot be read say nothing of the position.
///
/// Contract: SH-04, INF-05
#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_was_after_what_says_nothing_of_its_position() {
    let mut scene = Scene::new();
    let near = namespace(lower());
    let (running, watch) = scene.started(Duration::ZERO).await;
    watch.event("ERROR", &json!({"kind": "Status", "reason": "TooManyRequests", "message": "busy"}));
    scene.next("pods?limit=1&shardSelector=all").await.answer(200, "a proxy's page");
    scene.next("pods?limit=1&shardSelector=all").await.answer(200, list(true, 40, &[]));
    let watch = scene.next("pods?watch=true&shardSelector=lower&resourceVersion=10").await.stream();
    watch.event("ADDED", &pod(&near, "c", 42));
    settle().await;
    watch.fail();
    scene.next("pods?limit=1&shardSelector=all").await.answer(200, list(true, 50, &[]));
    let _watch = scene.next("pods?watch=true&shardSelector=lower&resourceVersion=42").await.stream();
    assert_eq!(running.told(), ["added c@42"]);
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_range_tells_for_how_long_the_watch_that_it_shares_has_failed() {
    let mut scene = Scene::new();
    let (running, watch) = scene.started(Duration::ZERO).await;
    assert_eq!(running.store.failing_for(), None);
    watch.fail();
    let asked = scene.next("pods?limit=1&shardSelector=all").await;
    assert!(running.store.failing_for().is_some_and(|failing| !failing.is_zero()), "since before the wait");
    asked.answer(200, list(true, 12, &[]));
    let _watch = scene.next("pods?watch=true&shardSelector=lower&resourceVersion=10").await.stream();
    settle().await;
    assert_eq!(running.store.failing_for(), None);
}

/// A server that was put back to an earlier version has no list that reaches the watch's.
///
/// Contract: SH-04, B-07
#[tokio::test(start_paused = true)]
async fn a_server_at_an_earlier_version_has_everyone_list_again() {
    let mut scene = Scene::new();
    let near = namespace(lower());
    let (running, watch) = scene.started(Duration::ZERO).await;
    watch.fail();
    scene.next("pods?limit=1&shardSelector=all").await.answer(200, list(true, 4, &[]));
    let watch = scene.next("pods?watch=true&shardSelector=lower&resourceVersion=4").await.stream();
    scene.next("pods?limit=500&shardSelector=lower").await.answer(200, list(true, 4, &[pod(&near, "b", 3)]));
    settle().await;
    watch.event("ADDED", &pod(&near, "c", 5));
    settle().await;
    assert_eq!(running.told(), ["added b@3", "tombstone a@5", "added c@5"]);
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_the_watch_is_not_taken() {
    let mut scene = Scene::new();
    let running = scene.run(lower(), Duration::ZERO);
    let _watch = scene.begun(true).await;
    scene.next("pods?limit=500&shardSelector=lower").await.answer(200, list(true, 9, &[]));
    settle().await;
    assert!(!running.store.is_synced());
    scene.next("pods?limit=500&shardSelector=lower").await.answer(200, list(true, 10, &[]));
    running.store.synced().await;
}

/// Contract: SH-04, B-07
#[tokio::test(start_paused = true)]
async fn an_audit_compares_the_range_and_has_a_dead_watch_opened_again() {
    let mut scene = Scene::new();
    let near = namespace(lower());
    let (running, watch) = scene.started(Duration::from_secs(60)).await;
    // As a list of metadata on a server that shards: it does not say so. What is foreign counts for nothing.
    let audited = list(false, 12, &[pod(&near, "a", 5), pod(&namespace(upper()), "x", 6)]);
    scene.next("pods?limit=500&shardSelector=lower").await.answer(200, audited);
    settle().await;
    scene.nobody_asks().await;

    let differs = list(false, 30, &[pod(&near, "a", 5), pod(&near, "b", 25)]);
    scene.next("pods?limit=500&shardSelector=lower").await.answer(200, differs);
    // The watch has not come so far, and is given time; then it counts as dead.
    let again = scene.next("pods?watch=true&shardSelector=lower&resourceVersion=10").await;
    settle().await;
    assert!(!watch.is_open());
    let _watch = again.stream();
    let listed = list(true, 31, &[pod(&near, "a", 5), pod(&near, "b", 25)]);
    scene.next("pods?limit=500&shardSelector=lower").await.answer(200, listed);
    settle().await;
    assert_eq!(running.told(), ["added b@25"]);
}

/// Contract: SH-04, B-07
#[tokio::test(start_paused = true)]
async fn an_audit_by_namespaces_compares_each_as_of_its_own_version() {
    let mut scene = Scene::new();
    let near = namespace(lower());
    let running = scene.run(lower(), Duration::from_secs(60));
    let watch = scene.begun(false).await;
    let namespaces =
        json!({"metadata": {"resourceVersion": "900"}, "items": [{"metadata": {"name": near}}]}).to_string();
    let pods = format!("namespaces/{near}{NOT_OLDER}");
    scene.next(PRESENT).await.answer(200, list(false, 11, &[]));
    scene.next(NAMESPACES).await.answer(200, namespaces.clone());
    scene.next(&pods.replace("=20", "=11")).await.answer(200, list(false, 12, &[pod(&near, "a", 5)]));
    running.store.synced().await;
    assert_eq!(running.store.newest(), ResourceVersion(11), "up to which everything was listed");
    // One that goes between two lists is looked at like all others.
    let gone = (0..).map(|at| format!("{at}-gone")).find(|name| lower().has_namespace(name) && *name < near).unwrap();
    watch.event("ADDED", &pod(&gone, "g", 13));
    let both = json!({"metadata": {}, "items": [{"metadata": {"name": near}}, {"metadata": {"name": gone}}]});
    scene.next(NAMESPACES).await.answer(200, both.to_string());
    scene.next(PRESENT).await.answer(200, list(false, 20, &[]));
    watch.event("DELETED", &pod(&gone, "g", 21));
    scene.next(NAMESPACES).await.answer(200, namespaces);
    scene.next(&format!("namespaces/{gone}{NOT_OLDER}")).await.answer(200, list(false, 21, &[]));
    let asked = scene.next(&pods).await;
    watch.event("ADDED", &pod(&near, "b", 22));
    watch.event("DELETED", &pod(&near, "a", 25));
    settle().await;
    // As of 23: the one event counts, and the other does not.
    asked.answer(200, list(false, 23, &[pod(&near, "a", 5), pod(&near, "b", 22)]));
    settle().await;
    let next = scene.server.next().await;
    assert_eq!(asks(&next), NAMESPACES, "they agree, so that what follows is the next audit");
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn what_is_foreign_is_not_decoded_and_still_moves_the_position() {
    let mut scene = Scene::new();
    let (running, watch) = scene.started(Duration::ZERO).await;
    // Nobody who decoded it could tell its version.
    let object = format!(
        "{{\"metadata\":{{\"namespace\":\"{}\",\"resourceVersion\":\"50\",\"labels\":17}}}}",
        namespace(upper())
    );
    watch.raw(format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(watch);
    let watch = scene.next("pods?watch=true&shardSelector=lower&resourceVersion=50").await.stream();
    // One whose namespace is not found by itself is decoded by everyone.
    let object = format!("{{\"spec\":nonsense?,\"metadata\":{{\"namespace\":\"{}\"}}}}", namespace(lower()));
    watch.raw(format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"));
    watch.event("ADDED", &pod(&namespace(lower()), "b", 51));
    settle().await;
    assert_eq!(running.told(), ["added b@51"]);
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn one_who_takes_less_than_comes_lists_again() {
    let line = Line::new(lower());
    line.open(ResourceVersion(1));
    let frame = Bytes::from(vec![b'x'; 1 << 20]);
    for _ in 0..MOST_WAITING / frame.len() {
        line.push(Item::Frame(Encoding::Json, frame.clone()));
    }
    assert!(line.is_open());
    assert!(matches!(line.take(), Ok(Some(Item::Frame(..)))));
    line.push(Item::Frame(Encoding::Json, frame.clone()));
    assert!(line.is_open(), "what was taken is not counted");
    line.push(Item::Frame(Encoding::Json, frame));
    assert!(!line.is_open());
    assert!(line.take().is_err(), "and what waited is gone");
    line.ready().await;
}

/// Contract: SH-05
#[tokio::test(start_paused = true)]
async fn without_a_range_nothing_is_shared_and_nothing_is_asked_for() {
    let scene = Scene::new();
    let Scene { mut server, client } = scene;
    let mut informers = Informers::new(client, Duration::ZERO, 3);
    informers.of::<Pod>(&WatchedResource::pods());
    for run in informers.into_runs() {
        tokio::spawn(run);
    }
    let asked = server.next().await;
    assert_eq!(asks(&asked), "pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_range_is_read_once_without_a_watch() {
    let mut scene = Scene::new();
    let client = scene.client.clone();
    let mut pods = WatchedResource::pods();
    pods.range = Some(lower());
    let reading = tokio::spawn(async move { crate::informer::read_once::<Pod>(&client, pods).await });
    let near = namespace(lower());
    let items = [pod(&near, "a", 5), pod(&namespace(upper()), "x", 6)];
    scene.next("pods?limit=500&shardSelector=lower").await.answer(200, list(true, 12, &items));
    let cache = reading.await.unwrap().unwrap();
    assert_eq!((cache.len(), cache.newest()), (1, ResourceVersion(12)));
}
