//! An embedded server and a cluster on it, in virtual time.
#![allow(dead_code, reason = "each test file uses a part")]

use std::time::Duration;

use bytes::Bytes;
use muster_apiserver::ApiServer;
use muster_cluster::{Cluster, DelayRange, Options};
use muster_objects::Timestamp;
use muster_runtime::client::{Client, ClientError, PatchType};
use muster_runtime::clock::Clock;
use serde_json::{Value, json};

/// When every test begins.
pub(crate) const START: i64 = 1_767_225_600;
/// What is random in every test.
const SEED: u64 = 7;

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) cluster: Cluster,
    pub(crate) server: ApiServer,
}

/// Pods that start and stop at once, and a certificate for the namespaces.
pub(crate) fn quick(nodes: u32) -> Options {
    Options {
        nodes,
        pod_startup: DelayRange::ZERO,
        pod_shutdown: Duration::ZERO,
        seed: SEED,
        ca_pem: Some("the certificate".to_owned()),
        ..Options::default()
    }
}

pub(crate) fn client(server: &ApiServer) -> Client {
    let clock = Clock::starting_at(Timestamp::from_seconds(START));
    let options = muster_runtime::client::Options { clock, ..Default::default() };
    Client::in_process(server.service(), &options)
}

impl World {
    pub(crate) async fn new(options: Options) -> Self {
        Self::with(|_| options).await
    }

    /// A world whose options need its server.
    pub(crate) async fn with(options: impl FnOnce(&ApiServer) -> Options) -> Self {
        let start = Timestamp::from_seconds(START);
        let server = ApiServer::new(muster_apiserver::Options::seeded(SEED, start));
        let options = options(&server);
        let client = client(&server);
        let cluster = Cluster::start(client.clone(), options).await.expect("the server answers");
        let world = Self { client, cluster, server };
        world.pass(100).await;
        world
    }

    /// Lets so many milliseconds pass.
    pub(crate) async fn pass(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.client.get(path).await.unwrap_or_else(|error| panic!("GET {path}: {error}"));
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// The object, if there is one.
    pub(crate) async fn find(&self, path: &str) -> Option<Value> {
        match self.client.get(path).await {
            Ok(answer) => Some(serde_json::from_slice(&answer.body).expect("JSON")),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    pub(crate) async fn post(&self, path: &str, object: Value) -> Value {
        let answer = self.try_post(path, object).await.unwrap_or_else(|error| panic!("POST {path}: {error}"));
        serde_json::from_slice(&answer).expect("JSON")
    }

    pub(crate) async fn try_post(&self, path: &str, object: Value) -> Result<Bytes, ClientError> {
        self.client.post(path, Bytes::from(object.to_string())).await.map(|answer| answer.body)
    }

    pub(crate) async fn merge(&self, path: &str, patch: Value) -> Value {
        let answer = self.client.patch(path, PatchType::Merge, Bytes::from(patch.to_string())).await;
        let answer = answer.unwrap_or_else(|error| panic!("PATCH {path}: {error}"));
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    pub(crate) async fn delete(&self, path: &str, options: Value) {
        let answer = self.client.delete(path, Some(Bytes::from(options.to_string()))).await;
        answer.unwrap_or_else(|error| panic!("DELETE {path}: {error}"));
    }

    pub(crate) async fn items(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let items = self.items(path).await;
        items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// A pod of one container in the namespace `default`.
    pub(crate) async fn pod(&self, name: &str, change: Value) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "app", "image": "nginx:1"}]},
        });
        merge(&mut pod, &change);
        self.post(PODS, pod).await
    }

    /// A ConfigMap in the namespace `default`, owned by others.
    pub(crate) async fn map(&self, name: &str, owners: &[Value]) -> Value {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
        self.post(MAPS, map).await
    }
}

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A reference to an object as an owner, blocking or not.
pub(crate) fn owner(object: &Value, block: bool) -> Value {
    let mut reference = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
    });
    if block {
        reference["blockOwnerDeletion"] = json!(true);
    }
    reference
}

pub(crate) fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

pub(crate) fn is_ready(object: &Value) -> bool {
    condition(object, "Ready")["status"] == "True"
}

/// RFC 7386.
pub(crate) fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}
