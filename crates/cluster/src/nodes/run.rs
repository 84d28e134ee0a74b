//! The nodes at work: registering, renewing Leases, watching over health, evicting.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use muster_objects::{Moment, ObjectKey, Uid};
use muster_runtime::client::{Client, ClientError, PatchType};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::health::PERIOD;
use super::objects::{
    allocatable_patch, heartbeat_patch, lease_body, lost_patch, node_body, node_status_patch, place, renew_patch,
};
use super::{Capacity, Cause, Eviction, Evictor, Health, LEASE_NAMESPACE, Remedy, node_name, node_ordinal};
use crate::api::{condition_patch, delete_pod, made, patch_pod_status};
use crate::feed::{Batch, parts};
use crate::kubelet::sleep_until;
use crate::metadata::PartialObject;
use crate::node::{Node, Readiness};
use crate::pod::Pod;

/// How many writes are under way at once.
const SIDE_BY_SIDE: usize = 64;
/// How often a node renews its Lease.
const RENEWAL: Duration = Duration::from_secs(10);
/// How often it renews the heartbeats of its conditions.
const HEARTBEAT: Duration = Duration::from_secs(300);
/// How long after a failed write it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What the loop is told.
pub(crate) enum Input {
    /// Nodes changed.
    Nodes(Batch<Node>),
    /// Pods changed.
    Pods(Batch<Pod>),
    /// Leases of nodes changed.
    Leases(Batch<PartialObject>),
}

/// A write to do.
#[derive(Debug, Clone)]
enum Task {
    Register(u32),
    Unregister(Arc<str>),
    Ready(Arc<str>, u32),
    Renew(Arc<str>, Uid),
    Heartbeat(Arc<str>),
    Lost(Arc<str>, bool),
    Allocate(Arc<str>, Vec<u8>),
    Taint(Arc<str>, Vec<u8>),
    NotReady(ObjectKey, Uid),
    Evict(Eviction),
}

/// Runs the nodes for as long as they are fed. `count` says how many there are to be.
pub(crate) async fn run(
    mut input: UnboundedReceiver<Input>,
    mut count: watch::Receiver<u32>,
    client: Client,
    capacity: Capacity,
) {
    let clock = client.clock();
    let mut nodes = Nodes::default();
    let mut flights: JoinSet<(Task, Result<(), ClientError>)> = JoinSet::new();
    nodes.resize(*count.borrow_and_update());
    let mut next_renewal = clock.moment() + RENEWAL;
    let mut next_heartbeat = clock.moment() + HEARTBEAT;
    let mut next_check = clock.moment() + PERIOD;
    loop {
        let now = clock.moment();
        nodes.due(now);
        while flights.len() < SIDE_BY_SIDE {
            let Some(task) = nodes.tasks.pop_front() else { break };
            let (client, capacity) = (client.clone(), capacity.clone());
            flights.spawn(async move {
                let done = perform(&client, &capacity, &task).await;
                (task, done)
            });
        }
        // A cluster without nodes has nothing to keep alive, and is left in peace.
        let periodic = [next_renewal, next_heartbeat, next_check].into_iter().filter(|_| nodes.is_alive()).min();
        let wake = [periodic, nodes.wake()].into_iter().flatten().min().map(|moment| clock.instant(moment));
        tokio::select! {
            biased;
            told = input.recv() => match told {
                Some(told) => nodes.take(clock.moment(), &client, &told),
                None => return,
            },
            Some(done) = flights.join_next() => {
                if let Ok((task, done)) = done {
                    nodes.done(clock.moment(), task, done);
                }
            }
            changed = count.changed() => match changed {
                Ok(()) => {
                    let wanted = *count.borrow_and_update();
                    nodes.resize(wanted);
                }
                Err(_) => return,
            },
            () = sleep_until(wake), if wake.is_some() => {
                let now = clock.moment();
                if now >= next_renewal {
                    next_renewal = now + RENEWAL;
                    nodes.renew_all();
                }
                if now >= next_heartbeat {
                    next_heartbeat = now + HEARTBEAT;
                    nodes.beat_all();
                }
                if now >= next_check {
                    next_check = now + PERIOD;
                    let remedies = nodes.health.check(now);
                    nodes.remedy(remedies);
                }
            }
        }
    }
}

#[derive(Default)]
struct Nodes {
    health: Health,
    evictor: Evictor,
    /// The simulated nodes that exist.
    agents: BTreeMap<Arc<str>, Agent>,
    wanted: u32,
    /// Whether this cluster ever had a simulated node: others are left to others before.
    ever: bool,
    tasks: VecDeque<Task>,
    later: BTreeMap<(Moment, u64), Task>,
    sequence: u64,
    renewing: BTreeSet<Arc<str>>,
    reporting: BTreeSet<Arc<str>>,
}

struct Agent {
    uid: Uid,
    ordinal: u32,
    reachable: bool,
}

impl Nodes {
    fn is_alive(&self) -> bool {
        self.ever
    }

    fn resize(&mut self, wanted: u32) {
        let before = std::mem::replace(&mut self.wanted, wanted);
        self.tasks.extend((before..wanted).map(Task::Register));
        self.tasks.extend((wanted..before).map(|ordinal| Task::Unregister(node_name(ordinal).into())));
    }

    fn take(&mut self, now: Moment, client: &Client, told: &Input) {
        match told {
            Input::Nodes(batch) => {
                for change in batch.iter() {
                    let (gone, node) = parts(change);
                    if let Some(gone) = gone {
                        self.agents.remove(&gone.meta.name);
                        self.health.node_deleted(&gone.meta.name);
                        self.evictor.node_deleted(now, &gone.meta.name);
                    }
                    if let Some(node) = node {
                        self.take_node(now, client, node);
                    }
                }
            }
            Input::Pods(batch) => {
                for change in batch.iter() {
                    let (gone, pod) = parts(change);
                    if let Some(gone) = gone {
                        self.evictor.pod_deleted(gone);
                    }
                    if let Some(pod) = pod {
                        self.evictor.pod_changed(now, pod);
                    }
                }
            }
            Input::Leases(batch) => {
                for change in batch.iter() {
                    if let (_, Some(lease)) = parts(change) {
                        self.health.lease_changed(now, &lease.meta.name, lease.meta.resource_version);
                    }
                }
            }
        }
    }

    fn take_node(&mut self, now: Moment, client: &Client, node: &Arc<Node>) {
        let name = &node.meta.name;
        self.evictor.node_changed(now, node);
        let remedies = self.health.node_changed(now, client.clock().now(), node);
        if node.simulated {
            self.ever = true;
            let next = 512 + u32::try_from(self.agents.len()).unwrap_or(0);
            let ordinal = self.agents.get(name).map(|agent| agent.ordinal).or_else(|| node_ordinal(name));
            let ordinal = ordinal.unwrap_or(next);
            let agent = Agent { uid: node.meta.uid.clone(), ordinal, reachable: !node.unreachable };
            let before = self.agents.insert(Arc::clone(name), agent);
            if !node.unreachable {
                if node.ready != Readiness::True && self.reporting.insert(Arc::clone(name)) {
                    self.tasks.push_back(Task::Ready(Arc::clone(name), ordinal));
                }
                if !node.advertised.is_empty() {
                    self.tasks.push_back(Task::Allocate(Arc::clone(name), allocatable_patch(&node.advertised)));
                }
                if before.is_none_or(|before| before.uid != node.meta.uid || !before.reachable) {
                    self.renew(name);
                }
            }
        } else {
            self.agents.remove(name);
        }
        if self.ever {
            self.remedy(remedies);
        }
    }

    fn remedy(&mut self, remedies: Vec<Remedy>) {
        for remedy in remedies {
            match remedy {
                Remedy::Lost { node, never } => self.tasks.push_back(Task::Lost(node, never)),
                Remedy::Taint { node, patch } => self.tasks.push_back(Task::Taint(node, patch)),
                Remedy::PodsNotReady { node } => {
                    let ready = self.evictor.pods_on(&node).filter(|pod| pod.status.ready);
                    let tasks: Vec<Task> =
                        ready.map(|pod| Task::NotReady(pod.meta.key(), pod.meta.uid.clone())).collect();
                    self.tasks.extend(tasks);
                }
            }
        }
    }

    fn renew(&mut self, name: &Arc<str>) {
        if let Some(agent) = self.agents.get(name)
            && agent.reachable
            && self.renewing.insert(Arc::clone(name))
        {
            self.tasks.push_back(Task::Renew(Arc::clone(name), agent.uid.clone()));
        }
    }

    fn renew_all(&mut self) {
        let names: Vec<Arc<str>> = self.agents.keys().cloned().collect();
        for name in names {
            self.renew(&name);
        }
    }

    fn beat_all(&mut self) {
        let living = self.agents.iter().filter(|(_, agent)| agent.reachable);
        self.tasks.extend(living.map(|(name, _)| Task::Heartbeat(Arc::clone(name))));
    }

    fn due(&mut self, now: Moment) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            self.tasks.push_back(entry.remove());
        }
        while self.ever {
            let Some(eviction) = self.evictor.next(now) else { break };
            self.tasks.push_back(Task::Evict(eviction));
        }
    }

    fn wake(&self) -> Option<Moment> {
        let evictor = self.evictor.wake().filter(|_| self.ever);
        [evictor, self.later.first_key_value().map(|((at, _), _)| *at)].into_iter().flatten().min()
    }

    fn done(&mut self, now: Moment, task: Task, done: Result<(), ClientError>) {
        match &task {
            Task::Renew(name, _) => {
                self.renewing.remove(name);
            }
            Task::Ready(name, _) => {
                self.reporting.remove(name);
            }
            _ => {}
        }
        let Err(error) = done else { return };
        if error.is_not_found() {
            // The namespace of the Leases may be yet to come; anything else is gone.
            if !matches!(task, Task::Renew(..) | Task::Register(_)) {
                return;
            }
        }
        match &task {
            // Renewed or looked at again at the next turn anyway.
            Task::Heartbeat(_) | Task::Lost(..) => {}
            Task::Renew(name, _) if !self.agents.contains_key(name) => {}
            // Others wrote to the node: its next version, which the watch brings, is judged anew.
            Task::Taint(name, _) => self.health.taint_failed(name),
            _ => {
                tracing::debug!(?task, %error, "will be tried again");
                self.sequence += 1;
                if let Task::Renew(name, _) = &task {
                    self.renewing.insert(Arc::clone(name));
                }
                self.later.insert((now + RETRY, self.sequence), task);
            }
        }
    }
}

async fn perform(client: &Client, capacity: &Capacity, task: &Task) -> Result<(), ClientError> {
    let wall = client.clock().now();
    let node = |name: &str| format!("/api/v1/nodes/{name}");
    match task {
        Task::Register(ordinal) => {
            let body = node_body(&node_name(*ordinal), &place(*ordinal, capacity), capacity, wall);
            made(client.post("/api/v1/nodes", Bytes::from(body)).await)
        }
        Task::Unregister(name) => client.delete(&node(name), None).await.map(drop),
        Task::Ready(name, ordinal) => {
            let patch = node_status_patch(name, &place(*ordinal, capacity), capacity, wall);
            patch_status(client, &node(name), patch).await
        }
        Task::Renew(name, uid) => {
            let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases");
            let lease = format!("{collection}/{name}");
            match client.patch(&lease, PatchType::Merge, Bytes::from(renew_patch(wall))).await {
                Err(error) if error.is_not_found() => {
                    made(client.post(&collection, Bytes::from(lease_body(name, &uid.to_string(), wall))).await)
                }
                answer => answer.map(drop),
            }
        }
        Task::Heartbeat(name) => patch_status(client, &node(name), heartbeat_patch(wall)).await,
        Task::Lost(name, never) => patch_status(client, &node(name), lost_patch(*never, wall)).await,
        Task::Allocate(name, patch) => patch_status(client, &node(name), patch.clone()).await,
        Task::Taint(name, patch) => {
            client.patch(&node(name), PatchType::Merge, Bytes::from(patch.clone())).await.map(drop)
        }
        Task::NotReady(pod, uid) => {
            let patch = condition_patch(uid, "Ready", ("False", "", ""), None, wall);
            patch_pod_status(client, pod, PatchType::StrategicMerge, patch).await
        }
        Task::Evict(eviction) => evict(client, eviction).await,
    }
}

async fn patch_status(client: &Client, node: &str, patch: Vec<u8>) -> Result<(), ClientError> {
    client.patch(&format!("{node}/status"), PatchType::StrategicMerge, Bytes::from(patch)).await.map(drop)
}

/// Writes on the pod why it goes, then deletes it.
async fn evict(client: &Client, eviction: &Eviction) -> Result<(), ClientError> {
    let Eviction { pod, uid, cause, terminal } = eviction;
    let wall = client.clock().now();
    let patch = match cause {
        Cause::Taint => {
            let why = ("True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
            Some(condition_patch(uid, "DisruptionTarget", why, None, wall))
        }
        Cause::NodeGone | Cause::OutOfService if *terminal => None,
        Cause::NodeGone => {
            let why = ("True", "DeletionByPodGC", "PodGC: node no longer exists");
            Some(condition_patch(uid, "DisruptionTarget", why, Some("Failed"), wall))
        }
        Cause::OutOfService => {
            Some(format!(r#"{{"metadata":{{"uid":"{uid}"}},"status":{{"phase":"Failed"}}}}"#).into_bytes())
        }
    };
    if let Some(patch) = patch {
        patch_pod_status(client, pod, PatchType::StrategicMerge, patch).await?;
    }
    delete_pod(client, pod, uid, *cause != Cause::Taint).await
}
