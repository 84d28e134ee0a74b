//! A controller of kube-rs and its test, from nothing: as docs/test-server.md shows it.

// shown from here
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::{Client, CustomResource, Error, Resource as _, ResourceExt as _};
use muster_testing::Cluster;
use serde_json::json;

#[derive(CustomResource, Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Greeting", namespaced)]
struct GreetingSpec {
    text: String,
}

async fn reconcile(greeting: Arc<Greeting>, client: Arc<Client>) -> Result<Action, Error> {
    let name = greeting.name_any();
    let maps: Api<ConfigMap> = Api::namespaced(Client::clone(&client), &greeting.namespace().unwrap_or_default());
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": greeting.spec.text},
        "metadata": {"name": name, "ownerReferences": [greeting.controller_owner_ref(&())]},
    });
    maps.patch(&name, &PatchParams::apply("greeter"), &Patch::Apply(map)).await?;
    Ok(Action::await_change())
}

async fn run(client: Client) {
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let controller = Controller::new(Api::<Greeting>::all(client.clone()), Default::default());
    let controller = controller.owns(maps, Default::default());
    let failed = |_: Arc<Greeting>, _: &Error, _: Arc<Client>| Action::requeue(Duration::from_secs(5));
    controller.run(reconcile, failed, Arc::new(client)).for_each(async |_| {}).await;
}

#[muster_testing::test(crds = [Greeting], nodes = 0)]
async fn a_greeting_has_a_map_that_comes_back_and_goes_with_it(client: Client, cluster: &Cluster) {
    tokio::spawn(run(client.clone()));
    let greetings: Api<Greeting> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let hello = Greeting::new("hello", GreetingSpec { text: "Hello!".to_owned() });
    greetings.create(&Default::default(), &hello).await.unwrap();
    let first = cluster.until(&maps, "hello", |map| map.is_some()).await.unwrap();

    maps.delete("hello", &Default::default()).await.unwrap();
    cluster
        .until(&maps, "hello", |map| map.is_some_and(|map| map.uid() != first.as_ref().unwrap().uid()))
        .await
        .unwrap();

    greetings.delete("hello", &Default::default()).await.unwrap();
    cluster.until(&maps, "hello", |map| map.is_none()).await.unwrap();
}
// to here

#[test]
fn the_documentation_shows_this_file() {
    let source = include_str!("controller.rs").split("// shown from here\n").nth(1).unwrap();
    let shown = source.split("// to here\n").next().unwrap();
    assert!(include_str!("../../../docs/test-server.md").contains(shown));
}
