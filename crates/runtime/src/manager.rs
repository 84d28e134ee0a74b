//! The process: informers first, then the controllers, and an orderly end.
//!
//! ```text
//!   informers run --synced, leading--> workers run ... stop --> workers finish --> events flushed --> informers end
//! ```

use std::{collections::BTreeSet, future::Future, num::NonZeroUsize, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt, Shared};
use muster_objects::{HashRange, ReplicaSet, ReplicationController};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    client::Client,
    deployment::DeploymentController,
    events,
    explain::Explainer,
    history::{HISTORY_BYTES, Recording},
    informer::{Informers, WatchedResource},
    metrics::Metrics,
    process::{of_the_same, pass_on_panic, watch_over},
    replicaset::ReplicaController,
    shell::Context,
    shutdown::{self, Shutdown},
    workers::{Controller, Queue},
    writer::Writer,
};

#[cfg(test)]
mod tests;

/// A controller by its names (CM-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Such as `replicaset-controller`.
    pub name: &'static str,
    /// Such as `replicaset`.
    pub alias: &'static str,
}

/// The Deployment controller.
pub const DEPLOYMENT: Name = Name { name: "deployment-controller", alias: "deployment" };
/// The ReplicaSet controller.
pub const REPLICASET: Name = Name { name: "replicaset-controller", alias: "replicaset" };
/// The ReplicationController controller.
pub const REPLICATIONCONTROLLER: Name =
    Name { name: "replicationcontroller-controller", alias: "replicationcontroller" };

/// Every controller that there is.
pub const CONTROLLERS: &[Name] = &[DEPLOYMENT, REPLICASET, REPLICATIONCONTROLLER];

/// How many workers a controller has unless it is said (CM-02).
pub const CONCURRENT_SYNCS: NonZeroUsize = NonZeroUsize::new(5).expect("5 is not 0");

/// Which controllers to run: a comma list of names or aliases, `-name` for all but that one together with
/// `*` for all (CM-01). The first entry that names a controller decides; an empty list runs none.
///
/// # Errors
/// Where an entry names no controller that is known.
pub fn select(list: &str, known: &[Name]) -> Result<BTreeSet<Name>, UnknownController> {
    let entries: Vec<&str> = list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    for entry in &entries {
        let bare = entry.strip_prefix('-').unwrap_or(entry);
        if *entry != "*" && !known.iter().any(|name| name.is(bare)) {
            let known = known.iter().map(|known| known.name).collect();
            return Err(UnknownController { name: bare.to_owned(), known });
        }
    }
    let enabled = |name: &Name| {
        let named = entries.iter().find_map(|entry| match entry.strip_prefix('-') {
            Some(bare) if name.is(bare) => Some(false),
            None if name.is(entry) => Some(true),
            _ => None,
        });
        named.unwrap_or_else(|| entries.contains(&"*"))
    };
    Ok(known.iter().copied().filter(enabled).collect())
}

impl Name {
    fn is(&self, text: &str) -> bool {
        text == self.name || text == self.alias
    }
}

/// A controller was named that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not in the list of known controllers: {}", known.join(", "))]
pub struct UnknownController {
    /// What was named.
    pub name: String,
    /// What could have been.
    pub known: Vec<&'static str>,
}

/// How a manager runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which controllers; see [`select`].
    pub controllers: BTreeSet<Name>,
    /// Workers of the Deployment controller (CM-02).
    pub concurrent_deployment_syncs: NonZeroUsize,
    /// Workers of the ReplicaSet controller (CM-02).
    pub concurrent_replicaset_syncs: NonZeroUsize,
    /// Workers of the ReplicationController controller (CM-02).
    pub concurrent_rc_syncs: NonZeroUsize,
    /// How many pods one sync creates or deletes at most (CM-02).
    pub burst_replicas: u32,
    /// The range of the hash of a namespace whose objects are read, and so controlled; none for all of them.
    pub range: Option<HashRange>,
    /// The shortest time between two resyncs (INF-06).
    pub min_resync_period: Duration,
    /// How long the syncs in flight have to finish after a stop (CM-07).
    pub shutdown_timeout: Duration,
    /// How many bytes of what its syncs did are kept; 0 for none.
    pub history_bytes: usize,
    /// What all jitter is drawn from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: CONTROLLERS.iter().copied().collect(),
            concurrent_deployment_syncs: CONCURRENT_SYNCS,
            concurrent_replicaset_syncs: CONCURRENT_SYNCS,
            concurrent_rc_syncs: CONCURRENT_SYNCS,
            burst_replicas: 500,
            range: None,
            min_resync_period: Duration::from_secs(12 * 3600),
            shutdown_timeout: Duration::from_secs(10),
            history_bytes: HISTORY_BYTES,
            seed: 0,
        }
    }
}

/// Controllers and what they need, set up and not running yet.
pub struct Manager {
    context: Context,
    informers: Informers,
    /// None where the Events go with those of others.
    sender: Option<events::EventSender>,
    controllers: Vec<Prepared>,
    explainer: Explainer,
    options: Options,
    /// How many controllers still wait for their caches.
    unsynced: watch::Sender<usize>,
}

/// A controller that is ready to run.
struct Prepared {
    name: Name,
    /// Ends when every cache that it reads has synced, and was listed anew where that was requested.
    synced: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    /// Runs the workers until the shutdown and until the syncs in progress have ended.
    run: Box<dyn FnOnce(Shutdown) -> BoxFuture<'static, ()> + Send>,
}

impl Manager {
    /// A manager that reads through `client` and writes through it too.
    #[must_use]
    pub fn new(client: &Client, options: Options) -> Self {
        Self::with_writer(client, Arc::new(client.clone()), options)
    }

    /// A manager that reads through `client` and writes through `writer`: a dry run, a simulation.
    #[must_use]
    pub fn with_writer(client: &Client, writer: Arc<dyn Writer>, options: Options) -> Self {
        let metrics = Metrics::new(client.clock());
        let (events, sender) = events::channel(&writer, &metrics, client.clock());
        let recording = Recording::new(options.history_bytes, client.clock());
        let context = Context { client: client.clone(), writer, events, metrics, recording };
        Self { sender: Some(sender), ..Self::in_context(context, options) }
    }

    /// A manager that reads, writes, counts and records in `context`, and whose Events are sent with those of others.
    #[must_use]
    pub fn in_context(context: Context, options: Options) -> Self {
        let mut random = SmallRng::seed_from_u64(options.seed);
        let informers = Informers::new(context.client.clone(), options.min_resync_period, random.random())
            .counted_by(&context.metrics)
            .within(options.range);
        let mut manager = Self {
            context,
            informers,
            sender: None,
            controllers: Vec::new(),
            explainer: Explainer::default(),
            options,
            unsynced: watch::Sender::new(0),
        };
        for name in manager.options.controllers.clone() {
            match name {
                DEPLOYMENT => manager.prepare_deployment(),
                REPLICASET => manager.prepare_replicaset(),
                REPLICATIONCONTROLLER => manager.prepare_replicationcontroller(),
                // Someone else's: the list of those that were chosen may name more than run here.
                _ => {}
            }
        }
        manager.unsynced.send_replace(manager.controllers.len());
        manager
    }

    fn prepare_deployment(&mut self) {
        let controller = DeploymentController::new(&self.context, &mut self.informers);
        let (queue, reader) = (controller.queue().clone(), controller.clone());
        self.explainer.deployments = Some(controller.clone());
        let workers = self.options.concurrent_deployment_syncs;
        self.prepare(DEPLOYMENT, controller, queue, workers, move || reader.synced());
    }

    fn prepare_replicaset(&mut self) {
        let (resource, burst) = (WatchedResource::replicasets(), self.options.burst_replicas);
        let controller = ReplicaController::<ReplicaSet>::new(&self.context, &mut self.informers, &resource, burst);
        let (queue, reader) = (controller.queue().clone(), controller.clone());
        self.explainer.replicasets = Some(controller.clone());
        let workers = self.options.concurrent_replicaset_syncs;
        self.prepare(REPLICASET, controller, queue, workers, move || reader.synced());
    }

    fn prepare_replicationcontroller(&mut self) {
        let (resource, burst) = (WatchedResource::replicationcontrollers(), self.options.burst_replicas);
        let controller =
            ReplicaController::<ReplicationController>::new(&self.context, &mut self.informers, &resource, burst);
        let (queue, reader) = (controller.queue().clone(), controller.clone());
        self.explainer.replicationcontrollers = Some(controller.clone());
        let workers = self.options.concurrent_rc_syncs;
        self.prepare(REPLICATIONCONTROLLER, controller, queue, workers, move || reader.synced());
    }

    fn prepare<S: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: Name,
        controller: impl Controller + Clone,
        queue: Queue,
        workers: NonZeroUsize,
        synced: impl Fn() -> S + Send + Sync + 'static,
    ) {
        let run = move |stop| -> BoxFuture<'static, ()> {
            Box::pin(async move { queue.work(controller, workers.get(), stop).await })
        };
        let synced = Box::new(move || -> BoxFuture<'static, ()> { Box::pin(synced()) });
        self.controllers.push(Prepared { name, synced, run: Box::new(run) });
    }

    /// The informers, for others in this process who want to share them (INF-08).
    pub fn informers(&mut self) -> &mut Informers {
        &mut self.informers
    }

    /// A handle to ask its controllers what they think, while it runs and before.
    #[must_use]
    pub fn explainer(&self) -> Explainer {
        self.explainer.clone()
    }

    /// What controllers work with.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The metrics of the process.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.context.metrics.clone()
    }

    /// The names of the controllers that it runs.
    pub fn controllers(&self) -> impl Iterator<Item = &'static str> {
        self.controllers.iter().map(|controller| controller.name.name)
    }

    /// How many controllers still wait for their caches, also of those that have to be listed anew because it leads since: at 0,
    /// `/readyz` says ok. Closed once the manager has ended,
    /// and then `/livez` fails.
    #[must_use]
    pub fn unsynced(&self) -> watch::Receiver<usize> {
        self.unsynced.subscribe()
    }

    /// Runs until `shutdown`, and then to an orderly end (CM-07): no new keys are taken, syncs in progress finish
    /// within their time, events are flushed.
    ///
    /// # Panics
    /// If one of its tasks does (an informer, a controller, the sender of Events), so that the process ends: the
    /// remaining tasks would write without a current cache, or appear alive and do nothing. A sync that panics only
    /// counts as a failed sync.
    pub async fn run(self, shutdown: Shutdown) {
        let (_leading, always) = watch::channel(true);
        self.run_leading(always, shutdown).await;
    }

    /// The same with leader election: caches are filled and kept up to date from the start, so that little is left to
    /// do when `leading` becomes true (B-12). A watch may be behind or dead unnoticed, and the previous leader's last
    /// writes must not be repeated: at that moment everything is relisted, and the workers of a controller start when all that it
    /// reads is. They do not stop when `leading` becomes false: a process that loses the lease ends.
    ///
    /// # Panics
    /// As [`Manager::run`].
    pub async fn run_leading(self, leading: watch::Receiver<bool>, mut shutdown: Shutdown) {
        let Self { context, informers, sender, controllers, explainer, options, unsynced } = self;
        // From here on only the queues' own workers hold the other ends.
        drop((context, explainer));
        let mut reading = JoinSet::new();
        let ready = ready(leading, informers.read_anew());
        for run in informers.into_runs() {
            reading.spawn(of_the_same(run));
        }
        let (stop_events, events_stop) = shutdown::channel();
        let mut sending = JoinSet::new();
        if let Some(sender) = sender {
            sending.spawn(of_the_same(sender.run_within(events_stop, options.shutdown_timeout)));
        }

        let mut working = JoinSet::new();
        for controller in controllers {
            let mut stop = shutdown.clone();
            let (unsynced, ready) = (unsynced.clone(), ready.clone());
            let Prepared { name, synced, run } = controller;
            working.spawn(of_the_same(async move {
                // No worker starts before every cache that its controller reads has synced (INF-02).
                let first = async {
                    synced().await;
                    tracing::info!(controller = name.name, "caches synced");
                    unsynced.send_modify(|count| *count -= 1);
                };
                let ready = async {
                    let ((), ready) = futures::future::join(first, ready).await;
                    if ready {
                        unsynced.send_modify(|count| *count += 1);
                        synced().await;
                        unsynced.send_modify(|count| *count -= 1);
                    }
                    ready
                };
                let ready = tokio::select! {
                    biased;
                    () = stop.stopped() => false,
                    ready = ready => ready,
                };
                if !ready {
                    return;
                }
                drop(synced);
                tracing::info!(controller = name.name, "starting workers");
                run(stop).await;
            }));
        }
        tokio::select! {
            biased;
            () = shutdown.stopped() => {}
            never = watch_over(&mut reading) => match never {},
            never = watch_over(&mut working) => match never {},
            never = watch_over(&mut sending) => match never {},
        }

        if tokio::time::timeout(options.shutdown_timeout, ended(&mut working)).await.is_err() {
            tracing::warn!("syncs did not finish in time and are given up");
        }
        working.shutdown().await;
        stop_events.stop();
        ended(&mut sending).await;
        reading.shutdown().await;
    }
}

/// Waits until this process leads, and requests that its caches are listed after that; false if it can no longer become the
/// leader. Caches that are first filled while it leads need no second list.
fn ready(
    mut leading: watch::Receiver<bool>,
    read_anew: impl FnOnce() + Send + 'static,
) -> Shared<BoxFuture<'static, bool>> {
    let led_already = *leading.borrow();
    let ready = async move {
        if led_already {
            return true;
        }
        let led = leading.wait_for(|leading| *leading).await.is_ok();
        if led {
            tracing::info!("leading, reading everything anew");
            read_anew();
        }
        led
    };
    ready.boxed().shared()
}

/// Waits for the end of every task.
async fn ended(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        pass_on_panic(ended);
    }
}
