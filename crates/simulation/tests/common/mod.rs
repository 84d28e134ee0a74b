//! What every test of whole clusters needs: virtual time, seeds, and a client that speaks JSON.
#![allow(dead_code, reason = "each test uses a part")]

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use muster_cluster::DelayRange;
use muster_runtime::client::{Answer, Client, ClientError, PatchType};
use muster_simulation::faults::Draw;
use muster_simulation::{Settings, World};
use serde_json::Value;

/// The program's: a world allocates all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
pub(crate) const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The seeds to be tried: `cases` of them unless `MUSTER_CASES` says otherwise, from `MUSTER_SEED` or 1.
pub(crate) fn seeds(cases: u64) -> Vec<u64> {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}: found {text:?}, expected a number")),
        Err(_) => default,
    };
    let (first, cases) = (number("MUSTER_SEED", 1), number("MUSTER_CASES", cases));
    assert!(cases > 0, "MUSTER_CASES: found 0, expected at least 1");
    (first..first + cases).collect()
}

/// Runs a future to its end in a virtual time of its own, on this thread.
pub(crate) fn in_virtual_time<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

/// What `run` makes of each of the items, in their order, as many at once as there are cores.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let width = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<(usize, R)> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else { return mine };
                mine.push((at, run(item)));
            }
        };
        let workers: Vec<_> = (0..width).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.flat_map(|mine| mine.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, result)| result).collect()
}

/// A world whose pods are ready at once and gone at once.
pub(crate) fn at_once(seed: u64) -> Settings {
    Settings { pod_startup: DelayRange::ZERO, pod_shutdown: Duration::ZERO, ..Settings::seeded(seed) }
}

/// Lets virtual time pass.
pub(crate) async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// What a server answered: its status and its body, which is null where there is none.
pub(crate) type Answered = (u16, Value);

/// Requests as a person sends them, answered by status and JSON whether they are refused or not.
#[derive(Clone, Copy)]
pub(crate) struct Api<'w>(&'w Client);

impl<'w> Api<'w> {
    pub(crate) fn of(world: &'w World) -> Self {
        Self(world.client())
    }

    pub(crate) fn of_client(client: &'w Client) -> Self {
        Self(client)
    }

    /// The object; `None` where there is none.
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        match answered(&Method::GET, path, self.0.get(path).await) {
            (404, _) => None,
            (200, object) => Some(object),
            (status, said) => panic!("GET {path}: {status} {said}"),
        }
    }

    /// The objects of a collection.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Answered {
        answered(&Method::POST, path, self.0.post(path, bytes(object)).await)
    }

    pub(crate) async fn put(&self, path: &str, object: &Value) -> Answered {
        answered(&Method::PUT, path, self.0.put(path, bytes(object)).await)
    }

    /// RFC 7386.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Answered {
        self.patch(path, PatchType::Merge, patch).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: PatchType, patch: &Value) -> Answered {
        answered(&Method::PATCH, path, self.0.patch(path, kind, bytes(patch)).await)
    }

    pub(crate) async fn delete(&self, path: &str, options: Option<&Value>) -> Answered {
        answered(&Method::DELETE, path, self.0.delete(path, options.map(bytes)).await)
    }
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn answered(method: &Method, path: &str, answer: Result<Answer, ClientError>) -> Answered {
    match answer {
        Ok(answer) => {
            let body = serde_json::from_slice(&answer.body).unwrap_or_default();
            (answer.status.as_u16(), body)
        }
        Err(ClientError::Api(error)) => (error.code, Value::String(error.message)),
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

/// `Kind/name` of an object's controlling owner.
pub(crate) fn owner(object: &Value) -> Option<String> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    Some(format!("{}/{}", owner["kind"].as_str()?, owner["name"].as_str()?))
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A number somewhere in an object; 0 where it is absent.
pub(crate) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// A condition of an object's status; null where there is none of that type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|each| each["type"] == kind)).unwrap_or(&Value::Null)
}

pub(crate) fn is_being_deleted(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// Numbers that look like chance and come from a seed.
pub(crate) struct Random(Draw);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Draw::seeded(seed))
    }

    /// A number in `0..below`.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.0.below(below)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.below(from.len() as u64);
        &from[usize::try_from(at).unwrap()]
    }

    /// True once in this many times, on average.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
