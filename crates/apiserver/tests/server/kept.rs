//! A server whose commits are written to a disk, from outside: what it answers while the disk waits, refuses and is read
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use muster_apiserver::access::User;
use muster_apiserver::generator::Generator;
use muster_apiserver::identity::Identity;
use muster_apiserver::snapshot::Snapshot;
use muster_apiserver::storage::disk::{Change, Disk, Group, Stored, WriteError};
use muster_apiserver::{ApiServer, Kept, Options};
use serde_json::{Value, json};

use crate::support::Server;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// What a disk does with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    Takes,
    Waits,
    IsFull,
}

/// A disk in memory.
#[derive(Debug, Clone, Default)]
struct Fake(Arc<(Mutex<Inside>, Condvar)>);

/// A table, a namespace and a name.
type Key = (Arc<str>, Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct Inside {
    mode: Mode,
    version: u64,
    rows: BTreeMap<Key, Stored>,
}

impl Fake {
    fn set(&self, mode: Mode) {
        self.0.0.lock().unwrap().mode = mode;
        self.0.1.notify_all();
    }

    /// A server that goes on with what is on the disk.
    fn server(&self, seed: u64) -> Server {
        self.server_of(seed, None)
    }

    fn server_of(&self, seed: u64, identity: Option<Identity>) -> Server {
        let mut options = Options::system().expect("randomness");
        options.generator = Generator::seeded(seed);
        options.tokens.insert("of-robot".to_owned(), Arc::new(User { name: "robot".to_owned(), ..User::default() }));
        Server { api: ApiServer::resume(options, self.kept(identity)).expect("a thread"), handle: None }
    }

    fn kept(&self, identity: Option<Identity>) -> Kept {
        let inside = self.0.0.lock().unwrap();
        let (version, stored) = (inside.version, inside.rows.values().cloned().collect());
        Kept { version, stored, identity, disk: Some(Box::new(self.clone())), held: false }
    }
}

impl Disk for Fake {
    fn write(&mut self, group: &Group) -> Result<(), WriteError> {
        let mut inside = self.0.0.lock().unwrap();
        while inside.mode == Mode::Waits {
            inside = self.0.1.wait(inside).unwrap();
        }
        if inside.mode == Mode::IsFull {
            return Err(WriteError { message: "cannot write FILE: no space".to_owned(), full: true });
        }
        inside.version = group.version;
        for change in &group.changes {
            match change {
                Change::Put(table, entry) => {
                    let (table, namespace, name) =
                        (Arc::clone(table), Arc::clone(&entry.namespace), Arc::clone(&entry.name));
                    let json = entry.json().joined();
                    let key = (Arc::clone(&table), Arc::clone(&namespace), Arc::clone(&name));
                    inside.rows.insert(key, Stored { table, namespace, name, version: entry.version, json });
                }
                Change::Remove(table, namespace, name) => {
                    inside.rows.remove(&(Arc::clone(table), Arc::clone(namespace), Arc::clone(name)));
                }
                Change::Drop(table) => inside.rows.retain(|(other, ..), _| other != table),
            }
        }
        Ok(())
    }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

/// Contract: API-24
#[tokio::test]
async fn nothing_is_answered_before_it_is_on_disk() {
    let disk = Fake::default();
    let server = disk.server(1);
    assert_eq!(server.post(MAPS, &map("a")).await.status, 201);
    disk.set(Mode::Waits);
    let body = map("b");
    let before = server.api.registry().storage.version();
    let mut write = Box::pin(server.post(MAPS, &body));
    while server.api.registry().storage.version() == before {
        assert!((&mut write).now_or_never().is_none(), "it is not on disk");
        tokio::task::yield_now().await;
    }
    let path = format!("{MAPS}/b");
    let mut read = Box::pin(server.get(&path));
    for _ in 0..100 {
        assert!((&mut write).now_or_never().is_none(), "it is not on disk");
        // It has seen it, and must not tell.
        assert!((&mut read).now_or_never().is_none(), "what it tells is not on disk");
        tokio::task::yield_now().await;
    }
    disk.set(Mode::Takes);
    assert_eq!((write.await.status, read.await.status), (201, 200));
}

/// Contract: API-24, API-37
#[tokio::test]
async fn nobody_is_let_in_or_turned_away_by_what_is_not_on_disk() {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "robot"}],
    });
    let bindings = format!("{RBAC}/clusterrolebindings");
    let path = format!("{bindings}/robot");
    let disk = Fake::default();
    let server = disk.server(1);
    let robot = [("Authorization", "Bearer of-robot")];
    for (bound, before) in [(false, 403), (true, 200)] {
        assert_eq!(server.send("GET", MAPS, &robot, "").await.status, before);
        disk.set(Mode::Waits);
        let version = server.api.registry().storage.version();
        let mut write = Box::pin(async {
            if bound { server.delete(&path, None).await } else { server.post(&bindings, &binding).await }
        });
        while server.api.registry().storage.version() == version {
            assert!((&mut write).now_or_never().is_none(), "it is not on disk");
            tokio::task::yield_now().await;
        }
        let mut read = Box::pin(server.send("GET", MAPS, &robot, ""));
        for _ in 0..100 {
            assert!((&mut write).now_or_never().is_none(), "it is not on disk");
            assert!((&mut read).now_or_never().is_none(), "why it is answered so is not on disk");
            tokio::task::yield_now().await;
        }
        disk.set(Mode::IsFull);
        assert_eq!((write.await.status, read.await.status), (500, before));
        disk.set(Mode::Takes);
        recovered(&server).await;
        assert!(bound || server.post(&bindings, &binding).await.status == 201);
    }
}

/// Contract: API-37
#[tokio::test]
async fn a_snapshot_is_for_masters_and_only_to_be_read() {
    let identity = Some(Identity::generate().expect("randomness"));
    let server = Fake::default().server_of(1, identity);
    let (grant, path) = (wildcard(), "/muster/snapshot");
    let [role, binding] = ["clusterroles", "clusterrolebindings"].map(|kind| format!("{RBAC}/{kind}"));
    assert_eq!(server.post(&role, &grant[0]).await.status, 201);
    assert_eq!(server.post(&binding, &grant[1]).await.status, 201);
    let robot = [("Authorization", "Bearer of-robot")];
    assert_eq!(server.send("GET", "/metrics", &robot, "").await.status, 200, "any path is granted");
    let refused = server.send("GET", path, &robot, "").await;
    let said = "User \"robot\" cannot get path \"/muster/snapshot\": only the group system:masters may";
    let message = refused.json()["message"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(refused.status == 403 && message.contains(said), "{refused:?}");
    for method in ["POST", "PUT", "PATCH", "DELETE", "HEAD"] {
        assert_eq!(server.send(method, path, &[], "").await.status, 405, "{method}");
    }
    let snapshot = Snapshot::read(&server.get(path).await.body[..]).expect("a whole snapshot");
    assert!(snapshot.stored.iter().any(|stored| &*stored.name == "kube-system"));
}

/// A role that may send anything to any path, and its binding to the robot.
fn wildcard() -> [Value; 2] {
    let api = "rbac.authorization.k8s.io/v1";
    let rules = json!([{"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "paths"});
    let robot = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "robot"}]);
    [
        json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "paths"}, "rules": rules}),
        json!({
            "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": "paths"},
            "roleRef": role, "subjects": robot,
        }),
    ]
}

/// An older server kept no IPAddresses, and one that was killed while a Service was created may have left one.
///
/// Contract: API-41, API-24
#[tokio::test]
async fn addresses_are_brought_in_line_with_the_services_that_were_kept() {
    const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
    let disk = Fake::default();
    let server = disk.server(1);
    let service = json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 80}]}});
    assert_eq!(server.post("/api/v1/namespaces/default/services", &service).await.status, 201);
    let managed = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    for (name, labels) in [("10.96.7.8", &managed), ("10.96.7.9", &Value::Null)] {
        let parent = json!({"resource": "services", "namespace": "default", "name": "gone"});
        let address = json!({"metadata": {"name": name, "labels": labels}, "spec": {"parentRef": parent}});
        assert_eq!(server.post(ADDRESSES, &address).await.status, 201);
    }
    drop(server);
    disk.0.0.lock().unwrap().rows.retain(|(_, _, name), _| &**name != "10.96.7.7");
    let list = disk.server(2).get(ADDRESSES).await.json();
    let names: Vec<&Value> = list["items"].as_array().expect("a list").iter().map(|a| &a["metadata"]["name"]).collect();
    assert_eq!(names, ["10.96.0.1", "10.96.7.7", "10.96.7.9"], "what somebody else made is theirs");
}

/// Contract: API-24
#[tokio::test]
async fn a_row_that_is_no_object_is_named_and_nothing_is_written() {
    let disk = Fake::default();
    let server = disk.server(1);
    assert_eq!(server.post(MAPS, &map("a")).await.status, 201);
    assert_eq!(server.post(MAPS, &map("b")).await.status, 201);
    drop(server);
    let (key, version) = {
        let mut inside = disk.0.0.lock().unwrap();
        let row = inside.rows.values_mut().find(|row| &*row.name == "b").expect("what was written");
        row.json = bytes::Bytes::from_static(b"[]");
        let key = format!("{}/default/b", row.table);
        (key, inside.version)
    };
    let kept = disk.kept(None);
    let error = ApiServer::resume(Options::system().expect("randomness"), kept).expect_err("it is no object");
    assert_eq!(error.to_string(), format!("what is kept as {key} is no object"));
    assert_eq!(disk.0.0.lock().unwrap().version, version);
}

/// Contract: API-37
#[tokio::test]
async fn what_is_held_back_is_written_at_once_or_never() {
    let disk = Fake::default();
    for lets in [false, true] {
        let kept = Kept { held: true, ..disk.kept(None) };
        let api = ApiServer::resume(Options::system().expect("randomness"), kept).expect("a thread");
        let server = Server { api, handle: None };
        assert_eq!(server.post(MAPS, &map("a")).await.status, 201, "nothing is waited for");
        assert_eq!(disk.0.0.lock().unwrap().rows.len(), 0);
        if lets {
            assert_eq!(server.api.write_to_disk().await, Ok(()));
        }
        drop(server);
        assert_eq!(disk.0.0.lock().unwrap().rows.values().any(|row| &*row.name == "a"), lets);
    }
    disk.set(Mode::IsFull);
    let kept = Kept { held: true, ..disk.kept(None) };
    let api = ApiServer::resume(Options::system().expect("randomness"), kept).expect("a thread");
    let server = Server { api, handle: None };
    assert_eq!(server.post(MAPS, &map("b")).await.status, 201, "nothing is waited for");
    assert!(server.api.write_to_disk().await.is_err_and(|error| error.full));
    assert_eq!(server.get(&format!("{MAPS}/b")).await.status, 404);
}

/// Contract: API-37
#[tokio::test]
async fn a_full_disk_refuses_writes_and_goes_on_reading() {
    let disk = Fake::default();
    let server = disk.server(1);
    assert_eq!(server.post(MAPS, &map("a")).await.status, 201);
    disk.set(Mode::IsFull);
    for _ in 0..30 {
        let refused = server.post(MAPS, &map("b")).await;
        let said = refused.json();
        let message = "etcdserver: mvcc: database space exceeded: cannot write FILE: no space";
        assert_eq!((refused.status, said["message"].as_str(), &said["code"]), (500, Some(message), &json!(500)));
        assert_eq!(server.delete(&format!("{MAPS}/a"), None).await.status, 500);
        assert_eq!(server.get(&format!("{MAPS}/a")).await.status, 200);
        assert_eq!(server.get(&format!("{MAPS}/b")).await.status, 404);
    }
    disk.set(Mode::Takes);
    recovered(&server).await;
    assert_eq!(server.post(MAPS, &map("b")).await.status, 201);
    assert_eq!(disk.server(1).get(&format!("{MAPS}/b")).await.status, 200);
}

/// Contract: API-37
#[tokio::test]
async fn reads_wait_for_no_disk_that_fails_however_many_write() {
    let disk = Fake::default();
    let server = disk.server(1);
    assert_eq!(server.post(MAPS, &map("a")).await.status, 201);
    disk.set(Mode::IsFull);
    assert_eq!(server.post(MAPS, &map("b")).await.status, 500);
    // The next try does not end: whoever waited for it would be idle for ever, and time would go on.
    disk.set(Mode::Waits);
    tokio::time::pause();
    let mut answers = BTreeSet::new();
    for round in 0..500 {
        let (path, body) = (format!("{MAPS}/a"), map(&format!("c{}", round % 7)));
        let answered = async { tokio::join!(server.post(MAPS, &body), server.get(&path), server.get(MAPS)) };
        let answered = tokio::time::timeout(Duration::from_secs(3600), answered).await.ok();
        answers.insert(answered.map(|(write, read, list)| {
            (write.status, read.status, list.json()["items"].as_array().map_or(0, Vec::len))
        }));
    }
    tokio::time::resume();
    disk.set(Mode::Takes);
    assert_eq!(answers, BTreeSet::from([Some((500, 200, 1))]));
    recovered(&server).await;
    assert_eq!(server.post(MAPS, &map("b")).await.status, 201);
}

/// Waits until the disk has been tried again.
async fn recovered(server: &Server) {
    while server.api.registry().storage.is_failing() {
        tokio::task::yield_now().await;
    }
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// Contract: API-24, API-28
#[tokio::test]
async fn a_server_goes_on_with_what_was_there() {
    let disk = Fake::default();
    let server = disk.server(1);
    assert_eq!(server.post(DEFINITIONS, &definition()).await.status, 201);
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "size": 3});
    assert_eq!(server.post(THINGS, &thing).await.status, 201);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]},
    });
    let services = "/api/v1/namespaces/default/services";
    let given = server.post(services, &service).await.json();
    let before = server.get(THINGS).await.json();
    drop(server);

    let server = disk.server(1);
    let after = server.get(THINGS).await.json();
    assert_eq!(after["items"], before["items"]);
    let version = |list: &Value| list["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse::<u64>().ok());
    assert!(version(&after) >= version(&before), "{after}");
    assert_eq!(server.get(&format!("{services}/s")).await.json(), given);
    // What is in use stays in use, and nothing is given twice.
    let mut other = service.clone();
    other["metadata"]["name"] = json!("other");
    other["spec"]["clusterIP"] = given["spec"]["clusterIP"].clone();
    assert_eq!(server.post(services, &other).await.status, 422);
    let uid = |answer: Value| answer["metadata"]["uid"].as_str().map(str::to_owned);
    let new = uid(server.post(MAPS, &map("new")).await.json()).expect("a uid");
    let rows =
        disk.0.0.lock().unwrap().rows.values().filter(|row| row.json.windows(36).any(|w| w == new.as_bytes())).count();
    assert_eq!(rows, 1, "a seed does not give a uid twice");
    let gone = server.get(&format!("{MAPS}?watch=1&resourceVersion=1&timeoutSeconds=1")).await;
    assert!(String::from_utf8_lossy(&gone.body).contains("\"code\":410"), "{gone:?}");
    let old = server.get(&format!("{MAPS}?resourceVersion=1&resourceVersionMatch=Exact")).await;
    assert_eq!(old.status, 410);

    // With the definition go the objects, for good.
    assert_eq!(server.delete(&format!("{DEFINITIONS}/things.example.com"), None).await.status, 200);
    drop(server);
    let server = disk.server(1);
    assert_eq!(server.get(THINGS).await.status, 404);
    assert_eq!(server.post(DEFINITIONS, &definition()).await.status, 201);
    assert_eq!(server.get(THINGS).await.json()["items"], json!([]));
}

/// Contract: API-37
#[tokio::test]
async fn a_definition_whose_deletion_is_refused_is_served_again_with_its_objects() {
    let disk = Fake::default();
    let server = disk.server(1);
    assert_eq!(server.post(DEFINITIONS, &definition()).await.status, 201);
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "size": 3});
    assert_eq!(server.post(THINGS, &thing).await.status, 201);
    disk.set(Mode::IsFull);
    assert_eq!(server.delete(&format!("{DEFINITIONS}/things.example.com"), None).await.status, 500);
    assert_eq!(server.get(&format!("{THINGS}/t")).await.json()["size"], json!(3));
    disk.set(Mode::Takes);
    recovered(&server).await;
    assert_eq!(server.post(MAPS, &map("a")).await.status, 201);
    drop(server);
    assert_eq!(disk.server(1).get(&format!("{THINGS}/t")).await.json()["size"], json!(3));
}
