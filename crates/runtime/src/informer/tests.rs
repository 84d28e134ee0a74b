//! Whole informers against a scripted server, under paused time.

use std::sync::{Arc, Mutex};

use muster_objects::{Pod, ReplicaSet};
use serde_json::{Value, json};

use super::*;
use crate::script::{Server, Stream, server};

type Told = Arc<Mutex<Vec<String>>>;

fn take(told: &Told) -> Vec<String> {
    std::mem::take(&mut told.lock().unwrap())
}

/// A handler that records its changes, and the version that the store shows meanwhile.
struct Listener {
    told: Told,
    store: Store<Pod>,
}

impl Handler<Pod> for Listener {
    fn changed(&mut self, changes: &[Change<Pod>], _priority: Priority) {
        let shown = self.store.newest();
        for change in changes {
            let object = change.object();
            let line = match change {
                Change::Added(pod) => format!("added {}@{}", pod.meta.name, pod.meta.resource_version),
                Change::Updated { old, new } => {
                    format!("updated {} {}->{}", new.meta.name, old.meta.resource_version, new.meta.resource_version)
                }
                Change::Deleted { last, tombstone } => {
                    let how = if *tombstone { "tombstone" } else { "deleted" };
                    format!("{how} {}@{}", last.meta.name, last.meta.resource_version)
                }
            };
            let repeated = line.starts_with("updated") && shown >= object.meta.resource_version;
            assert!(!self.store.is_settled() || repeated, "{line}: a sync could read it before the handlers have run");
            assert!(
                shown < object.meta.resource_version || repeated || line.starts_with("tombstone"),
                "{line}: the store shows {shown} before its handlers have been told"
            );
            self.told.lock().unwrap().push(line);
        }
    }

    fn reached(&mut self, version: ResourceVersion) {
        self.told.lock().unwrap().push(format!("reached {version}"));
    }
}

fn pod(name: &str, version: u64) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()}})
}

async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// An informer of pods that has seen `a` at 5 and reached 10.
async fn started(min_resync: Duration) -> (Server, Stream, Store<Pod>, Told) {
    let (client, mut server) = server();
    let mut informer = Informer::<Pod>::new(client, WatchedResource::pods(), min_resync, 3);
    let store = informer.store();
    let told = Told::default();
    informer.add_handler(Listener { told: told.clone(), store: store.clone() });
    tokio::spawn(informer.run());
    let stream = server.next().await.stream();
    stream.event("ADDED", &pod("a", 5));
    settle().await;
    assert!(!store.is_synced());
    stream.bookmark(10, true);
    store.synced().await;
    assert_eq!(take(&told), ["added a@5", "reached 10"]);
    (server, stream, store, told)
}

/// Contract: INF-03, INF-09
#[tokio::test(start_paused = true)]
async fn handlers_get_each_change_in_order() {
    let (_server, stream, store, told) = started(Duration::ZERO).await;
    stream.event("ADDED", &pod("b", 11));
    stream.event("MODIFIED", &pod("b", 12));
    stream.event("MODIFIED", &pod("a", 13));
    stream.event("DELETED", &pod("b", 14));
    settle().await;
    let changes = ["added b@11", "updated b 11->12", "updated a 5->13", "deleted b@14", "reached 14"];
    assert_eq!(take(&told), changes);
    assert_eq!(store.newest(), ResourceVersion(14));
    stream.bookmark(20, false);
    settle().await;
    assert_eq!(store.newest(), ResourceVersion(20), "a bookmark counts");
    assert_eq!(take(&told), ["reached 20"]);
}

/// A handler makes more of its changes than they are: 200,000 pods at once took twice the memory of all of them.
#[tokio::test(start_paused = true)]
async fn a_long_list_comes_to_a_handler_piece_by_piece() {
    struct Pieces(Told);
    impl Handler<Pod> for Pieces {
        fn changed(&mut self, changes: &[Change<Pod>], priority: Priority) {
            let ends = [changes.first(), changes.last()].map(|change| change.unwrap().object().meta.name.to_string());
            self.0.lock().unwrap().push(format!("{} {ends:?} {priority:?}", changes.len()));
        }

        fn reached(&mut self, version: ResourceVersion) {
            self.0.lock().unwrap().push(format!("reached {version}"));
        }
    }

    let (client, mut server) = server();
    let mut informer = Informer::<Pod>::new(client, WatchedResource::pods(), Duration::ZERO, 3);
    let (store, told) = (informer.store(), Told::default());
    informer.add_handler(Pieces(told.clone()));
    tokio::spawn(informer.run());
    let stream = server.next().await.stream();
    (0..600).for_each(|nth| stream.event("ADDED", &pod(&format!("p{nth}"), nth + 1)));
    stream.bookmark(600, true);
    store.synced().await;
    let pieces =
        [r#"256 ["p0", "p255"] Low"#, r#"256 ["p256", "p511"] Low"#, r#"88 ["p512", "p599"] Low"#, "reached 600"];
    assert_eq!(take(&told), pieces);
}

/// Contract: INF-04
#[tokio::test(start_paused = true)]
async fn what_a_relist_does_not_find_is_a_tombstone_of_its_last_known_state() {
    let (mut server, stream, store, told) = started(Duration::ZERO).await;
    stream.event("ADDED", &pod("b", 11));
    settle().await;
    take(&told);
    stream.event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}));
    let stream = server.next().await.stream();
    // While `a` went and `c` came, `b` changed.
    stream.event("ADDED", &pod("b", 30));
    stream.event("ADDED", &pod("c", 31));
    stream.bookmark(35, true);
    settle().await;
    assert_eq!(take(&told), ["updated b 11->30", "added c@31", "tombstone a@5", "reached 35"]);
    assert_eq!(store.read().len(), 2);
}

/// Contract: B-12, INF-01
#[tokio::test(start_paused = true)]
async fn read_anew_is_what_a_list_says_that_began_after_it_was_asked_for() {
    let (client, mut server) = server();
    let informer = Informer::<Pod>::new(client, WatchedResource::pods(), Duration::ZERO, 3);
    let store = informer.store();
    tokio::spawn(informer.run());
    let old = server.next().await.stream();
    let asking = tokio::spawn({
        let store = store.clone();
        async move { store.read_anew().await }
    });
    let new = server.next().await.stream();
    assert!(!old.is_open(), "a list that began before is of no use");
    settle().await;
    assert!(!asking.is_finished() && !store.is_synced());
    new.event("ADDED", &pod("a", 5));
    new.bookmark(10, true);
    asking.await.unwrap();
    assert_eq!((store.newest(), store.read().len()), (ResourceVersion(10), 1));
}

/// Contract: INF-06
#[tokio::test(start_paused = true)]
async fn a_resync_reports_every_object_as_updated_to_itself() {
    let period = Duration::from_secs(100);
    let (mut server, stream, _store, told) = started(period).await;
    let resynced = ["updated a 5->5", "reached 10"];
    tokio::time::sleep(period - Duration::from_millis(1)).await;
    assert!(take(&told).is_empty(), "not before the period");
    tokio::time::sleep(period).await;
    let lines = take(&told);
    assert_eq!(lines, resynced, "once before twice the period");
    tokio::time::sleep(period).await;
    assert!(take(&told).chunks(2).all(|lines| lines == resynced), "and so on");
    assert!(stream.is_open(), "without the server's help");
    while let Some(asked) = server.try_next().await {
        assert_eq!(asked.path, "/api/v1/pods?limit=500", "only audits ask");
    }
}

/// A handler that records of each pod with which priority it was told.
struct Urgent(Arc<Mutex<Vec<(String, Priority)>>>);

impl Handler<Pod> for Urgent {
    fn changed(&mut self, changes: &[Change<Pod>], priority: Priority) {
        let named = changes.iter().map(|change| (change.object().meta.name.to_string(), priority));
        self.0.lock().unwrap().extend(named);
    }
}

/// Contract: SH-07
#[tokio::test(start_paused = true)]
async fn what_the_first_list_and_a_resync_report_is_of_low_priority_and_what_a_relist_finds_is_not() {
    let (client, mut server) = server();
    let period = Duration::from_secs(100);
    let mut informer = Informer::<Pod>::new(client, WatchedResource::pods(), period, 3);
    let told = Arc::<Mutex<Vec<_>>>::default();
    informer.add_handler(Urgent(told.clone()));
    tokio::spawn(informer.run());
    let take = || std::mem::take(&mut *told.lock().unwrap());
    let (low, normal) =
        (|name: &str| (name.to_owned(), Priority::Low), |name: &str| (name.to_owned(), Priority::Normal));
    let stream = server.next().await.stream();
    stream.event("ADDED", &pod("a", 5));
    stream.event("ADDED", &pod("b", 6));
    stream.bookmark(10, true);
    settle().await;
    assert_eq!(take(), [low("a"), low("b")], "a start");
    stream.event("MODIFIED", &pod("a", 11));
    stream.event("ADDED", &pod("c", 12));
    settle().await;
    assert_eq!(take(), [normal("a"), normal("c")]);
    stream.event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}));
    let stream = server.next().await.stream();
    stream.event("ADDED", &pod("a", 11));
    stream.event("ADDED", &pod("b", 20));
    stream.event("ADDED", &pod("d", 21));
    stream.bookmark(30, true);
    settle().await;
    assert_eq!(take(), [normal("b"), normal("d"), normal("c")], "what was missed, and nothing else");
    tokio::time::sleep(2 * period).await;
    assert_eq!(take()[..3], [low("a"), low("b"), low("d")], "a resync");
}

/// Contract: INF-08
#[tokio::test(start_paused = true)]
async fn one_watch_serves_everyone_who_asks() {
    let (client, mut server) = server();
    let mut informers = Informers::new(client, Duration::ZERO, 1);
    let counts = Arc::new(Mutex::new([0; 2]));
    for reader in 0..2 {
        let counts = Arc::clone(&counts);
        informers
            .of::<Pod>(&WatchedResource::pods())
            .add_handler(move |_: &Change<Pod>| counts.lock().unwrap()[reader] += 1);
    }
    let first = informers.of::<Pod>(&WatchedResource::pods()).store();
    let second = informers.of::<Pod>(&WatchedResource::pods()).store();
    informers.of::<ReplicaSet>(&WatchedResource::replicasets());
    for run in informers.into_runs() {
        tokio::spawn(run);
    }
    let asked = [server.next().await, server.next().await];
    assert!(server.try_next().await.is_none(), "two kinds, two watches");
    let pods = asked.into_iter().find(|asked| asked.path.starts_with("/api/v1/pods")).unwrap().stream();
    pods.event("ADDED", &pod("a", 5));
    pods.bookmark(10, true);
    settle().await;
    assert_eq!(*counts.lock().unwrap(), [1, 1]);
    assert_eq!((first.read().len(), second.read().len()), (1, 1));
}

/// Contract: INF-07, INF-09
#[tokio::test(start_paused = true)]
async fn the_indexes_of_a_store_are_current_when_handlers_run() {
    let (_server, stream, store, _told) = started(Duration::ZERO).await;
    let mut owned = pod("b", 11);
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]);
    stream.event("ADDED", &owned);
    settle().await;
    let cache = store.read();
    let names = |pods: Vec<&Arc<Pod>>| pods.iter().map(|pod| pod.meta.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(cache.controlled_by(&muster_objects::Uid::new("w")).collect()), ["b"]);
    assert_eq!(names(cache.orphans("ns").collect()), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_tells_for_how_long_its_watch_has_failed() {
    let (mut server, stream, store, _told) = started(Duration::ZERO).await;
    assert_eq!(store.failing_for(), None);
    stream.fail();
    settle().await;
    assert_eq!(store.failing_for(), Some(Duration::ZERO));
    for _ in 0..3 {
        server.next().await.fail();
        settle().await;
    }
    // Three waits of at least 0.8, 1.6 and 3.2 s.
    let failing = store.failing_for();
    assert!(failing >= Some(Duration::from_millis(5_600)), "from the first failure on: {failing:?}");
    // A watch that says nothing yet is one all the same.
    let _stream = server.next().await.stream();
    settle().await;
    assert_eq!(store.failing_for(), None);
}
