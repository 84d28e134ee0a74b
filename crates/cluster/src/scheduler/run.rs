//! The scheduler at work: feeds the state machine and binds pods side by side.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use muster_machinery::TokenBucket;
use muster_objects::{Moment, ObjectKey, Uid};
use muster_runtime::client::{Client, PatchType};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinError, JoinSet};

use super::{Decision, Scheduler};
use crate::api::{EventQueue, binding, condition_patch, outcome, patch_pod_status, pod_path};
use crate::control::Slim;
use crate::events::{EventType, scheduler_event};
use crate::feed::{Batch, parts};
use crate::kubelet::{Outcome, sleep_until};
use crate::namespaces::Namespace;
use crate::node::Node;
use crate::pod::Pod;
use crate::volumes::{Claim, Class, Volume};

/// How many writes are under way at once.
const SIDE_BY_SIDE: usize = 128;
/// Events: this many in a burst, and one more each interval.
const EVENT_BURST: u32 = 100;
const EVENT_INTERVAL: Duration = Duration::from_millis(20);

/// What the scheduler is told.
pub(crate) enum Input {
    /// Pods changed.
    Pods(Batch<Pod>),
    /// Nodes changed.
    Nodes(Batch<Node>),
    /// Namespaces changed.
    Namespaces(Batch<Namespace>),
    /// Claims changed.
    Claims(Batch<Slim<Claim>>),
    /// Volumes changed.
    Volumes(Batch<Slim<Volume>>),
    /// Classes of volumes changed.
    Classes(Batch<Slim<Class>>),
}

/// What came of a write.
enum Landed {
    Binding(Uid, Outcome),
    Volumes(Uid, Outcome),
    Condition,
}

/// Runs the scheduler for as long as it is fed. Nothing is scheduled before all was `read` that there is: what is not known yet
/// may forbid it. Nor before there was a node: a cluster that is meant to have none is left to whoever schedules it.
pub(crate) async fn run(
    mut scheduler: Scheduler,
    mut input: UnboundedReceiver<Input>,
    read: impl Future<Output = ()>,
    client: Client,
    events: Option<EventQueue>,
) {
    let mut read = pin!(read);
    let mut is_read = false;
    let clock = client.clock();
    let mut teller = Teller { events, limit: TokenBucket::new(EVENT_INTERVAL, EVENT_BURST) };
    let mut flights: JoinSet<Landed> = JoinSet::new();
    let mut any_node = false;
    loop {
        // What is told comes first below: writes that came back must not wait for a pause in it.
        while let Some(landing) = flights.try_join_next() {
            landed(&mut scheduler, clock.moment(), landing);
        }
        while is_read && any_node && flights.len() < SIDE_BY_SIDE {
            let Some(decision) = scheduler.next(clock.moment()) else { break };
            teller.tell(&client, &decision);
            match decision {
                Decision::Unschedulable { known: true, .. } => {}
                decision => {
                    flights.spawn(Box::pin(perform(client.clone(), decision)));
                }
            }
        }
        let wake = scheduler.wake().map(|moment| clock.instant(moment));
        tokio::select! {
            biased;
            batch = input.recv() => match batch {
                Some(Input::Pods(batch)) => take_pods(&mut scheduler, &client, &batch),
                Some(Input::Nodes(batch)) => any_node |= take_nodes(&mut scheduler, &client, &batch),
                Some(told) => take_others(&mut scheduler, clock.moment(), &told),
                None => return,
            },
            // What was told of it is taken in before.
            () = &mut read, if !is_read => is_read = true,
            Some(landing) = flights.join_next() => landed(&mut scheduler, clock.moment(), landing),
            () = sleep_until(wake), if is_read && wake.is_some() && flights.len() < SIDE_BY_SIDE => {}
        }
    }
}

fn landed(scheduler: &mut Scheduler, now: Moment, landing: Result<Landed, JoinError>) {
    match landing {
        Ok(Landed::Binding(uid, Outcome::Done)) => scheduler.bound(&uid),
        Ok(Landed::Binding(uid, outcome)) => scheduler.bind_failed(now, &uid, outcome == Outcome::Gone),
        Ok(Landed::Volumes(uid, Outcome::Done)) => scheduler.volumes_asked(now, &uid),
        Ok(Landed::Volumes(uid, _)) => scheduler.bind_failed(now, &uid, false),
        Ok(Landed::Condition) | Err(_) => {}
    }
}

fn take_others(scheduler: &mut Scheduler, now: Moment, told: &Input) {
    match told {
        Input::Namespaces(batch) => {
            for change in batch.iter() {
                match parts(change) {
                    (_, Some(namespace)) => {
                        scheduler.namespace_changed(now, &namespace.meta.name, &namespace.meta.labels);
                    }
                    (gone, None) => gone.into_iter().for_each(|gone| scheduler.namespace_deleted(&gone.meta.name)),
                }
            }
        }
        Input::Claims(batch) => {
            for change in batch.iter() {
                match parts(change) {
                    (_, Some(claim)) => scheduler.claim_changed(now, claim),
                    (gone, None) => gone.into_iter().for_each(|gone| scheduler.claim_deleted(now, &gone.meta.key())),
                }
            }
        }
        Input::Volumes(batch) => {
            for change in batch.iter() {
                match parts(change) {
                    (_, Some(volume)) => scheduler.volume_changed(now, volume),
                    (gone, None) => gone.into_iter().for_each(|gone| scheduler.volume_deleted(now, &gone.meta.key())),
                }
            }
        }
        Input::Classes(batch) => {
            for change in batch.iter() {
                match parts(change) {
                    (_, Some(class)) => scheduler.class_changed(now, class),
                    (gone, None) => gone.into_iter().for_each(|gone| scheduler.class_deleted(now, &gone.meta.key())),
                }
            }
        }
        Input::Pods(_) | Input::Nodes(_) => {}
    }
}

fn take_pods(scheduler: &mut Scheduler, client: &Client, batch: &Batch<Pod>) {
    let now = client.clock().moment();
    for change in batch.iter() {
        let (gone, pod) = parts(change);
        if let Some(gone) = gone {
            scheduler.pod_deleted(now, &gone.meta.uid);
        }
        if let Some(pod) = pod {
            scheduler.pod_changed(now, pod);
        }
    }
}

fn take_nodes(scheduler: &mut Scheduler, client: &Client, batch: &Batch<Node>) -> bool {
    let now = client.clock().moment();
    let mut any = false;
    for change in batch.iter() {
        let (gone, node) = parts(change);
        if let Some(gone) = gone {
            scheduler.node_deleted(now, &gone.meta.name);
        }
        if let Some(node) = node {
            // Nodes that nobody simulates are scheduled to as well, once the cluster has its own.
            any |= node.simulated;
            scheduler.node_changed(now, node.clone());
        }
    }
    any
}

async fn perform(client: Client, decision: Decision) -> Landed {
    match decision {
        Decision::BindVolumes { uid, writes } => {
            for write in writes.0 {
                let (path, patch) = write.request();
                let body = Bytes::from(patch.to_string());
                if let Err(error) = client.patch_metadata(&path, PatchType::Merge, body).await {
                    tracing::debug!(path, %error, "a volume was not bound");
                    return Landed::Volumes(uid, Outcome::Failed);
                }
            }
            Landed::Volumes(uid, Outcome::Done)
        }
        Decision::Bind { pod, uid, node } => {
            let answer = client.post(&pod_path(&pod, "/binding"), binding(&pod, &uid, &node)).await;
            let outcome = match answer {
                Ok(_) => Outcome::Done,
                Err(error) if error.is_not_found() => Outcome::Gone,
                // Someone else bound it, or it is being deleted: the watch says which.
                Err(error) => {
                    tracing::debug!(%pod, %error, "a binding was refused");
                    Outcome::Failed
                }
            };
            Landed::Binding(uid, outcome)
        }
        Decision::Unschedulable { pod, uid, message, .. } => {
            let says = ("False", "Unschedulable", &*message);
            let patch = condition_patch(&uid, "PodScheduled", says, None, client.clock().now());
            outcome(
                "say that a pod fits nowhere",
                &pod,
                patch_pod_status(&client, &pod, PatchType::StrategicMerge, patch).await,
            );
            Landed::Condition
        }
    }
}

/// Tells of decisions by events, as many as the limit lets through.
struct Teller {
    events: Option<EventQueue>,
    limit: TokenBucket,
}

impl Teller {
    fn tell(&mut self, client: &Client, decision: &Decision) {
        let Some(events) = &self.events else { return };
        let scheduled: String;
        let (pod, uid, what, message): (&ObjectKey, &Uid, _, &str) = match decision {
            Decision::Bind { pod, uid, node } => {
                scheduled = format!("Successfully assigned {pod} to {node}");
                (pod, uid, (EventType::Normal, "Scheduled", "Binding"), &scheduled)
            }
            Decision::Unschedulable { known: true, .. } | Decision::BindVolumes { .. } => return,
            Decision::Unschedulable { pod, uid, message, .. } => {
                (pod, uid, (EventType::Warning, "FailedScheduling", "Scheduling"), message)
            }
        };
        if self.limit.try_take(client.clock().moment()) {
            let wall = client.clock().now();
            events.put(&pod.namespace, wall, |number| scheduler_event(pod, uid, what, message, wall, number));
        }
    }
}
