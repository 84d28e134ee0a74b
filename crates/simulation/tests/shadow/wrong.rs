//! Faulty controllers: each fault is made by a layer between them and the server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use muster_controllers::plan::{Failure, Resource, Written};
use muster_inspect::shadow::record::Difference;
use muster_objects::meta::{ObjectKey, Uid};
use muster_runtime::client::Client;
use muster_runtime::manager::{Manager, Options};
use muster_runtime::shutdown;
use muster_runtime::writer::{Write, Writer};
use muster_simulation::{Settings, World};
use muster_tree::{Value, json};

use crate::common::{Api, DEPLOYMENTS, PODS, SETS, in_virtual_time, name, owner, pass};
use crate::watch::Watch;

/// Who errs.
const WRONG: &str = "wrong";

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Error {
    /// The first pod is created twice.
    OneTooMany,
    /// The first deletion hits another pod of the owner.
    AnotherPod,
    /// The third pod is never created.
    Forgets,
    /// The first ReplicaSet that is scaled is given one pod less than it should have.
    WrongSize,
    /// No pod is ever reported ready.
    WrongStatus,
}

struct Erring {
    client: Client,
    error: Error,
    pods_created: AtomicU32,
    pods_deleted: AtomicU32,
    sets_scaled: AtomicU32,
}

impl Writer for Erring {
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Written, Failure>> {
        Box::pin(async move {
            match (self.error, write) {
                (Error::OneTooMany, Write::Create { resource, .. }) if *resource == Resource::PODS => {
                    if self.pods_created.fetch_add(1, Ordering::Relaxed) == 0 {
                        self.client.write(write).await?;
                    }
                    self.client.write(write).await
                }
                (Error::Forgets, Write::Create { resource, .. }) if *resource == Resource::PODS => {
                    if self.pods_created.fetch_add(1, Ordering::Relaxed) == 2 {
                        return Ok(pretended());
                    }
                    self.client.write(write).await
                }
                (Error::AnotherPod, Write::Delete { resource, key, .. }) if *resource == Resource::PODS => {
                    if self.pods_deleted.fetch_add(1, Ordering::Relaxed) > 0 {
                        return self.client.write(write).await;
                    }
                    let other = self.sibling(key).await;
                    let uid_only = Bytes::from_static(b"{}");
                    self.client.write(Write::Delete { resource, key: &other, options: &uid_only }).await
                }
                (Error::WrongSize, Write::Patch { resource, key, subresource, kind, body })
                    if *resource == Resource::REPLICA_SETS && is_scaling(body) =>
                {
                    let body = if self.sets_scaled.fetch_add(1, Ordering::Relaxed) == 0 {
                        one_less(body)
                    } else {
                        body.clone()
                    };
                    self.client.write(Write::Patch { resource, key, subresource, kind, body: &body }).await
                }
                (Error::WrongStatus, Write::Patch { resource, key, subresource: Some("status"), kind, body })
                    if *resource == Resource::REPLICA_SETS =>
                {
                    let mut patch: Value = serde_json::from_slice(body).unwrap();
                    patch["status"]["readyReplicas"] = Value::Null;
                    patch["status"]["availableReplicas"] = Value::Null;
                    let body = Bytes::from(patch.to_string());
                    self.client
                        .write(Write::Patch { resource, key, subresource: Some("status"), kind, body: &body })
                        .await
                }
                _ => self.client.write(write).await,
            }
        })
    }

    fn read<'a>(&'a self, resource: &'a Resource, key: &'a ObjectKey) -> BoxFuture<'a, Result<Bytes, Failure>> {
        self.client.read(resource, key)
    }
}

impl Erring {
    /// The key of another pod of the same owner.
    async fn sibling(&self, key: &ObjectKey) -> ObjectKey {
        let answer = self.client.get(PODS).await.unwrap();
        let list: Value = serde_json::from_slice(&answer.body).unwrap();
        let pods = list["items"].as_array().unwrap();
        let this = pods.iter().find(|pod| name(pod) == &*key.name).unwrap();
        let other = pods.iter().find(|pod| owner(pod) == owner(this) && name(pod) != &*key.name).unwrap();
        ObjectKey::new("default", name(other))
    }
}

fn pretended() -> Written {
    Written { name: "web-never".into(), uid: Uid::new("never"), resource_version: None }
}

fn is_size(operation: &Value) -> bool {
    operation["op"] == "replace" && operation["path"] == "/spec/replicas"
}

fn is_scaling(body: &Bytes) -> bool {
    let operations: Value = serde_json::from_slice(body).unwrap();
    operations.as_array().is_some_and(|operations| operations.iter().any(is_size))
}

/// A patch that scales, to one less.
fn one_less(body: &Bytes) -> Bytes {
    let mut operations: Value = serde_json::from_slice(body).unwrap();
    for operation in operations.as_array_mut().into_iter().flatten().filter(|operation| is_size(operation)) {
        operation["value"] = json!(operation["value"].as_i64().unwrap() - 1);
    }
    Bytes::from(operations.to_string())
}

/// The differences that the shadow records for such controllers: a ReplicaSet of three pods is scaled to two, and a
/// Deployment of three is rolled.
fn differences(error: Error) -> Vec<Difference> {
    in_virtual_time(async {
        let nobody = Options { controllers: BTreeSet::new(), ..Options::default() };
        let world = World::start(Settings { manager: nobody, ..Settings::seeded(7) }).await.unwrap();
        let client = world.client_of(WRONG, None);
        let none = || AtomicU32::new(0);
        let erring =
            Erring { client: client.clone(), error, pods_created: none(), pods_deleted: none(), sets_scaled: none() };
        let (stop, stopped) = shutdown::channel();
        let manager = Manager::with_writer(&client, Arc::new(erring), Options::default());
        let running = tokio::spawn(manager.run(stopped));
        let watch = Watch::start(&world, WRONG).await;
        let api = Api::of(&world);
        let labels = json!({"app": "web"});
        let template = |image: &str| json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}});
        let spec = json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template("nginx:1")});
        let kind = if error == Error::WrongSize { DEPLOYMENTS } else { SETS };
        assert_eq!(api.post(kind, &json!({"metadata": {"name": "web"}, "spec": spec})).await.0, 201);
        pass(Duration::from_secs(30)).await;
        if error == Error::AnotherPod {
            // One of them is deleted first whatever their times are.
            let pods = api.list(PODS).await;
            let cost = json!({"controller.kubernetes.io/pod-deletion-cost": "-1"});
            api.merge(&format!("{PODS}/{}", name(&pods[0])), &json!({"metadata": {"annotations": cost}})).await;
            pass(Duration::from_secs(30)).await;
        }
        let patch = match error {
            Error::WrongSize => json!({"spec": {"template": template("nginx:2")}}),
            _ => json!({"spec": {"replicas": 2}}),
        };
        assert_eq!(api.merge(&format!("{kind}/web"), &patch).await.0, 200);
        let told = watch.end().await;
        stop.stop();
        running.await.unwrap();
        world.stop().await;
        told.differences().cloned().collect()
    })
}

#[test]
fn one_pod_too_many_is_found() {
    let found = differences(Error::OneTooMany);
    let [difference] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((&*difference.action, &difference.row), ("create-pod", &None));
    assert!(difference.did.starts_with("created pod web-"), "{difference:#?}");
}

#[test]
fn another_pod_deleted_is_found() {
    let found = differences(Error::AnotherPod);
    let difference = found.iter().find(|difference| difference.action == "delete-pod").expect("a difference");
    assert_eq!(difference.row, None);
    assert!(difference.would.contains("delete web-") && difference.did.starts_with("deleted pod web-"), "{found:#?}");
}

#[test]
fn a_pod_that_is_never_created_is_found() {
    let found = differences(Error::Forgets);
    let difference = found.iter().find(|difference| difference.action == "create-pod").expect("a difference");
    assert_eq!((&*difference.would, &*difference.did), ("create 1 pod", "nothing"), "{found:#?}");
}

#[test]
fn a_wrong_size_is_found() {
    let found = differences(Error::WrongSize);
    let wrong = |difference: &&Difference| difference.action == "scale-replicaset" && difference.did != "nothing";
    let difference = found.iter().find(wrong).expect("a difference");
    assert!(difference.row.is_none() && difference.did.starts_with("scaled ReplicaSet web-"), "{found:#?}");
}

#[test]
fn a_wrong_status_is_found_field_by_field() {
    let found = differences(Error::WrongStatus);
    let told: BTreeSet<&str> =
        found.iter().filter(|difference| difference.action == "status").map(|difference| &*difference.would).collect();
    assert!(told.contains("readyReplicas 0 -> 3") || told.contains("readyReplicas 0 -> 2"), "{found:#?}");
}
