//! Decide: what kind of sync it is, and in which order.

use std::sync::Arc;

use muster_controllers::deployment::{Reporting, Snapshot, decide, decide_claims, preview};
use muster_controllers::plan::{ClaimOutcome, Step};
use muster_objects::{Deployment, PodPhase, ReplicaSet};
use serde_json::{Value, json};

use crate::fixtures::{NOW, ago, annotate, deployment, pod, set, set_json, set_with, snapshot};
use crate::world::World;

fn orphan(number: u64, image: &str) -> std::sync::Arc<muster_objects::ReplicaSet> {
    set_with(number, image, 1, |json| json["metadata"]["ownerReferences"] = json!([]))
}

/// Contract: DEP-02
#[test]
fn an_empty_selector_is_reported_and_only_the_generation_observed() {
    let mut json = crate::fixtures::deployment_json(3);
    json["spec"]["selector"] = json!({});
    json["metadata"]["generation"] = json!(2);
    let mut orphan = set_json(1, "nginx:0", 1);
    orphan["metadata"]["ownerReferences"] = json!([]);
    let mut world = World::new(json, [orphan]);
    assert_eq!(world.sync().error, None);
    assert_eq!(world.take_requests(), ["STATUS web"]);
    assert_eq!(world.told(), ["SelectingAll This deployment is selecting all pods. A non-empty selector is required."]);
    assert_eq!(world.deployment["status"], json!({"observedGeneration": 2}));
    world.sync();
    assert_eq!(world.take_requests(), [""; 0], "observed already");
}

/// ReplicaSets change hands by the rules for pods.
///
/// Contract: DEP-02
#[test]
fn sets_are_claimed() {
    let relabelled = set_with(2, "b", 1, |json| json["metadata"]["labels"] = json!({"app": "other"}));
    let strange = set_with(3, "c", 1, |json| json["metadata"]["ownerReferences"][0]["uid"] = json!("another"));
    let all = [set(1, "a", 1), relabelled, strange, orphan(4, "d")];
    let plan = decide_claims(&snapshot(deployment(3, |_| ()), all.clone()));
    let shown = plan.to_string();
    assert!(
        shown.contains("release ReplicaSet default/web-2") && shown.contains("adopt ReplicaSet default/web-4"),
        "{shown}"
    );
    assert_eq!(plan.patches.len(), 2);
    assert!(plan.needs_permission());
    let deleted = deployment(3, |json| json["metadata"]["deletionTimestamp"] = json!(ago(5)));
    assert!(decide_claims(&snapshot(deleted, all)).is_empty(), "nothing changes hands any more");
}

/// Before a ReplicaSet is created in the place of one that went, and before nothing else.
///
/// Contract: B-23
#[test]
fn a_deployment_is_confirmed_before_its_set_is_created_again() {
    let confirms = |sets: Vec<Arc<ReplicaSet>>, confirm, observed: i64| {
        let deployment = deployment(3, |json| json["status"]["observedGeneration"] = json!(observed));
        let (_, plan) = preview(&Snapshot { confirm, ..snapshot(deployment, sets) }, NOW);
        plan.confirm_owner
    };
    assert!(confirms(vec![], true, 0));
    assert!(!confirms(vec![], false, 0));
    assert!(confirms(vec![], false, 1), "it had one before this manager looked");
    assert!(!confirms(vec![set(1, "nginx:1", 0)], true, 1), "it is there, and is scaled");
}

/// What could not be adopted is not counted; what was is.
///
/// Contract: DEP-02
#[test]
fn only_claimed_sets_count() {
    let snapshot = snapshot(deployment(3, |_| ()), [orphan(1, "nginx:1"), set(2, "nginx:0", 2)]);
    let mut outcome = ClaimOutcome::default();
    assert!(decide(&snapshot, &outcome).create.is_some());
    outcome.adopted.insert(crate::fixtures::uid(101), None);
    let decision = decide(&snapshot, &outcome);
    let new = decision.sets.new.expect("adopted");
    assert_eq!((decision.create, &*new.meta.name, new.meta.resource_version.0), (None, "web-1", 90));
    // What is written next must believe in the version that the adoption made.
    outcome.adopted.insert(crate::fixtures::uid(101), Some(muster_objects::ResourceVersion(95)));
    let new = decide(&snapshot, &outcome).sets.new.expect("adopted");
    assert_eq!(new.meta.resource_version.0, 95);
}

/// Contract: DEP-02
#[test]
fn a_failed_claim_ends_the_sync() {
    let mut orphan = set_json(1, "nginx:1", 1);
    orphan["metadata"]["ownerReferences"] = json!([]);
    let mut world = World::new(crate::fixtures::deployment_json(3), [orphan]);
    world.refusals.push_back(("ADOPT", crate::world::failure(500, "InternalError", "broken")));
    assert_eq!(world.sync().error.expect("an error").message, "broken");
    assert_eq!(world.take_requests(), ["ADOPT web-1"]);
    assert_eq!(world.sync().error, None);
    assert_eq!(world.take_requests()[0], "ADOPT web-1");
}

/// The first of these that holds decides what is done.
///
/// Contract: DEP-02
#[test]
fn the_order_of_a_sync() {
    type Change = fn(&mut Value);
    // From the last to the first: each is added to those before, and takes precedence.
    let cases: [(&str, Change, Reporting); 4] = [
        ("a rollout", |_| (), Reporting::Rollout),
        ("a scaling event", |json| json["spec"]["replicas"] = json!(6), Reporting::Counts),
        ("a rollback", |json| annotate(json, "deprecated.deployment.rollback.to", 1), Reporting::Nothing),
        ("a pause", |json| json["spec"]["paused"] = json!(true), Reporting::Counts),
    ];
    let mut changes: Vec<Change> = Vec::new();
    let mut decided: Vec<(Deployment, usize)> = Vec::new();
    for (what, change, reporting) in cases {
        changes.push(change);
        let deployment = deployment(4, |json| changes.iter().for_each(|change| change(json)));
        let scaled = |number, image, replicas| crate::fixtures::set_scaled_for(number, image, replicas, 4, 5);
        let decision =
            decide(&snapshot(deployment, [scaled(1, "nginx:0", 3), scaled(2, "nginx:1", 2)]), &ClaimOutcome::default());
        assert_eq!(decision.reporting, reporting, "{what}");
        decided.push((Deployment::clone(&decision.deployment), decision.updates.len()));
    }
    let deleted = deployment(6, |json| {
        changes.iter().for_each(|change| change(json));
        json["metadata"]["deletionTimestamp"] = json!(ago(5));
    });
    let decision = decide(&snapshot(deleted, [set(1, "nginx:0", 3)]), &ClaimOutcome::default());
    assert!(decision.plan(NOW).is_quiet(), "a Deployment that is being deleted starts nothing");
    assert!(decision.plan(NOW).status.is_some());
    assert_eq!(decided.len(), 4);
}

/// A Deployment that is being deleted scales nothing; its new ReplicaSet still gets what it hands down.
///
/// Contract: DEP-02, DEP-06
#[test]
fn a_deployment_that_is_being_deleted_keeps_its_new_set_up() {
    let deployment = deployment(4, |json| {
        json["metadata"]["deletionTimestamp"] = json!(ago(5));
        json["spec"]["minReadySeconds"] = json!(7);
        annotate(json, "note", "x");
    });
    let decision =
        decide(&snapshot(deployment, [set(1, "nginx:0", 3), set(2, "nginx:1", 1)]), &ClaimOutcome::default());
    let [update] = &decision.updates[..] else { panic!("{:?}", decision.updates) };
    assert_eq!((&*update.before.meta.name, update.is_scaling()), ("web-2", false));
    assert_eq!((update.after.min_ready_seconds, update.after.annotations.get("note")), (7, Some("x")));
}

/// While paused, sizes follow and nothing is rolled.
///
/// Contract: DEP-02
#[test]
fn a_paused_deployment_is_scaled_and_makes_no_new_set() {
    let paused = deployment(4, |json| json["spec"]["paused"] = json!(true));
    let decision = decide(&snapshot(paused, [set(1, "nginx:0", 3)]), &ClaimOutcome::default());
    assert_eq!(decision.create, None);
    assert_eq!(decision.updates.iter().map(|update| update.after.replicas).collect::<Vec<_>>(), [4]);
}

/// Paused between the last old pod and the first new one, a Recreate does not grow before the old pods have gone.
///
/// Contract: DEP-12
#[test]
fn a_paused_recreate_does_not_grow_beside_old_pods() {
    let paused = deployment(4, |json| {
        json["spec"]["paused"] = json!(true);
        json["spec"]["strategy"] = json!({"type": "Recreate"});
    });
    let emptied = |number, image| set_with(number, image, 0, |json| json["status"] = json!({"observedGeneration": 1}));
    let grown = |phase| {
        let mut snapshot = snapshot(paused.clone(), [emptied(1, "nginx:0"), emptied(2, "nginx:1")]);
        snapshot.pods = vec![Arc::new(pod("a", 1, phase))];
        let decision = decide(&snapshot, &ClaimOutcome::default());
        decision.updates.iter().map(|update| update.after.replicas).collect::<Vec<_>>()
    };
    assert_eq!(grown(PodPhase::Running), [0; 0]);
    assert_eq!(grown(PodPhase::Failed), [4]);
}

/// While it is paused, and when it is scaled in the middle of a rollout, no ReplicaSet grows beside another that has
/// more pods than it wants, or may have. What shrinks goes first.
///
/// Contract: DEP-09, B-18
#[test]
fn no_set_grows_into_the_room_of_pods_that_are_still_to_go() {
    let scaled = |number, image, replicas, has: i32, observed: i64| {
        set_with(number, image, replicas, |json| {
            annotate(json, "deployment.kubernetes.io/desired-replicas", 4);
            annotate(json, "deployment.kubernetes.io/max-replicas", 6);
            json["status"] = json!({"replicas": has, "observedGeneration": observed});
        })
    };
    let new = || scaled(2, "nginx:1", 2, 2, 1);
    // The old one, and the sizes that are written.
    let cases: [(&str, _, &[(&str, i32)]); 7] = [
        ("empty", scaled(1, "nginx:0", 0, 0, 1), &[("web-2", 6)]),
        ("with pods to delete", scaled(1, "nginx:0", 0, 3, 1), &[]),
        ("that has not reported", scaled(1, "nginx:0", 0, 3, 0), &[]),
        // It may have made pods since it last said that it has none.
        ("that has not reported that it is empty", scaled(1, "nginx:0", 0, 0, 0), &[]),
        ("with the pods that it wants", scaled(1, "nginx:0", 2, 2, 1), &[("web-2", 5), ("web-1", 3)]),
        ("with the pods that it wants, not reported", scaled(1, "nginx:0", 2, 2, 0), &[("web-1", 3)]),
        ("that shrinks", scaled(1, "nginx:0", 9, 9, 1), &[("web-1", 5)]),
    ];
    for (what, old, expected) in cases {
        for paused in [false, true] {
            let deployment = deployment(6, |json| {
                json["spec"]["paused"] = json!(paused);
                json["spec"]["revisionHistoryLimit"] = json!(0);
                json["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 2, "maxUnavailable": 0});
            });
            let decision = decide(&snapshot(deployment, [Arc::clone(&old), new()]), &ClaimOutcome::default());
            let written: Vec<_> =
                decision.updates.iter().map(|update| (&*update.after.meta.name, update.after.replicas)).collect();
            assert_eq!(written, expected, "beside one {what}, paused {paused}");
        }
    }
}

/// A ReplicaSet that is to grow and waits for others is in use.
///
/// Contract: DEP-14
#[test]
fn a_set_that_waits_to_grow_is_not_cleaned_up() {
    let paused = deployment(4, |json| {
        json["spec"]["paused"] = json!(true);
        json["spec"]["revisionHistoryLimit"] = json!(0);
    });
    let dwindling = set_with(1, "a", 0, |json| json["status"] = json!({"replicas": 3, "observedGeneration": 1}));
    let decision = decide(&snapshot(paused, [dwindling, set(2, "b", 0)]), &ClaimOutcome::default());
    assert_eq!((decision.updates.len(), decision.delete.len()), (0, 0));
}

/// One that is scaled up in the same sync is in use, whatever the cache says of it.
///
/// Contract: DEP-14, B-30
#[test]
fn a_paused_deployment_cleans_up_but_not_what_it_scales() {
    let paused = |replicas| {
        deployment(replicas, |json| {
            json["spec"]["paused"] = json!(true);
            json["spec"]["revisionHistoryLimit"] = json!(0);
        })
    };
    let old = || [set(1, "a", 0), set(2, "b", 0)];
    let decision = decide(&snapshot(paused(4), old()), &ClaimOutcome::default());
    assert_eq!(decision.updates.len(), 1);
    assert_eq!(decision.delete.iter().map(|set| &*set.meta.name).collect::<Vec<_>>(), ["web-1"]);
    let decision = decide(&snapshot(paused(0), old()), &ClaimOutcome::default());
    assert_eq!(decision.delete.len(), 2);
}

/// By the status before the sync: a rollout that is about to complete may still need to be undone.
///
/// Contract: DEP-14, DEP-24
#[test]
fn a_complete_rollout_cleans_up() {
    let with_status = |available: i32| {
        deployment(2, |json| {
            json["spec"]["revisionHistoryLimit"] = json!(0);
            json["status"] = json!({
                "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": available,
            });
        })
    };
    let all = || [set(1, "nginx:0", 0), set(2, "nginx:1", 2)];
    assert_eq!(decide(&snapshot(with_status(2), all()), &ClaimOutcome::default()).delete.len(), 1);
    assert_eq!(decide(&snapshot(with_status(1), all()), &ClaimOutcome::default()).delete.len(), 0);
}

/// A Recreate that waits for old pods is no complete rollout, whatever its last status says: an old ReplicaSet with
/// pods was adopted since.
///
/// Contract: DEP-12, DEP-14
#[test]
fn a_recreate_that_waits_cleans_nothing_up() {
    let recreating = deployment(2, |json| {
        json["spec"]["strategy"] = json!({"type": "Recreate"});
        json["spec"]["revisionHistoryLimit"] = json!(0);
        json["status"] = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
    });
    let deleted = |adopted: i32| {
        let all = [set(1, "nginx:0", 0), set(2, "nginx:2", adopted), set(3, "nginx:1", 2)];
        decide(&snapshot(recreating.clone(), all), &ClaimOutcome::default()).delete.len()
    };
    assert_eq!((deleted(1), deleted(0)), (0, 2));
}

/// Without any other change.
///
/// Contract: DEP-06
#[test]
fn the_new_set_takes_over_min_ready_seconds() {
    let deployment = |seconds: i32| deployment(2, |json| json["spec"]["minReadySeconds"] = json!(seconds));
    let decided = |seconds| decide(&snapshot(deployment(seconds), [set(1, "nginx:1", 2)]), &ClaimOutcome::default());
    assert_eq!(decided(0).updates, []);
    let [update] = &decided(7).updates[..] else { panic!("{:?}", decided(7).updates) };
    assert_eq!((update.after.min_ready_seconds, update.is_scaling()), (7, false));

    // With it go annotations that would not be written alone: the revision was edited.
    let edited = || {
        crate::fixtures::set_with(1, "nginx:1", 2, |json| annotate(json, "deployment.kubernetes.io/revision", "abc"))
    };
    let decided = |seconds: i32| {
        let deployment = crate::fixtures::deployment(2, |json| {
            json["spec"]["minReadySeconds"] = json!(seconds);
            annotate(json, "note", "x");
        });
        decide(&snapshot(deployment, [edited()]), &ClaimOutcome::default())
    };
    assert_eq!(decided(0).updates, []);
    let [update] = &decided(7).updates[..] else { panic!("{:?}", decided(7).updates) };
    assert_eq!(update.after.annotations.get("note"), Some("x"));
    assert_eq!(update.after.annotations.get("deployment.kubernetes.io/revision"), Some("abc"));
}

/// Up or down in one sync. What the new ReplicaSet gets from its Deployment is a write of its own before that, unless its
/// revision was edited: then it is part of the scaling.
///
/// Contract: DEP-10, DEP-06
#[test]
fn one_sync_scales_up_or_down() {
    let updates = |revision: &str| {
        let new = set_with(2, "nginx:1", 0, |json| {
            annotate(json, "deployment.kubernetes.io/revision", revision);
        });
        let deployment = deployment(4, |json| annotate(json, "note", "x"));
        let decision = decide(&snapshot(deployment, [set(1, "nginx:0", 4), new]), &ClaimOutcome::default());
        let each = |set: &ReplicaSet| (set.meta.name.to_string(), set.replicas, set.annotations.get("note").is_some());
        decision.updates.iter().map(|update| (each(&update.before), each(&update.after))).collect::<Vec<_>>()
    };
    let web = |replicas, has_note| ("web-2".to_owned(), replicas, has_note);
    assert_eq!(updates("2"), [(web(0, false), web(0, true)), (web(0, true), web(1, true))]);
    assert_eq!(updates("abc"), [(web(0, false), web(1, true))]);
}

/// An unknown strategy is an error that names it.
///
/// Contract: DEP-02
#[test]
fn an_unknown_strategy_is_an_error() {
    let strange = deployment(4, |json| json["spec"]["strategy"] = json!({"type": "BlueGreen"}));
    let plan = decide(&snapshot(strange, [set(1, "nginx:1", 4)]), &ClaimOutcome::default()).plan(NOW);
    let [.., Step::Fail(failure)] = &plan.steps[..] else { panic!("{plan}") };
    assert_eq!(failure.message, "unexpected deployment strategy type: BlueGreen");
}

/// What a dry run prints.
///
/// Contract: DEP-13
#[test]
fn the_plan_is_shown() {
    let (claims, plan) = preview(&snapshot(deployment(4, |_| ()), [set(1, "nginx:0", 4)]), NOW);
    assert!(claims.is_empty());
    let shown = plan.to_string();
    let name = plan.steps.iter().find_map(|step| if let Step::Create(it) = step { it.name.clone() } else { None });
    assert!(shown.starts_with("Deployment default/web (uid "), "{shown}");
    assert!(shown.contains(&format!("  create ReplicaSet default/{} (", name.expect("named"))), "{shown}");
    assert!(shown.contains("  patch ReplicaSet default/web-1: scale down from 4 to 3"), "{shown}");
    assert!(shown.contains(", annotation deployment.kubernetes.io/revision=2"), "{shown}");
    let mut all = crate::fixtures::deployment_json(1);
    all["spec"]["selector"] = json!({});
    let all = crate::fixtures::decode::<Deployment>(&all);
    let (_, plan) = preview(&snapshot(all, []), NOW);
    assert!(plan.to_string().contains("  tell Warning SelectingAll: This deployment"), "{plan}");
}
