//! Rollback: an earlier template comes back.

use muster_controllers::deployment::rollback::{roll_back, rollback_to};
use muster_controllers::plan::{Step, Written};
use muster_objects::Deployment;
use serde_json::{Value, json};

use crate::fixtures::{annotate, deployment, deployment_json, set, set_json, set_with, sets, template, uid};
use crate::world::World;

fn rolling_back(to: &str) -> Deployment {
    deployment(3, |json| annotate(json, "deprecated.deployment.rollback.to", to))
}

/// The Events of the steps, and the patch of the Deployment, if every write succeeds.
fn outcome(steps: &[Step]) -> (Vec<String>, Vec<Value>) {
    let (mut told, mut patches) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Tell(announcement) => told.push(announcement.to_string()),
            Step::Patch(list) => {
                for patch in list {
                    let written = Written { name: "web".into(), uid: uid(1), resource_version: None };
                    told.extend(patch.settle(&Ok(written)).announcement.map(|told| told.to_string()));
                    patches.push(serde_json::from_slice(&patch.body).expect("JSON"));
                }
            }
            other => panic!("{other:?}"),
        }
    }
    (told, patches)
}

/// Contract: DEP-22
#[test]
fn the_annotation_asks_for_a_revision() {
    for (text, wanted) in [("0", Some(0)), ("7", Some(7)), ("-1", Some(-1)), ("", None), ("seven", None)] {
        assert_eq!(rollback_to(&rolling_back(text)), wanted, "{text:?}");
    }
    assert_eq!(rollback_to(&deployment(3, |_| ())), None);
}

/// The template is restored without its hash label, and the annotations with it; those of the Deployment alone are
/// kept.
///
/// Contract: DEP-22
#[test]
fn the_template_and_annotations_come_back() {
    let current = deployment(3, |json| {
        annotate(json, "deprecated.deployment.rollback.to", 0);
        annotate(json, "kubernetes.io/change-cause", "edit");
        annotate(json, "deployment.kubernetes.io/revision", 2);
    });
    let old = set_with(1, "nginx:0", 0, |json| annotate(json, "kubernetes.io/change-cause", "create"));
    let (told, patches) = outcome(&roll_back(&current, &sets(set(2, "nginx:1", 3), [old]), 0));
    assert_eq!(told, [r#"tell Normal DeploymentRollback: Rolled back deployment "web" to revision 1"#]);
    let expected = json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "100"},
        {"op": "replace", "path": "/spec/template", "value": template("nginx:0")},
        {"op": "add", "path": "/metadata/annotations", "value": {
            "deployment.kubernetes.io/revision": "2", "kubernetes.io/change-cause": "create",
        }},
    ]);
    assert_eq!(patches, [expected]);
}

/// Whatever prevents the rollback is reported, and the annotation is removed.
///
/// Contract: DEP-22
#[test]
fn an_impossible_rollback_is_reported_and_its_annotation_removed() {
    let cases = [
        (0, "tell Warning DeploymentRollbackRevisionNotFound: Unable to find last revision."),
        (9, "tell Warning DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to."),
        (
            2,
            "tell Warning DeploymentRollbackTemplateUnchanged: \
             The rollback revision contains the same template as current deployment \"web\"",
        ),
    ];
    for (wanted, expected) in cases {
        let (told, patches) = outcome(&roll_back(&rolling_back("x"), &sets(set(2, "nginx:1", 3), []), wanted));
        assert_eq!(told, [expected]);
        let path = "/metadata/annotations/deprecated.deployment.rollback.to";
        assert_eq!(patches[0][1], json!({"op": "remove", "path": path}), "{wanted}");
    }
}

/// The whole of it: the old ReplicaSet becomes the new one, with the next revision and the memory of its first.
///
/// Contract: DEP-22, DEP-06
#[test]
fn the_old_set_becomes_the_new_one() {
    let mut json = deployment_json(2);
    annotate(&mut json, "deprecated.deployment.rollback.to", 1);
    json["spec"]["template"] = template("nginx:2");
    let mut world = World::new(json, [set_json(1, "nginx:1", 0), set_json(2, "nginx:2", 2)]);
    world.sync();
    assert_eq!(world.take_requests(), ["PATCH web"], "and no status, for the Deployment has just changed");
    for _ in 0..6 {
        world.settle(|_| true);
        world.sync();
    }
    assert_eq!((world.set("web-1").replicas, world.set("web-2").replicas), (2, 0));
    let annotations = world.set("web-1").annotations;
    assert_eq!(annotations.get("deployment.kubernetes.io/revision"), Some("3"));
    assert_eq!(annotations.get("deployment.kubernetes.io/revision-history"), Some("1"));
    assert_eq!(world.deployment().annotations.get("deployment.kubernetes.io/revision"), Some("3"));
    assert_eq!(world.deployment().annotations.get("deprecated.deployment.rollback.to"), None);
}

/// The ReplicaSet of the template that is about to go has no pods where the Deployment recreates: the old ones run yet.
///
/// Contract: DEP-12, DEP-22
#[test]
fn a_missing_new_set_of_a_recreate_is_created_without_pods() {
    let created = |change: fn(&mut Value)| {
        let mut json = deployment_json(2);
        annotate(&mut json, "deprecated.deployment.rollback.to", 0);
        json["spec"]["template"] = template("nginx:2");
        change(&mut json["spec"]["strategy"]);
        let mut world = World::new(json, [set_json(1, "nginx:1", 2)]);
        world.sync();
        let new = world.snapshot().sets.into_iter().find(|set| &*set.meta.name != "web-1").expect("created");
        (new.replicas, world.told().len())
    };
    assert_eq!(created(|strategy| *strategy = json!({"type": "Recreate"})), (0, 0), "nor is it told as scaled up");
    assert_eq!(created(|_| ()), (1, 1));
}

/// The current template gets a ReplicaSet and a revision before the Deployment is rolled back.
///
/// Contract: DEP-22
#[test]
fn a_missing_new_set_is_created_before() {
    let mut json = deployment_json(2);
    annotate(&mut json, "deprecated.deployment.rollback.to", 0);
    json["spec"]["template"] = template("nginx:2");
    let mut world = World::new(json, [set_json(1, "nginx:1", 2)]);
    let before = world.deployment().status;
    world.sync();
    // The creation is told, and no counts: none of its pods is an updated one, and to go back would be progress.
    let after = world.deployment().status;
    assert_eq!((after.replicas, after.observed_generation), (before.replicas, before.observed_generation));
    let reasons: Vec<_> = after.conditions.iter().map(|condition| &*condition.reason).collect();
    assert_eq!(reasons, ["NewReplicaSetCreated"]);
    let requests = world.take_requests();
    assert!(requests[0].starts_with("CREATE web-") && requests[1..] == ["STATUS web"], "{requests:?}");
    world.sync();
    assert_eq!(world.take_requests(), ["PATCH web"]);
    assert_eq!(
        world.told().last().map(String::as_str),
        Some("DeploymentRollback Rolled back deployment \"web\" to revision 1")
    );
}
