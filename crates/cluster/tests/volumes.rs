//! Claims, volumes, and the pods that use them, on an embedded server in virtual time.

mod common;

use common::{PODS, World, condition, is_ready, quick};
use serde_json::{Value, json};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const EVENTS: &str = "/api/v1/namespaces/default/events";

async fn class(world: &World, name: &str, change: Value) {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "example.com/disks",
    });
    common::merge(&mut class, &change);
    world.post(CLASSES, class).await;
}

async fn claim(world: &World, name: &str, class: Option<&str>) {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = json!(class);
    }
    world.post(CLAIMS, claim).await;
}

async fn volume(world: &World, name: &str, size: &str, change: Value) {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
            "storageClassName": "manual",
        },
    });
    common::merge(&mut volume, &change);
    world.post(VOLUMES, volume).await;
}

async fn pod_with(world: &World, name: &str, claim: &str) {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    world.pod(name, json!({"spec": {"volumes": volumes}})).await;
}

async fn get_claim(world: &World, name: &str) -> Value {
    world.get(&format!("{CLAIMS}/{name}")).await
}

async fn get_pod(world: &World, name: &str) -> Value {
    world.get(&format!("{PODS}/{name}")).await
}

/// Contract: SIM-07
#[tokio::test(start_paused = true)]
async fn a_claim_gets_a_volume_at_once_where_its_class_makes_them() {
    let world = World::new(quick(1)).await;
    class(&world, "fast", json!({})).await;
    claim(&world, "c", Some("fast")).await;
    world.pass(1000).await;
    let bound = get_claim(&world, "c").await;
    assert_eq!(bound["status"]["phase"], "Bound");
    assert_eq!(bound["status"]["capacity"], json!({"storage": "1Gi"}));
    assert_eq!(bound["status"]["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(bound["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!(bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    let name = bound["spec"]["volumeName"].as_str().expect("a volume");
    assert_eq!(name, format!("pvc-{}", bound["metadata"]["uid"].as_str().expect("a uid")));
    let made = world.get(&format!("{VOLUMES}/{name}")).await;
    assert_eq!(made["status"]["phase"], "Bound");
    assert_eq!(made["spec"]["claimRef"]["uid"], bound["metadata"]["uid"]);
    assert_eq!(made["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], "example.com/disks");

    pod_with(&world, "p", "c").await;
    world.pass(1000).await;
    assert!(is_ready(&get_pod(&world, "p").await));

    // In use it stays until the pod is gone; then the volume that was made for it goes too.
    world.delete(&format!("{CLAIMS}/c"), json!({})).await;
    world.pass(60_000).await;
    let kept = get_claim(&world, "c").await;
    assert!(!kept["metadata"]["deletionTimestamp"].is_null() && is_ready(&get_pod(&world, "p").await));
    world.delete(&format!("{PODS}/p"), json!({})).await;
    world.pass(1000).await;
    assert_eq!((world.items(CLAIMS).await.len(), world.items(VOLUMES).await.len()), (0, 0));
}

/// Contract: SIM-07
#[tokio::test(start_paused = true)]
async fn a_claim_takes_the_smallest_volume_that_fits_and_leaves_it_released() {
    let world = World::new(quick(1)).await;
    for (name, size) in [("large", "10Gi"), ("small", "500Mi"), ("fits", "2Gi")] {
        volume(&world, name, size, json!({})).await;
    }
    world.pass(1000).await;
    assert!(world.items(VOLUMES).await.iter().all(|volume| volume["status"]["phase"] == "Available"));
    claim(&world, "c", Some("manual")).await;
    world.pass(1000).await;
    let bound = get_claim(&world, "c").await;
    assert_eq!((&bound["status"]["phase"], &bound["spec"]["volumeName"]), (&json!("Bound"), &json!("fits")));
    assert_eq!(bound["status"]["capacity"], json!({"storage": "2Gi"}));

    world.delete(&format!("{CLAIMS}/c"), json!({})).await;
    world.pass(1000).await;
    let left = world.get(&format!("{VOLUMES}/fits")).await;
    assert_eq!((&left["status"]["phase"], &left["spec"]["claimRef"]["name"]), (&json!("Released"), &json!("c")));
    // What was written to it is not for the next claim of that name.
    claim(&world, "c", Some("manual")).await;
    world.pass(1000).await;
    assert_eq!(get_claim(&world, "c").await["spec"]["volumeName"], "large");

    // A bound volume that is deleted stays as long as it is bound.
    world.delete(&format!("{VOLUMES}/large"), json!({})).await;
    world.pass(1000).await;
    assert!(!world.get(&format!("{VOLUMES}/large")).await["metadata"]["deletionTimestamp"].is_null());
    world.delete(&format!("{CLAIMS}/c"), json!({})).await;
    world.pass(1000).await;
    assert_eq!(world.names(VOLUMES).await, ["fits", "small"]);
}

/// Contract: SIM-07
#[tokio::test(start_paused = true)]
async fn a_claim_of_a_class_that_waits_is_bound_when_a_pod_has_a_node() {
    let world = World::new(quick(2)).await;
    class(&world, "late", json!({"volumeBindingMode": "WaitForFirstConsumer"})).await;
    claim(&world, "c", Some("late")).await;
    world.pass(60_000).await;
    assert_eq!(get_claim(&world, "c").await["status"]["phase"], "Pending");
    let told = world.items(EVENTS).await;
    let reasons: Vec<&Value> = told.iter().map(|event| &event["reason"]).collect();
    assert_eq!(reasons, ["WaitForFirstConsumer"]);
    assert_eq!(told[0]["message"], "waiting for first consumer to be created before binding");
    assert!(world.items(VOLUMES).await.is_empty());

    pod_with(&world, "p", "c").await;
    world.pass(2000).await;
    let pod = get_pod(&world, "p").await;
    assert!(is_ready(&pod), "{pod}");
    let bound = get_claim(&world, "c").await;
    assert_eq!(bound["status"]["phase"], "Bound");
    assert_eq!(bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], pod["spec"]["nodeName"]);
}

/// Contract: SIM-07
#[tokio::test(start_paused = true)]
async fn a_pod_waits_unscheduled_for_its_claim() {
    let world = World::new(quick(1)).await;
    pod_with(&world, "p", "c").await;
    world.pass(1000).await;
    let scheduled = condition(&get_pod(&world, "p").await, "PodScheduled");
    assert_eq!((&scheduled["status"], &scheduled["reason"]), (&json!("False"), &json!("Unschedulable")));
    let because = |what: &str| {
        format!(
            "0/1 nodes are available: {what}. no new claims to deallocate, preemption: 0/1 nodes are available: \
             1 Preemption is not helpful for scheduling."
        )
    };
    assert_eq!(scheduled["message"], because("persistentvolumeclaim \"c\" not found"));

    claim(&world, "c", Some("manual")).await;
    world.pass(1000).await;
    let scheduled = condition(&get_pod(&world, "p").await, "PodScheduled");
    assert_eq!(scheduled["message"], because("pod has unbound immediate PersistentVolumeClaims"));
    volume(&world, "v", "1Gi", json!({})).await;
    // By then it has been tried twice, and is left alone for two seconds.
    world.pass(2000).await;
    assert!(is_ready(&get_pod(&world, "p").await));
}

/// Contract: SIM-07
#[tokio::test(start_paused = true)]
async fn a_pod_goes_where_its_volume_is() {
    let world = World::new(quick(3)).await;
    let on = |node: &str| {
        json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
        ]}]}}}})
    };
    volume(&world, "v", "1Gi", on("node-2")).await;
    claim(&world, "c", Some("manual")).await;
    for n in 0..5 {
        pod_with(&world, &format!("p{n}"), "c").await;
    }
    world.pass(2000).await;
    for n in 0..5 {
        let pod = get_pod(&world, &format!("p{n}")).await;
        assert!(is_ready(&pod) && pod["spec"]["nodeName"] == "node-2", "{pod}");
    }
}

/// Contract: SIM-07
#[tokio::test(start_paused = true)]
async fn an_ephemeral_volume_lives_as_long_as_its_pod() {
    let world = World::new(quick(1)).await;
    class(&world, "fast", json!({})).await;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}},
    });
    let template = json!({"metadata": {"labels": {"of": "p"}}, "spec": spec});
    let volumes = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]);
    let pod = world.pod("p", json!({"spec": {"volumes": volumes}})).await;
    world.pass(5000).await;
    assert!(is_ready(&get_pod(&world, "p").await));
    let made = get_claim(&world, "p-scratch").await;
    assert_eq!((&made["status"]["phase"], &made["metadata"]["labels"]["of"]), (&json!("Bound"), &json!("p")));
    let mut owner = common::owner(&pod, true);
    owner["controller"] = json!(true);
    assert_eq!(made["metadata"]["ownerReferences"], json!([owner]));

    // One of the name that is not the pod's is not used for it.
    claim(&world, "q-scratch", Some("fast")).await;
    let volumes = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]);
    world.pod("q", json!({"spec": {"volumes": volumes}})).await;
    world.pass(5000).await;
    assert_eq!(condition(&get_pod(&world, "q").await, "PodScheduled")["status"], "False");
    let events = world.items(EVENTS).await;
    let told = "ephemeral volume scratch: PVC default/q-scratch was not created for pod default/q (pod is not owner)";
    assert!(events.iter().any(|event| event["message"] == told), "{events:?}");

    world.delete(&format!("{PODS}/p"), json!({})).await;
    world.pass(5000).await;
    assert!(world.find(&format!("{CLAIMS}/p-scratch")).await.is_none());
}
