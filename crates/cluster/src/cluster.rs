//! Everything together: one handle for the loops that make an API server a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_machinery::{Cached, Change};
use muster_runtime::client::{Client, ClientError};
use muster_runtime::events::{self, EventSink};
use muster_runtime::informer::{Informers, WatchedResource};
use muster_runtime::manager::Name;
use muster_runtime::metrics::Metrics;
use muster_runtime::shutdown::{self, Shutdown, Trigger};
use muster_runtime::writer::Writer;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::api::EventQueue;
use crate::certificates::Authority;
use crate::control::Frame;
use crate::controllers::{self, CONTROLLERS, FRAMED};
use crate::duration::DelayRange;
use crate::everything::Everything;
use crate::feed::{Batch, Fan};
use crate::garbage;
use crate::kinds::{self, Kinds};
use crate::kubelet::{self, Kubelet, Settings};
use crate::metadata::PartialObject;
use crate::namespaces::{self, Furniture, Namespace};
use crate::node::Node;
use crate::nodes::{self, Capacity, LEASE_NAMESPACE};
use crate::pod::{NeedKind, Pod};
use crate::scheduler::{self, Scheduler};
use crate::tokens::Tokens;
use crate::volumes;

impl Cached for Node {
    type Indexes = ();
}

impl Cached for PartialObject {
    type Indexes = ();
}

/// What a cluster is made of. [`Options::default`] is a whole one with three nodes.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many simulated nodes there are at first; [`Cluster::set_nodes`] changes it. With none, and until
    /// there is one, nothing is scheduled and no node is judged.
    pub nodes: u32,
    /// Whether there are nodes, a scheduler and agents at all.
    pub simulate: bool,
    /// What each node has to give.
    pub capacity: Capacity,
    /// How long a pod takes from its binding to running: for each pod a draw from this range.
    pub pod_startup: DelayRange,
    /// The longest that a deleted pod takes to stop; its own grace period where that is shorter.
    pub pod_shutdown: Duration,
    /// How long a namespace that is deleted is left alone before it is emptied.
    pub namespace_grace: Duration,
    /// What delays are drawn from: the same seed gives the same delays to the same pods.
    pub seed: u64,
    /// Whether scheduler and agents tell of pods by events, within a real cluster's limits.
    pub events: bool,
    /// Which of the controllers that kube-controller-manager has too are run: of [`CONTROLLERS`].
    pub controllers: BTreeSet<Name>,
    /// The certificate authority in PEM that every namespace gets as `kube-root-ca.crt`. Without one, none does.
    pub ca_pem: Option<String>,
    /// The cluster's certificate authority, as far as it signs requests. Without it, nobody does.
    pub authority: Option<Arc<dyn Authority>>,
    /// Who makes the tokens that are kept in Secrets. Without it, nobody does.
    pub tokens: Option<Arc<dyn Tokens>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 3,
            simulate: true,
            capacity: Capacity::default(),
            pod_startup: DelayRange::new(Duration::from_millis(200), Duration::from_millis(800)),
            pod_shutdown: Duration::from_secs(1),
            namespace_grace: Duration::ZERO,
            seed: 0,
            events: true,
            controllers: CONTROLLERS.iter().copied().collect(),
            ca_pem: None,
            authority: None,
            tokens: None,
        }
    }
}

/// The running loops. Dropping it ends them where they are.
#[derive(Debug)]
pub struct Cluster {
    tasks: JoinSet<()>,
    nodes: watch::Sender<u32>,
    /// Held so that the controllers run.
    _running: Trigger,
}

impl Cluster {
    /// Starts the loops against the server of `client`. They run until the handle is dropped or
    /// [`Cluster::stop`] is called.
    ///
    /// # Errors
    /// Where the server cannot be asked which kinds it has.
    pub async fn start(client: Client, options: Options) -> Result<Self, ClientError> {
        let (nodes, counted) = watch::channel(options.nodes);
        let (known, kinds) = watch::channel(Arc::new(Kinds::discover(&client).await?));
        let (running, stopped) = shutdown::channel();
        let mut parts = Parts {
            informers: Informers::new(client.clone(), Duration::ZERO, options.seed),
            client,
            options,
            kinds,
            pods: Fan::default(),
            everything: Everything::default(),
            everything_read: None,
            told: None,
            loops: Vec::new(),
        };
        parts.follow_kinds(known);
        if parts.options.simulate {
            parts.simulate(counted);
        }
        if parts.runs(&controllers::GARBAGE_COLLECTOR) {
            parts.collect(&stopped);
        }
        parts.keep_namespaces();
        parts.control(&stopped);
        let mut tasks = JoinSet::new();
        // The loops first: whoever is told must be there to listen.
        for each in parts.finish() {
            tasks.spawn(each);
        }
        Ok(Self { tasks, nodes, _running: running })
    }

    /// Changes how many simulated nodes there are. New ones turn Ready at once; of those that go, the
    /// pods are collected once they were missing for 40 s, as for any node that is deleted.
    pub fn set_nodes(&self, count: u32) {
        self.nodes.send_replace(count);
    }

    /// How many simulated nodes were asked for last.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        *self.nodes.borrow()
    }

    /// Ends the loops and waits until they have.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// What a cluster runs.
pub(crate) type Loops = Vec<futures::future::BoxFuture<'static, ()>>;

/// Tells a loop of the changes of a resource.
fn follow<T: Cached, I: Send + 'static>(
    informers: &mut Informers,
    resource: &WatchedResource,
    to: mpsc::UnboundedSender<I>,
    input: fn(Batch<T>) -> I,
) {
    let mut fan: Fan<T> = Fan::default();
    // A receiver is gone only when its loop is, and then the whole cluster is going.
    fan.to(move |batch| drop(to.send(input(batch))));
    fan.attach(informers.of(resource));
}

/// A cluster that is being put together.
struct Parts {
    client: Client,
    options: Options,
    kinds: watch::Receiver<Arc<Kinds>>,
    informers: Informers,
    /// Who is told of pods.
    pods: Fan<Pod>,
    /// Who is told of the metadata of every kind.
    everything: Everything,
    /// To be called when that was read.
    everything_read: Option<Box<dyn FnOnce() + Send>>,
    /// Where the controllers' events go, and their metrics, once there is one that has some.
    told: Option<(EventSink, Metrics)>,
    loops: Loops,
}

impl Parts {
    /// Where the controllers' events go, and their metrics.
    fn told(&mut self, stopped: &Shutdown) -> (EventSink, Metrics) {
        if let Some(told) = &self.told {
            return told.clone();
        }
        let metrics = Metrics::new(self.client.clock());
        let writer: Arc<dyn Writer> = Arc::new(self.client.clone());
        let (events, sender) = events::channel(&writer, &metrics, self.client.clock());
        self.loops.push(Box::pin(sender.run(stopped.clone())));
        self.told.insert((events, metrics)).clone()
    }

    fn runs(&self, name: &Name) -> bool {
        self.options.controllers.contains(name)
    }

    fn serves(&self, resource: &WatchedResource) -> bool {
        self.kinds.borrow().serves(resource)
    }

    /// Everything that is to be run.
    fn finish(mut self) -> Loops {
        if !self.pods.is_empty() {
            self.pods.attach(self.informers.of(&WatchedResource::pods()));
        }
        if !self.everything.is_empty() {
            let read = self.everything_read.take().unwrap_or_else(|| Box::new(|| {}));
            self.loops.push(Box::pin(self.everything.run(self.client, self.kinds, self.options.seed, read)));
        }
        self.loops.extend(self.informers.into_runs());
        self.loops
    }

    /// Kinds as they come and go, where the server lets them.
    fn follow_kinds(&mut self, known: watch::Sender<Arc<Kinds>>) {
        let definitions = kinds::definitions();
        if !self.serves(&definitions) {
            return;
        }
        let (changes, changed) = watch::channel(0);
        self.informers
            .of::<PartialObject>(&definitions)
            .add_handler(move |_: &Change<PartialObject>| changes.send_modify(|count| *count += 1));
        self.loops.push(Box::pin(kinds::follow(self.client.clone(), known, changed)));
    }

    /// Nodes, the scheduler and the agents.
    fn simulate(&mut self, counted: watch::Receiver<u32>) {
        let Self { client, options, kinds, informers, pods, everything, loops, .. } = self;
        let (to_scheduler, for_scheduler) = mpsc::unbounded_channel();
        let (to_kubelet, for_kubelet) = mpsc::unbounded_channel();
        let (to_nodes, for_nodes) = mpsc::unbounded_channel();
        let to_agents = to_kubelet.clone();
        everything.to(move |kind, batch| {
            let needed = match (&*kind.api_version, &*kind.kind) {
                ("v1", "ConfigMap") => NeedKind::ConfigMap,
                ("v1", "Secret") => NeedKind::Secret,
                ("v1", "PersistentVolumeClaim") => NeedKind::Claim,
                _ => return,
            };
            drop(to_agents.send(kubelet::Input::Objects(needed, Arc::clone(batch))));
        });
        // A receiver is gone only when its loop is, and then the whole cluster is going.
        let mut nodes: Fan<Node> = Fan::default();
        {
            let (scheduler, kubelet, keeper) = (to_scheduler.clone(), to_kubelet.clone(), to_nodes.clone());
            nodes.to(move |batch| drop(scheduler.send(scheduler::Input::Nodes(batch))));
            nodes.to(move |batch| drop(kubelet.send(kubelet::Input::Nodes(batch))));
            nodes.to(move |batch| drop(keeper.send(nodes::Input::Nodes(batch))));
        }
        nodes.attach(informers.of(&WatchedResource::new("", "v1", "nodes")));
        {
            let (scheduler, keeper) = (to_scheduler.clone(), to_nodes.clone());
            pods.to(move |batch| drop(scheduler.send(scheduler::Input::Pods(batch))));
            pods.to(move |batch| drop(to_kubelet.send(kubelet::Input::Pods(batch))));
            pods.to(move |batch| drop(keeper.send(nodes::Input::Pods(batch))));
        }
        let mut leases: Fan<PartialObject> = Fan::default();
        leases.to(move |batch| drop(to_nodes.send(nodes::Input::Leases(batch))));
        let mut resource = WatchedResource::new("coordination.k8s.io", "v1", "leases").metadata();
        resource.namespace = Some(LEASE_NAMESPACE.to_owned());
        leases.attach(informers.of(&resource));

        follow(informers, &namespaces::resource(), to_scheduler.clone(), scheduler::Input::Namespaces);
        let storage = [volumes::all_claims(), volumes::all_volumes(), volumes::all_classes()];
        let scheduler = match storage.iter().all(|resource| kinds.borrow().serves(resource)) {
            true => {
                let [claims, volumes, classes] = storage;
                follow(informers, &claims, to_scheduler.clone(), scheduler::Input::Claims);
                follow(informers, &volumes, to_scheduler.clone(), scheduler::Input::Volumes);
                follow(informers, &classes, to_scheduler, scheduler::Input::Classes);
                Scheduler::with_storage()
            }
            false => Scheduler::new(),
        };
        let (events, post) = EventQueue::new(client.clone());
        let settings = Settings {
            startup: options.pod_startup,
            shutdown: options.pod_shutdown,
            seed: options.seed,
            events: options.events,
        };
        let agents = Kubelet::new(settings);
        let capacity = options.capacity.clone();
        let told = options.events.then(|| events.clone());
        let pods = informers.of::<Pod>(&WatchedResource::pods()).store();
        let nodes = informers.of::<Node>(&WatchedResource::new("", "v1", "nodes")).store();
        let namespaces = informers.of::<Namespace>(&namespaces::resource()).store();
        let read = async move {
            pods.synced().await;
            nodes.synced().await;
            namespaces.synced().await;
        };
        loops.push(Box::pin(scheduler::run(scheduler, for_scheduler, read, client.clone(), told)));
        loops.push(Box::pin(kubelet::run(agents, for_kubelet, client.clone(), capacity.clone(), events)));
        loops.push(Box::pin(nodes::run(for_nodes, counted, client.clone(), capacity)));
        loops.push(Box::pin(post));
    }

    /// The garbage collector. Pods come from the watch that scheduler and agents have as well.
    fn collect(&mut self, stopped: &Shutdown) {
        let (to_collector, for_collector) = mpsc::unbounded_channel();
        let collector = to_collector.clone();
        self.pods.to(move |batch| drop(collector.send(garbage::Input::Pods(batch))));
        let collector = to_collector.clone();
        self.everything.to(move |kind, batch| {
            let (api_version, name) = (Arc::clone(&kind.api_version), Arc::clone(&kind.kind));
            drop(collector.send(garbage::Input::Objects(api_version, name, Arc::clone(batch))));
        });
        let (all_read, read) = oneshot::channel();
        self.everything_read = Some(Box::new(move || {
            // Who waits for it is gone only when the cluster is going.
            let _ = all_read.send(());
        }));
        let pods = self.informers.of::<Pod>(&WatchedResource::pods()).store();
        let (events, _) = self.told(stopped);
        self.loops.push(Box::pin(garbage::run(for_collector, self.client.clone(), self.kinds.clone(), events)));
        self.loops.push(Box::pin(async move {
            pods.synced().await;
            if read.await.is_ok() {
                drop(to_collector.send(garbage::Input::Synced));
            }
        }));
    }

    /// Namespace deletion, and what every namespace gets.
    fn keep_namespaces(&mut self) {
        let terminate = self.runs(&controllers::NAMESPACE).then_some(self.options.namespace_grace);
        let [_, accounts] = namespaces::furniture_resources();
        let furniture = Furniture {
            ca: self.options.ca_pem.clone().filter(|_| self.runs(&controllers::ROOT_CA)),
            service_account: self.runs(&controllers::SERVICE_ACCOUNT) && self.serves(&accounts),
        };
        let furniture = (furniture.service_account || furniture.ca.is_some()).then_some(furniture);
        if terminate.is_none() && furniture.is_none() {
            return;
        }
        let (to_keeper, for_keeper) = mpsc::unbounded_channel();
        if furniture.is_some() {
            for resource in namespaces::furniture_resources() {
                if !self.serves(&resource) {
                    continue;
                }
                let keeper = to_keeper.clone();
                let mut objects: Fan<PartialObject> = Fan::default();
                objects.to(move |batch| drop(keeper.send(namespaces::Input::Furniture(batch))));
                objects.attach(self.informers.of(&resource));
            }
        }
        let mut all: Fan<Namespace> = Fan::default();
        all.to(move |batch| drop(to_keeper.send(namespaces::Input::Namespaces(batch))));
        all.attach(self.informers.of(&namespaces::resource()));
        let (client, kinds) = (self.client.clone(), self.kinds.clone());
        self.loops.push(Box::pin(namespaces::run(for_keeper, client, kinds, furniture, terminate)));
    }

    /// The controllers that run in a frame.
    fn control(&mut self, stopped: &Shutdown) {
        let wanted: Vec<_> = FRAMED.iter().filter(|(name, _)| self.runs(name)).collect();
        if wanted.is_empty() && !self.options.simulate {
            return;
        }
        let (events, metrics) = self.told(stopped);
        let mut frame = Frame {
            client: &self.client,
            kinds: &self.kinds,
            events: &events,
            authority: self.options.authority.clone(),
            tokens: self.options.tokens.clone(),
            ca: self.options.ca_pem.clone(),
            everything: &mut self.everything,
            informers: &mut self.informers,
            metrics: &metrics,
            shutdown: stopped,
            loops: &mut self.loops,
        };
        for (_, start) in wanted {
            start(&mut frame);
        }
        if self.options.simulate {
            volumes::provision(&mut frame);
        }
    }
}
