//! Requests as a person sends them, and what is read of objects as JSON.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use muster_runtime::client::{Answer, Client, ClientError, PatchType};
use muster_tree::{Map, Value};
use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

use crate::World;
use crate::faults::Draw;

/// The pods of the namespace default.
pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// The ReplicationControllers of the namespace default.
pub const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
/// The ReplicaSets of the namespace default.
pub const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
/// The Deployments of the namespace default.
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// The Events of the namespace default.
pub const EVENTS: &str = "/api/v1/namespaces/default/events";
/// All nodes.
pub const NODES: &str = "/api/v1/nodes";

/// Lets virtual time pass.
pub async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// What a server answered: its status and its body, which is null where there is none.
pub type Answered = (u16, Value);

/// Requests as a person sends them, answered by status and JSON whether they are refused or not.
///
/// Each panics where there is no answer: the server is in the same process.
#[derive(Clone, Copy)]
pub struct Api<'w>(&'w Client);

impl<'w> Api<'w> {
    /// To the server of a world, which no fault strikes.
    #[must_use]
    pub fn of(world: &'w World) -> Self {
        Self(world.client())
    }

    /// By this client.
    #[must_use]
    pub fn of_client(client: &'w Client) -> Self {
        Self(client)
    }

    /// The object; `None` where there is none.
    pub async fn get(&self, path: &str) -> Option<Value> {
        match answered(&Method::GET, path, self.0.get(path).await) {
            (404, _) => None,
            (200, object) => Some(object),
            (status, said) => panic!("GET {path}: {status} {said}"),
        }
    }

    /// The objects of a collection.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_default();
        list["items"].as_array().map_or_else(Vec::new, |items| items.to_vec())
    }

    /// POST.
    pub async fn post(&self, path: &str, object: &Value) -> Answered {
        answered(&Method::POST, path, self.0.post(path, bytes(object)).await)
    }

    /// PUT.
    pub async fn put(&self, path: &str, object: &Value) -> Answered {
        answered(&Method::PUT, path, self.0.put(path, bytes(object)).await)
    }

    /// RFC 7386.
    pub async fn merge(&self, path: &str, patch: &Value) -> Answered {
        self.patch(path, PatchType::Merge, patch).await
    }

    /// PATCH.
    pub async fn patch(&self, path: &str, kind: PatchType, patch: &Value) -> Answered {
        answered(&Method::PATCH, path, self.0.patch(path, kind, bytes(patch)).await)
    }

    /// DELETE, with these options.
    pub async fn delete(&self, path: &str, options: Option<&Value>) -> Answered {
        answered(&Method::DELETE, path, self.0.delete(path, options.map(bytes)).await)
    }
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn answered(method: &Method, path: &str, answer: Result<Answer, ClientError>) -> Answered {
    match answer {
        Ok(answer) => (answer.status.as_u16(), Value::Object(Map::stored(&answer.body, ""))),
        Err(ClientError::Api(error)) => (error.code, Value::from(error.message)),
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

/// A name in a path, whatever a file has in its place.
pub(crate) fn segment(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, const { &NON_ALPHANUMERIC.remove(b'-').remove(b'.') })
}

/// `Kind/name` of an object's controlling owner.
#[must_use]
pub fn owner(object: &Value) -> Option<String> {
    let owner = controller(object)?;
    Some(format!("{}/{}", owner["kind"].as_str()?, owner["name"].as_str()?))
}

/// The owner reference of its controller.
#[must_use]
pub fn controller(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

/// The uid of its controller.
#[must_use]
pub fn owner_uid(object: &Value) -> Option<&str> {
    controller(object)?["uid"].as_str()
}

/// The name of an object.
#[must_use]
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A number somewhere in an object; 0 where it is absent.
#[must_use]
pub fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// A condition of an object's status; null where there is none of that type.
#[must_use]
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|each| each["type"] == kind)).unwrap_or(&Value::Null)
}

/// Whether an object has a deletionTimestamp.
#[must_use]
pub fn is_being_deleted(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// Numbers that look like chance and come from a seed.
#[derive(Debug)]
pub struct Random(Draw);

impl Random {
    /// The same numbers for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Draw::seeded(seed))
    }

    /// A number in `0..below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0.below(below)
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.below(from.len() as u64);
        &from[usize::try_from(at).unwrap_or_default()]
    }

    /// True once in this many times, on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
