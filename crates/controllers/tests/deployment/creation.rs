//! Creation: the new ReplicaSet and its name.

use muster_controllers::deployment::creation::{new_set, new_set_name, set_name};
use muster_controllers::plan::{Outcome, Settlement};
use muster_objects::IntOrPercent;
use serde_json::{Value, json};

use crate::fixtures::{ago, annotate, deployment, deployment_json, rolling, set, set_json, sets, template, uid};
use crate::world::{World, failure};

/// Contract: DEP-04
#[test]
fn the_name_is_cut_so_that_the_whole_fits() {
    let long = "a".repeat(253);
    let cases =
        [("web", "5d4f8c7b6d", "web-5d4f8c7b6d".to_owned()), (&*long, "bcd", format!("{}-bcd", "a".repeat(249)))];
    for (deployment, hash, expected) in cases {
        assert_eq!(set_name(deployment, hash), expected);
    }
    let hash = "h".repeat(253);
    assert_eq!(set_name("web", &hash), format!("web-{hash}"), "nothing is left to cut");
}

/// The hash follows from the template and the collisions, and is written in letters that make no words.
///
/// Contract: DEP-04
#[test]
fn the_name_follows_from_template_and_collisions() {
    let one = deployment(3, |_| ());
    let name = new_set_name(&one);
    let hash = name.strip_prefix("web-").expect("the Deployment's name first");
    assert!(hash.chars().all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter)), "{hash}");
    assert_eq!(new_set_name(&deployment(9, |json| json["metadata"]["uid"] = json!("other"))), name);
    assert_ne!(new_set_name(&deployment(3, |json| json["status"]["collisionCount"] = json!(1))), name);
    assert_ne!(new_set_name(&deployment(3, |json| json["spec"]["template"] = template("nginx:2"))), name);
}

/// What this version does not know of the template is in it byte for byte.
///
/// Contract: DEP-04, DEP-06, B-13
#[test]
fn the_new_set_is_made_of_the_raw_template() {
    let deployment = deployment(4, |json| {
        json["spec"]["minReadySeconds"] = json!(5);
        json["spec"]["selector"]["matchExpressions"] = json!([{"key": "tier", "operator": "DoesNotExist"}]);
        annotate(json, "kubernetes.io/change-cause", "create");
    });
    let new = new_set(&deployment, &sets(None, [set(1, "nginx:0", 4)]), 2).expect("a number");
    let body: Value = serde_json::from_slice(&new.creation.body).expect("JSON");
    let mut with_hash = template("nginx:1");
    with_hash["metadata"]["labels"]["pod-template-hash"] = json!(new.hash);
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": new_set_name(&deployment), "namespace": "default",
            "labels": {"app": "web", "pod-template-hash": new.hash},
            "annotations": {
                "deployment.kubernetes.io/revision": "2", "deployment.kubernetes.io/desired-replicas": "4",
                "deployment.kubernetes.io/max-replicas": "5", "kubernetes.io/change-cause": "create",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid(1),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": 1, "minReadySeconds": 5, "template": with_hash,
            "selector": {
                "matchLabels": {"app": "web", "pod-template-hash": new.hash},
                "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}],
            },
        },
    });
    assert_eq!(body, expected);
    let text = std::str::from_utf8(&new.creation.body).expect("JSON is text");
    assert!(text.contains(r#""somethingNew":{"a":[1,null]}"#), "{text}");
    assert!(new.set.selector.as_ref().expect("valid").matches(&new.set.meta.labels));
}

/// A name that is taken is not yet a failure; any other refusal is, with an Event.
///
/// Contract: DEP-05
#[test]
fn refusals_are_told_apart() {
    let creation = new_set(&deployment(4, |_| ()), &sets(None, []), 1).expect("a number").creation;
    let taken = creation.settle(&Err(failure(409, "AlreadyExists", "taken")));
    assert!(matches!(taken.settlement, Settlement::NameTaken(_)) && taken.announcement.is_none() && taken.ends_round);
    let mut outcome = Outcome::default();
    outcome.add(&taken);
    assert!(outcome.ends_round() && outcome.error.is_none());
    let refused = creation.settle(&Err(failure(403, "Forbidden", "exceeded quota")));
    let told = refused.announcement.expect("an Event");
    let name = creation.name.expect("named");
    assert_eq!(
        told.to_string(),
        format!("tell Warning ReplicaSetCreateError: Failed to create new replica set \"{name}\": exceeded quota")
    );
}

/// Another ReplicaSet has the name: the collision is counted, and the next try is for another name.
///
/// Contract: DEP-05
#[test]
fn a_collision_is_counted_and_avoided() {
    let mut world = World::new(deployment_json(2), []);
    let name = new_set_name(&world.deployment());
    let mut stranger = set_json(1, "nginx:9", 1);
    (stranger["metadata"]["name"], stranger["metadata"]["ownerReferences"]) = (json!(name), json!([]));
    stranger["metadata"]["labels"] = json!({"app": "other"});
    world.sets.insert(name.clone(), stranger);
    let verdict = world.sync();
    assert!(verdict.error.is_some_and(|error| error.is_already_exists()));
    assert_eq!(world.take_requests(), [format!("CREATE {name}"), "STATUS web".to_owned()]);
    assert_eq!(world.deployment().status.collision_count, Some(1));
    assert_eq!(world.told(), [""; 0]);
    assert_eq!(world.sync().error, None);
    let other = new_set_name(&world.deployment());
    assert_eq!(world.set(&other).replicas, 2);
}

/// An orphan with the same template that is being deleted is never adopted, and keeps the name until it has gone: the
/// next try is for another name.
///
/// Contract: DEP-05
#[test]
fn an_orphan_on_its_way_out_that_holds_the_name_is_a_collision() {
    let mut world = World::new(deployment_json(2), []);
    let name = new_set_name(&world.deployment());
    let mut orphan = set_json(1, "nginx:1", 2);
    (orphan["metadata"]["name"], orphan["metadata"]["ownerReferences"]) = (json!(name), json!([]));
    orphan["metadata"]["deletionTimestamp"] = json!(ago(5));
    world.sets.insert(name.clone(), orphan);
    assert!(world.sync().error.is_some_and(|error| error.is_already_exists()));
    assert_eq!(world.deployment().status.collision_count, Some(1));
    assert_eq!(world.sync().error, None);
    let other = new_set_name(&world.deployment());
    assert_ne!(other, name);
    assert_eq!(world.set(&other).replicas, 2);
}

/// The holder of the name went before it could be looked at.
///
/// Contract: DEP-05
#[test]
fn a_name_that_is_free_again_is_tried_again() {
    let mut world = World::new(deployment_json(2), []);
    world.refusals.push_back(("CREATE", failure(409, "AlreadyExists", "replicasets.apps already exists")));
    assert!(world.sync().error.is_some_and(|error| error.is_already_exists()), "it backs off");
    assert_eq!(world.deployment().status.collision_count, None);
    assert_eq!(world.sync().error, None);
    assert_eq!(world.sets.len(), 1);
}

/// The name is taken by a ReplicaSet that is this Deployment's, of an earlier creation whose answer was lost, and that
/// the cache does not show yet: the next sync, which begins when it does, takes it for what it is.
///
/// Contract: DEP-05
#[test]
fn a_name_taken_by_an_own_set_that_the_cache_does_not_show_is_no_collision() {
    let mut world = World::new(deployment_json(2), []);
    world.sync();
    let mut snapshot = world.snapshot();
    snapshot.sets.clear();
    snapshot.current.clear();
    let verdict = world.run(&mut muster_controllers::deployment::DeploymentSync::new(snapshot));
    assert!(verdict.error.is_some_and(|error| error.is_already_exists()), "it backs off");
    assert_eq!(world.deployment().status.collision_count, None);
    assert_eq!(world.sync().error, None);
    assert_eq!(world.sets.len(), 1);
}

/// The Deployment's own ReplicaSet of another template has the name: two templates have one hash.
///
/// Contract: DEP-05
#[test]
fn a_name_taken_by_an_own_set_of_another_template_is_a_collision() {
    let mut world = World::new(deployment_json(2), []);
    let name = new_set_name(&world.deployment());
    let mut other = set_json(1, "nginx:0", 0);
    other["metadata"]["name"] = json!(name);
    world.sets.insert(name, other);
    assert!(world.sync().error.is_some_and(|error| error.is_already_exists()));
    assert_eq!(world.deployment().status.collision_count, Some(1));
}

/// Contract: DEP-05
#[test]
fn a_refused_creation_is_in_the_status_and_an_event() {
    let mut world = World::new(deployment_json(2), []);
    world.refusals.push_back(("CREATE", failure(403, "Forbidden", "exceeded quota")));
    let verdict = world.sync();
    assert_eq!(verdict.error.expect("an error").message, "exceeded quota");
    let deployment = world.deployment();
    let message = format!("Failed to create new replica set \"{}\": exceeded quota", new_set_name(&deployment));
    let progressing = &deployment.status.conditions[0];
    assert_eq!((&*progressing.reason, &*progressing.message), ("ReplicaSetCreateError", &*message));
    assert_eq!(world.told(), [format!("ReplicaSetCreateError {message}")]);
}

/// Contract: DEP-05, DEP-23
#[test]
fn a_terminating_namespace_ends_the_sync_quietly() {
    let mut world = World::new(deployment_json(2), []);
    let mut terminating = failure(403, "Forbidden", "namespace is being terminated");
    terminating.causes = vec!["NamespaceTerminating".to_owned()];
    world.refusals.push_back(("CREATE", terminating));
    assert_eq!(world.sync().error, None);
    assert_eq!(world.requests.len(), 1);
    assert_eq!(world.told(), [""; 0]);
}

/// Contract: DEP-04
#[test]
fn bounds_that_cannot_be_read_make_no_set() {
    assert!(new_set(&rolling(4, "many", 1), &sets(None, []), 1).is_err());
    assert_eq!(IntOrPercent::from("many"), IntOrPercent::Other("many".into()));
}

/// An old ReplicaSet that has not reported on its size may have any number of pods: the new one is made without any.
///
/// Contract: DEP-10, B-18
#[test]
fn a_new_set_has_no_room_beside_an_old_one_that_has_not_reported() {
    let old = |observed: i64| {
        crate::fixtures::set_with(1, "a", 0, |json| {
            json["metadata"]["generation"] = json!(2);
            json["status"]["observedGeneration"] = json!(observed);
        })
    };
    let size = |observed| new_set(&rolling(4, 1, 1), &sets(None, [old(observed)]), 2).expect("numbers").set.replicas;
    assert_eq!((size(1), size(2)), (0, 4));
}
