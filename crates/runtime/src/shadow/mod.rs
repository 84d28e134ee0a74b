//! The shadow at run time: informers, the order of versions, and the watcher that they feed.
//!
//! ```text
//!   informers of four kinds --changes--> merge (by version, settled) --> watcher --lines--> whoever reads them
//!   informers of metadata -- who wrote sizes, which namespaces are leaving -^
//! ```
//!
//! Nothing here can write. What the controllers intend goes to a recorder of `muster_inspect::shadow`, which has no
//! client; and the client that the informers read through refuses every write by its [fence](crate::client::Fence).

mod handlers;
mod merge;
mod metadata;
mod metrics;

use std::time::Duration;

use muster_inspect::shadow::record::{Line, Record, Start};
use muster_inspect::shadow::{Options as Comparison, Watcher};
use muster_objects::{Deployment, Pod, ReplicaSet, ReplicationController};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::handlers::{Message, ToMerge};
use self::merge::Merge;
use self::metadata::Metadata;
use self::metrics::ShadowMetrics;
use crate::client::Client;
use crate::informer::{Informers, Store, WatchedResource};
use crate::metrics::Metrics;
use crate::process::watch_over;
use crate::shutdown::Shutdown;

/// How often settled changes are processed.
const TURN: Duration = Duration::from_millis(100);

/// How many changes are processed before other tasks (signals, the endpoint) may run.
const AT_ONCE: usize = 200;
/// A delay beyond which it is logged that the shadow cannot keep up.
const FAR_BEHIND: Duration = Duration::from_secs(30);

/// How a shadow runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// How the two sides are compared.
    pub comparison: Comparison,
    /// How long a change waits for older ones of other kinds, whose watches may be slower.
    pub settle: Duration,
    /// How many pods one sync creates or deletes at most, as in the observed controllers.
    pub burst: u32,
    /// How often the counts so far are written.
    pub summary_every: Duration,
    /// The shortest time between two resyncs of the informers.
    pub min_resync_period: Duration,
    /// What all jitter is drawn from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            comparison: Comparison::default(),
            settle: Duration::from_secs(1),
            burst: 500,
            summary_every: Duration::from_secs(60),
            min_resync_period: Duration::from_secs(12 * 3600),
            seed: 0,
        }
    }
}

/// Where the lines of the agreement log go. An error ends the shadow.
pub type Sink<E> = Box<dyn FnMut(&[Line]) -> Result<(), E> + Send>;

/// A shadow that is set up and does not run yet.
pub struct Shadow {
    client: Client,
    informers: Informers,
    messages: mpsc::UnboundedReceiver<Message>,
    pods: Store<Pod>,
    sets: Store<ReplicaSet>,
    controllers: Store<ReplicationController>,
    deployments: Store<Deployment>,
    writers: Store<Metadata>,
    namespaces: Store<Metadata>,
    metrics: Metrics,
    counts: ShadowMetrics,
    options: Options,
    /// 1 until every cache was read.
    unsynced: watch::Sender<usize>,
}

impl Shadow {
    /// A shadow of the controllers of the cluster that `client` reads.
    #[must_use]
    pub fn new(client: &Client, options: Options) -> Self {
        // It has no writer to give it to; should anything here ever write, it is refused before it is sent.
        let client = client.read_only();
        let metrics = Metrics::new(client.clock());
        let counts = ShadowMetrics::default();
        metrics.register(|registry| counts.register(registry));
        let mut random = SmallRng::seed_from_u64(options.seed);
        let informers = Informers::new(client.clone(), options.min_resync_period, random.random());
        let mut informers = informers.counted_by(&metrics);
        let (sender, messages) = mpsc::unbounded_channel();
        let to_merge = ToMerge::new(client.clone(), sender);
        let pods = to_merge.follow(&mut informers, &WatchedResource::pods());
        let sets = to_merge.follow(&mut informers, &WatchedResource::replicasets());
        let controllers = to_merge.follow(&mut informers, &WatchedResource::replicationcontrollers());
        let deployments = to_merge.follow(&mut informers, &WatchedResource::deployments());
        let writers = to_merge.follow_writers(&mut informers);
        let namespaces = to_merge.follow_namespaces(&mut informers);
        let unsynced = watch::Sender::new(1);
        Self {
            client,
            informers,
            messages,
            pods,
            sets,
            controllers,
            deployments,
            writers,
            namespaces,
            metrics,
            counts,
            options,
            unsynced,
        }
    }

    /// The metrics of the process.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// 0 once every cache was read.
    #[must_use]
    pub fn unsynced(&self) -> watch::Receiver<usize> {
        self.unsynced.subscribe()
    }

    /// Watches until `shutdown`, and returns the counts at the end.
    ///
    /// # Errors
    ///
    /// If `sink` cannot write a line.
    ///
    /// # Panics
    ///
    /// If an informer does: the comparison would go on without its changes.
    pub async fn run<E>(self, mut sink: Sink<E>, mut shutdown: Shutdown) -> Result<(), E> {
        let Self { client, informers, messages, pods, sets, controllers, deployments, .. } = self;
        let (writers, namespaces) = (self.writers, self.namespaces);
        let mut reading = JoinSet::new();
        for run in informers.into_runs() {
            reading.spawn(run);
        }
        let synced = async {
            tokio::join!(
                pods.synced(),
                sets.synced(),
                controllers.synced(),
                deployments.synced(),
                writers.synced(),
                namespaces.synced()
            );
        };
        tokio::select! {
            biased;
            () = shutdown.stopped() => return Ok(()),
            never = watch_over(&mut reading) => match never {},
            () = synced => {}
        }
        let burst = self.options.burst;
        let mut following = Following {
            watcher: Watcher::new(self.options.comparison.clone(), burst),
            merge: Merge::new(self.options.settle),
            messages,
            counts: self.counts,
            client,
        };
        let start = following.load(&self.options);
        sink(&[start])?;
        self.unsynced.send_replace(0);
        tracing::info!("caches synced: watching what the cluster's own controllers do");
        let mut turns = interval(TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut summary_at = Instant::now() + self.options.summary_every;
        let mut more = false;
        loop {
            let stopped = tokio::select! {
                biased;
                () = shutdown.stopped() => true,
                never = watch_over(&mut reading) => match never {},
                () = tokio::task::yield_now(), if more => false,
                _ = turns.tick() => false,
            };
            let mut lines;
            (lines, more) = following.turn(stopped);
            if stopped || Instant::now() >= summary_at {
                summary_at = Instant::now() + self.options.summary_every;
                lines.push(following.summary());
            }
            if !lines.is_empty() {
                sink(&lines)?;
            }
            if stopped {
                break;
            }
        }
        reading.shutdown().await;
        Ok(())
    }
}

/// A shadow that has read everything.
struct Following {
    watcher: Watcher,
    merge: Merge,
    messages: mpsc::UnboundedReceiver<Message>,
    counts: ShadowMetrics,
    client: Client,
}

impl Following {
    /// Loads everything that was read before the caches were complete.
    fn load(&mut self, options: &Options) -> Line {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Changed(seen) => self.watcher.load(seen),
                Message::Written { set, version, writer } => self.watcher.written_by(set, version, writer),
                Message::Namespace { name, leaving } => self.watcher.namespace(name, leaving),
                Message::Reached { .. } | Message::Relisted => {}
            }
        }
        let now = self.client.server_now();
        let objects = self.watcher.begin(now);
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Line::new(
            now,
            Record::Start(Start {
                muster: env!("CARGO_PKG_VERSION").to_owned(),
                kinds: options.comparison.kinds.iter().map(|kind| (*kind).to_owned()).collect(),
                objects,
                lookback_millis: millis(options.comparison.lookback),
                patience_millis: millis(options.comparison.patience),
            }),
        )
    }

    /// Processes settled changes, or at the end all of them, up to a limit; returns whether more are left.
    fn turn(&mut self, ending: bool) -> (Vec<Line>, bool) {
        let now = self.client.server_now();
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Changed(seen) => self.merge.push(seen),
                Message::Reached { kind, version } => self.merge.reached(kind, version),
                Message::Written { set, version, writer } => self.watcher.written_by(set, version, writer),
                Message::Namespace { name, leaving } => self.watcher.namespace(name, leaving),
                Message::Relisted => self.watcher.missed_changes_until(now),
            }
        }
        let mut taken = 0;
        while taken < AT_ONCE
            && let Some(seen) = self.merge.pop(now, ending)
        {
            self.watcher.apply(seen);
            taken += 1;
        }
        self.watcher.pass(self.merge.settled(now));
        let lines = self.watcher.lines();
        for line in &lines {
            self.counts.count(&line.record);
            tell(&line.record);
        }
        (lines, taken == AT_ONCE)
    }

    fn summary(&self) -> Line {
        let now = self.client.server_now();
        let behind = now.saturating_since(self.merge.settled(now));
        if behind > FAR_BEHIND {
            tracing::warn!(seconds = behind.as_secs(), "the shadow cannot keep up with the cluster");
        }
        Line::new(now, Record::Summary(self.watcher.totals()))
    }
}

/// The same for the log of the process.
fn tell(record: &Record) {
    match record {
        Record::Plan(planned) => {
            let subject = &planned.subject;
            tracing::info!(
                kind = subject.kind,
                namespace = subject.namespace,
                name = subject.name,
                version = subject.resource_version,
                would = planned.would,
                "plan"
            );
        }
        Record::Difference(difference) => {
            let subject = &difference.subject;
            tracing::warn!(
                kind = subject.kind,
                namespace = subject.namespace,
                name = subject.name,
                version = subject.resource_version,
                action = difference.action,
                would = difference.would,
                did = difference.did,
                why = difference.why,
                row = difference.row.as_deref(),
                "difference"
            );
        }
        Record::Agreement(agreement) => tracing::debug!(
            kind = agreement.subject.kind,
            namespace = agreement.subject.namespace,
            name = agreement.subject.name,
            action = agreement.action,
            did = agreement.did,
            "agreement"
        ),
        Record::Other(other) => tracing::debug!(
            kind = other.subject.kind,
            namespace = other.subject.namespace,
            name = other.subject.name,
            action = other.action,
            did = other.did,
            why = other.why,
            "not judged"
        ),
        Record::Start(_) | Record::Summary(_) => {}
    }
}
