//! `test/integration/deployment`: what a Deployment makes of edits, deadlines and other people's hands.

use std::time::Duration;

use muster_tree::{List, Value, json};

use crate::common::{DEPLOYMENTS, PODS, SETS, condition, in_virtual_time, name, number, pass};
use crate::scene::{
    DESIRED, Scene, annotation, assert_selector_is_immutable, controller, is_observed, new_of, only_reference, scale,
    uid,
};

const IMAGE: &str = "fakeimage";

/// A Deployment that selects `name=test` and rolls by a quarter each way.
pub(crate) fn body(name: &str, replicas: u32) -> Value {
    let template = json!({
        "metadata": {"labels": {"name": "test"}}, "spec": {"containers": [{"name": "fake-name", "image": IMAGE}]},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"name": "test"}}, "template": template},
    })
}

pub(crate) fn path(name: &str) -> String {
    format!("{DEPLOYMENTS}/{name}")
}

pub(crate) fn set_path(set: &Value) -> String {
    format!("{SETS}/{}", name(set))
}

/// [`body`] with some of its spec changed.
pub(crate) fn with(replicas: u32, change: impl FnOnce(&mut Value)) -> Value {
    let mut body = body("web", replicas);
    change(&mut body["spec"]);
    body
}

/// Creates the Deployment `web`, waits until its first revision is complete, and returns its ReplicaSet.
pub(crate) async fn complete(scene: &Scene, body: &Value) -> Value {
    scene.create(DEPLOYMENTS, body).await;
    let set = scene.at_revision(name(body), "1", IMAGE).await;
    scene.complete(name(body), |_, _| ()).await;
    scene.get(&set_path(&set)).await
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "fake-name", "image": image}]}}}})
}

fn hash(labels: &Value) -> &str {
    labels["pod-template-hash"].as_str().unwrap()
}

/// `TestNewDeployment`.
///
/// Contract: DEP-04, DEP-06
#[test]
fn new_deployment() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let mut body = with(20, |spec| spec["minReadySeconds"] = json!(4));
        body["metadata"]["annotations"] =
            json!({"test": "is copied", "kubectl.kubernetes.io/last-applied-configuration": "is not copied"});
        let set = complete(&scene, &body).await;
        assert_eq!(annotation(&set, "test"), "is copied");
        assert_eq!(annotation(&set, "kubectl.kubernetes.io/last-applied-configuration"), "");
        let own = hash(&set["metadata"]["labels"]);
        assert_eq!(hash(&set["spec"]["selector"]["matchLabels"]), own);
        assert_eq!(hash(&set["spec"]["template"]["metadata"]["labels"]), own);
        assert_eq!(name(&set), format!("web-{own}"));
        let pods = scene.api().list(PODS).await;
        assert_eq!(pods.len(), 20);
        assert!(pods.iter().all(|pod| hash(&pod["metadata"]["labels"]) == own));
        scene.stop().await;
    });
}

/// `TestDeploymentRollingUpdate`: rolled out, and rolled over before that has finished.
///
/// Contract: DEP-06, DEP-10, DEP-11
#[test]
fn rolling_update() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        complete(&scene, &with(20, |spec| spec["minReadySeconds"] = json!(4))).await;
        let within_bounds = |web: &Value, pods: &[Value]| {
            assert!(pods.len() <= 25, "{} pods", pods.len());
            assert!(number(web, "/status/availableReplicas") >= 15, "{web}");
        };
        scene.edit(&path("web"), &image("new-image")).await;
        scene.at_revision("web", "2", "new-image").await;
        scene.complete("web", within_bounds).await;
        scene.edit(&path("web"), &image("dont-finish")).await;
        scene.at_revision("web", "3", "dont-finish").await;
        scene.edit(&path("web"), &image("rollover")).await;
        let new = scene.at_revision("web", "4", "rollover").await;
        scene.complete("web", within_bounds).await;
        for set in scene.api().list(SETS).await.iter().filter(|set| uid(set) != uid(&new)) {
            assert_eq!(number(set, "/spec/replicas"), 0, "{}", name(set));
        }
        scene.stop().await;
    });
}

/// `TestDeploymentSelectorImmutability`.
///
/// Contract: API-17
#[test]
fn selector_immutability() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        scene.create(DEPLOYMENTS, &body("web", 20)).await;
        scene.observed(&path("web")).await;
        assert_selector_is_immutable(&scene, &path("web")).await;
        scene.stop().await;
    });
}

fn grace(seconds: u32) -> Value {
    json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": seconds}}}})
}

/// `TestPausedDeployment`.
///
/// Contract: DEP-02, DEP-19
#[test]
fn paused_deployment() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let paused = with(1, |spec| {
            spec["paused"] = json!(true);
            spec["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
        });
        scene.create(DEPLOYMENTS, &paused).await;
        scene.observed(&path("web")).await;
        pass(Duration::from_secs(10)).await;
        assert_eq!(scene.api().list(SETS).await, Vec::<Value>::new());

        scene.edit(&path("web"), &json!({"spec": {"paused": false}})).await;
        scene.at_revision("web", "1", IMAGE).await;
        scene.complete("web", |_, _| ()).await;
        assert_eq!(scene.api().list(SETS).await.len(), 1);

        scene.edit(&path("web"), &json!({"spec": {"paused": true}})).await;
        scene.observed(&path("web")).await;
        scene.edit(&path("web"), &grace(0)).await;
        scene.observed(&path("web")).await;
        pass(Duration::from_secs(10)).await;
        let sets = scene.api().list(SETS).await;
        assert_eq!(sets.len(), 1, "the new template waits");
        assert_eq!(number(&sets[0], "/spec/template/spec/terminationGracePeriodSeconds"), 1);
        scene.stop().await;
    });
}

/// `TestScalePausedDeployment`.
///
/// Contract: DEP-02, DEP-09
#[test]
fn scale_paused_deployment() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let set = complete(&scene, &body("web", 1)).await;
        scene.edit(&path("web"), &json!({"spec": {"paused": true}})).await;
        scene.observed(&path("web")).await;
        scene.edit(&path("web"), &json!({"spec": {"replicas": 10}})).await;
        scene.observed(&path("web")).await;
        assert_eq!(number(&scene.get(&set_path(&set)).await, "/spec/replicas"), 10);
        scene.complete("web", |_, _| ()).await;
        scene.stop().await;
    });
}

/// `TestDeploymentHashCollision`: the name is taken by what has another template now.
///
/// Contract: DEP-05
#[test]
fn hash_collision() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        scene.create(DEPLOYMENTS, &body("web", 1)).await;
        let set = scene.at_revision("web", "1", IMAGE).await;
        scene.edit(&set_path(&set), &grace(5)).await;
        scene.until(&path("web"), |web| web["status"]["collisionCount"] == 1).await;
        let second = scene.at_revision("web", "2", IMAGE).await;
        assert_ne!(name(&second), name(&set));
        scene.stop().await;
    });
}

/// `TestFailedDeployment`: reported at its deadline, and complete all the same once its pods are ready.
///
/// Contract: DEP-17, DEP-18
#[test]
fn failed_deployment() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        scene.create(DEPLOYMENTS, &with(1, |spec| spec["progressDeadlineSeconds"] = json!(3))).await;
        scene.until(&path("web"), |web| number(web, "/status/updatedReplicas") >= 1).await;
        let says = |web: &Value, reason: &str| condition(web, "Progressing")["reason"] == reason;
        scene.until(&path("web"), |web| says(web, "ProgressDeadlineExceeded")).await;
        scene.complete("web", |_, _| ()).await;
        scene.until(&path("web"), |web| says(web, "NewReplicaSetAvailable")).await;
        scene.stop().await;
    });
}

/// `TestOverlappingDeployments`.
///
/// Contract: DEP-02
#[test]
fn overlapping_deployments() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let first = complete(&scene, &body("first", 1)).await;
        let second = complete(&scene, &body("second", 1)).await;
        assert_ne!(uid(&first), uid(&second));
        scene.edit(&path("first"), &json!({"spec": {"replicas": 2}})).await;
        scene.complete("first", |_, _| ()).await;
        for (set, expected) in [(first, 2), (second, 1)] {
            assert_eq!(number(&scene.get(&set_path(&set)).await, "/spec/replicas"), expected, "{}", name(&set));
        }
        scene.stop().await;
    });
}

/// Waits until each ReplicaSet has the pods that it wants.
async fn stable(scene: &Scene, sets: &[&Value]) {
    for set in sets {
        let stable = |set: &Value| number(set, "/status/replicas") == number(set, "/spec/replicas");
        scene.until(&set_path(set), |set| is_observed(set) && stable(set)).await;
    }
}

async fn assert_scaled_for(scene: &Scene, desired: &str, sets: &[&Value]) {
    for set in sets {
        assert_eq!(annotation(&scene.get(&set_path(set)).await, DESIRED), desired, "{}", name(set));
    }
}

/// `TestScaledRolloutDeployment`: size and template change in one write while a rollout hangs.
///
/// Contract: DEP-06, DEP-09, DEP-11, B-03
#[test]
fn scaled_rollout() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let bounds = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
        let first = complete(&scene, &with(10, |spec| spec["strategy"] = bounds)).await;
        let available = async || number(&scene.get(&path("web")).await, "/status/availableReplicas");
        let resized = |replicas: u32, to: &str| {
            let mut patch = image(to);
            patch["spec"]["replicas"] = json!(replicas);
            patch
        };

        scene.edit(&path("web"), &image("fakeimage2")).await;
        let second = scene.at_revision("web", "2", "fakeimage2").await;
        pass(Duration::from_secs(10)).await;
        assert!(available().await >= 8);
        stable(&scene, &[&first, &second]).await;
        scene.edit(&path("web"), &resized(20, "fakeimage3")).await;
        let third = scene.at_revision("web", "3", "fakeimage3").await;
        scene.complete("web", |_, _| ()).await;
        assert_scaled_for(&scene, "20", &[&first, &second, &third]).await;

        scene.edit(&path("web"), &image("fakeimage4")).await;
        let fourth = scene.at_revision("web", "4", "fakeimage4").await;
        pass(Duration::from_secs(10)).await;
        assert!(available().await >= 18);
        stable(&scene, &[&third, &fourth]).await;
        scene.edit(&path("web"), &resized(5, "fakeimage5")).await;
        let fifth = scene.at_revision("web", "5", "fakeimage5").await;
        scene.complete("web", |_, _| ()).await;
        assert_scaled_for(&scene, "5", &[&third, &fourth, &fifth]).await;
        scene.stop().await;
    });
}

pub(crate) fn recreating(spec: &mut Value) {
    spec["strategy"] = json!({"type": "Recreate"});
}

/// `TestSpecReplicasChange`.
///
/// Contract: DEP-09, DEP-15
#[test]
fn spec_replicas_change() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        scene.create(DEPLOYMENTS, &with(1, recreating)).await;
        let set = scene.at_revision("web", "1", IMAGE).await;
        for replicas in [2, 0, 1] {
            scene.edit(&path("web"), &json!({"spec": {"replicas": replicas}})).await;
            scene.until(&set_path(&set), |set| number(set, "/spec/replicas") == replicas).await;
        }
        let before = scene.get(&path("web")).await;
        let after = scene.edit(&path("web"), &json!({"spec": {"revisionHistoryLimit": 4}})).await;
        assert!(number(&after, "/metadata/generation") > number(&before, "/metadata/generation"));
        scene.observed(&path("web")).await;
        scene.stop().await;
    });
}

/// All, updated, ready, available, unavailable and terminating pods, by the Deployment's status.
pub(crate) fn counts(web: &Value) -> [i64; 6] {
    ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas"]
        .map(|field| number(web, &format!("/status/{field}")))
}

/// `TestDeploymentAvailableCondition`.
///
/// Contract: DEP-15, DEP-16
#[test]
fn available_condition() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let slow = with(10, |spec| {
            spec["minReadySeconds"] = json!(3_600);
            spec["progressDeadlineSeconds"] = json!(7_200);
        });
        scene.create(DEPLOYMENTS, &slow).await;
        let says = |web: &Value| condition(web, "Available")["reason"].as_str().unwrap_or_default().to_owned();
        let unavailable = scene.until(&path("web"), |web| counts(web) == [10, 10, 0, 0, 10, 0]).await;
        assert_eq!(says(&unavailable), "MinimumReplicasUnavailable");
        scene.ready_all().await;
        let ready = scene.until(&path("web"), |web| counts(web) == [10, 10, 10, 0, 10, 0]).await;
        assert_eq!(says(&ready), "MinimumReplicasUnavailable");
        scene.edit(&path("web"), &json!({"spec": {"minReadySeconds": 1}})).await;
        let available = scene.until(&path("web"), |web| counts(web) == [10, 10, 10, 10, 0, 0]).await;
        assert_eq!(says(&available), "MinimumReplicasAvailable");
        assert!(available["status"].get("terminatingReplicas").is_some(), "known, and none");
        scene.stop().await;
    });
}

/// `TestGeneralReplicaSetAdoption`: the controller reference is added beside others, and replaces one that is not a
/// controller.
///
/// Contract: DEP-02, RS-08
#[test]
fn general_adoption() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let set = complete(&scene, &body("web", 1)).await;
        let web = scene.get(&path("web")).await;
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
        let other = scene.create("/api/v1/namespaces/default/configmaps", &other).await;
        for (patch, expected) in
            [(only_reference("v1", "ConfigMap", &other), 2), (only_reference("apps/v1", "Deployment", &web), 1)]
        {
            scene.edit(&set_path(&set), &patch).await;
            let adopted = scene.until(&set_path(&set), |set| controller(set) == Some(uid(&web))).await;
            assert_eq!(adopted["metadata"]["ownerReferences"].as_array().map(List::len), Some(expected));
        }
        scene.stop().await;
    });
}

/// `TestDeploymentScaleSubresource`.
///
/// Contract: API-15
#[test]
fn scale_subresource() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        complete(&scene, &body("web", 2)).await;
        for replicas in [3, 0] {
            assert_eq!(scale(&scene, &path("web"), replicas).await, i64::from(replicas));
        }
        scene.stop().await;
    });
}

/// `TestReplicaSetOrphaningAndAdoptionWhenLabelsChange`: the orphan keeps its name, so the next one needs another.
///
/// Contract: DEP-02, DEP-05
#[test]
fn orphaning_and_adoption() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let set = complete(&scene, &body("web", 1)).await;
        let web = scene.get(&path("web")).await;
        let strange =
            json!({"metadata": {"labels": {"name": null, "pod-template-hash": null, "new-name": "new-test"}}});
        scene.edit(&set_path(&set), &strange).await;
        scene.until(&set_path(&set), |set| controller(set).is_none()).await;
        let sets = scene.until_all(SETS, |sets| new_of(&web, sets).is_some_and(|new| uid(new) != uid(&set))).await;
        assert_eq!(sets.len(), 2);
        let matching = json!({"metadata": {"labels": {"name": "test", "new-name": null}}});
        scene.edit(&set_path(&set), &matching).await;
        scene.until(&set_path(&set), |set| controller(set) == Some(uid(&web))).await;
        scene.stop().await;
    });
}
