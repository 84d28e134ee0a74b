//! Whole rollouts: syncs in turn with ReplicaSets that follow them, and whatever a user does meanwhile.

use std::collections::BTreeMap;

use muster_controllers::deployment::progress::is_complete;
use muster_controllers::deployment::revision::revision;
use muster_controllers::deployment::{Reporting, decide};
use muster_controllers::plan::{ClaimOutcome, Requeue};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{amount, deployment_json, most_and_least, template};
use crate::world::World;

fn world(replicas: i32, surge: impl Into<Value>, unavailable: impl Into<Value>) -> World {
    let mut json = deployment_json(replicas);
    json["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": surge.into(), "maxUnavailable": unavailable.into()});
    json["metadata"]["annotations"] = json!({});
    World::new(json, [])
}

fn wanted(world: &World) -> i64 {
    world.snapshot().sets.iter().map(|set| i64::from(set.replicas)).sum()
}

/// A rollout of ten pods, step by step.
///
/// Contract: DEP-10, DEP-11, DEP-17
#[test]
fn a_rollout_of_ten() {
    let mut world = world(10, 3, 2);
    world.sync();
    world.settle(|_| true);
    world.sync();
    world.edit(|spec| spec["template"] = template("nginx:2"));
    world.announcements.clear();
    world.take_requests();
    let mut syncs = 0;
    while !is_complete(&world.deployment(), &world.deployment().status) {
        world.sync();
        world.settle(|_| true);
        syncs += 1;
        assert!(syncs < 30, "{:?}", world.told());
    }
    let told = world.told();
    let told: Vec<&str> =
        told.iter().filter_map(|told| told.split_once(" replica set web-")).map(|(_, it)| it).collect();
    let sizes: Vec<&str> = told.iter().filter_map(|told| told.split_once(' ')).map(|(_, sizes)| sizes).collect();
    assert_eq!(
        sizes,
        ["from 0 to 3", "from 10 to 8", "from 3 to 5", "from 8 to 3", "from 5 to 10", "from 3 to 0"],
        "{told:?}"
    );
    let statuses = world.take_requests().iter().filter(|request| *request == "STATUS web").count();
    assert!(statuses <= 14, "{statuses} writes of the status; the reference makes 14");
    let deployment = world.deployment();
    let progressing = deployment.status.conditions.iter().find(|condition| condition.kind == "Progressing");
    assert_eq!(progressing.expect("one").reason, "NewReplicaSetAvailable");
}

/// Scaled in mid-rollout without a surge, the rollout still ends.
///
/// Contract: B-03
#[test]
fn a_scaled_rollout_without_a_surge_ends() {
    let mut world = world(3, 0, 1);
    for _ in 0..4 {
        world.sync();
        world.settle(|_| true);
    }
    world.edit(|spec| spec["template"] = template("nginx:2"));
    world.edit(|spec| spec["replicas"] = json!(2));
    // A manual scaling left the old ReplicaSet as large as the Deployment, with annotations for another number.
    world.sets.values_mut().for_each(|set| set["spec"]["replicas"] = json!(2));
    for _ in 0..20 {
        world.settle(|_| true);
        world.sync();
    }
    assert!(is_complete(&world.deployment(), &world.deployment().status), "{:?}", world.told());
}

/// A rollout to a broken image is reported when its deadline has passed, and an undo repairs it.
///
/// Contract: DEP-17, DEP-18
#[test]
fn a_broken_rollout_stops_and_is_reported() {
    let mut world = world(4, 1, 1);
    let works = |image: &str| image != "broken";
    for _ in 0..4 {
        world.sync();
        world.settle(works);
    }
    world.edit(|spec| spec["template"] = template("broken"));
    let mut verdict = world.sync();
    for _ in 0..10 {
        world.settle(works);
        verdict = world.sync();
    }
    let deployment = world.deployment();
    assert_eq!((deployment.status.available_replicas, deployment.status.updated_replicas), (3, 2));
    let Requeue::After(wait) = verdict.requeue else { panic!("{verdict:?}") };
    world.now = world.now + wait;
    world.sync();
    let reason = |world: &World| {
        let conditions = world.deployment().status.conditions;
        conditions.iter().find(|condition| condition.kind == "Progressing").map(|condition| condition.reason.clone())
    };
    assert_eq!(reason(&world).as_deref(), Some("ProgressDeadlineExceeded"));
    assert_eq!(world.sync().requeue, Requeue::None);
    world.edit(|spec| spec["template"] = template("nginx:1"));
    for _ in 0..10 {
        world.settle(works);
        world.sync();
    }
    assert_eq!(reason(&world).as_deref(), Some("NewReplicaSetAvailable"));
    assert_eq!(world.deployment().annotations.get("deployment.kubernetes.io/revision"), Some("3"));
}

/// A change of the Deployment by a user.
#[derive(Debug, Clone)]
enum Act {
    Image(u8),
    Scale(i32),
    Bounds(Value, Value),
    Pause(bool),
    Rest,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..4_u8).prop_map(Act::Image),
        2 => (0..12_i32).prop_map(Act::Scale),
        1 => (amount(), amount()).prop_map(|(surge, unavailable)| Act::Bounds(surge, unavailable)),
        1 => any::<bool>().prop_map(Act::Pause),
        4 => Just(Act::Rest),
    ]
}

fn do_to(world: &mut World, act: &Act) {
    match act {
        Act::Image(number) => world.edit(|spec| spec["template"] = template(&format!("nginx:{number}"))),
        Act::Scale(replicas) => world.edit(|spec| spec["replicas"] = json!(replicas)),
        Act::Bounds(surge, unavailable) => world.edit(|spec| {
            spec["strategy"]["rollingUpdate"] = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        }),
        Act::Pause(paused) => world.edit(|spec| spec["paused"] = json!(paused)),
        Act::Rest => {}
    }
}

fn revisions(world: &World) -> BTreeMap<String, i64> {
    world.snapshot().sets.iter().map(|set| (set.meta.name.to_string(), revision(set).expect("a number"))).collect()
}

/// The ReplicaSets' controllers do some of their work: some reports are late, and some pods come up late.
fn settle_some(world: &mut World, late: u8) {
    for (at, set) in (0..8_u8).cycle().zip(world.sets.values_mut()) {
        if late >> at & 1 == 1 {
            continue;
        }
        let wanted = set["spec"]["replicas"].as_i64().expect("a number");
        let before = set["status"]["availableReplicas"].as_i64().unwrap_or(0);
        let available = if before < wanted { (before + 1).min(wanted) } else { wanted };
        set["status"] = json!({
            "replicas": wanted, "readyReplicas": available, "availableReplicas": available,
            "terminatingReplicas": 0, "observedGeneration": set["metadata"]["generation"],
        });
    }
}

/// Pods that are available now and will not be taken by what is written already.
fn lasting(world: &World) -> i64 {
    let sets = world.snapshot().sets;
    sets.iter().map(|set| i64::from(set.status.available_replicas.min(set.replicas))).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any sequence of changes, and however late ReplicaSets report: sizes stay within the surge, no needed pod is
    /// deleted, revisions only rise, nothing fails, and in the end the Deployment is complete.
    ///
    /// Contract: DEP-06, DEP-09, DEP-10, DEP-11, B-03
    #[test]
    fn every_history_stays_within_bounds_and_ends(
        replicas in 0..10_i32, surge in amount(), unavailable in amount(),
        acts in prop::collection::vec((act(), any::<u8>()), 1..24),
    ) {
        let mut world = world(replicas, surge, unavailable);
        let mut known: BTreeMap<String, i64> = BTreeMap::new();
        for (act, late) in &acts {
            do_to(&mut world, act);
            let (wanted_before, lasting_before) = (wanted(&world), lasting(&world));
            let rolls = decide(&world.snapshot(), &ClaimOutcome::default()).reporting == Reporting::Rollout;
            let verdict = world.sync();
            prop_assert_eq!(verdict.error, None);
            let deployment = world.deployment();
            let amounts = &world.deployment["spec"]["strategy"]["rollingUpdate"];
            let (most, least) =
                most_and_least(deployment.replicas, &amounts["maxSurge"], &amounts["maxUnavailable"]);
            prop_assert!(wanted(&world) <= most.max(wanted_before), "{:?}", world.told());
            // A change of size is shared by size and not by health.
            if rolls {
                prop_assert!(lasting(&world) >= least.min(lasting_before), "{:?}", world.told());
            }
            let now = revisions(&world);
            for (name, revision) in &now {
                prop_assert!(known.get(name).is_none_or(|before| before <= revision), "{name}");
            }
            known.extend(now);
            settle_some(&mut world, *late);
        }
        do_to(&mut world, &Act::Pause(false));
        for _ in 0..120 {
            // Complete is also what counts less than there is, because a ReplicaSet has not reported yet.
            settle_some(&mut world, 0);
            world.take_requests();
            world.sync();
            if world.requests.is_empty() && is_complete(&world.deployment(), &world.deployment().status) {
                break;
            }
        }
        // What is left then is the history, and the status of the ReplicaSets' last reports.
        world.sync();
        world.sync();
        prop_assert!(is_complete(&world.deployment(), &world.deployment().status), "{:?} {:?}", world.deployment, world.told());
        world.take_requests();
        world.sync();
        prop_assert_eq!(world.take_requests(), Vec::<String>::new());
    }
}
