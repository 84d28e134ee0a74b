//! Least privilege: the whole of what the manager does, under exactly the role that the manifests give it.

#[path = "../common/mod.rs"]
mod common;
mod guard;
mod rights;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Api, CONTROLLERS, DEPLOYMENTS, PODS, SETS, in_virtual_time, name, number, owner, pass};
use http::Request;
use muster_apiserver::http::Service;
use muster_apiserver::{ApiServer, Options as ServerOptions};
use muster_cluster::{Cluster, DelayRange, Options as ClusterOptions};
use muster_machinery::election::Config;
use muster_objects::time::Timestamp;
use muster_runtime::client::{Client, Options as ClientOptions};
use muster_runtime::clock::Clock;
use muster_runtime::election::Elector;
use muster_runtime::manager::{Manager, Options as ManagerOptions};
use muster_runtime::shadow::{Options as ShadowOptions, Shadow};
use muster_runtime::shutdown::{self, Trigger};
use muster_simulation::world::EPOCH_NANOS;
use muster_tree::{Value, json};
use tokio::task::JoinHandle;

use guard::Guarded;
use rights::{Right, Rights, wanted, wanted_for_owners};

const ROLE: &str = include_str!("../../../../deploy/manifests/rbac.yaml");
const SHADOW_ROLE: &str = include_str!("../../../../deploy/manifests-shadow/rbac.yaml");
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster-controller-manager";

/// A server with nodes, and the rights of the manager.
struct World {
    server: ApiServer,
    clock: Clock,
    client: Client,
    rights: Arc<Mutex<Rights>>,
    _cluster: Cluster,
}

/// A process that would lead.
struct Candidate {
    tasks: [JoinHandle<()>; 2],
    _stops: [Trigger; 2],
}

impl World {
    async fn start(role: &str) -> Self {
        let epoch = Timestamp::from_nanos(EPOCH_NANOS);
        let (server, clock) = (ApiServer::new(ServerOptions::seeded(7, epoch)), Clock::starting_at(epoch));
        let client = plain(server.service(), clock);
        let options = ClusterOptions {
            nodes: 3,
            pod_startup: DelayRange::ZERO,
            pod_shutdown: Duration::ZERO,
            seed: 7,
            ..ClusterOptions::default()
        };
        let _cluster = Cluster::start(client.clone(), options).await.unwrap();
        let rights = Arc::new(Mutex::new(Rights::granted_by(role)));
        Self { server, clock, client, rights, _cluster }
    }

    fn api(&self) -> Api<'_> {
        Api::of_client(&self.client)
    }

    async fn pass_a_minute(&self) {
        pass(Duration::from_secs(60)).await;
        let refused = self.rights.lock().unwrap().refused();
        assert_eq!(refused, Vec::<String>::new(), "the role does not grant what is needed");
    }

    /// The server as the manager reaches it.
    fn guarded(&self) -> Guarded<Service> {
        Guarded::new(self.server.service(), &self.rights, self.client.clone())
    }

    /// Starts a process as `muster controller-manager` does.
    fn candidate(&self, name: &str, guarded: Guarded<Service>) -> Candidate {
        let options = ClientOptions { clock: self.clock, protobuf: false, ..ClientOptions::default() };
        let client = Client::in_process(guarded, &options);
        let config = Config::new("kube-system", "muster-controller-manager", name.to_owned());
        let elector = Elector::new(config, client.clone(), 7).unwrap();
        let leadership = elector.leadership();
        let writer = Arc::new(client.fenced(leadership.fence()));
        let manager = Manager::with_writer(&client, writer, ManagerOptions { seed: 7, ..ManagerOptions::default() });
        let events = manager.context().events.clone();
        let (stop, stopped) = shutdown::channel();
        let (stop_election, election_stopped) = shutdown::channel();
        let electing = async move { drop(elector.run(events, election_stopped).await) };
        let tasks = [tokio::spawn(manager.run_leading(leadership.leading(), stopped)), tokio::spawn(electing)];
        Candidate { tasks, _stops: [stop, stop_election] }
    }
}

impl Candidate {
    /// Ends it as SIGKILL does: nothing is released.
    fn kill(self) {
        for task in self.tasks {
            task.abort();
        }
    }
}

fn plain(service: Service, clock: Clock) -> Client {
    Client::in_process(service, &ClientOptions { clock, protobuf: false, ..ClientOptions::default() })
}

fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn workload(kind: &str, app: &str, replicas: u32) -> Value {
    let (version, selector) = match kind {
        "ReplicationController" => ("v1", json!({"app": app})),
        _ => ("apps/v1", json!({"matchLabels": {"app": app}})),
    };
    json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": app, "labels": {"app": app}},
        "spec": {"replicas": replicas, "selector": selector, "template": template(app, "nginx:1")},
    })
}

fn orphan(app: &str) -> Value {
    let mut pod = template(app, "nginx:1");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(format!("{app}-orphan"));
    pod
}

/// Changes an object, and gives the controllers a minute.
async fn change(world: &World, path: &str, patch: Value) {
    let (status, said) = world.api().merge(path, &patch).await;
    assert_eq!(status, 200, "{path}: {said}");
    world.pass_a_minute().await;
}

async fn create(world: &World, path: &str, object: Value) {
    let (status, said) = world.api().post(path, &object).await;
    assert_eq!(status, 201, "{path}: {said}");
    world.pass_a_minute().await;
}

/// ReplicaSets: creation, scale up until Events are counted, scale down into a conflict, adoption, release.
async fn replicasets(world: &World) {
    let api = world.api();
    create(world, SETS, workload("ReplicaSet", "web", 30)).await;
    let set = format!("{SETS}/web");
    change(world, &set, json!({"spec": {"replicas": 3}})).await;
    assert_eq!(number(&api.get(&set).await.unwrap(), "/status/readyReplicas"), 3);
    create(world, PODS, orphan("web")).await;
    change(world, &set, json!({"spec": {"replicas": 4}})).await;
    let pods = api.list(PODS).await;
    let mine: Vec<&Value> = pods.iter().filter(|pod| owner(pod).as_deref() == Some("ReplicaSet/web")).collect();
    assert_eq!(mine.len(), 4);
    let released = format!("{PODS}/{}", name(mine[0]));
    change(world, &released, json!({"metadata": {"labels": {"app": "other"}}})).await;
    assert_eq!(owner(&api.get(&released).await.unwrap()), None);
}

/// ReplicationControllers: an orphan is there first and is adopted.
async fn replicationcontrollers(world: &World) {
    let api = world.api();
    create(world, PODS, orphan("classic")).await;
    create(world, CONTROLLERS, workload("ReplicationController", "classic", 3)).await;
    let controller = format!("{CONTROLLERS}/classic");
    change(world, &controller, json!({"spec": {"replicas": 2}})).await;
    assert_eq!(number(&api.get(&controller).await.unwrap(), "/status/readyReplicas"), 2);
}

/// Deployments: an orphaned ReplicaSet is adopted; rollout, pause, rollback, clean-up of old revisions, recreation.
async fn deployments(world: &World) {
    let api = world.api();
    create(world, SETS, workload("ReplicaSet", "site", 1)).await;
    create(world, DEPLOYMENTS, workload("Deployment", "site", 3)).await;
    assert_eq!(owner(&api.get(&format!("{SETS}/site")).await.unwrap()).as_deref(), Some("Deployment/site"));
    let site = format!("{DEPLOYMENTS}/site");
    change(world, &site, json!({"spec": {"template": template("site", "nginx:2")}})).await;
    change(world, &site, json!({"spec": {"paused": true}})).await;
    change(world, &site, json!({"spec": {"paused": false, "template": template("site", "nginx:3")}})).await;
    let back = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "0"}}});
    change(world, &site, back).await;
    let seen = api.get(&site).await.unwrap();
    assert_eq!(seen["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:2", "rolled back");
    let recreate = json!({"type": "Recreate", "rollingUpdate": null});
    let spec = json!({"revisionHistoryLimit": 0, "strategy": recreate, "template": template("site", "nginx:4")});
    change(world, &site, json!({"spec": spec})).await;
    let sets = api.list(SETS).await;
    let left = sets.iter().filter(|set| owner(set).as_deref() == Some("Deployment/site")).count();
    assert_eq!(left, 1, "old revisions are deleted");
}

/// Contract: CM-04, RS-06, RS-07, RS-17, B-02, DEP-22, EV-04
#[test]
fn the_manager_uses_every_verb_of_its_role_and_no_other() {
    in_virtual_time(async {
        let world = World::start(ROLE).await;
        let first = world.candidate("first", world.guarded());
        pass(Duration::from_secs(10)).await;
        let second = world.candidate("second", world.guarded().without_streaming_lists());
        replicasets(&world).await;
        replicationcontrollers(&world).await;
        first.kill();
        pass(Duration::from_secs(30)).await;
        assert_eq!(world.api().get(LEASE).await.unwrap()["spec"]["holderIdentity"], "second");
        deployments(&world).await;
        second.kill();

        let unused = world.rights.lock().unwrap().unused();
        assert_eq!(unused, Vec::<String>::new(), "the role grants what the manager never uses");
        world.server.stop();
    });
}

#[test]
fn no_role_names_secrets_or_has_a_wildcard() {
    for role in [ROLE, SHADOW_ROLE] {
        let rights = Rights::granted_by(role);
        assert!(rights.all().count() >= 10);
        for right in rights.all() {
            assert!(!right.resource.starts_with("secrets"), "{right}");
            let Right { group, resource, verb, .. } = right;
            assert!([group, resource, verb].iter().all(|part| !part.contains('*')), "{right}");
        }
    }
}

/// Contract: B-07
#[test]
fn the_shadow_uses_every_verb_of_its_role_and_no_other() {
    in_virtual_time(async {
        let world = World::start(SHADOW_ROLE).await;
        let options = ClientOptions { clock: world.clock, protobuf: false, ..ClientOptions::default() };
        let mut stops = Vec::new();
        for guarded in [world.guarded(), world.guarded().without_streaming_lists()] {
            let shadow = Shadow::new(&Client::in_process(guarded, &options), ShadowOptions::default());
            let (stop, stopped) = shutdown::channel();
            tokio::spawn(shadow.run(Box::new(|_| Ok::<(), Infallible>(())), stopped));
            stops.push(stop);
        }
        create(&world, SETS, workload("ReplicaSet", "web", 3)).await;
        create(&world, DEPLOYMENTS, workload("Deployment", "site", 3)).await;
        // Caches are held against the server as well.
        pass(Duration::from_secs(25 * 3600)).await;
        world.pass_a_minute().await;
        let unused = world.rights.lock().unwrap().unused();
        assert_eq!(unused, Vec::<String>::new(), "the role grants what the shadow never uses");
        world.server.stop();
    });
}

#[test]
fn the_role_of_the_shadow_only_reads() {
    let rights = Rights::granted_by(SHADOW_ROLE);
    for right in rights.all() {
        assert!(["get", "list", "watch"].contains(&&*right.verb), "{right}");
    }
}

#[test]
fn requests_are_read_as_a_server_reads_them() {
    let asked = |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        wanted(&request).map_or_else(|| "nothing".to_owned(), |right| right.to_string())
    };
    for (method, path, expected) in [
        ("GET", "/api/v1/pods?limit=500", "list pods of \"\", */*"),
        ("GET", "/api/v1/pods?limit=5&watch=true", "watch pods of \"\", */*"),
        ("GET", "/api/v1/namespaces/n/pods/a", "get pods of \"\", n/a"),
        ("POST", "/api/v1/namespaces/n/pods", "create pods of \"\", n/*"),
        ("PATCH", "/apis/apps/v1/namespaces/n/replicasets/a/status", "patch replicasets/status of \"apps\", n/a"),
        ("DELETE", "/api/v1/namespaces/n/pods", "deletecollection pods of \"\", n/*"),
        ("GET", "/api/v1/namespaces/n", "get namespaces of \"\", */n"),
        ("GET", "/version", "nothing"),
    ] {
        assert_eq!(asked(method, path), expected, "{method} {path}");
    }
}

#[test]
fn owner_references_ask_for_more() {
    let patch = Right {
        group: String::new(),
        resource: "pods".to_owned(),
        verb: "patch".to_owned(),
        namespace: Some("n".to_owned()),
        name: Some("a".to_owned()),
    };
    let asked = |verb: &str, body: Value| -> Vec<String> {
        let request = Right { verb: verb.to_owned(), ..patch.clone() };
        wanted_for_owners(&request, body.to_string().as_bytes()).iter().map(ToString::to_string).collect()
    };
    let reference = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "blockOwnerDeletion": true});
    let owned = json!({"metadata": {"ownerReferences": [reference]}});
    let finalize = "update replicasets/finalizers of \"apps\", n/web";
    assert_eq!(asked("create", owned.clone()), [finalize]);
    assert_eq!(asked("patch", owned), ["delete pods of \"\", n/a", finalize]);
    let released = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u"}]}});
    assert_eq!(asked("patch", released), ["delete pods of \"\", n/a"]);
    assert_eq!(asked("patch", json!({"status": {"replicas": 3}})), Vec::<String>::new());
}
