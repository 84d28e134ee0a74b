//! The process's Prometheus metrics, with the names of kube-controller-manager (CM-08).

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use muster_machinery::QueueObserver;
use muster_objects::time::Moment;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

use crate::clock::Clock;

/// The registry and every metric of the process. Cloning shares them.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Mutex<Registry>,
    clock: Clock,
    /// How to ask each queue for what only it knows.
    probes: Mutex<Vec<Probe>>,
    /// What was told of the queues of each name: one whose last queue is gone is told to be empty.
    told: Mutex<BTreeMap<&'static str, (usize, Duration, Duration)>>,
    depth: Family<QueueName, Gauge>,
    adds: Family<QueueName, Counter>,
    retries: Family<QueueName, Counter>,
    failures: Family<QueueName, Counter>,
    unfinished: Family<QueueName, Gauge<f64, std::sync::atomic::AtomicU64>>,
    longest: Family<QueueName, Gauge<f64, std::sync::atomic::AtomicU64>>,
    waiting: Family<QueueName, Histogram>,
    working: Family<QueueName, Histogram>,
    age_ratio: Histogram,
    replicaset_skips: Family<Skipped, Counter>,
    deployment_skips: Family<Skipped, Counter>,
    events_dropped: Counter,
    audits: Family<Audited, Counter>,
    audit_differences: Family<Audited, Counter>,
    /// How to ask each cache for how long its watch has failed.
    watches: Mutex<Vec<Watch>>,
    watch_failing: Family<Audited, Gauge<f64, std::sync::atomic::AtomicU64>>,
}

/// Of a cache, the resource and for how long its watch has failed; none once the cache is gone.
type Watch = (Audited, Box<dyn Fn() -> Option<Duration> + Send>);
type Ask = dyn Fn(Moment) -> Option<(usize, Duration, Duration)> + Send;

struct Probe {
    name: &'static str,
    ask: Box<Ask>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueName {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Skipped {
    group: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct Audited {
    resource: String,
}

impl Metrics {
    /// All metrics, at zero.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        // Ten buckets from 10 ns, each ten times the last: upstream's.
        let buckets = || Histogram::new(exponential_buckets(1e-8, 10.0, 10));
        let mut registry = Registry::default();
        let inner = Inner {
            clock,
            probes: Mutex::default(),
            told: Mutex::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            failures: Family::default(),
            unfinished: Family::default(),
            longest: Family::default(),
            waiting: Family::new_with_constructor(buckets),
            working: Family::new_with_constructor(buckets),
            age_ratio: Histogram::new(exponential_buckets(0.25, 2.0, 6)),
            replicaset_skips: Family::default(),
            deployment_skips: Family::default(),
            events_dropped: Counter::default(),
            audits: Family::default(),
            audit_differences: Family::default(),
            watches: Mutex::default(),
            watch_failing: Family::default(),
            registry: Mutex::default(),
        };
        let queue = registry.sub_registry_with_prefix("workqueue");
        queue.register("depth", "Current depth of workqueue", inner.depth.clone());
        queue.register("adds", "Total number of adds handled by workqueue", inner.adds.clone());
        queue.register("retries", "Total number of retries handled by workqueue", inner.retries.clone());
        queue.register_with_unit(
            "queue_duration",
            "How long in seconds an item stays in workqueue before being requested",
            Unit::Seconds,
            inner.waiting.clone(),
        );
        queue.register_with_unit(
            "work_duration",
            "How long in seconds processing an item from workqueue takes",
            Unit::Seconds,
            inner.working.clone(),
        );
        queue.register_with_unit(
            "unfinished_work",
            "How many seconds of work has done that is in progress and hasn't been observed by work_duration. \
             Large values indicate stuck threads",
            Unit::Seconds,
            inner.unfinished.clone(),
        );
        queue.register_with_unit(
            "longest_running_processor",
            "How many seconds has the longest running processor for workqueue been running",
            Unit::Seconds,
            inner.longest.clone(),
        );
        let replicaset = registry.sub_registry_with_prefix("replicaset_controller");
        replicaset.register(
            "sorting_deletion_age_ratio",
            "The ratio of chosen deleted pod's ages to the current youngest pod's age",
            inner.age_ratio.clone(),
        );
        replicaset.register(
            "stale_sync_skips",
            "Total number of ReplicaSet syncs skipped due to a stale watch cache",
            inner.replicaset_skips.clone(),
        );
        registry.sub_registry_with_prefix("deployment_controller").register(
            "stale_sync_skips",
            "Total number of Deployment syncs skipped due to a stale watch cache",
            inner.deployment_skips.clone(),
        );
        registry.register(
            "muster_sync_failures",
            "Syncs that failed, by their queue; workqueue_retries_total counts what is only looked at again, too",
            inner.failures.clone(),
        );
        registry.register(
            "muster_events_dropped",
            "Events that were not recorded: the queue was full, or the server would not take them",
            inner.events_dropped.clone(),
        );
        registry.register(
            "muster_informer_audits",
            "Comparisons of a cache with what the server has that came to their end",
            inner.audits.clone(),
        );
        registry.register(
            "muster_informer_audit_differences",
            "Those that found the cache to differ: a watch lost an event, or is dead",
            inner.audit_differences.clone(),
        );
        registry.register_with_unit(
            "muster_informer_watch_failing",
            "For how long the watch of a resource has failed, of several the longest; 0 while it is open",
            Unit::Seconds,
            inner.watch_failing.clone(),
        );
        *inner.registry.lock().unwrap_or_else(PoisonError::into_inner) = registry;
        Self { inner: Arc::new(inner) }
    }

    /// The metrics of a work queue, labelled with `name`.
    #[must_use]
    pub fn queue(&self, name: &'static str) -> QueueMetrics {
        let label = QueueName { name };
        let inner = &self.inner;
        QueueMetrics {
            name,
            adds: inner.adds.get_or_create_owned(&label),
            retries: inner.retries.get_or_create_owned(&label),
            failures: inner.failures.get_or_create_owned(&label),
            waiting: inner.waiting.get_or_create_owned(&label),
            working: inner.working.get_or_create_owned(&label),
        }
    }

    /// How to ask a queue of that name for its depth, and for the sum and the longest of the work that
    /// is not finished; none once the queue is gone. Several queues of one name are told together.
    pub(crate) fn probe_queue(
        &self,
        name: &'static str,
        ask: impl Fn(Moment) -> Option<(usize, Duration, Duration)> + Send + 'static,
    ) {
        let now = self.inner.clock.moment();
        let mut probes = self.inner.probes.lock().unwrap_or_else(PoisonError::into_inner);
        // Queues come and go, and nobody need ever ask for the metrics.
        probes.retain(|probe| (probe.ask)(now).is_some());
        probes.push(Probe { name, ask: Box::new(ask) });
    }

    /// How to ask a cache of `resource`, such as `pods`, for how long its watch has failed; none once the cache is gone.
    pub(crate) fn probe_watch(&self, resource: &str, ask: impl Fn() -> Option<Duration> + Send + 'static) {
        let mut watches = self.inner.watches.lock().unwrap_or_else(PoisonError::into_inner);
        // As of queues.
        watches.retain(|(_, ask)| ask().is_some());
        watches.push((Audited { resource: resource.to_owned() }, Box::new(ask)));
    }

    /// One sync of a ReplicaSet was deferred because the cache of `resource` had not reached its last write (RS-19).
    pub fn replicaset_sync_skipped(&self, group: &'static str, resource: &'static str) {
        self.inner.replicaset_skips.get_or_create(&Skipped { group, resource }).inc();
    }

    /// The same of a Deployment. Upstream has no such metric; the name follows those of its other controllers.
    pub fn deployment_sync_skipped(&self, group: &'static str, resource: &'static str) {
        self.inner.deployment_skips.get_or_create(&Skipped { group, resource }).inc();
    }

    /// One ready pod was chosen for deletion: its age over the youngest ready one's (DEL-06).
    pub fn deletion_age_ratio(&self, ratio: f64) {
        self.inner.age_ratio.observe(ratio);
    }

    /// An Event was lost (EV-04).
    pub fn event_dropped(&self) {
        self.inner.events_dropped.inc();
    }

    /// A cache is going to be compared with what the server has of `resource`, such as `pods`: at 0 the counts are there from
    /// the beginning, so that their rise is seen.
    pub fn audits(&self, resource: &str) {
        let label = Audited { resource: resource.to_owned() };
        let _ = (self.inner.audits.get_or_create(&label), self.inner.audit_differences.get_or_create(&label));
    }

    /// It was (B-07).
    pub fn audited(&self, resource: &str, differs: bool) {
        let label = Audited { resource: resource.to_owned() };
        self.inner.audits.get_or_create(&label).inc();
        self.inner.audit_differences.get_or_create(&label).inc_by(u64::from(differs));
    }

    /// Adds metrics of the caller's own.
    pub fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.inner.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Everything in the text format.
    #[must_use]
    pub fn encode(&self) -> String {
        let now = self.inner.clock.moment();
        let mut told = self.inner.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.values_mut().for_each(|told| *told = (0, Duration::ZERO, Duration::ZERO));
        for probe in self.inner.probes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some((depth, unfinished, longest)) = (probe.ask)(now) else { continue };
            let sum = told.entry(probe.name).or_default();
            *sum = (sum.0 + depth, sum.1 + unfinished, sum.2.max(longest));
        }
        for (name, (depth, unfinished, longest)) in &*told {
            let label = QueueName { name };
            self.inner.depth.get_or_create(&label).set(i64::try_from(*depth).unwrap_or(i64::MAX));
            self.inner.unfinished.get_or_create(&label).set(unfinished.as_secs_f64());
            self.inner.longest.get_or_create(&label).set(longest.as_secs_f64());
        }
        drop(told);
        let mut failing = BTreeMap::new();
        for (label, ask) in self.inner.watches.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let longest = failing.entry(label.clone()).or_insert(Duration::ZERO);
            *longest = (*longest).max(ask().unwrap_or_default());
        }
        for (label, longest) in failing {
            self.inner.watch_failing.get_or_create(&label).set(longest.as_secs_f64());
        }
        let mut encoded = String::new();
        let registry = self.inner.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if text::encode(&mut encoded, &registry).is_err() {
            // A String takes everything; were it not to, half a page must not pass for a whole one.
            encoded.clear();
            let _ = writeln!(encoded, "# EOF");
        }
        encoded
    }
}

/// Counts what happens to the keys of one work queue.
pub struct QueueMetrics {
    name: &'static str,
    adds: Counter,
    retries: Counter,
    failures: Counter,
    waiting: Histogram,
    working: Histogram,
}

impl QueueMetrics {
    /// The name of the queue, which is that of its controller.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// A sync of a key failed.
    pub(crate) fn failed(&self) {
        self.failures.inc();
    }
}

impl QueueObserver for QueueMetrics {
    fn added(&mut self) {
        self.adds.inc();
    }

    fn started(&mut self, queued: Duration) {
        self.waiting.observe(queued.as_secs_f64());
    }

    fn finished(&mut self, worked: Duration) {
        self.working.observe(worked.as_secs_f64());
    }

    fn retried(&mut self) {
        self.retries.inc();
    }
}

#[cfg(test)]
mod tests {
    use muster_objects::ObjectKey;

    use super::*;

    #[test]
    fn of_several_watches_of_a_resource_the_one_that_has_failed_longest_counts_and_none_that_is_gone() {
        let metrics = Metrics::new(Clock::system());
        let longest = Arc::new(Mutex::new(Some(Duration::from_secs(9))));
        let told = Arc::clone(&longest);
        metrics.probe_watch("pods", move || *told.lock().unwrap());
        metrics.probe_watch("pods", || Some(Duration::from_secs(4)));
        let line = |value: &str| format!("muster_informer_watch_failing_seconds{{resource=\"pods\"}} {value}\n");
        assert!(metrics.encode().contains(&line("9.0")), "{}", metrics.encode());
        *longest.lock().unwrap() = None;
        assert!(metrics.encode().contains(&line("4.0")), "{}", metrics.encode());
    }

    /// Contract: CM-08
    #[tokio::test(start_paused = true)]
    async fn the_names_are_upstreams() {
        let clock = Clock::system();
        let metrics = Metrics::new(clock);
        let queue = crate::workers::Queue::new("replicaset", clock, &metrics);
        let at = |millis: u64| Moment::from_nanos(millis * 1_000_000);
        queue.with(|queue, _| {
            for name in ["a", "b", "c"] {
                queue.add(ObjectKey::new("ns", name), at(0));
            }
            let (a, b) = (queue.get(at(10)), queue.get(at(10)).unwrap());
            assert!(a.is_some());
            queue.done(&b, at(110));
            queue.add_rate_limited(b, at(110));
            queue.add(a.unwrap(), at(120));
            queue.observer().failed();
        });
        metrics.replicaset_sync_skipped("", "pods");
        metrics.deployment_sync_skipped("apps", "replicasets");
        metrics.deletion_age_ratio(1.5);
        tokio::time::advance(Duration::from_secs(2)).await;

        let text = metrics.encode();
        for line in [
            // One of them is in work, and was added again meanwhile.
            "workqueue_depth{name=\"replicaset\"} 3",
            "workqueue_adds_total{name=\"replicaset\"} 5",
            "muster_sync_failures_total{name=\"replicaset\"} 1",
            "workqueue_retries_total{name=\"replicaset\"} 1",
            "workqueue_queue_duration_seconds_count{name=\"replicaset\"} 2",
            "workqueue_queue_duration_seconds_bucket{le=\"0.01\",name=\"replicaset\"} 2",
            "workqueue_work_duration_seconds_sum{name=\"replicaset\"} 0.1",
            "workqueue_unfinished_work_seconds{name=\"replicaset\"} 1.99",
            "workqueue_longest_running_processor_seconds{name=\"replicaset\"} 1.99",
            "replicaset_controller_sorting_deletion_age_ratio_bucket{le=\"2.0\"} 1",
            "replicaset_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"} 1",
            "deployment_controller_stale_sync_skips_total{group=\"apps\",resource=\"replicasets\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line:?} in:\n{text}");
        }
        let bounds = |name: &str| {
            let prefix = format!("{name}_bucket{{");
            text.lines().filter(|line| line.starts_with(&prefix)).count() - 1
        };
        assert_eq!(bounds("workqueue_work_duration_seconds"), 10);
        assert_eq!(bounds("replicaset_controller_sorting_deletion_age_ratio"), 6);
    }

    /// The managers of several shards count into the same metrics, and leave nothing behind.
    ///
    /// Contract: CM-08, SH-06
    #[tokio::test(start_paused = true)]
    async fn queues_of_one_name_are_told_together_and_forgotten_when_they_are_gone() {
        let clock = Clock::system();
        let metrics = Metrics::new(clock);
        let depth = |expected: u32| {
            let text = metrics.encode();
            let line = format!("workqueue_depth{{name=\"replicaset\"}} {expected}");
            assert!(text.lines().any(|found| found == line), "no {line} in:\n{text}");
        };
        let queue = |keys: usize| {
            let queue = crate::workers::Queue::new("replicaset", clock, &metrics);
            queue.add((0..keys).map(|number| ObjectKey::new("ns", number.to_string())));
            queue
        };
        let (one, two) = (queue(2), queue(3));
        depth(5);
        drop(one);
        depth(3);
        drop(two);
        depth(0);
        (0..100).for_each(|_| drop(queue(1)));
        assert!(metrics.inner.probes.lock().unwrap().len() <= 1);
    }
}
