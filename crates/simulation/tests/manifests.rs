//! The manifests of `deploy/`, applied: the Deployment of the controller manager comes up on the embedded cluster,
//! and is rolled without a moment with fewer processes than it should have.

mod common;

use std::time::Duration;

use common::{Api, in_virtual_time};
use muster_apiserver::schema::yaml_to_json;
use muster_simulation::{Settings, World};
use muster_tree::{Value, json};

const NAMESPACE: &str = "/namespaces/kube-system";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kube-system/deployments/muster-controller-manager";

/// The objects of the manifests that are of a kind which the embedded server has.
fn objects() -> Vec<(String, Value)> {
    let files = [
        include_str!("../../../deploy/manifests/rbac.yaml"),
        include_str!("../../../deploy/manifests/service.yaml"),
        include_str!("../../../deploy/manifests/deployment.yaml"),
        include_str!("../../../deploy/static-pod/muster-controller-manager.yaml"),
    ];
    let parse = |text: &str| -> Value { serde_json::from_slice(&yaml_to_json(text.as_bytes()).unwrap()).unwrap() };
    let objects = files.iter().flat_map(|file| file.split("\n---\n")).map(parse);
    let collection = |object: &Value| {
        let root = match object["kind"].as_str().unwrap() {
            "ServiceAccount" => ("/api/v1", "serviceaccounts"),
            "Service" => ("/api/v1", "services"),
            "Pod" => ("/api/v1", "pods"),
            "Deployment" => ("/apis/apps/v1", "deployments"),
            _ => return None,
        };
        Some(format!("{}{NAMESPACE}/{}?fieldValidation=Strict", root.0, root.1))
    };
    objects.filter_map(|object| Some((collection(&object)?, object))).collect()
}

#[test]
fn the_deployment_comes_up_and_is_rolled_with_two_processes_at_every_moment() {
    in_virtual_time(async {
        let world = World::start(Settings::seeded(3)).await.unwrap();
        let api = Api::of(&world);
        let objects = objects();
        assert_eq!(objects.len(), 4);
        for (collection, object) in objects {
            let (status, said) = api.post(&collection, &object).await;
            assert_eq!(status, 201, "{collection}: {said}");
        }
        let minute = Duration::from_secs(60);
        let available = |deployment: &Value, image: &str| {
            let pod = &deployment["spec"]["template"]["spec"];
            pod["containers"][0]["image"] == image
                && deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
                && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|f| deployment["status"][f] == 2)
        };
        let image = concat!("muster:", env!("CARGO_PKG_VERSION"));
        world.until(DEPLOYMENT, minute, |deployment| available(deployment, image)).await.unwrap();

        let container =
            json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "muster:2"}]);
        let (status, said) = api.patch(DEPLOYMENT, muster_runtime::client::PatchType::Json, &container).await;
        assert_eq!(status, 200, "{said}");
        let mut fewest = i64::MAX;
        for _ in 0..600 {
            let deployment = api.get(DEPLOYMENT).await.unwrap();
            fewest = fewest.min(deployment["status"]["availableReplicas"].as_i64().unwrap_or(0));
            if available(&deployment, "muster:2") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(fewest, 2, "the process that leads is replaced once another stands by");
        world.until(DEPLOYMENT, minute, |deployment| available(deployment, "muster:2")).await.unwrap();
        world.stop().await;
    });
}
