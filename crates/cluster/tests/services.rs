//! Endpoints and EndpointSlices on an embedded server in virtual time.

mod common;

use common::{PODS, World, quick};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn web() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

async fn pod(world: &World, name: &str) {
    world.pod(name, json!({"metadata": {"labels": {"app": "web"}}})).await;
}

async fn slices_of(world: &World, service: &str) -> Vec<Value> {
    world.items(&format!("{SLICES}?labelSelector=kubernetes.io/service-name={service}")).await
}

fn ready(slice: &Value) -> Vec<(&str, bool)> {
    let endpoints = slice["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ready = |endpoint: &'_ Value| endpoint["conditions"]["ready"] == true;
    let mut ready: Vec<(&str, bool)> = endpoints
        .iter()
        .map(|endpoint| (endpoint["targetRef"]["name"].as_str().unwrap_or_default(), is_ready(endpoint)))
        .collect();
    ready.sort_unstable();
    ready
}

fn shown(endpoints: &Value, list: &str) -> Vec<String> {
    let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
    let addresses = subsets.iter().flat_map(|subset| subset[list].as_array().cloned().unwrap_or_default());
    let mut names: Vec<String> =
        addresses.filter_map(|address| address["targetRef"]["name"].as_str().map(str::to_owned)).collect();
    names.sort_unstable();
    names
}

/// Contract: API-27
#[tokio::test(start_paused = true)]
async fn endpoints_and_slices_follow_a_service_and_its_pods() {
    let world = World::new(quick(2)).await;
    world.post(SERVICES, web()).await;
    world.pass(1000).await;
    assert_eq!(slices_of(&world, "web").await.len(), 1, "one that says that there is nothing");
    assert_eq!(shown(&world.get(&format!("{ENDPOINTS}/web")).await, "addresses"), Vec::<String>::new());
    for name in ["a", "b"] {
        pod(&world, name).await;
    }
    world.pass(2000).await;
    let slices = slices_of(&world, "web").await;
    assert_eq!(slices.len(), 1);
    assert_eq!(ready(&slices[0]), [("a", true), ("b", true)]);
    let endpoints = world.get(&format!("{ENDPOINTS}/web")).await;
    assert_eq!(shown(&endpoints, "addresses"), ["a", "b"]);
    assert_eq!(endpoints["subsets"][0]["ports"], json!([{"port": 8080, "protocol": "TCP"}]));

    world.merge(&format!("{PODS}/a"), json!({"metadata": {"annotations": {"muster.dev/fate": "never-ready"}}})).await;
    world.pass(2000).await;
    assert_eq!(ready(&slices_of(&world, "web").await[0]), [("a", false), ("b", true)]);
    assert_eq!(shown(&world.get(&format!("{ENDPOINTS}/web")).await, "notReadyAddresses"), ["a"]);

    world.delete(&format!("{PODS}/b"), json!({})).await;
    world.merge(&format!("{PODS}/a"), json!({"metadata": {"labels": {"app": "other"}}})).await;
    world.pass(2000).await;
    let slices = slices_of(&world, "web").await;
    assert_eq!((slices.len(), ready(&slices[0])), (1, vec![]));

    world.delete(&format!("{SERVICES}/web"), json!({})).await;
    world.pass(2000).await;
    assert_eq!(slices_of(&world, "web").await.len(), 0, "they go with their owner");
    assert_eq!(world.find(&format!("{ENDPOINTS}/web")).await, None);
}

/// Contract: API-27
#[tokio::test(start_paused = true)]
async fn what_somebody_else_changed_is_put_right_and_then_left_alone() {
    let world = World::new(quick(1)).await;
    world.post(SERVICES, web()).await;
    pod(&world, "a").await;
    world.pass(3000).await;
    let slice = slices_of(&world, "web").await.remove(0);
    let path = format!("{SLICES}/{}", slice["metadata"]["name"].as_str().expect("a name"));
    world.merge(&path, json!({"endpoints": []})).await;
    world.delete(&format!("{ENDPOINTS}/web"), json!({})).await;
    world.pass(3000).await;
    let slice = slices_of(&world, "web").await.remove(0);
    assert_eq!(ready(&slice), [("a", true)]);
    let endpoints = world.get(&format!("{ENDPOINTS}/web")).await;
    assert_eq!(shown(&endpoints, "addresses"), ["a"]);
    world.pass(3_600_000).await;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&slices_of(&world, "web").await[0]), version(&slice), "what is right is left alone");
    assert_eq!(version(&world.get(&format!("{ENDPOINTS}/web")).await), version(&endpoints));
    // A Service that asks for no pods keeps what its owner put there.
    let mut external = web();
    external["metadata"]["name"] = json!("mine");
    external["spec"]["selector"] = Value::Null;
    world.post(SERVICES, external).await;
    let mine = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "mine"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    });
    world.post(ENDPOINTS, mine).await;
    world.pass(3000).await;
    assert_eq!(world.get(&format!("{ENDPOINTS}/mine")).await["subsets"][0]["addresses"][0]["ip"], "192.0.2.1");
}

/// Contract: API-27
#[tokio::test(start_paused = true)]
async fn many_pods_are_each_in_one_slice() {
    let world = World::new(quick(3)).await;
    world.post(SERVICES, web()).await;
    for n in 0..250 {
        pod(&world, &format!("p{n}")).await;
    }
    world.pass(5000).await;
    let slices = slices_of(&world, "web").await;
    let mut sizes: Vec<usize> = slices.iter().map(|slice| ready(slice).len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes.iter().sum::<usize>(), 250);
    assert!(sizes.iter().all(|size| *size <= 100) && sizes.len() <= 5, "{sizes:?}");
    let mut names: Vec<(&str, bool)> = slices.iter().flat_map(ready).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 250, "each once");
}

/// Contract: API-27
#[tokio::test(start_paused = true)]
async fn endpoints_that_are_kept_by_hand_are_mirrored() {
    let world = World::new(quick(0)).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "protocol": "TCP"}]}});
    world.post(SERVICES, service).await;
    let subsets =
        json!([{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"name": "p", "port": 8080, "protocol": "TCP"}]}]);
    world.post(ENDPOINTS, json!({"metadata": {"name": "s"}, "subsets": subsets})).await;
    let mirrored = async || {
        world.pass(1000).await;
        let slices = world.items(SLICES).await;
        slices
            .into_iter()
            .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "s")
            .collect::<Vec<_>>()
    };
    let slices = mirrored().await;
    assert_eq!(slices.len(), 1);
    assert_eq!(
        slices[0]["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "endpointslicemirroring-controller.k8s.io"
    );
    assert_eq!(slices[0]["endpoints"], json!([{"addresses": ["10.9.9.9"], "conditions": {"ready": true}}]));
    assert_eq!(slices[0]["ports"], json!([{"name": "p", "port": 8080, "protocol": "TCP"}]));

    let path = format!("{ENDPOINTS}/s");
    world.merge(&path, json!({"subsets": [{"addresses": [{"ip": "10.9.9.8"}], "ports": [{"port": 8081}]}]})).await;
    let slices = mirrored().await;
    assert_eq!((slices.len(), &slices[0]["endpoints"][0]["addresses"]), (1, &json!(["10.9.9.8"])));
    // Slices that somebody else deletes come back.
    let name = slices[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    world.delete(&format!("{SLICES}/{name}"), json!({})).await;
    assert_eq!(mirrored().await.len(), 1);
    world.delete(&path, json!({})).await;
    assert_eq!(mirrored().await.len(), 0);
}

/// Contract: API-41
#[tokio::test(start_paused = true)]
async fn a_range_of_addresses_is_ready_until_no_service_needs_it() {
    const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
    let world = World::new(quick(1)).await;
    let spec = json!({"cidrs": ["192.168.7.0/24"]});
    world.post(RANGES, json!({"metadata": {"name": "more"}, "spec": spec})).await;
    world.pass(1000).await;
    let path = format!("{RANGES}/more");
    for path in [&path, &format!("{RANGES}/kubernetes")] {
        let range = world.get(path).await;
        assert_eq!(range["metadata"]["finalizers"], json!(["networking.k8s.io/service-cidr-finalizer"]));
        let condition = &range["status"]["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["message"]),
            (&json!("True"), &json!("Kubernetes Service CIDR is ready"))
        );
    }
    let mut service = web();
    service["spec"]["clusterIP"] = json!("192.168.7.7");
    world.post(SERVICES, service).await;
    world.delete(&path, json!({})).await;
    world.pass(15_000).await;
    let condition = &world.get(&path).await["status"]["conditions"][0];
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Terminating")));
    world.delete(&format!("{SERVICES}/web"), json!({})).await;
    world.pass(1000).await;
    assert!(world.find(&path).await.is_none(), "nobody needs it, and its deletion is long known");

    // Another range takes over what the first one has given.
    world.post(RANGES, json!({"metadata": {"name": "more"}, "spec": spec})).await;
    let mut service = web();
    service["spec"]["clusterIP"] = json!("192.168.7.7");
    world.post(SERVICES, service).await;
    world.pass(1000).await;
    world.delete(&path, json!({})).await;
    world.pass(15_000).await;
    assert!(world.find(&path).await.is_some());
    world.post(RANGES, json!({"metadata": {"name": "wide"}, "spec": {"cidrs": ["192.168.0.0/16"]}})).await;
    world.pass(1000).await;
    assert!(world.find(&path).await.is_none());

    world.post(RANGES, json!({"metadata": {"name": "short"}, "spec": {"cidrs": ["192.0.2.0/24"]}})).await;
    world.pass(1000).await;
    let path = format!("{RANGES}/short");
    world.delete(&path, json!({})).await;
    world.pass(8000).await;
    assert!(world.find(&path).await.is_some(), "servers have to hear of it first");
    world.pass(3000).await;
    assert!(world.find(&path).await.is_none());
}
