//! What the controller remembers between syncs: expectations, the record of versions, and brakes.

use std::time::Duration;

use muster_controllers::pause::{COUNTS_PAUSE, CountsWait};
use muster_controllers::plan::{Expectation, Outcome, Requeue, Resource};
use muster_controllers::replicaset::{
    Begin, Books, Effect, Enqueue, Expected, Identity, ReplicaOwner, Snapshot, decide,
};
use muster_machinery::{Cache, Remedy};
use muster_objects::meta::{ObjectKey, ResourceVersion};
use muster_objects::{Moment, Pod, ReplicaSet};
use serde_json::json;

use crate::fixtures::{NOW, orphan, pod, pods, reference_to, replica_set, replica_set_named, uid};

/// One controller with its caches, at a time that the test moves.
struct Controller {
    books: Books,
    owners: Cache<ReplicaSet>,
    pods: Cache<Pod>,
    now: Moment,
}

impl Controller {
    fn new(owner: ReplicaSet, pods: impl IntoIterator<Item = Pod>) -> Self {
        let mut controller = Self {
            books: Books::new(Identity::REPLICA_SET),
            owners: Cache::new(),
            pods: Cache::new(),
            now: Moment::ORIGIN,
        };
        controller.owners.apply(owner);
        for pod in pods {
            controller.pods.apply(pod);
        }
        controller
    }

    fn begin(&mut self) -> Begin<ReplicaSet> {
        self.books.begin(&key(), &self.owners, &self.pods, 500, self.now)
    }

    fn snapshot(&mut self) -> Snapshot<ReplicaSet> {
        match self.begin() {
            Begin::Ready(snapshot) => snapshot,
            other => panic!("the sync may begin, but: {other:?}"),
        }
    }

    fn note(&mut self, effect: Effect) -> Option<Enqueue> {
        self.books.note(effect, self.now)
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Performs the next sync's plan with versions from `version` on; the pods are not shown yet.
    fn create(&mut self, count: u32, version: u64) {
        let owner = self.snapshot().owner.as_planned();
        self.books.expect(&owner, &Expectation::Creations(count), self.now);
        for n in 0..u64::from(count) {
            self.books.wrote(&owner, Resource::PODS, ResourceVersion(version + n));
        }
        self.books.round_ended(&owner, &Outcome { created: count, ..Outcome::default() });
    }
}

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

/// Contract: EX-01, EX-03, EX-04, EX-05, EX-07
#[test]
fn unmet_expectations_hold_the_pods() {
    let mut controller = Controller::new(replica_set(3), []);
    let owner = controller.snapshot().owner.as_planned();
    controller.books.expect(&owner, &Expectation::Creations(3), controller.now);
    assert_eq!(controller.note(Effect::CreationObserved(key())), None);
    controller.books.lower_creations(&owner, 1);
    let Expected::Pending { expires_in } = controller.snapshot().memory.expected else {
        panic!("one is still to come")
    };
    assert!(expires_in > Duration::from_secs(300) && expires_in < Duration::from_secs(301));
    controller.note(Effect::CreationObserved(key()));
    assert_eq!(controller.snapshot().memory.expected, Expected::Settled);

    let (a, b) = (ObjectKey::new("default", "a"), ObjectKey::new("default", "b"));
    controller.books.expect(&owner, &Expectation::Deletions(vec![a.clone(), b.clone()]), controller.now);
    for _ in 0..3 {
        controller.note(Effect::DeletionObserved { owner: key(), pod: a.clone(), first: true });
    }
    assert!(matches!(controller.snapshot().memory.expected, Expected::Pending { .. }), "one pod counts once (EX-04)");
    controller.books.lower_deletion(&owner, &b);
    assert_eq!(controller.snapshot().memory.expected, Expected::Settled);
}

/// Contract: EX-02
#[test]
fn expectations_expire_at_the_time_that_was_named() {
    let mut controller = Controller::new(replica_set(3), []);
    let owner = controller.snapshot().owner.as_planned();
    controller.books.expect(&owner, &Expectation::Creations(3), controller.now);
    let Expected::Pending { expires_in } = controller.snapshot().memory.expected else { panic!("nothing was seen") };
    controller.now += expires_in;
    assert_eq!(controller.snapshot().memory.expected, Expected::Settled);
}

/// The sync is deferred, and woken when the cache has reached the last version, without a retry.
///
/// Contract: RS-19, B-17
#[test]
fn a_stale_cache_defers_the_sync_until_it_has_caught_up() {
    let mut controller = Controller::new(replica_set(2), pods(1));
    controller.create(1, 2_000);
    let Begin::Stale { resource, wrote, read, remedy } = controller.begin() else { panic!("the cache is behind") };
    assert_eq!((resource, wrote, read), (Resource::PODS, ResourceVersion(2_000), ResourceVersion(1_010)));
    assert_eq!(remedy, Remedy::Woken);
    assert_eq!(controller.books.caught_up(Resource::PODS, ResourceVersion(1_999)), []);
    assert_eq!(controller.books.caught_up(Resource::PODS, ResourceVersion(2_000)), [key()]);
    controller.pods.saw(ResourceVersion(2_000));
    controller.snapshot();
}

/// A status is waited for in the owners' cache.
///
/// Contract: RS-19
#[test]
fn a_status_of_its_own_is_waited_for() {
    let mut controller = Controller::new(replica_set(2), pods(2));
    let owner = controller.snapshot().owner.as_planned();
    controller.books.wrote(&owner, Resource::REPLICA_SETS, ResourceVersion(120));
    assert!(matches!(controller.begin(), Begin::Stale { resource: Resource::REPLICA_SETS, .. }));
    controller.owners.saw(ResourceVersion(120));
    controller.snapshot();
}

/// After the time limit the owner comes back by the queue's rate limit, as upstream does it.
///
/// Contract: B-17
#[test]
fn waiting_for_a_cache_has_a_limit() {
    let mut controller = Controller::new(replica_set(2), pods(1));
    controller.create(1, 2_000);
    controller.begin();
    let deadline = controller.books.next_deadline().expect("somebody waits");
    assert_eq!(controller.books.expired(controller.now), []);
    controller.now = deadline;
    assert_eq!(controller.books.expired(controller.now), [key()]);
    assert!(matches!(controller.begin(), Begin::Stale { remedy: Remedy::Retry, .. }));
}

/// The event of one of three creations never comes. Upstream waits five minutes; here the cache, which has
/// passed every write of the round, is the answer at once: and it is not created twice.
///
/// Contract: B-01
#[test]
fn a_cache_that_has_passed_every_write_settles_what_is_expected() {
    let mut controller = Controller::new(replica_set(3), []);
    controller.pods.saw(ResourceVersion(1));
    controller.create(3, 2_000);
    for at in 0..3 {
        let mut pod = pod(&format!("web-{at}"), 10 + at);
        pod.meta.resource_version = ResourceVersion(2_000 + at);
        // The third one lost its owner before its event came: no creation is observed for it.
        if at == 2 {
            pod.meta.controller = Some(reference_to("other", 9).into());
        } else {
            controller.note(Effect::CreationObserved(key()));
        }
        controller.pods.apply(pod);
    }
    let snapshot = controller.snapshot();
    assert_eq!((snapshot.memory.expected, snapshot.pods.len()), (Expected::Settled, 2));
    assert_eq!(decide(&snapshot, &Default::default(), NOW).creations(), 1);
}

/// A write of unknown version leaves the round to its events, also after later writes were passed.
///
/// Contract: B-01
#[test]
fn an_unaccounted_round_is_not_settled_by_versions() {
    let mut controller = Controller::new(replica_set(3), []);
    controller.pods.saw(ResourceVersion(1));
    let owner = controller.snapshot().owner.as_planned();
    controller.books.expect(&owner, &Expectation::Creations(3), controller.now);
    controller.books.wrote(&owner, Resource::PODS, ResourceVersion(2_000));
    controller.books.round_ended(&owner, &Outcome { created: 1, unaccounted: 1, ..Outcome::default() });
    controller.pods.saw(ResourceVersion(2_000));
    assert!(matches!(controller.snapshot().memory.expected, Expected::Pending { .. }));
    controller.books.wrote(&owner, Resource::REPLICA_SETS, ResourceVersion(100));
    assert!(matches!(controller.snapshot().memory.expected, Expected::Pending { .. }));
    (0..3).for_each(|_| drop(controller.note(Effect::CreationObserved(key()))));
    assert_eq!(controller.snapshot().memory.expected, Expected::Settled);
}

/// A server that was put back to an earlier state gives versions that the cache had reached before: that it has them proves
/// nothing, and what was created is not created again for it.
///
/// Contract: B-01, RS-19
#[test]
fn a_round_at_versions_from_before_it_is_not_settled_by_them() {
    for (version, put_back) in [(500, true), (900, true), (901, false)] {
        let mut controller = Controller::new(replica_set(3), []);
        controller.pods.saw(ResourceVersion(900));
        controller.books.caught_up(Resource::PODS, ResourceVersion(900));
        let owner = controller.snapshot().owner.as_planned();
        controller.books.expect(&owner, &Expectation::Creations(3), controller.now);
        // A cache that goes on meanwhile is no such case.
        controller.books.caught_up(Resource::PODS, ResourceVersion(950));
        controller.books.wrote(&owner, Resource::PODS, ResourceVersion(version));
        controller.books.round_ended(&owner, &Outcome { created: 3, ..Outcome::default() });
        assert_eq!(
            (controller.books.take_put_back(), controller.books.take_put_back()),
            (put_back, false),
            "{version}"
        );
        controller.pods.saw(ResourceVersion(950));
        let settled = controller.snapshot().memory.expected == Expected::Settled;
        assert_eq!(settled, !put_back, "{version}");
        // What is written of others, and after the round, may be at any version.
        controller.books.wrote(&owner, Resource::REPLICA_SETS, ResourceVersion(1));
        controller.books.wrote(&owner, Resource::PODS, ResourceVersion(1));
        assert!(!controller.books.take_put_back());
    }
}

/// What is not known of a round is so of that round alone.
///
/// Contract: B-01
#[test]
fn a_round_is_settled_whatever_was_unknown_of_the_one_before() {
    let mut controller = Controller::new(replica_set(3), []);
    controller.pods.saw(ResourceVersion(1));
    let owner = controller.snapshot().owner.as_planned();
    controller.books.round_ended(&owner, &Outcome { created: 1, unaccounted: 1, ..Outcome::default() });
    controller.books.expect(&owner, &Expectation::Creations(3), controller.now);
    controller.books.wrote(&owner, Resource::PODS, ResourceVersion(2_000));
    controller.books.round_ended(&owner, &Outcome { created: 3, ..Outcome::default() });
    controller.pods.saw(ResourceVersion(2_000));
    assert_eq!(controller.snapshot().memory.expected, Expected::Settled);
}

/// The watch can tell of the end of one owner after its successor has written.
///
/// Contract: EX-06, RS-19
#[test]
fn the_end_of_an_owner_leaves_the_record_of_its_successor() {
    let mut controller = Controller::new(replica_set(2), pods(1));
    controller.create(1, 2_000);
    controller.note(Effect::Forget { owner: key(), uid: uid(9) });
    assert!(matches!(controller.begin(), Begin::Stale { resource: Resource::PODS, .. }));
    controller.note(Effect::Forget { owner: key(), uid: uid(1) });
    controller.snapshot();
}

/// A kind without a record never waits for its cache, only for its expectations.
///
/// Contract: RS-19, B-01
#[test]
fn a_kind_without_a_record_waits_only_for_expectations() {
    let mut controller = Controller::new(replica_set(3), []);
    controller.books = Books::new(Identity::REPLICATION_CONTROLLER);
    controller.pods.saw(ResourceVersion(1));
    controller.create(3, 2_000);
    assert!(matches!(controller.snapshot().memory.expected, Expected::Pending { .. }));
    controller.pods.saw(ResourceVersion(3_000));
    assert!(matches!(controller.snapshot().memory.expected, Expected::Pending { .. }));
    assert_eq!(controller.books.next_deadline(), None);
}

/// Gone from its cache: there is no sync, and a new owner of the name starts without a record.
///
/// Contract: EX-06
#[test]
fn a_missing_owner_closes_its_books() {
    let mut controller = Controller::new(replica_set(3), []);
    controller.create(3, 10);
    controller.note(Effect::FailedAtOnce(key()));
    controller.owners.delete_key(&key());
    controller.pods.saw(ResourceVersion(12));
    assert!(matches!(controller.begin(), Begin::Gone));
    controller.owners.apply(replica_set_named("web", 2, 3, &json!({"app": "web"})));
    let snapshot = controller.snapshot();
    assert_eq!((snapshot.memory.expected, snapshot.memory.creations_wait), (Expected::Settled, None));
}

/// Upstream's `TestExpectationsOnRecreate`: by the handler, before the sync of the new owner.
///
/// Contract: EX-06, RS-01
#[test]
fn a_recreated_owner_does_not_inherit() {
    let mut controller = Controller::new(replica_set(3), []);
    controller.create(3, 10);
    controller.note(Effect::Forget { owner: key(), uid: uid(1) });
    assert_eq!(controller.snapshot().memory.expected, Expected::Settled);
}

/// Contract: RS-20
#[test]
fn an_invalid_selector_is_no_sync() {
    let mut controller = Controller::new(replica_set_named("web", 1, 3, &json!({"app": "no spaces"})), pods(1));
    let Begin::InvalidSelector(error) = controller.begin() else { panic!("it cannot be parsed") };
    assert!(error.message().contains("no spaces"), "{error}");
}

/// The brake doubles with every round that fails, and is taken off by a pod that turns ready.
///
/// Contract: B-08
#[test]
fn pods_that_fail_at_once_brake_creations() {
    let mut controller = Controller::new(replica_set(3), []);
    assert_eq!(controller.snapshot().memory.creations_wait, None);
    for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        // Five hundred pods that fail together are one failure.
        (0..500).for_each(|_| drop(controller.note(Effect::FailedAtOnce(key()))));
        let snapshot = controller.snapshot();
        assert_eq!(snapshot.memory.creations_wait, Some(Duration::from_secs(seconds)));
        assert_eq!(decide(&snapshot, &Default::default(), NOW).creations(), 0);
        controller.pass(seconds);
        assert_eq!(decide(&controller.snapshot(), &Default::default(), NOW).creations(), 3);
    }
    controller.note(Effect::FailedAtOnce(key()));
    controller.note(Effect::TurnedReady(key()));
    assert_eq!(controller.snapshot().memory.creations_wait, None);
    controller.note(Effect::FailedAtOnce(key()));
    assert_eq!(controller.snapshot().memory.creations_wait, Some(Duration::from_secs(1)));
}

/// Upstream retries with every pod that is deleted, or not for five minutes; Muster with a growing delay.
///
/// Contract: RS-12, B-08
#[test]
fn a_terminating_namespace_is_not_tried_with_every_event() {
    let mut controller = Controller::new(replica_set(3), []);
    let owner = controller.snapshot().owner.as_planned();
    for seconds in [1, 2, 4] {
        controller.books.round_ended(&owner, &Outcome { not_needed: 1, ..Outcome::default() });
        let snapshot = controller.snapshot();
        assert_eq!(snapshot.memory.creations_wait, Some(Duration::from_secs(seconds)));
        let plan = decide(&snapshot, &Default::default(), NOW);
        assert_eq!(plan.requeue, Requeue::After(Duration::from_secs(seconds)));
        controller.pass(seconds);
        assert_eq!(controller.snapshot().memory.creations_wait, None);
    }
}

/// The snapshot holds the owner's pods and the orphans it selects, and no other pod of the namespace.
///
/// Contract: RS-06
#[test]
fn a_snapshot_holds_what_concerns_the_owner() {
    let mut stranger = orphan("stranger", 13);
    stranger.meta.labels = crate::fixtures::labels(&[("app", "db")]);
    let mut others = pod("others", 14);
    others.meta.controller = Some(reference_to("db", 2).into());
    let mut namesake = pod("namesake", 15);
    namesake.meta.controller = Some(reference_to("web", 9).into());
    let mut elsewhere = orphan("elsewhere", 16);
    elsewhere.meta.namespace = "other".into();
    let all = [pod("mine", 11), orphan("lost", 12), stranger, others, namesake, elsewhere];
    let snapshot = Controller::new(replica_set(2), all).snapshot();
    let names: Vec<_> = snapshot.pods.iter().map(|pod| &*pod.meta.name).collect();
    assert_eq!(names, ["mine", "lost"]);
}

/// Siblings share one owner; their pods on a node count together, each once, and only if some pods are deleted and
/// others kept.
///
/// Contract: DEL-03, DEL-05
#[test]
fn colocation_is_that_of_the_siblings() {
    let deployment = |mut set: ReplicaSet| {
        set.meta.controller = Some(reference_to("deployment", 70).into());
        set
    };
    let on = |node: &str, pod: Pod| Pod { node_name: Some(node.into()), ..pod };
    let sibling_pod = |name: &str, number: u64| {
        let mut pod = on("x", pod(name, number));
        pod.meta.labels = crate::fixtures::labels(&[("app", "web"), ("hash", "old")]);
        pod.meta.controller = Some(reference_to("web-old", 2).into());
        pod
    };
    let mine = [on("x", pod("a", 11)), on("y", pod("b", 12)), on("y", pod("c", 13))];
    let olds = [sibling_pod("old-1", 21), sibling_pod("old-2", 22)];
    let run = |owner: ReplicaSet, siblings: Vec<ReplicaSet>| {
        let mut controller = Controller::new(owner, mine.iter().chain(&olds).cloned());
        siblings.into_iter().for_each(|sibling| drop(controller.owners.apply(sibling)));
        let snapshot = controller.snapshot();
        let around = [0, 1].map(|at| snapshot.colocation.around(&mine[at]));
        let plan = decide(&snapshot, &Default::default(), NOW);
        let deleted: Vec<_> = plan.deletions().map(|deletion| deletion.key.name.to_string()).collect();
        (around, deleted)
    };
    // The selector of `web` matches the old ones too: overlapping, they count once.
    let old = || deployment(replica_set_named("web-old", 2, 2, &json!({"hash": "old"})));
    assert_eq!(run(deployment(replica_set(2)), vec![old()]), ([3, 2], vec!["a".to_owned()]));
    // Without a controller there are no ranks, and the smallest uid is deleted.
    assert_eq!(run(replica_set(2), vec![old()]), ([0, 0], vec!["a".to_owned()]));
    // A sibling with an invalid selector selects nothing.
    let invalid = deployment(replica_set_named("bad", 3, 1, &json!({"app": "no spaces"})));
    assert_eq!(run(deployment(replica_set(2)), vec![invalid]).0, [3, 2]);
    // All are deleted: nothing is ranked.
    assert_eq!(run(deployment(replica_set(0)), vec![old()]).0, [0, 0]);
    // Enough: neither.
    assert_eq!(run(deployment(replica_set(3)), vec![old()]).0, [0, 0]);
    // All would go, and the burst lets one go.
    let mut controller = Controller::new(deployment(replica_set(0)), mine.iter().cloned());
    let begin = controller.books.begin(&key(), &controller.owners, &controller.pods, 1, controller.now);
    let Begin::Ready(snapshot) = begin else { panic!("{begin:?}") };
    assert_eq!([0, 1].map(|at| snapshot.colocation.around(&mine[at])), [1, 2]);
}

/// What the handlers ask of the queue.
///
/// Contract: RS-01, RS-03
#[test]
fn effects_become_keys() {
    let mut controller = Controller::new(replica_set(1), []);
    assert_eq!(controller.note(Effect::Enqueue(key())), Some(Enqueue::Now(key())));
    let delay = Duration::from_secs(30);
    assert_eq!(controller.note(Effect::EnqueueAfter(key(), delay)), Some(Enqueue::After(key(), delay)));
    assert_eq!(controller.note(Effect::Overlap { pod: key(), owners: vec![] }), None);
}

/// Counts are deferred for a moment after each round, in all since the first. A status write starts this again.
///
/// Contract: RS-17
#[test]
fn counts_are_deferred_for_a_limited_time_over_several_rounds() {
    let mut controller = Controller::new(replica_set(3), []);
    let owner = controller.snapshot().owner.as_planned();
    let round = |controller: &mut Controller| {
        controller.books.round_ended(&owner, &Outcome { created: 1, ..Outcome::default() });
    };
    let wait = |controller: &mut Controller| controller.snapshot().memory.counts_wait;
    controller.books.wrote(&owner, Resource::PODS, ResourceVersion(1));
    assert_eq!(wait(&mut controller), CountsWait::default(), "an adopted pod is told of at once");
    round(&mut controller);
    assert_eq!(wait(&mut controller), CountsWait { left: Some(COUNTS_PAUSE), waited: Duration::ZERO });
    let step = Duration::from_millis(400);
    for rounds in 1..=2 {
        controller.now += step;
        assert_eq!(wait(&mut controller), CountsWait { left: None, waited: step * rounds });
        round(&mut controller);
        assert_eq!(wait(&mut controller), CountsWait { left: Some(COUNTS_PAUSE), waited: step * rounds });
    }
    controller.now += Duration::from_millis(190);
    wait(&mut controller);
    round(&mut controller);
    let left = Some(Duration::from_millis(10));
    assert_eq!(wait(&mut controller), CountsWait { left, waited: Duration::from_millis(990) }, "a second in all");
    controller.books.wrote(&owner, owner.resource, ResourceVersion(1));
    controller.books.status_is_up_to_date(&key());
    assert_eq!(wait(&mut controller), CountsWait { left: Some(COUNTS_PAUSE), waited: Duration::ZERO });
    // A round after which the counts are what they were needs no status, and is over all the same.
    controller.pass(60);
    assert_eq!(wait(&mut controller), CountsWait::default());
    round(&mut controller);
    controller.books.status_is_up_to_date(&key());
    controller.pass(60);
    wait(&mut controller);
    round(&mut controller);
    assert_eq!(wait(&mut controller), CountsWait { left: Some(COUNTS_PAUSE), waited: Duration::ZERO });
}

/// Pods deleted by somebody else may be the first sign that their owner is being deleted.
///
/// Contract: B-23
#[test]
fn an_owner_is_confirmed_before_pods_that_others_deleted_are_replaced() {
    let mut controller = Controller::new(replica_set(3), pods(3));
    let owner = controller.snapshot().owner.as_planned();
    let goes = |controller: &mut Controller, name: &str, first: bool| {
        let pod = ObjectKey::new("default", name);
        controller.note(Effect::DeletionObserved { owner: key(), pod, first });
        controller.snapshot().memory.confirm
    };
    let asked = Expectation::Deletions(vec![ObjectKey::new("default", "web-0")]);
    controller.books.expect(&owner, &asked, controller.now);
    assert!(!goes(&mut controller, "web-0", true), "it was asked for");
    assert!(!goes(&mut controller, "web-0", false), "its end was known to come");
    assert!(goes(&mut controller, "web-1", true));
    assert!(controller.snapshot().memory.confirm, "the sync ended before it came to that");
    controller.books.round_ended(&owner, &Outcome::default());
    assert!(!controller.snapshot().memory.confirm, "once is enough");
    // While creations wait, nothing is asked; and a look that brought no answer is to be repeated.
    controller.books.expect(&owner, &Expectation::Creations(1), controller.now);
    assert!(!goes(&mut controller, "web-2", true), "nothing is created now");
    controller.books.lower_creations(&owner, 1);
    assert!(controller.snapshot().memory.confirm);
    controller.books.round_ended(&owner, &Outcome { unconfirmed: true, ..Outcome::default() });
    controller.books.status_is_up_to_date(&key());
    assert!(
        controller.snapshot().memory.confirm,
        "the owner was gone, and is to be read again while the cache shows it"
    );
    controller.books.status_is_up_to_date(&key());
    assert!(!controller.snapshot().memory.confirm, "nothing was to be created");
    controller.note(Effect::Left(key()));
    assert!(controller.snapshot().memory.confirm, "somebody took one from it");
    controller.books.round_ended(&owner, &Outcome::default());
    goes(&mut controller, "web-2", true);
    controller.note(Effect::Forget { owner: key(), uid: uid(1) });
    assert!(!controller.snapshot().memory.confirm);
}

/// The answer to a status write does not show whether the server stored a field; the cache does.
///
/// Contract: RS-15
#[test]
fn a_server_that_does_not_store_terminating_replicas_is_noticed() {
    let mut controller = Controller::new(replica_set(3), []);
    let owner = controller.snapshot().owner.as_planned();
    let report = |controller: &mut Controller, version: u64, stored: Option<i32>| {
        controller.books.wrote(&owner, owner.resource, ResourceVersion(version));
        let mut shown = replica_set(3);
        shown.meta.resource_version = ResourceVersion(version);
        shown.status.terminating_replicas = stored;
        controller.owners.apply(shown);
        controller.snapshot().memory.stores_terminating
    };
    assert!(report(&mut controller, 5_000, Some(0)));
    assert!(!report(&mut controller, 5_001, None));
    assert!(!controller.snapshot().memory.stores_terminating, "until another write shows otherwise");
    assert!(report(&mut controller, 5_002, Some(1)), "the server was upgraded");
    // Somebody else took the field away after the write, which says nothing of the server.
    controller.books.wrote(&owner, owner.resource, ResourceVersion(5_003));
    let mut shown = replica_set(3);
    shown.meta.resource_version = ResourceVersion(5_004);
    controller.owners.apply(shown);
    assert!(controller.snapshot().memory.stores_terminating);
    // The server was restored, and what the cache shows is no answer to the last write.
    controller.books.caught_up(owner.resource, ResourceVersion(5_004));
    controller.books.wrote(&owner, owner.resource, ResourceVersion(5_005));
    controller.books.caught_up(owner.resource, ResourceVersion(4_000));
    controller.owners.replace(vec![replica_set(3)], ResourceVersion(4_000));
    assert!(controller.snapshot().memory.stores_terminating);
    // A patch that stores nothing makes no new version, and no event that would bring about another sync.
    let owner = controller.snapshot().owner.as_planned();
    controller.books.wrote(&owner, owner.resource, owner.resource_version);
    assert!(!controller.snapshot().memory.stores_terminating);
}

/// A pod that is left again and again, by caches that have caught up with each look, is one whose event was lost.
///
/// Contract: B-02
#[test]
fn pods_are_not_left_without_end() {
    let mut controller = Controller::new(replica_set(3), []);
    let owner = controller.snapshot().owner.as_planned();
    let left = Outcome { no_longer_owned: 1, ..Outcome::default() };
    for round in 0..10 {
        assert!(controller.snapshot().memory.spares, "{round}");
        controller.books.round_ended(&owner, &left);
    }
    assert!(!controller.snapshot().memory.spares);
    controller.books.round_ended(&owner, &Outcome { deleted: 1, ..Outcome::default() });
    assert!(controller.snapshot().memory.spares);
}

/// A pod that was created and deleted while the watch was broken is never seen: the cache is past both.
///
/// Contract: B-23, B-01, EX-02
#[test]
fn an_owner_is_confirmed_before_pods_that_came_and_went_unseen_are_replaced() {
    let creates = |controller: &mut Controller| {
        let owner = controller.snapshot().owner.as_planned();
        controller.books.expect(&owner, &Expectation::Creations(2), controller.now);
        owner
    };
    let mut controller = Controller::new(replica_set(3), pods(3));
    let owner = creates(&mut controller);
    let newest = controller.pods.newest();
    controller.books.wrote(&owner, Resource::PODS, newest);
    controller.note(Effect::CreationObserved(key()));
    assert!(controller.snapshot().memory.confirm, "one of two");
    controller.books.round_ended(&owner, &Outcome::default());
    creates(&mut controller);
    controller.books.wrote(&owner, Resource::PODS, newest);
    for _ in 0..2 {
        controller.note(Effect::CreationObserved(key()));
    }
    assert!(!controller.snapshot().memory.confirm, "both were seen");
    // Without a record of what was written the wait ends after five minutes.
    creates(&mut controller);
    controller.books.round_ended(&owner, &Outcome { created: 2, ..Outcome::default() });
    controller.pass(301);
    assert!(controller.snapshot().memory.confirm);
}
