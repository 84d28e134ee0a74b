//! A controller of kube-rs and its test, from nothing: as docs/test-server.md shows it.

// shown from here
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::{CustomResource, Error, Resource as _, ResourceExt as _};
use muster_testing::Cluster;
use serde_json::json;

#[derive(CustomResource, Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Greeting", namespaced)]
struct GreetingSpec {
    text: String,
}

async fn reconcile(greeting: Arc<Greeting>, maps: Arc<Api<ConfigMap>>) -> Result<Action, Error> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": greeting.spec.text},
        "metadata": {"name": greeting.name_any(), "ownerReferences": [greeting.controller_owner_ref(&())]},
    });
    maps.patch(&greeting.name_any(), &PatchParams::apply("greeter"), &Patch::Apply(map)).await?;
    Ok(Action::await_change())
}

#[muster_testing::test(crds = [Greeting], nodes = 0)]
async fn a_map_comes_back_and_goes_with_its_owner(cluster: &Cluster, greetings: Api<Greeting>, maps: Api<ConfigMap>) {
    let controller = Controller::new(greetings.clone(), Default::default()).owns(maps.clone(), Default::default());
    cluster.run(controller.run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), maps.clone().into()));

    let hello = Greeting::new("hello", GreetingSpec { text: "Hello!".to_owned() });
    greetings.create(&Default::default(), &hello).await.unwrap();
    cluster.settled().await.unwrap();
    maps.delete("hello", &Default::default()).await.unwrap();
    cluster.settled().await.unwrap();
    assert_eq!(maps.get("hello").await.unwrap().data.unwrap()["text"], "Hello!");
    greetings.delete("hello", &Default::default()).await.unwrap();
    cluster.settled().await.unwrap();
    assert!(maps.get_opt("hello").await.unwrap().is_none());
}
// to here

#[test]
fn the_documentation_shows_this_file() {
    let source = include_str!("controller.rs").split("// shown from here\n").nth(1).unwrap();
    let shown = source.split("// to here\n").next().unwrap();
    assert!(include_str!("../../../docs/test-server.md").contains(shown));
}
