//! Informers of ranges of namespaces on an embedded server, which shards or does not, in virtual time.

#[path = "common/front.rs"]
mod front;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use front::{Front, Mode};
use muster_apiserver::ApiServer;
use muster_machinery::{Cached, Change};
use muster_objects::{HashRange, ObjectKey, Pod, ReplicaSet, ResourceVersion, Timestamp};
use muster_runtime::client::{Client, Options, PatchType};
use muster_runtime::informer::{Informers, Store, WatchedResource};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const START: i64 = 1_767_225_600;
/// Far less than a watch lasts, so that a dead one is found by an audit.
const RESYNC: Duration = Duration::from_secs(120);
/// How long it takes at most until everything that was broken is mended: an audit, its patience, and a backoff.
const MENDED: Duration = Duration::from_secs(900);

type Versions = BTreeMap<ObjectKey, ResourceVersion>;

struct Scene {
    front: Front,
    /// Whose watches are shared.
    reader: Client,
    writer: Client,
    random: u64,
}

/// The informers of one shard.
struct Shard {
    range: HashRange,
    pods: Store<Pod>,
    sets: Store<ReplicaSet>,
    _tasks: JoinSet<()>,
}

impl Scene {
    async fn new(seed: u64, mode: Mode) -> Self {
        Self::with_namespaces(8, seed, mode).await
    }

    async fn with_namespaces(count: u32, seed: u64, mode: Mode) -> Self {
        let server = ApiServer::new(muster_apiserver::Options::seeded(seed, Timestamp::from_seconds(START)));
        let front = Front::new(server.service(), mode);
        let reader = Client::in_process(front.clone(), &Options::default()).shared_watches();
        let writer = Client::in_process(server.service(), &Options::default());
        let mut scene = Self { front, reader, writer, random: seed };
        for _ in 0..count {
            scene.create_namespace().await;
        }
        scene
    }

    /// A number below `bound`.
    fn draw(&mut self, bound: u64) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn draw_mode(&mut self) -> Mode {
        [Mode::Shards, Mode::Ignores, Mode::Refuses][usize::try_from(self.draw(3)).expect("small")]
    }

    async fn create_namespace(&mut self) {
        let name = format!("{:x}-space", self.draw(1 << 20));
        let _ =
            self.writer.post("/api/v1/namespaces", Bytes::from(json!({"metadata": {"name": name}}).to_string())).await;
    }

    /// How many namespaces are within a range.
    async fn namespaces_within(&self, range: HashRange) -> usize {
        let namespaces = self.list("/api/v1/namespaces").await;
        let name = |namespace: &Value| namespace["metadata"]["name"].as_str().expect("a name").to_owned();
        namespaces.iter().filter(|namespace| range.has_namespace(&name(namespace))).count()
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        let answer = self.writer.get(path).await.expect("a list");
        let list: Value = serde_json::from_slice(&answer.body).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Everything there is below a collection's path.
    async fn present(&self, path: &str) -> Versions {
        let items = self.list(path).await;
        let entry = |item: &Value| {
            let text = |name: &str| item["metadata"][name].as_str().expect("text").to_owned();
            let key = ObjectKey { namespace: text("namespace").into(), name: text("name").into() };
            (key, text("resourceVersion").parse().expect("a version"))
        };
        items.iter().map(entry).collect()
    }

    /// Creates, changes or deletes a pod or a ReplicaSet somewhere.
    async fn write(&mut self) {
        let namespaces = self.list("/api/v1/namespaces").await;
        let at = usize::try_from(self.draw(namespaces.len() as u64)).expect("small");
        let namespace = namespaces[at]["metadata"]["name"].as_str().expect("a name");
        let name = format!("o{}", self.draw(3));
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let (collection, object) = if self.draw(2) == 0 {
            (format!("/api/v1/namespaces/{namespace}/pods"), json!({"metadata": {"name": name}, "spec": spec}))
        } else {
            let labels = json!({"a": "b"});
            let spec = json!({
                "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec},
            });
            (
                format!("/apis/apps/v1/namespaces/{namespace}/replicasets"),
                json!({"metadata": {"name": name}, "spec": spec}),
            )
        };
        let path = format!("{collection}/{name}");
        let body = |value: Value| Bytes::from(value.to_string());
        match self.draw(3) {
            0 => drop(self.writer.delete(&path, Some(body(json!({"gracePeriodSeconds": 0})))).await),
            1 => {
                let label = json!({"metadata": {"labels": {"n": self.draw(1000).to_string()}}});
                drop(self.writer.patch(&path, PatchType::Merge, body(label)).await);
            }
            _ => drop(self.writer.post(&collection, body(object)).await),
        }
    }

    fn run(&mut self, range: HashRange) -> Shard {
        let mut informers = Informers::new(self.reader.clone(), RESYNC, self.draw(1 << 40)).within(Some(range));
        let pods = followed::<Pod>(&mut informers, &WatchedResource::pods(), range);
        let sets = followed::<ReplicaSet>(&mut informers, &WatchedResource::replicasets(), range);
        let mut tasks = JoinSet::new();
        for run in informers.into_runs() {
            tasks.spawn(run);
        }
        Shard { range, pods, sets, _tasks: tasks }
    }

    /// That shards have in their caches what is there, each object in one of them.
    async fn check(&self, shards: &[&Shard], why: &str) {
        let pods = self.present("/api/v1/pods").await;
        let sets = self.present("/apis/apps/v1/replicasets").await;
        assert_eq!(together(shards, |shard| &shard.pods), pods, "{why}");
        assert_eq!(together(shards, |shard| &shard.sets), sets, "{why}");
    }
}

/// An informer's store. Its handlers are told of nothing foreign, and of each state of an object once.
fn followed<T: Cached>(informers: &mut Informers, resource: &WatchedResource, range: HashRange) -> Store<T> {
    let informer = informers.of::<T>(resource);
    let newest: Arc<Mutex<Versions>> = Arc::default();
    informer.add_handler(move |change: &Change<T>| {
        let meta = change.object().meta();
        assert!(range.has_namespace(&meta.namespace), "{} is not in {range}", meta.key());
        match change {
            Change::Updated { old, new } if old.meta().resource_version == new.meta().resource_version => {}
            Change::Deleted { tombstone: true, .. } => {}
            _ => {
                let before = newest.lock().unwrap().insert(meta.key(), meta.resource_version);
                assert!(
                    before < Some(meta.resource_version),
                    "{}: {} after {before:?}",
                    meta.key(),
                    meta.resource_version
                );
            }
        }
    });
    informer.store()
}

fn together<'a, T: Cached>(shards: &[&'a Shard], store: impl Fn(&'a Shard) -> &'a Store<T>) -> Versions {
    let mut all = Versions::new();
    for shard in shards {
        for object in store(shard).read().iter() {
            let meta = object.meta();
            assert_eq!(all.insert(meta.key(), meta.resource_version), None, "{} is in two shards", meta.key());
        }
    }
    all
}

fn quarters() -> Vec<HashRange> {
    HashRange::cut(&[1 << 62, 2 << 62, 3 << 62]).expect("starts in their order")
}

/// Shards come and go while others write, watches end, stall and expire, and the server is exchanged for another.
async fn story(seed: u64) {
    // Of many namespaces a range is listed at once where the server shards.
    let count = if seed.is_multiple_of(3) { 200 } else { 8 };
    let mut scene = Scene::with_namespaces(count, seed, Mode::Shards).await;
    let mut starts: Vec<u64> = (0..scene.draw(5)).map(|_| scene.draw(u64::MAX - 1) + 1).collect();
    starts.sort_unstable();
    starts.dedup();
    let mode = scene.draw_mode();
    scene.front.set(mode);
    let ranges = HashRange::cut(&starts).expect("starts in their order");
    let mut shards: Vec<Option<Shard>> = ranges.iter().map(|_| None).collect();
    for _ in 0..120 {
        let at = usize::try_from(scene.draw(ranges.len() as u64)).expect("small");
        match scene.draw(40) {
            0..22 => scene.write().await,
            22..24 => scene.create_namespace().await,
            24..28 => shards[at] = Some(scene.run(ranges[at])),
            28 => shards[at] = None,
            29 => scene.front.end(),
            30 => scene.front.expire(),
            31 => scene.front.stall(),
            32 => {
                let mode = scene.draw_mode();
                scene.front.set(mode);
            }
            33 => {
                if let Some(shard) = &shards[at] {
                    // In its own time.
                    let store = shard.pods.clone();
                    tokio::spawn(async move { tokio::time::timeout(RESYNC, store.read_anew()).await });
                }
            }
            34..36 => tokio::time::sleep(Duration::from_secs(scene.draw(400))).await,
            _ => tokio::time::sleep(Duration::from_millis(scene.draw(1500))).await,
        }
    }
    for (shard, range) in shards.iter_mut().zip(&ranges) {
        shard.get_or_insert_with(|| scene.run(*range));
    }
    tokio::time::sleep(MENDED).await;
    let shards: Vec<_> = shards.iter().flatten().collect();
    scene.check(&shards, &format!("seed {seed}")).await;
}

/// Contract: SH-04
#[test]
fn shards_together_have_what_is_there() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (first, cases) = (number("MUSTER_SEED").unwrap_or(0), number("MUSTER_CASES").unwrap_or(24));
    for seed in first..first + cases {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(story(seed));
    }
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_shard_that_comes_costs_a_list_of_it_and_one_that_goes_nothing() {
    let mut scene = Scene::new(1, Mode::Shards).await;
    for _ in 0..60 {
        scene.write().await;
    }
    let ranges = quarters();
    let mut shards: Vec<_> = ranges[..3].iter().map(|range| scene.run(*range)).collect();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = scene.front.asked();
    // For each of two kinds: where to begin, one watch, and for each shard its version, the namespaces, and each within.
    let mut within = 0;
    for range in &ranges[..3] {
        within += scene.namespaces_within(*range).await;
    }
    assert_eq!(asked.len(), 2 * (1 + 1 + 2 * 3 + within), "{asked:#?}");
    let sharded = asked.iter().filter(|path| path.contains("shardSelector=")).count();
    assert_eq!(sharded, 2 * (1 + 1), "{asked:#?}");

    shards.push(scene.run(ranges[3]));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = scene.front.asked();
    let watches = asked.iter().filter(|path| path.contains("watch=true")).count();
    let own = scene.namespaces_within(ranges[3]).await;
    assert_eq!((asked.len(), watches), (2 * (1 + 2 + own), 2), "{asked:#?}");
    scene.check(&shards.iter().collect::<Vec<_>>(), "all four").await;

    shards.remove(0);
    for _ in 0..20 {
        scene.write().await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(scene.front.asked(), Vec::<String>::new());
    assert_eq!(scene.front.watches(), 2, "one for each kind");
    let left = scene.present("/api/v1/pods").await;
    let left = left.keys().filter(|key| !ranges[0].has_namespace(&key.namespace)).count();
    assert_eq!(shards.iter().map(|shard| shard.pods.read().len()).sum::<usize>(), left);

    drop(shards);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.front.watches(), 0, "what is nobody's ends");
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_shard_of_many_namespaces_costs_one_list() {
    let mut scene = Scene::with_namespaces(400, 3, Mode::Shards).await;
    for _ in 0..60 {
        scene.write().await;
    }
    let range = HashRange::ALL;
    let shard = scene.run(range);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = scene.front.asked();
    let own = front::escaped(&range.selector());
    let lists = |of: &str| asked.iter().filter(|path| path.starts_with(of) && path.contains("limit=500")).count();
    assert_eq!((lists("/api/v1/namespaces"), lists("/api/v1/pods"), lists("/apis/apps/v1/")), (2, 1, 1), "{asked:#?}");
    let is_of_range = |path: &&String| path.ends_with(&own);
    assert_eq!(asked.iter().filter(|path| path.contains("limit=500")).filter(is_of_range).count(), 2, "{asked:#?}");
    scene.check(&[&shard], "all").await;
}

/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn where_the_server_does_not_shard_only_namespaces_within_are_listed() {
    for mode in [Mode::Ignores, Mode::Refuses] {
        let mut scene = Scene::new(2, mode).await;
        for _ in 0..60 {
            scene.write().await;
        }
        let ranges = quarters();
        let shard = scene.run(ranges[1]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let within = scene.namespaces_within(ranges[1]).await;
        let all = scene.list("/api/v1/namespaces").await.len();
        assert!((1..all).contains(&within), "{within} of {all} namespaces: nothing is shown");
        let asked = scene.front.asked();
        let lists: Vec<_> = asked.iter().filter(|path| path.contains("limit=500")).collect();
        // For each kind the namespaces, and each namespace.
        assert_eq!(lists.len(), 2 * (1 + within), "{asked:#?}");
        let expected: Versions = scene.present("/api/v1/pods").await;
        let expected = expected.keys().filter(|key| ranges[1].has_namespace(&key.namespace)).count();
        assert!(expected > 0, "or nothing is shown");
        assert_eq!(shard.pods.read().len(), expected, "{mode:?}");
        assert_eq!(shard.range, ranges[1]);
    }
}

/// A server that is exchanged for an older one in the middle of things.
///
/// Contract: SH-04
#[tokio::test(start_paused = true)]
async fn a_server_that_stops_to_shard_leaves_no_foreign_object_and_loses_none() {
    let mut scene = Scene::new(3, Mode::Shards).await;
    let ranges = quarters();
    let mut shards: Vec<_> = ranges.iter().map(|range| scene.run(*range)).collect();
    for turn in 0..6 {
        scene.front.set([Mode::Ignores, Mode::Shards, Mode::Refuses][turn % 3]);
        if turn % 2 == 0 {
            scene.front.end();
        }
        let range = ranges[turn % 4];
        shards[turn % 4] = scene.run(range);
        for _ in 0..20 {
            scene.write().await;
        }
        tokio::time::sleep(Duration::from_secs(100)).await;
        scene.check(&shards.iter().collect::<Vec<_>>(), &format!("turn {turn}")).await;
    }
}
