//! Books: a sync waits until the caches have seen what the last one wrote.

use std::time::Duration;

use muster_controllers::deployment::{Begin, Books, DeploymentSync, Effect, as_planned};
use muster_controllers::pause::COUNTS_PAUSE;
use muster_controllers::plan::{Next, Report, Requeue, Resource, SyncSteps};
use muster_machinery::{Cache, Remedy};
use muster_objects::meta::ObjectKey;
use muster_objects::{Deployment, Moment, Object, Pod, PodPhase, ReplicaSet, ResourceVersion};
use serde_json::json;

use crate::fixtures::{NOW, decode, deployment, pod, recreating, set_json, uid};

struct Caches {
    deployments: Cache<Deployment>,
    sets: Cache<ReplicaSet>,
    pods: Cache<Pod>,
}

impl Caches {
    fn of(deployment: Deployment) -> Self {
        let mut caches = Self { deployments: Cache::new(), sets: Cache::new(), pods: Cache::new() };
        caches.deployments.apply(deployment);
        caches.sets.apply(decode(&set_json(1, "a", 1)));
        caches
    }

    fn begin(&self, books: &mut Books, now: Moment) -> Begin {
        books.begin(&key(), &self.deployments, &self.sets, &self.pods, 0, now)
    }
}

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

/// A ReplicaSet that was written and is not in the cache yet would be created or scaled again.
///
/// Contract: RS-19, B-17
#[test]
fn a_sync_waits_for_the_caches() {
    let mut caches = Caches::of(deployment(1, |_| ()));
    let mut books = Books::new();
    let owner = as_planned(&deployment(1, |_| ()));
    books.wrote(&owner, Resource::REPLICA_SETS, ResourceVersion(200));
    books.wrote(&owner, Resource::DEPLOYMENTS, ResourceVersion(150));
    let Begin::Stale { resource, wrote, remedy, .. } = caches.begin(&mut books, Moment::ORIGIN) else {
        panic!("the caches are behind")
    };
    assert_eq!((resource, wrote, remedy), (Resource::REPLICA_SETS, ResourceVersion(200), Remedy::Woken));
    assert!(books.next_deadline().is_some());
    assert_eq!(books.caught_up(Resource::REPLICA_SETS, ResourceVersion(199)), []);
    caches.sets.saw(ResourceVersion(200));
    assert_eq!(books.caught_up(Resource::REPLICA_SETS, ResourceVersion(200)), [key()]);
    assert!(matches!(caches.begin(&mut books, Moment::ORIGIN), Begin::Stale { resource: Resource::DEPLOYMENTS, .. }));
    assert_eq!(books.expired(Moment::ORIGIN + Duration::from_secs(60)), [key()]);
    caches.deployments.saw(ResourceVersion(150));
    assert!(matches!(caches.begin(&mut books, Moment::ORIGIN), Begin::Ready(_)));
}

/// Contract: DEP-01
#[test]
fn effects_name_the_key_to_queue_and_close_the_books() {
    let caches = Caches::of(deployment(1, |_| ()));
    let mut books = Books::new();
    assert_eq!(books.note(Effect::Enqueue(key())), Some(key()));
    books.wrote(&as_planned(&deployment(1, |_| ())), Resource::DEPLOYMENTS, ResourceVersion(900));
    // Of an earlier Deployment of the name: nothing that was written since is forgotten.
    assert_eq!(books.note(Effect::Forget { owner: key(), uid: uid(77) }), None);
    assert!(matches!(caches.begin(&mut books, Moment::ORIGIN), Begin::Stale { .. }));
    assert_eq!(books.note(Effect::Forget { owner: key(), uid: uid(1) }), None);
    assert!(matches!(caches.begin(&mut books, Moment::ORIGIN), Begin::Ready(_)));
    assert_eq!(books.note(Effect::Overlap { set: key(), owners: vec![key()] }), None);
}

/// Contract: B-23
#[test]
fn a_deployment_whose_new_set_went_is_confirmed() {
    let mut caches = Caches::of(deployment(1, |_| ()));
    let mut books = Books::new();
    let confirms = |books: &mut Books, caches: &Caches| match caches.begin(books, Moment::ORIGIN) {
        Begin::Ready(snapshot) => snapshot.confirm,
        other => panic!("it may begin, but: {other:?}"),
    };
    let new = |gone| Effect::New { owner: key(), gone };
    assert!(!confirms(&mut books, &caches));
    assert_eq!(books.note(new(true)), None);
    assert!(confirms(&mut books, &caches) && confirms(&mut books, &caches), "until another is there");
    assert!(
        confirms(&mut books.only(&key()), &caches) && !confirms(&mut books.only(&ObjectKey::new("a", "b")), &caches)
    );
    assert_eq!(books.note(new(false)), None);
    assert!(!confirms(&mut books, &caches));
    books.note(new(true));
    books.note(Effect::Forget { owner: key(), uid: uid(1) });
    assert!(!confirms(&mut books, &caches), "one of that name is another");
    books.note(new(true));
    caches.deployments.delete_key(&key());
    assert!(matches!(caches.begin(&mut books, Moment::ORIGIN), Begin::Gone));
    caches.deployments.apply(deployment(1, |_| ()));
    assert!(!confirms(&mut books, &caches));
}

/// Contract: DEP-02
#[test]
fn a_deployment_that_is_gone_or_unreadable_is_not_synced() {
    let mut caches = Caches::of(deployment(1, |_| ()));
    let mut books = Books::new();
    caches.deployments.delete_key(&key());
    assert!(matches!(caches.begin(&mut books, Moment::ORIGIN), Begin::Gone));
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "Is"}]});
    let caches = Caches::of(deployment(1, |json| json["spec"]["selector"] = selector));
    assert!(matches!(caches.begin(&mut books, Moment::ORIGIN), Begin::InvalidSelector(_)));
}

/// By index: its own ReplicaSets and the orphans that it selects, and their pods only where it recreates.
#[test]
fn the_snapshot_holds_what_the_deployment_may_own() {
    let mut caches = Caches::of(recreating(1));
    let mut put = |number: u64, change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = set_json(number, "a", 1);
        change(&mut json);
        caches.sets.apply(decode::<ReplicaSet>(&json));
    };
    put(4, &|json| json["metadata"]["ownerReferences"] = json!([]));
    put(5, &|json| {
        json["metadata"]["ownerReferences"] = json!([]);
        json["metadata"]["labels"] = json!({"app": "other"});
    });
    put(6, &|json| json["metadata"]["ownerReferences"][0]["uid"] = json!("another"));
    put(3, &|json| json["metadata"]["labels"] = json!({"app": "other"}));
    put(2, &|json| json["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1"));
    for (name, set) in [("x", 1), ("y", 6)] {
        caches.pods.apply(pod(name, set, PodPhase::Running));
    }
    let Begin::Ready(snapshot) = caches.begin(&mut Books::new(), Moment::ORIGIN) else { panic!("it may begin") };
    let names: Vec<&str> = snapshot.sets.iter().map(|set| &*set.meta.name).collect();
    assert_eq!(names, ["web-1", "web-2", "web-3", "web-4"], "oldest first");
    assert_eq!(snapshot.current.iter().collect::<Vec<_>>(), [&uid(102)]);
    assert_eq!(snapshot.pods.iter().map(|pod| &*pod.meta.name).collect::<Vec<_>>(), ["x"]);
    assert_eq!(ReplicaSet::KIND, "ReplicaSet");
    let caches = Caches::of(deployment(1, |_| ()));
    let Begin::Ready(snapshot) = caches.begin(&mut Books::new(), Moment::ORIGIN) else { panic!("it may begin") };
    assert!(snapshot.pods.is_empty(), "one that rolls does not look at pods");
}

/// Counts that a moment will change again are not written for that moment after a write. A condition is, at once.
///
/// Contract: DEP-15
#[test]
fn counts_wait_for_a_moment_after_a_write() {
    let said = |caches: &Caches, books: &mut Books, now: Moment| {
        let Begin::Ready(snapshot) = caches.begin(books, now) else { panic!("the caches have seen all") };
        DeploymentSync::new(snapshot).next(Report::Begin, NOW)
    };
    let complete = |available: i32, reason: &str| {
        let mut set = set_json(1, "nginx:1", 1);
        set["metadata"]["resourceVersion"] = json!("5000");
        let deployment = deployment(1, |json| {
            json["status"] = json!({
                "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": available,
                "availableReplicas": available, "conditions": [
                    {"type": "Available", "status": "True", "reason": reason, "message": "Deployment has minimum availability.",
                     "lastUpdateTime": NOW, "lastTransitionTime": NOW},
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "m",
                     "lastUpdateTime": NOW, "lastTransitionTime": NOW}],
            });
        });
        let mut caches = Caches::of(deployment);
        caches.sets.apply(decode(&set));
        caches
    };
    let start = Moment::default() + Duration::from_secs(1);
    for (reason, waits) in [("MinimumReplicasAvailable", true), ("MinimumReplicasUnavailable", false)] {
        let caches = complete(0, reason);
        let mut books = Books::new();
        let first = said(&caches, &mut books, start);
        assert!(matches!(first, Next::WriteStatus(_)), "nothing was written before: {first:?}");
        books.wrote(&as_planned(&deployment(1, |_| ())), Resource::DEPLOYMENTS, ResourceVersion(1));
        let soon = said(&caches, &mut books, start + Duration::from_millis(5));
        let left = COUNTS_PAUSE.saturating_sub(Duration::from_millis(5));
        match soon {
            Next::Done(verdict) => assert_eq!((verdict.requeue, waits), (Requeue::After(left), true)),
            other => assert!(matches!(other, Next::WriteStatus(_)) && !waits, "{reason}: {other:?}"),
        }
        assert!(matches!(said(&caches, &mut books, start + COUNTS_PAUSE), Next::WriteStatus(_)));
    }
}
