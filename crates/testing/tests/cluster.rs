//! A cluster from outside: what its options do, and that nothing of it is left.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::jiff::SignedDuration;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{CustomResource, CustomResourceExt, ResourceExt};
use muster_testing::{Authorization, Cluster, Error};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::Instant;

#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
struct ShopSpec {
    shelves: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct ShopStatus {
    open: bool,
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn web(replicas: i32) -> Deployment {
    object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}},
    }))
}

fn available(web: Option<&Deployment>) -> Option<i32> {
    web?.status.as_ref()?.available_replicas
}

#[tokio::test(start_paused = true)]
async fn a_deployment_comes_up_and_goes_with_what_it_owns() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &web(3)).await.unwrap();
    let made = cluster.until(&deployments, "web", |web| available(web) == Some(3)).await.unwrap().unwrap();
    let events = cluster.events_of(&made).await.unwrap();
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("ScalingReplicaSet")), "{events:?}");

    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    cluster.settled().await.unwrap();
    assert!(Api::<Pod>::all(client).list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_emptied_and_goes() {
    let namespace = object::<Namespace>(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}});
    // The namespace comes first, in whatever order they are named.
    let cluster = Cluster::builder().nodes(0).object(&map).object(&namespace).start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "shop");
    assert_eq!(maps.get("a").await.unwrap().name_any(), "a");
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    assert!(cluster.until(&namespaces, "shop", |found| found.is_none()).await.unwrap().is_none());
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_served_before_the_start_is_over_and_objects_have_their_status() {
    let mut shop = Shop::new("corner", ShopSpec { shelves: 3 });
    shop.metadata.namespace = Some("default".to_owned());
    shop.status = Some(ShopStatus { open: true });
    let cluster = Cluster::builder().object(&shop).crd::<Shop>().start().await.unwrap();
    let found = Api::<Shop>::default_namespaced(cluster.client()).get("corner").await.unwrap();
    assert_eq!((found.spec.shelves, found.status.map(|status| status.open)), (3, Some(true)));
}

#[tokio::test(start_paused = true)]
async fn without_controllers_and_nodes_nothing_moves() {
    let cluster = Cluster::builder().controllers("").nodes(0).object(&web(3)).start().await.unwrap();
    cluster.settled().await.unwrap();
    let client = cluster.client();
    assert!(Api::<Pod>::all(client.clone()).list(&ListParams::default()).await.unwrap().items.is_empty());
    assert!(Api::<Node>::all(client).list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nodes_come_and_go() {
    let cluster = Cluster::builder().nodes(2).start().await.unwrap();
    cluster.settled().await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 2);
    cluster.set_nodes(3);
    cluster.settled().await.unwrap();
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_user_may_do_what_roles_say() {
    let role = object::<Role>(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
    }));
    let binding = |subject: Value| {
        object::<RoleBinding>(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": subject["name"], "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}, "subjects": [subject],
        }))
    };
    let builder = || {
        let group = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"});
        let account = json!({"kind": "ServiceAccount", "name": "operator", "namespace": "default"});
        Cluster::builder().nodes(0).object(&role).object(&binding(group)).object(&binding(account))
    };
    let cluster = builder().start().await.unwrap();
    let lists = async |client| Api::<ConfigMap>::default_namespaced(client).list(&ListParams::default()).await;
    assert!(lists(cluster.client()).await.is_ok());
    assert!(lists(cluster.client_as("alice", &["readers"])).await.is_ok());
    assert!(lists(cluster.client_as("system:serviceaccount:default:operator", &[])).await.is_ok());
    let refused = lists(cluster.client_as("bob", &["devs"])).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");

    let all = builder().authorization(Authorization::AlwaysAllow).start().await.unwrap();
    assert!(lists(all.client_as("bob", &["devs"])).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_started_says_why() {
    let unknown = Cluster::builder().controllers("deployment,cronjob").start().await.unwrap_err();
    assert!(unknown.to_string().contains("\"cronjob\""), "{unknown}");
    let none = json!({"apiVersion": "example.org/v1", "kind": "Shop", "metadata": {"name": "corner"}});
    let unknown = Cluster::builder().object(&none).start().await.unwrap_err();
    assert!(unknown.to_string().starts_with("example.org/v1 Shop corner: the server has no such kind"), "{unknown}");
    let bad = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "No", "namespace": "default"}});
    let refused = Cluster::builder().object(&bad).start().await.unwrap_err();
    assert!(refused.to_string().starts_with("v1 ConfigMap default/No: ConfigMap \"No\" is invalid"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_and_says_what_was_there() {
    let cluster = Cluster::builder().patience(Duration::from_secs(5)).object(&web(3)).start().await.unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let begun = Instant::now();
    let never = cluster.until(&deployments, "web", |web| available(web) == Some(4)).await.unwrap_err();
    assert!(begun.elapsed() >= Duration::from_secs(5));
    assert!(
        matches!(&never, Error::Never { what, last, .. } if what == "Deployment web" && last.contains("\"availableReplicas\":3")),
        "{never}"
    );
}

#[tokio::test(start_paused = true)]
async fn it_settles_however_long_its_pods_take() {
    for (startup, shutdown) in [(59, 0), (600, 0), (0, 600), (600, 600)] {
        let (startup, shutdown) = (Duration::from_secs(startup), Duration::from_secs(shutdown));
        let cluster = Cluster::builder().pod_startup(startup).pod_shutdown(shutdown).object(&web(3)).start().await;
        let cluster = cluster.unwrap();
        cluster.settled().await.unwrap();
        let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
        assert_eq!(available(deployments.get_opt("web").await.unwrap().as_ref()), Some(3));
        // One pod after another.
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}}});
        deployments.patch("web", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
        cluster.settled().await.unwrap();
        let pods = Api::<Pod>::all(cluster.client()).list(&ListParams::default()).await.unwrap().items;
        let images = pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers[0].image.as_deref());
        assert_eq!(images.collect::<Vec<_>>(), ["nginx:2"; 3], "{startup:?}, {shutdown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_written_to_on_and_on_is_busy() {
    let cluster = Cluster::builder().patience(Duration::from_secs(5)).nodes(0).start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let writer = tokio::spawn(async move {
        loop {
            let map = object(json!({"metadata": {"generateName": "a-"}}));
            maps.create(&PostParams::default(), &map).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let busy = cluster.settled().await.unwrap_err();
    assert!(matches!(busy, Error::Busy { patience } if patience == Duration::from_secs(5)), "{busy}");
    writer.abort();
    cluster.settled().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_servers_clock_moves_with_the_tests() {
    let begin = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let cluster = Cluster::builder().begin(begin).nodes(0).start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let mut made = Vec::new();
    for name in ["a", "b"] {
        let map = object(json!({"metadata": {"name": name}}));
        made.push(maps.create(&PostParams::default(), &map).await.unwrap().creation_timestamp().unwrap().0);
        tokio::time::advance(Duration::from_secs(3600)).await;
    }
    assert_eq!(SystemTime::from(made[0]), begin);
    assert_eq!(made[1].duration_since(made[0]), SignedDuration::from_hours(1));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_cluster_and_without_one_each_is_another() {
    let uids = async |builder: muster_testing::Builder| {
        let cluster = builder.begin(UNIX_EPOCH).object(&web(3)).start().await.unwrap();
        cluster.settled().await.unwrap();
        let pods = Api::<Pod>::all(cluster.client()).list(&ListParams::default()).await.unwrap();
        let uids = pods.items.iter().map(|pod| (pod.name_any(), pod.uid(), pod.resource_version(), pod.status.clone()));
        serde_json::to_string(&uids.collect::<Vec<_>>()).unwrap()
    };
    assert_eq!(uids(Cluster::builder().seed(7)).await, uids(Cluster::builder().seed(7)).await);
    assert_ne!(uids(Cluster::builder().seed(7)).await, uids(Cluster::builder().seed(8)).await);
    assert_ne!(uids(Cluster::builder()).await, uids(Cluster::builder()).await);
}

#[tokio::test(start_paused = true)]
async fn dropping_it_ends_every_task_and_every_client() {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let cluster = Cluster::builder().object(&web(3)).crd::<Shop>().start().await.unwrap();
    cluster.run(futures::stream::pending::<()>());
    cluster.settled().await.unwrap();
    assert!(tasks() > before + 10, "{} tasks", tasks());
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    drop(cluster);
    let refused = maps.list(&ListParams::default()).await.unwrap_err();
    assert!(format!("{refused:?}").contains("Closed"), "{refused:?}");
    drop(maps);
    // Tasks that were ended go when it is their turn; none of them waits for time to pass.
    let begun = Instant::now();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!((tasks(), begun.elapsed()), (before, Duration::ZERO));
}

#[test]
fn definitions_are_those_of_the_type() {
    assert_eq!(Shop::crd().name_any(), "shops.example.org");
}
