//! The history of writes: every request that may change something, in the order in which the server took it.
//!
//! Two runs of the same seed must have equal histories (invariant 8). A history can be long, so of each write the
//! sender, time, method, path and status are kept whole and the bodies as 64-bit digests, but for Leases and what laws look at; the
//! first line that differs shows where two runs diverge. Reads are only counted.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use muster_objects::Lease;
use muster_runtime::clock::Clock;
use tokio::sync::Notify;
use tower::Service;

use crate::faults::target::{is_watch, place};

/// The writes in order, and the number of reads. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct History {
    log: Arc<Mutex<Log>>,
    /// Told when there are too many requests.
    too_many: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Log {
    writes: Vec<Write>,
    /// Reads by sender, without watches.
    reads: BTreeMap<&'static str, usize>,
    /// The second of virtual time that it is, and the requests in it.
    second: (i64, usize),
    /// How many there may be.
    most: Option<usize>,
}

/// A write request and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// Virtual milliseconds since the Unix epoch, when it was sent.
    pub millis: i64,
    /// The sender's name, as given to [`Recorded::new`].
    pub who: &'static str,
    /// POST, PUT, PATCH or DELETE.
    pub method: Method,
    /// The path, with its query.
    pub path: String,
    /// The digest of the request's body.
    pub sent: u64,
    /// The answer's HTTP status.
    pub status: u16,
    /// The digest of the answer's body.
    pub answered: u64,
    /// A Lease as it was answered.
    pub lease: Option<Lease>,
    /// What was sent to make a pod or a ReplicaSet, as its sender wrote it.
    pub made: Option<Bytes>,
}

/// The body that a client sent, beside one that something on the way has put in its place.
#[derive(Debug, Clone)]
pub(crate) struct Sent(pub(crate) Bytes);

impl Write {
    /// The resource, such as `pods` or `replicasets`; empty if the path has none.
    #[must_use]
    pub fn resource(&self) -> &str {
        place(&self.path)[0]
    }

    /// The subresource, such as `status`.
    #[must_use]
    pub fn subresource(&self) -> Option<&str> {
        let [_, _, subresource] = place(&self.path);
        (!subresource.is_empty()).then_some(subresource)
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { millis, who, method, path, sent, status, answered, .. } = self;
        write!(f, "{millis} {who} {method} {path} {sent:016x} -> {status} {answered:016x}")
    }
}

impl History {
    /// One line for each write.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.log().writes.iter().map(ToString::to_string).collect()
    }

    /// The writes from this index on; 0 gives all.
    #[must_use]
    pub fn since(&self, number: usize) -> Vec<Write> {
        self.log().writes.get(number..).unwrap_or_default().to_vec()
    }

    /// How many writes there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.log().writes.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many GETs `who` sent, including lists but not watches.
    #[must_use]
    pub fn reads(&self, who: &str) -> usize {
        self.log().reads.get(who).copied().unwrap_or_default()
    }

    /// Waits until there are more requests than this in one second of virtual time. Who sends without a pause keeps time from passing.
    pub async fn exceed(&self, most: usize) {
        self.log().most = Some(most);
        self.too_many.notified().await;
    }

    /// Whoever it is sends one more.
    fn count(&self, millis: i64) {
        let mut log = self.log();
        let second = millis.div_euclid(1_000);
        let before = if log.second.0 == second { log.second.1 } else { 0 };
        log.second = (second, before + 1);
        if log.most == Some(before) {
            self.too_many.notify_one();
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server whose requests are recorded.
#[derive(Debug, Clone)]
pub struct Recorded<S> {
    inner: S,
    who: &'static str,
    clock: Clock,
    history: History,
}

impl<S> Recorded<S> {
    /// Records what `who` sends to `inner`.
    pub fn new(inner: S, who: &'static str, clock: Clock, history: History) -> Self {
        Self { inner, who, clock, history }
    }
}

impl<S, B> Service<Request<Full<Bytes>>> for Recorded<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug + Send,
{
    type Response = Response<http_body_util::Either<Full<Bytes>, B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let (who, clock, history) = (self.who, self.clock, self.history.clone());
        history.count(clock.now().as_nanos() / 1_000_000);
        Box::pin(async move {
            if request.method() == Method::GET {
                if !is_watch(request.uri()) {
                    *history.log().reads.entry(who).or_default() += 1;
                }
                return Ok(inner.call(request).await?.map(http_body_util::Either::Right));
            }
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes);
            let millis = clock.now().as_nanos() / 1_000_000;
            let (method, path, sent) = (head.method.clone(), head.uri.to_string(), digest(&body));
            let is_made = method == Method::POST && matches!(place(&path), ["pods" | "replicasets", "", _]);
            let made = is_made.then(|| head.extensions.get().map_or_else(|| body.clone(), |Sent(sent)| sent.clone()));
            let answer = inner.call(Request::from_parts(head, Full::new(body))).await?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let (status, answered) = (head.status.as_u16(), digest(&body));
            let is_lease = head.status.is_success() && place(&path)[0] == "leases";
            let lease = is_lease.then(|| muster_objects::json::from_slice(&body).ok()).flatten();
            history.log().writes.push(Write { millis, who, method, path, sent, status, answered, lease, made });
            Ok(Response::from_parts(head, http_body_util::Either::Left(Full::new(body))))
        })
    }
}

/// A digest with fixed keys: the same bytes give the same number in every run.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_which_resource_was_written() {
        let place = |path: &str| {
            let path = path.to_owned();
            let (method, lease, made) = (Method::PUT, None, None);
            let write = Write { millis: 0, who: "test", method, path, sent: 0, status: 200, answered: 0, lease, made };
            (write.resource().to_owned(), write.subresource().map(ToOwned::to_owned))
        };
        for (path, resource, subresource) in [
            ("/api/v1/namespaces/default/pods", "pods", None),
            ("/api/v1/namespaces/default/pods/a?x=y", "pods", None),
            ("/api/v1/namespaces/default/pods/a/status", "pods", Some("status")),
            ("/apis/apps/v1/namespaces/default/replicasets/a/scale", "replicasets", Some("scale")),
            ("/api/v1/namespaces/default", "namespaces", None),
            ("/api/v1/namespaces/default/finalize", "namespaces", Some("finalize")),
            ("/api/v1/nodes/a/status", "nodes", Some("status")),
            ("/healthz", "", None),
        ] {
            assert_eq!(place(path), (resource.to_owned(), subresource.map(ToOwned::to_owned)), "{path}");
        }
    }
}
