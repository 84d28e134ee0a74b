//! Counts API requests in front of the embedded server: who sent them, what for, and how many met a conflict.
//!
//! Each sender has a client of its own, and each client goes through a [`Counted`] service. A watch is one request
//! that never ends and is not counted; neither is the list or the streaming list that begins one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use tower::Service;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The controllers of the manager.
    Controllers,
    /// What makes the server a cluster: scheduler, nodes, garbage collector, namespaces.
    Cluster,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    PodCreate,
    PodDelete,
    PodPatch,
    PodStatus,
    PodBinding,
    Event,
    ReplicaSetCreate,
    ReplicaSetPatch,
    ReplicaSetDelete,
    ReplicaSetStatus,
    DeploymentPatch,
    DeploymentStatus,
    Read,
    Other,
}

/// Every purpose in the order of its tables, with its name there.
pub(crate) const PURPOSES: [(Purpose, &str); 14] = [
    (Purpose::PodCreate, "pods created"),
    (Purpose::PodDelete, "pods deleted"),
    (Purpose::PodPatch, "pods patched"),
    (Purpose::PodStatus, "pod statuses"),
    (Purpose::PodBinding, "pods bound"),
    (Purpose::Event, "events"),
    (Purpose::ReplicaSetCreate, "ReplicaSets created"),
    (Purpose::ReplicaSetPatch, "ReplicaSets patched"),
    (Purpose::ReplicaSetDelete, "ReplicaSets deleted"),
    (Purpose::ReplicaSetStatus, "ReplicaSet statuses"),
    (Purpose::DeploymentPatch, "Deployments patched"),
    (Purpose::DeploymentStatus, "Deployment statuses"),
    (Purpose::Read, "reads"),
    (Purpose::Other, "other writes"),
];

impl Purpose {
    /// What a request is for; none for a watch, or what begins one.
    fn of(method: &Method, path: &str, query: Option<&str>) -> Option<Self> {
        if method == Method::GET {
            let watches = query.is_some_and(|query| {
                query.split('&').any(|pair| matches!(pair.split_once('='), Some(("watch" | "limit", _))))
            });
            return (!watches).then_some(Self::Read);
        }
        let (plural, subresource) = target(path);
        let is = |wanted: &Method| method == wanted;
        Some(match (plural, subresource) {
            ("pods", None) if is(&Method::POST) => Self::PodCreate,
            ("pods", None) if is(&Method::DELETE) => Self::PodDelete,
            ("pods", None) => Self::PodPatch,
            ("pods", Some("status")) => Self::PodStatus,
            ("pods", Some("binding")) => Self::PodBinding,
            ("events", None) => Self::Event,
            ("replicasets", None) if is(&Method::POST) => Self::ReplicaSetCreate,
            ("replicasets", None) if is(&Method::DELETE) => Self::ReplicaSetDelete,
            ("replicasets", Some("status")) => Self::ReplicaSetStatus,
            ("replicasets", _) => Self::ReplicaSetPatch,
            ("deployments", Some("status")) => Self::DeploymentStatus,
            ("deployments", _) => Self::DeploymentPatch,
            _ => Self::Other,
        })
    }
}

/// The plural and the subresource of a path: `/apis/apps/v1/namespaces/NAMESPACE/replicasets/NAME/status`.
pub(crate) fn target(path: &str) -> (&str, Option<&str>) {
    let mut parts = path.split('/').skip(1);
    // The group and version: `api/v1`, or `apis/GROUP/VERSION`.
    let skipped = if parts.next() == Some("apis") { 2 } else { 1 };
    let mut parts = parts.skip(skipped).peekable();
    let mut plural = parts.next().unwrap_or_default();
    if plural == "namespaces" {
        // Without anything behind it this is the namespace itself.
        let _name = parts.next();
        match parts.next() {
            Some(inner) if inner != "status" && inner != "finalize" => plural = inner,
            subresource => return (plural, subresource),
        }
    }
    let _name = parts.next();
    (plural, parts.next())
}

/// The counts of every sender. Shared by the services that count and by who reads them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    controllers: Counts,
    cluster: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    purposes: [AtomicU64; PURPOSES.len()],
    conflicts: [AtomicU64; PURPOSES.len()],
}

impl Requests {
    /// What a sender has sent so far.
    pub(crate) fn of(&self, sender: Sender) -> Tally {
        let counts = self.counts(sender);
        let read = |counts: &[AtomicU64; PURPOSES.len()]| {
            let counts =
                PURPOSES.iter().map(|(purpose, _)| (*purpose, counts[*purpose as usize].load(Ordering::Relaxed)));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        Tally { purposes: read(&counts.purposes), conflicts: read(&counts.conflicts) }
    }

    fn counts(&self, sender: Sender) -> &Counts {
        match sender {
            Sender::Controllers => &self.controllers,
            Sender::Cluster => &self.cluster,
        }
    }
}

/// How many requests there were at one moment, or between two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// By purpose; what never happened is absent.
    pub(crate) purposes: BTreeMap<Purpose, u64>,
    /// Of all of them, the ones that were answered 409 `Conflict`.
    pub(crate) conflicts: BTreeMap<Purpose, u64>,
}

impl Tally {
    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.purposes.values().sum()
    }

    /// What came since an earlier tally of the same sender.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let since = |now: &BTreeMap<Purpose, u64>, before: &BTreeMap<Purpose, u64>| {
            let grown = now.iter().map(|(purpose, count)| (*purpose, count - before.get(purpose).unwrap_or(&0)));
            grown.filter(|(_, count)| *count > 0).collect()
        };
        Self { purposes: since(&self.purposes, &before.purposes), conflicts: since(&self.conflicts, &before.conflicts) }
    }
}

/// A service that counts what goes through it for one sender.
#[derive(Debug, Clone)]
pub(crate) struct Counted<S> {
    service: S,
    sender: Sender,
    requests: Arc<Requests>,
}

impl<S> Counted<S> {
    /// Counts the requests to `service` as those of `sender`.
    pub(crate) fn new(service: S, sender: Sender, requests: &Arc<Requests>) -> Self {
        Self { service, sender, requests: Arc::clone(requests) }
    }
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let uri = request.uri();
        let Some(purpose) = Purpose::of(request.method(), uri.path(), uri.query()) else {
            return self.service.call(request).boxed();
        };
        let (requests, sender) = (Arc::clone(&self.requests), self.sender);
        requests.counts(sender).purposes[purpose as usize].fetch_add(1, Ordering::Relaxed);
        let answer = self.service.call(request);
        async move {
            let answer = answer.await?;
            if answer.status() == StatusCode::CONFLICT {
                requests.counts(sender).conflicts[purpose as usize].fetch_add(1, Ordering::Relaxed);
            }
            Ok(answer)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_tells_its_purpose() {
        let ns = "/api/v1/namespaces/a/pods";
        let apps = "/apis/apps/v1/namespaces/a";
        for (method, path, purpose) in [
            (Method::POST, ns.to_owned(), Some(Purpose::PodCreate)),
            (Method::DELETE, format!("{ns}/p"), Some(Purpose::PodDelete)),
            (Method::PATCH, format!("{ns}/p"), Some(Purpose::PodPatch)),
            (Method::PATCH, format!("{ns}/p/status"), Some(Purpose::PodStatus)),
            (Method::POST, format!("{ns}/p/binding"), Some(Purpose::PodBinding)),
            (Method::POST, "/api/v1/namespaces/a/events".to_owned(), Some(Purpose::Event)),
            (Method::PATCH, "/api/v1/namespaces/a/events/e".to_owned(), Some(Purpose::Event)),
            (Method::POST, format!("{apps}/replicasets"), Some(Purpose::ReplicaSetCreate)),
            (Method::PATCH, format!("{apps}/replicasets/r"), Some(Purpose::ReplicaSetPatch)),
            (Method::PATCH, format!("{apps}/replicasets/r/scale"), Some(Purpose::ReplicaSetPatch)),
            (Method::DELETE, format!("{apps}/replicasets/r"), Some(Purpose::ReplicaSetDelete)),
            (Method::PATCH, format!("{apps}/replicasets/status/status"), Some(Purpose::ReplicaSetStatus)),
            (Method::PATCH, format!("{apps}/deployments/d"), Some(Purpose::DeploymentPatch)),
            (Method::PUT, format!("{apps}/deployments/d/status"), Some(Purpose::DeploymentStatus)),
            (Method::GET, format!("{apps}/deployments/d"), Some(Purpose::Read)),
            (Method::GET, format!("{ns}?labelSelector=a"), Some(Purpose::Read)),
            (Method::GET, "/api/v1/pods?watch=true&resourceVersion=4".to_owned(), None),
            (Method::GET, "/api/v1/pods?limit=500".to_owned(), None),
            (Method::PATCH, "/api/v1/nodes/n/status".to_owned(), Some(Purpose::Other)),
            (Method::POST, "/api/v1/namespaces".to_owned(), Some(Purpose::Other)),
            (Method::PUT, "/api/v1/namespaces/pods/finalize".to_owned(), Some(Purpose::Other)),
            (Method::DELETE, "/api/v1/namespaces/pods".to_owned(), Some(Purpose::Other)),
        ] {
            let uri: http::Uri = path.parse().unwrap();
            assert_eq!(Purpose::of(&method, uri.path(), uri.query()), purpose, "{method} {path}");
        }
    }

    #[test]
    fn purposes_stand_in_their_own_place() {
        for (place, (purpose, _)) in PURPOSES.iter().enumerate() {
            assert_eq!(*purpose as usize, place, "{purpose:?}");
        }
    }

    #[tokio::test]
    async fn requests_and_their_conflicts_are_counted_for_their_sender() {
        let requests = Arc::new(Requests::default());
        let server = tower::service_fn(|request: Request<()>| async move {
            let mut answer = Response::new(());
            if request.uri().path().ends_with("/taken") {
                *answer.status_mut() = StatusCode::CONFLICT;
            }
            Ok::<_, std::convert::Infallible>(answer)
        });
        let mut controllers = Counted::new(server, Sender::Controllers, &requests);
        let delete = |path: &str| Request::delete(path).body(()).unwrap();
        controllers.call(delete("/api/v1/namespaces/a/pods/free")).await.unwrap();
        let before = requests.of(Sender::Controllers);
        controllers.call(delete("/api/v1/namespaces/a/pods/taken")).await.unwrap();

        let all = requests.of(Sender::Controllers);
        let deletions = |count: u64| BTreeMap::from([(Purpose::PodDelete, count)]);
        assert_eq!(all, Tally { purposes: deletions(2), conflicts: deletions(1) });
        assert_eq!(all.since(&before), Tally { purposes: deletions(1), conflicts: deletions(1) });
        assert_eq!(all.total(), 2);
        assert_eq!(requests.of(Sender::Cluster), Tally::default());
    }
}
