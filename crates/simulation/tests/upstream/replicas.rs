//! `test/integration/replicaset` and `test/integration/replicationcontroller`, each case for both kinds that has one.

use std::time::Duration;

use muster_tree::{List, Value, json};

use crate::common::{CONTROLLERS, PODS, SETS, in_virtual_time, is_being_deleted, name, number, pass};
use crate::scene::{NODE, Scene, assert_selector_is_immutable, controller, is_observed, only_reference, scale, uid};

/// A kind that keeps replicas.
#[derive(Clone, Copy)]
struct Kind {
    api_version: &'static str,
    name: &'static str,
    collection: &'static str,
}

const REPLICA_SET: Kind = Kind { api_version: "apps/v1", name: "ReplicaSet", collection: SETS };
const REPLICATION_CONTROLLER: Kind = Kind { api_version: "v1", name: "ReplicationController", collection: CONTROLLERS };
const BOTH: [Kind; 2] = [REPLICA_SET, REPLICATION_CONTROLLER];

impl Kind {
    /// An object that selects `foo=bar`.
    fn body(self, name: &str, replicas: u32) -> Value {
        let labels = json!({"foo": "bar"});
        let selector = if self.api_version == "v1" { labels.clone() } else { json!({ "matchLabels": labels }) };
        let template = json!({
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "fake-name", "image": "fakeimage"}]},
        });
        json!({
            "apiVersion": self.api_version, "kind": self.name, "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        })
    }

    fn path(self, name: &str) -> String {
        format!("{}/{name}", self.collection)
    }

    /// Creates it, and waits for its pods.
    async fn create(self, scene: &Scene, name: &str, replicas: u32) -> Value {
        self.create_body(scene, &self.body(name, replicas)).await
    }

    async fn create_body(self, scene: &Scene, body: &Value) -> Value {
        scene.create(self.collection, body).await;
        self.stable(scene, name(body)).await
    }

    /// Waits until it has what it wants.
    async fn stable(self, scene: &Scene, name: &str) -> Value {
        let stable = |object: &Value| number(object, "/status/replicas") == number(object, "/spec/replicas");
        scene.until(&self.path(name), |object| is_observed(object) && stable(object)).await
    }

    async fn scale(self, scene: &Scene, name: &str, replicas: u32) {
        scene.edit(&self.path(name), &json!({"spec": {"replicas": replicas}})).await;
        self.stable(scene, name).await;
    }

    fn reference(self, object: &Value, more: &Value) -> Value {
        let mut reference = json!({
            "apiVersion": self.api_version, "kind": self.name, "name": name(object), "uid": uid(object),
        });
        for (key, value) in more.as_object().unwrap() {
            reference[key] = value.clone();
        }
        reference
    }
}

/// A pod with the labels that all of them select, and dear enough to be kept.
fn pod(name: &str, owners: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "labels": {"foo": "bar"}, "ownerReferences": owners,
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": "100"},
        },
        "spec": {"containers": [{"name": "fake-name", "image": "fakeimage"}]},
    })
}

/// `TestAdoption`.
///
/// Contract: RS-06, RS-08, RC-01
#[test]
fn adoption() {
    let plain = || json!({});
    let controls = || json!({"controller": true});
    let adopted = || json!({"controller": true, "blockOwnerDeletion": true});
    // What the pod says of its owner, of another, and of its owner in the end.
    let cases = [
        ("an owner that does not control", Some(plain()), None, adopted()),
        ("no owner", None, None, adopted()),
        ("controlled already", Some(controls()), None, controls()),
        ("controlled by another, owned by this one", Some(plain()), Some(controls()), plain()),
    ];
    for (kind, (what, own, of_another, after)) in
        BOTH.into_iter().flat_map(|kind| cases.clone().map(|case| (kind, case)))
    {
        in_virtual_time(async {
            let scene = Scene::start().await;
            let web = kind.create(&scene, "web", 1).await;
            let mut others = Vec::new();
            if let Some(of_another) = of_another {
                others.push(kind.reference(&kind.create(&scene, "another", 1).await, &of_another));
            }
            let with_own = |own: Option<Value>| -> Vec<Value> {
                others.iter().cloned().chain(own.map(|own| kind.reference(&web, &own))).collect()
            };
            scene.create(PODS, &pod("a", &with_own(own))).await;
            pass(Duration::from_secs(5)).await;
            let a = scene.get(&format!("{PODS}/a")).await;
            assert_eq!(a["metadata"]["ownerReferences"], json!(with_own(Some(after))), "{}: {what}", kind.name);
            scene.stop().await;
        });
    }
}

/// `TestRSSelectorImmutability`.
///
/// Contract: API-17
#[test]
fn selector_immutability() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        REPLICA_SET.create(&scene, "rs", 0).await;
        assert_selector_is_immutable(&scene, &REPLICA_SET.path("rs")).await;
        scene.stop().await;
    });
}

/// `TestSpecReplicasChange`.
///
/// Contract: RS-15, RS-17, RC-01
#[test]
fn spec_replicas_change() {
    for kind in BOTH {
        in_virtual_time(async {
            let scene = Scene::start().await;
            let before = kind.create(&scene, "web", 2).await;
            for replicas in [3, 0, 2] {
                kind.scale(&scene, "web", replicas).await;
            }
            let annotated = json!({"spec": {"template": {"metadata": {"annotations": {"test": "annotation"}}}}});
            let after = scene.edit(&kind.path("web"), &annotated).await;
            assert!(number(&after, "/metadata/generation") > number(&before, "/metadata/generation"));
            scene.observed(&kind.path("web")).await;
            scene.stop().await;
        });
    }
}

fn names(pods: &[Value]) -> Vec<String> {
    pods.iter().map(|pod| name(pod).to_owned()).collect()
}

/// `TestLogarithmicScaleDown`: the youngest is deleted.
///
/// Contract: DEL-04
#[test]
fn logarithmic_scale_down() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        REPLICATION_CONTROLLER.create(&scene, "rc", 2).await;
        let before = names(&scene.api().list(PODS).await);
        pass(Duration::from_secs(10)).await;
        REPLICATION_CONTROLLER.scale(&scene, "rc", 3).await;
        REPLICATION_CONTROLLER.scale(&scene, "rc", 2).await;
        assert_eq!(names(&scene.api().list(PODS).await), before);
        scene.stop().await;
    });
}

/// `TestDeletingAndFailedPods`: both are replaced, and stay.
///
/// Contract: RS-05
#[test]
fn deleting_and_failed_pods() {
    for kind in BOTH {
        in_virtual_time(async {
            let scene = Scene::start().await;
            kind.create(&scene, "web", 2).await;
            let first = names(&scene.api().list(PODS).await);
            let held = json!({"metadata": {"finalizers": ["fake.example.com/block-deletion"]}});
            scene.edit(&format!("{PODS}/{}", first[0]), &held).await;
            scene.delete_pod(&first[0], None).await;
            scene.report(&first[1], &json!({"phase": "Failed"})).await;
            let after = names(&scene.until_pods(|pods| pods.len() == 4).await);
            assert!(first.iter().all(|pod| after.contains(pod)), "{first:?} of {after:?}");
            scene.stop().await;
        });
    }
}

/// `TestPodDeletionCost`: the dear one stays, and among equal ones the one that restarted less.
///
/// Contract: DEL-02, DEL-04
#[test]
fn pod_deletion_cost() {
    for (costs, left) in [(["1000", "100"], 0), (["100", "100"], 1), (["", ""], 1)] {
        in_virtual_time(async {
            let scene = Scene::start().await;
            REPLICA_SET.create(&scene, "rs", 2).await;
            let pods = names(&scene.api().list(PODS).await);
            let now = scene.ago(0);
            for (pod, (cost, restarts)) in pods.iter().zip(costs.into_iter().zip([5, 0])) {
                if !cost.is_empty() {
                    let cost =
                        json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
                    scene.edit(&format!("{PODS}/{pod}"), &cost).await;
                }
                scene.report_ready(pod, "True", now).await;
                let container = json!({
                    "name": "fake-name", "image": "fakeimage", "imageID": "", "ready": true, "restartCount": restarts,
                });
                scene.report(pod, &json!({"containerStatuses": [container]})).await;
            }
            REPLICA_SET.scale(&scene, "rs", 1).await;
            assert_eq!(names(&scene.api().list(PODS).await), [pods[left].clone()], "{costs:?}");
            scene.stop().await;
        });
    }
}

/// `TestOverlappingRSs` and `TestOverlappingRCs`: two with the same selector do not touch each other's pods.
///
/// Contract: RS-06
#[test]
fn overlapping() {
    for kind in BOTH {
        in_virtual_time(async {
            let scene = Scene::start().await;
            for replicas in [1, 2] {
                kind.create(&scene, &format!("web-{replicas}"), replicas).await;
            }
            assert_eq!(scene.api().list(PODS).await.len(), 3);
            for replicas in [1, 2] {
                kind.stable(&scene, &format!("web-{replicas}")).await;
            }
            scene.stop().await;
        });
    }
}

/// `TestPodOrphaningAndAdoptionWhenLabelsChange`.
///
/// Contract: RS-06, RS-08
#[test]
fn orphaning_and_adoption() {
    for kind in BOTH {
        in_virtual_time(async {
            let scene = Scene::start().await;
            let web = kind.create(&scene, "web", 1).await;
            let first = scene.api().list(PODS).await.remove(0);
            assert_eq!(controller(&first), Some(uid(&web)));
            let path = format!("{PODS}/{}", name(&first));
            scene.edit(&path, &json!({"metadata": {"labels": {"foo": null, "new-foo": "new-bar"}}})).await;
            scene.until(&path, |pod| controller(pod).is_none()).await;
            scene.edit(&path, &json!({"metadata": {"labels": {"foo": "bar", "new-foo": null}}})).await;
            // Adopted, or taken away as one too many: one is left, and it is owned.
            let left = scene.until_pods(|pods| pods.len() == 1 && controller(&pods[0]).is_some()).await;
            assert_eq!(controller(&left[0]), Some(uid(&web)));
            scene.stop().await;
        });
    }
}

/// `TestGeneralPodAdoption`: the controller reference is added beside others, and replaces one that is not a
/// controller.
///
/// Contract: RS-06, RS-08
#[test]
fn general_adoption() {
    for kind in BOTH {
        in_virtual_time(async {
            let scene = Scene::start().await;
            let web = kind.create(&scene, "web", 1).await;
            let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
            let other = scene.create("/api/v1/namespaces/default/configmaps", &other).await;
            let first = scene.api().list(PODS).await.remove(0);
            let path = format!("{PODS}/{}", name(&first));
            let cases = [
                (only_reference("v1", "ConfigMap", &other), 2),
                (only_reference(kind.api_version, kind.name, &web), 1),
            ];
            for (patch, expected) in cases {
                scene.edit(&path, &patch).await;
                let adopted = scene.until(&path, |pod| controller(pod) == Some(uid(&web))).await;
                assert_eq!(adopted["metadata"]["ownerReferences"].as_array().map(List::len), Some(expected));
            }
            scene.stop().await;
        });
    }
}

/// `TestReadyAndAvailableReplicas`.
///
/// Contract: RS-15
#[test]
fn ready_and_available() {
    for kind in BOTH {
        in_virtual_time(async {
            let scene = Scene::start().await;
            let mut body = kind.body("web", 3);
            body["spec"]["minReadySeconds"] = json!(3_600);
            let web = kind.create_body(&scene, &body).await;
            assert_eq!(number(&web, "/status/availableReplicas"), 0);
            let pods = names(&scene.api().list(PODS).await);
            for (pod, (ready, seconds)) in pods.iter().zip([("False", 0), ("True", 0), ("True", 7_200)]) {
                scene.report_ready(pod, ready, scene.ago(seconds)).await;
            }
            let counts = |web: &Value| {
                ["replicas", "readyReplicas", "availableReplicas"].map(|field| number(web, &format!("/status/{field}")))
            };
            scene.until(&kind.path("web"), |web| counts(web) == [3, 2, 1]).await;
            scene.stop().await;
        });
    }
}

/// `TestRSScaleSubresource` and `TestRCScaleSubresource`.
///
/// Contract: API-15
#[test]
fn scale_subresource() {
    for kind in BOTH {
        in_virtual_time(async {
            let scene = Scene::start().await;
            kind.create(&scene, "web", 1).await;
            for replicas in [3, 0] {
                assert_eq!(scale(&scene, &kind.path("web"), replicas).await, i64::from(replicas));
                kind.stable(&scene, "web").await;
            }
            scene.stop().await;
        });
    }
}

/// `TestExtraPodsAdoptionAndDeletion`.
///
/// Contract: RS-06, RS-13
#[test]
fn extra_pods() {
    for kind in BOTH {
        in_virtual_time(async {
            let scene = Scene::start().await;
            for number in 1..=3 {
                scene.create(PODS, &pod(&format!("pod-{number}"), &[])).await;
            }
            let web = kind.create(&scene, "web", 2).await;
            let left = scene.until_pods(|pods| pods.len() == 2).await;
            assert!(left.iter().all(|pod| controller(pod) == Some(uid(&web)) && name(pod).starts_with("pod-")));
            scene.stop().await;
        });
    }
}

/// `TestFullyLabeledReplicas`.
///
/// Contract: RS-15
#[test]
fn fully_labeled() {
    for kind in BOTH {
        in_virtual_time(async {
            let scene = Scene::start().await;
            kind.create(&scene, "web", 2).await;
            let more = json!({"metadata": {"labels": {"extra-key": "extra-value"}}});
            scene.edit(&kind.path("web"), &json!({"spec": {"template": more}})).await;
            let pods = names(&scene.api().list(PODS).await);
            scene.edit(&format!("{PODS}/{}", pods[0]), &more).await;
            let counts = |web: &Value| {
                ["replicas", "fullyLabeledReplicas"].map(|field| number(web, &format!("/status/{field}")))
            };
            scene.until(&kind.path("web"), |web| counts(web) == [2, 1]).await;
            scene.stop().await;
        });
    }
}

/// `TestReplicaSetsAppsV1DefaultGCPolicy`: the dependents are deleted after their owner, so nothing blocks it.
///
/// Contract: API-18
#[test]
fn default_gc_policy() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let mut body = REPLICA_SET.body("rs", 2);
        body["metadata"]["finalizers"] = json!(["example.com/dummy"]);
        REPLICA_SET.create_body(&scene, &body).await;
        let path = REPLICA_SET.path("rs");
        assert!(scene.api().delete(&path, None).await.0 < 300);
        let dying = scene.until(&path, is_being_deleted).await;
        assert_eq!(dying["metadata"]["finalizers"], json!(["example.com/dummy"]));
        scene.edit(&path, &json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(scene.api().get(&path).await, None);
        scene.stop().await;
    });
}

/// `TestTerminatingReplicas`.
///
/// Contract: RS-15
#[test]
fn terminating_replicas() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let mut body = REPLICA_SET.body("rs", 5);
        body["spec"]["template"]["spec"]["nodeName"] = json!(NODE);
        body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(300);
        REPLICA_SET.create_body(&scene, &body).await;
        scene.ready_all().await;
        let pods = names(&scene.api().list(PODS).await);
        let counts = |set: &Value| [number(set, "/status/replicas"), number(set, "/status/terminatingReplicas")];
        let path = REPLICA_SET.path("rs");
        scene.delete_pod(&pods[0], None).await;
        scene.until(&path, |set| counts(set) == [5, 1]).await;
        scene.delete_pod(&pods[1], None).await;
        scene.until(&path, |set| counts(set) == [5, 2]).await;
        scene.delete_pod(&pods[0], Some(0)).await;
        scene.until(&path, |set| counts(set) == [5, 1]).await;
        assert_eq!(scene.api().list(PODS).await.len(), 6);
        scene.stop().await;
    });
}
