//! What a change in a cache leads to.

use std::sync::Arc;
use std::time::Duration;

use muster_controllers::replicaset::{Effect, owner_changed, pod_changed};
use muster_machinery::cache::{Cache, Change};
use muster_objects::meta::{Meta, ObjectKey, ResourceVersion};
use muster_objects::{Pod, PodPhase, ReplicaSet};
use serde_json::json;

use crate::fixtures::{
    ago, labels, orphan, pending, pod, reference_to, replica_set, replica_set_named, terminating, uid,
};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// `web` (uid 1) selects app=web, `db` (uid 2) app=db, `both` (uid 3) tier=front, `slow` (uid 4) app=slow with
/// minReadySeconds 30.
fn owners() -> Cache<ReplicaSet> {
    let mut cache = Cache::new();
    cache.apply(replica_set(3));
    cache.apply(replica_set_named("db", 2, 1, &json!({"app": "db"})));
    cache.apply(replica_set_named("both", 3, 1, &json!({"tier": "front"})));
    cache.apply(ReplicaSet { min_ready_seconds: 30, ..replica_set_named("slow", 4, 1, &json!({"app": "slow"})) });
    // Empty and invalid selectors select nothing.
    cache.apply(replica_set_named("empty", 5, 1, &json!({})));
    cache.apply(replica_set_named("invalid", 6, 1, &json!({"app": "no value may have spaces"})));
    cache
}

fn effects(change: &Change<Pod>) -> Vec<Effect> {
    let mut effects = Vec::new();
    pod_changed(change, &owners(), |effect| effects.push(effect));
    effects
}

fn added(pod: Pod) -> Vec<Effect> {
    effects(&Change::Added(Arc::new(pod)))
}

fn updated(old: &Pod, change: impl FnOnce(&mut Pod)) -> Vec<Effect> {
    let mut new = old.clone();
    new.meta.resource_version = ResourceVersion(old.meta.resource_version.0 + 1);
    change(&mut new);
    effects(&Change::Updated { old: Arc::new(old.clone()), new: Arc::new(new) })
}

fn deleted(pod: Pod, tombstone: bool) -> Vec<Effect> {
    effects(&Change::Deleted { last: Arc::new(pod), tombstone })
}

fn created(owner: &str) -> Vec<Effect> {
    vec![Effect::CreationObserved(key(owner)), Effect::Enqueue(key(owner))]
}

fn gone(owner: &str, pod: &str) -> Vec<Effect> {
    vec![Effect::DeletionObserved { owner: key(owner), pod: key(pod), first: true }, Effect::Enqueue(key(owner))]
}

fn queued(owners: &[&str]) -> Vec<Effect> {
    owners.iter().map(|owner| Effect::Enqueue(key(owner))).collect()
}

/// A pod of `web` whose reference has another uid, kind or name.
fn misowned(change: impl FnOnce(&mut muster_objects::ControllerRef)) -> Pod {
    let mut reference = reference_to("web", 1);
    change(&mut reference);
    let mut pod = pending("p", 11);
    pod.meta.controller = Some(Arc::new(reference));
    pod
}

/// Contract: RS-01, EX-06
#[test]
fn table_of_owner_changes() {
    let owner = replica_set(3);
    let recreated = replica_set_named("web", 9, 3, &json!({"app": "web"}));
    let forget = Effect::Forget { owner: key("web"), uid: uid(1) };
    let arc = |owner: &ReplicaSet| Arc::new(owner.clone());
    let cases = [
        ("added", Change::Added(arc(&owner)), queued(&["web"])),
        ("updated, nothing changed", Change::Updated { old: arc(&owner), new: arc(&owner) }, queued(&["web"])),
        (
            "another of the same name",
            Change::Updated { old: arc(&owner), new: arc(&recreated) },
            vec![forget.clone(), Effect::Enqueue(key("web")), Effect::Enqueue(key("web"))],
        ),
        (
            "deleted",
            Change::Deleted { last: arc(&owner), tombstone: false },
            vec![forget.clone(), Effect::Enqueue(key("web"))],
        ),
        ("missed", Change::Deleted { last: arc(&owner), tombstone: true }, vec![forget, Effect::Enqueue(key("web"))]),
    ];
    for (name, change, expected) in cases {
        let mut effects = Vec::new();
        owner_changed(&change, |effect| effects.push(effect));
        assert_eq!(effects, expected, "{name}");
    }
}

/// Contract: RS-02, EX-03
#[test]
fn table_of_added_pods() {
    let slow = {
        let mut pod = orphan("p", 11);
        pod.meta.labels = labels(&[("app", "slow")]);
        pod
    };
    let cases = [
        ("owned: a creation is seen", pending("p", 11), created("web")),
        ("owned by a uid that is gone", misowned(|reference| reference.uid = uid(9)), vec![]),
        ("owned by another kind", misowned(|reference| reference.kind = "Job".into()), vec![]),
        ("owned by a name that is not there", misowned(|reference| reference.name = "none".into()), vec![]),
        ("dying already: a deletion, no creation", terminating(pending("p", 11)), gone("web", "p")),
        ("an orphan: whoever selects it, no creation", slow, queued(&["slow"])),
        ("a dying orphan", terminating(orphan("p", 11)), vec![]),
    ];
    for (name, pod, expected) in cases {
        assert_eq!(added(pod), expected, "{name}");
    }
    let mut unselected = orphan("p", 11);
    unselected.meta.labels = labels(&[("app", "nobody")]);
    assert_eq!(added(unselected.clone()), []);
    unselected.meta.labels = labels(&[]);
    assert_eq!(added(unselected), []);
}

/// Every owner that selects it is queued, and the overlap is reported.
///
/// Contract: RS-02, RS-21
#[test]
fn overlapping_owners_are_reported_and_all_queued() {
    let mut pod = orphan("p", 11);
    pod.meta.labels = labels(&[("app", "web"), ("tier", "front")]);
    let overlap = Effect::Overlap { pod: key("p"), owners: vec![key("both"), key("web")] };
    assert_eq!(added(pod), [vec![overlap], queued(&["both", "web"])].concat());
}

/// The cases of upstream's `TestUpdatePods`, and more.
///
/// Contract: RS-03, EX-03, B-23
#[test]
fn table_of_updated_pods() {
    let lost = |queue: &[&str]| [vec![Effect::Left(key("web"))], queued(queue)].concat();
    let owned = pod("p", 11);
    let alone = orphan("p", 11);
    let stray = Pod { meta: Meta { labels: labels(&[("app", "db")]), ..owned.meta.clone() }, ..owned.clone() };
    let db = || labels(&[("app", "db")]);
    type Case = (&'static str, Pod, fn(&mut Pod), Vec<Effect>);
    let cases: Vec<Case> = vec![
        ("owned: queued whatever changed", owned.clone(), |pod| pod.node_name = Some("n".into()), queued(&["web"])),
        (
            "a new owner: the old one too, first",
            owned.clone(),
            |pod| pod.meta.controller = Some(Arc::new(reference_to("db", 2))),
            lost(&["web", "db"]),
        ),
        (
            "a new owner that does not resolve: the old one",
            owned.clone(),
            |pod| pod.meta.controller = Some(Arc::new(reference_to("db", 9))),
            lost(&["web"]),
        ),
        (
            "released: the old owner, then whoever selects it",
            owned.clone(),
            |pod| {
                pod.meta.controller = None;
                pod.meta.labels = labels(&[("app", "db")]);
            },
            lost(&["web", "db"]),
        ),
        (
            "relabelled: its owner has lost it",
            owned.clone(),
            |pod| pod.meta.labels = labels(&[("app", "db")]),
            lost(&["web"]),
        ),
        ("released after that: known", stray.clone(), |pod| pod.meta.controller = None, queued(&["web", "db"])),
        ("given back", stray, |pod| pod.meta.labels = labels(&[("app", "web")]), queued(&["web"])),
        (
            "orphaned: the old owner, which selects it yet",
            owned.clone(),
            |pod| pod.meta.controller = None,
            lost(&["web", "web"]),
        ),
        (
            "adopted",
            alone.clone(),
            |pod| pod.meta.controller = Some(Arc::new(reference_to("web", 1))),
            queued(&["web"]),
        ),
        ("an orphan of the same labels", alone.clone(), |pod| pod.node_name = Some("n".into()), vec![]),
        ("an orphan relabelled", alone.clone(), |pod| pod.meta.labels = labels(&[("app", "db")]), queued(&["db"])),
        ("dying: a deletion", owned.clone(), |pod| pod.meta.deletion_timestamp = Some(ago(0)), gone("web", "p")),
        (
            "dying and relabelled: of the old one's owner too",
            owned.clone(),
            |pod| {
                pod.meta.deletion_timestamp = Some(ago(0));
                pod.meta.labels = labels(&[("app", "db")]);
                pod.meta.controller = Some(Arc::new(reference_to("db", 2)));
            },
            [gone("db", "p"), gone("web", "p")].concat(),
        ),
        (
            "a dying one is released: it is terminating for its owner no more",
            terminating(owned.clone()),
            |pod| pod.meta.controller = None,
            queued(&["web"]),
        ),
        ("a dying orphan", alone, |pod| pod.meta.deletion_timestamp = Some(ago(0)), vec![]),
    ];
    for (name, old, change, expected) in cases {
        assert_eq!(updated(&old, change), expected, "{name}");
    }
    let dying_on = updated(&terminating(owned.clone()), |pod| pod.ready = None);
    let not_the_first = Effect::DeletionObserved { owner: key("web"), pod: key("p"), first: false };
    assert_eq!(dying_on, [vec![not_the_first], queued(&["web"])].concat(), "its deletion was seen before");
    let same = |pod: &Pod| effects(&Change::Updated { old: Arc::new(pod.clone()), new: Arc::new(pod.clone()) });
    assert_eq!(same(&owned), [], "a resync");
    let mut restored = owned.clone();
    restored.ready = None;
    let change = Change::Updated { old: Arc::new(owned.clone()), new: Arc::new(restored) };
    assert_eq!(effects(&change), queued(&["web"]), "a version that was given twice");
    let mut dying = terminating(owned);
    dying.meta.labels = db();
    assert_eq!(same(&dying), [], "of a dying pod too");
}

/// Only the step from not ready to ready, and only where minReadySeconds asks for it.
///
/// Contract: RS-03
#[test]
fn a_pod_that_turns_ready_is_looked_at_when_it_turns_available() {
    let ready = pod("p", 11).ready;
    let mut slow = Pod { ready: None, ..pod("p", 11) };
    slow.meta.controller = Some(Arc::new(reference_to("slow", 4)));
    let later = Effect::EnqueueAfter(key("slow"), Duration::from_secs(30));
    let turned = |owner: &str| Effect::TurnedReady(key(owner));
    assert_eq!(
        updated(&slow, |pod| pod.ready = ready),
        [vec![turned("slow")], queued(&["slow"]), vec![later]].concat(),
    );
    slow.ready = ready;
    assert_eq!(updated(&slow, |pod| pod.node_name = None), queued(&["slow"]));
    assert_eq!(updated(&slow, |pod| pod.ready = None), queued(&["slow"]));
    let web = Pod { ready: None, ..pod("p", 11) };
    assert_eq!(updated(&web, |pod| pod.ready = ready), [vec![turned("web")], queued(&["web"])].concat());
}

/// Contract: RS-04, EX-03, B-23
#[test]
fn table_of_deleted_pods() {
    for tombstone in [false, true] {
        assert_eq!(deleted(pod("p", 11), tombstone), gone("web", "p"));
        // It was seen to be deleted before: this is not the first that is seen of it.
        let last = Effect::DeletionObserved { owner: key("web"), pod: key("p"), first: false };
        assert_eq!(deleted(terminating(pod("p", 11)), tombstone), [vec![last], queued(&["web"])].concat());
        // Who selects it may have adopted it, unseen.
        let unasked = Effect::DeletionObserved { owner: key("web"), pod: key("p"), first: true };
        assert_eq!(deleted(orphan("p", 11), tombstone), [unasked]);
        assert_eq!(deleted(terminating(orphan("p", 11)), tombstone), [], "nobody adopts it");
        assert_eq!(deleted(misowned(|reference| reference.uid = uid(9)), tombstone), []);
    }
}

/// The watch showed only the second of two pods of one name: the first is gone, the second new.
///
/// Contract: RS-02, RS-04
#[test]
fn another_pod_of_the_same_name_is_a_deletion_and_a_creation() {
    let (old, new) = (pending("p", 11), pending("p", 12));
    let change = Change::Updated { old: Arc::new(old), new: Arc::new(new) };
    assert_eq!(effects(&change), [gone("web", "p"), created("web")].concat());
}

/// Contract: B-08
#[test]
fn pods_that_fail_at_once_are_noticed_when_they_fail() {
    let fail = |after: u64| {
        move |pod: &mut Pod| {
            pod.phase = PodPhase::Failed;
            pod.ready = None;
            pod.finished_at = pod.meta.creation_timestamp.map(|created| created + Duration::from_secs(after));
        }
    };
    let failed = || vec![Effect::FailedAtOnce(key("web"))];
    let fresh = pending("p", 11);
    assert_eq!(updated(&fresh, fail(0)), [failed(), queued(&["web"])].concat());
    assert_eq!(updated(&fresh, fail(10)), [failed(), queued(&["web"])].concat());
    assert_eq!(updated(&fresh, fail(11)), queued(&["web"]), "worn out rather than refused");
    let refused = |pod: &mut Pod| pod.phase = PodPhase::Failed;
    assert_eq!(updated(&fresh, refused), [failed(), queued(&["web"])].concat(), "a pod that no node ran");
    assert_eq!(updated(&pod("p", 11), fail(1)), queued(&["web"]), "a pod that was ready was not refused");
    // Only the transition counts: a later update of a failed pod is not another failure.
    let mut dead = fresh.clone();
    fail(0)(&mut dead);
    assert_eq!(updated(&dead, |pod| pod.node_name = Some("n".into())), queued(&["web"]));
    // Seen for the first time when it had failed already.
    assert_eq!(added(dead), [failed(), created("web")].concat());
    assert_eq!(added(pod("p", 11)), [vec![Effect::TurnedReady(key("web"))], created("web")].concat());
}
