//! The server's own metrics, in the Prometheus text format (API-02).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;

use crate::model::Name;
use crate::registry::{Registry, Served};

/// The type of the text.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What there is to check of the server's health; the storage by its name in the reference.
pub const CHECKS: [&str; 2] = ["ping", "etcd"];
/// Where it can be asked for.
pub const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// Bounds of the buckets of request durations, in seconds.
const BUCKETS: [f64; 8] = [0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0];

/// Counters. Requests are counted by verb, resource and code.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<Labels, Counted>>,
    watches: Mutex<BTreeMap<Name, Arc<AtomicI64>>>,
    events: Arc<AtomicU64>,
    refused: AtomicU64,
    /// How often each check of health was asked for, by its name and by the endpoint.
    checks: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

/// The labels of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// What is done, such as `list`.
    pub verb: &'static str,
    /// The resource, and its subresource; empty for other paths.
    pub resource: Name,
    /// The subresource; empty for none.
    pub subresource: &'static str,
    /// The status code.
    pub code: u16,
}

#[derive(Debug, Default)]
struct Counted {
    count: u64,
    seconds: f64,
    buckets: [u64; BUCKETS.len()],
}

impl Metrics {
    /// Counts a request.
    pub fn request(&self, labels: Labels, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = requests.entry(labels).or_default();
        counted.count += 1;
        let seconds = took.as_secs_f64();
        counted.seconds += seconds;
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            counted.buckets[bucket] += 1;
        }
    }

    /// Counts a request that was refused because there were too many.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a check of health, which has succeeded: it runs in the process that it is of.
    pub fn checked(&self, name: &'static str, endpoint: &'static str) {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        *checks.entry((name, endpoint)).or_default() += 1;
    }

    /// The results of the checks of health, by which the service's level is measured.
    #[must_use]
    pub fn slis(&self) -> String {
        let mut out = String::new();
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let all = CHECKS.iter().flat_map(|name| ENDPOINTS.iter().map(|endpoint| (*name, *endpoint)));
        head(&mut out, "kubernetes_healthcheck", "gauge", "This metric records the result of a single healthcheck.");
        for (name, endpoint) in all.clone() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "kubernetes_healthcheck{{name=\"{name}\",type=\"{endpoint}\"}} 1");
        }
        let help = "This metric records the results of all healthcheck.";
        head(&mut out, "kubernetes_healthchecks_total", "counter", help);
        for (name, endpoint) in all {
            let count = checks.get(&(name, endpoint)).copied().unwrap_or_default();
            let labels = format!("name=\"{name}\",status=\"success\",type=\"{endpoint}\"");
            let _ = writeln!(out, "kubernetes_healthchecks_total{{{labels}}} {count}");
        }
        out
    }

    /// Counts a watch for as long as its stream lives.
    pub fn watching(&self, served: &Served) -> Watching {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let open = Arc::clone(watches.entry(served.resource().plural.clone()).or_default());
        open.fetch_add(1, Ordering::Relaxed);
        Watching { open, pieces: Arc::clone(&self.events) }
    }

    /// The text.
    #[must_use]
    pub fn text(&self, registry: &Registry) -> String {
        let mut out = String::with_capacity(8192);
        self.write(&mut out, registry);
        out
    }

    fn write(&self, out: &mut String, registry: &Registry) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        head(out, "apiserver_request_total", "counter", "Requests by verb, resource and code.");
        for (labels, counted) in requests.iter() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "apiserver_request_total{{{}}} {}", labels.text(), counted.count);
        }
        head(out, "apiserver_request_duration_seconds", "histogram", "Time to answer, watches excepted.");
        for (labels, counted) in requests.iter().filter(|(labels, _)| labels.verb != "watch") {
            let name = "apiserver_request_duration_seconds";
            let (text, mut below) = (labels.text(), 0);
            for (bound, count) in BUCKETS.iter().zip(counted.buckets) {
                below += count;
                let _ = writeln!(out, "{name}_bucket{{{text},le=\"{bound}\"}} {below}");
            }
            let _ = writeln!(out, "{name}_bucket{{{text},le=\"+Inf\"}} {}", counted.count);
            let _ = writeln!(out, "{name}_sum{{{text}}} {}", counted.seconds);
            let _ = writeln!(out, "{name}_count{{{text}}} {}", counted.count);
        }
        drop(requests);
        head(out, "apiserver_longrunning_requests", "gauge", "Open watches by resource.");
        for (resource, open) in self.watches.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let open = open.load(Ordering::Relaxed);
            let _ = writeln!(out, "apiserver_longrunning_requests{{verb=\"WATCH\",resource=\"{resource}\"}} {open}");
        }
        head(out, "apiserver_watch_pieces_total", "counter", "Pieces of one or more events sent to watchers.");
        let _ = writeln!(out, "apiserver_watch_pieces_total {}", self.events.load(Ordering::Relaxed));
        head(out, "apiserver_rejected_requests_total", "counter", "Requests answered 429.");
        let _ = writeln!(out, "apiserver_rejected_requests_total {}", self.refused.load(Ordering::Relaxed));
        head(out, "apiserver_storage_objects", "gauge", "Stored objects by resource.");
        for served in registry.catalogue().served().iter().filter(|served| !served.converts()) {
            let name = served.group_resource();
            let _ =
                writeln!(out, "apiserver_storage_objects{{resource=\"{name}\"}} {}", registry.storage.count(served.id));
        }
        head(out, "apiserver_storage_version", "gauge", "The version of the last write.");
        let _ = writeln!(out, "apiserver_storage_version {}", registry.storage.version());
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

impl Labels {
    fn text(&self) -> String {
        let Self { verb, resource, subresource, code } = self;
        let verb = verb.to_uppercase();
        format!("verb=\"{verb}\",resource=\"{resource}\",subresource=\"{subresource}\",code=\"{code}\"")
    }
}

/// An open watch.
#[derive(Debug)]
pub struct Watching {
    open: Arc<AtomicI64>,
    pieces: Arc<AtomicU64>,
}

impl Watching {
    /// A stream that is counted as open until it is dropped.
    pub fn around<S>(self, stream: S) -> impl Stream<Item = Bytes> + Send + 'static
    where
        S: Stream<Item = Bytes> + Send + 'static,
    {
        CountedStream { stream: Box::pin(stream), watching: self }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

struct CountedStream<S> {
    stream: Pin<Box<S>>,
    watching: Watching,
}

impl<S: Stream<Item = Bytes>> Stream for CountedStream<S> {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let polled = self.stream.as_mut().poll_next(cx);
        if matches!(polled, Poll::Ready(Some(_))) {
            self.watching.pieces.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }
}
