//! The agents at work: feeds the state machine, does its writes side by side, and tells its events.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_objects::Uid;
use muster_runtime::client::{Client, ClientError, PatchType};
use muster_runtime::informer::WatchedResource;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinError, JoinSet};

use super::{Action, Found, Kubelet, LONGEST_RETRY, Needed, Now, Outcome, Place, RETRY};
use crate::api::{EventQueue, delete_pod, outcome, patch_pod_status};
use crate::events::kubelet_event;
use crate::feed::{Batch, parts};
use crate::metadata::PartialObject;
use crate::node::Node;
use crate::nodes::{Capacity, node_ordinal, place};
use crate::pod::{NeedKind, Pod};
use crate::volumes;

/// How many writes are under way at once.
const SIDE_BY_SIDE: usize = 128;
/// The ordinal from which nodes that were made by hand are counted.
const BY_HAND: u32 = 512;

/// What the agents are told.
pub(crate) enum Input {
    /// Pods changed.
    Pods(Batch<Pod>),
    /// Nodes changed.
    Nodes(Batch<Node>),
    /// Objects of a kind changed that pods may need.
    Objects(NeedKind, Batch<PartialObject>),
}

/// Runs the agents for as long as they are fed.
pub(crate) async fn run(
    mut kubelet: Kubelet,
    mut input: UnboundedReceiver<Input>,
    client: Client,
    capacity: Capacity,
    events: EventQueue,
) {
    let clock = client.clock();
    let now = || Now { moment: clock.moment(), wall: clock.now() };
    let mut places = Places { capacity, by_hand: BTreeMap::new() };
    let mut flights: JoinSet<Landed> = JoinSet::new();
    loop {
        // What is told comes first below: writes that came back must not wait for a pause in it.
        while let Some(done) = flights.try_join_next() {
            landed(&mut kubelet, now(), done);
        }
        while flights.len() < SIDE_BY_SIDE {
            let Some(action) = kubelet.next(now()) else { break };
            // A task is moved about as it is started and ends; a box is small.
            flights.spawn(Box::pin(perform(client.clone(), action)));
        }
        while let Some(event) = kubelet.next_event() {
            let wall = clock.now();
            events.put(&event.pod.namespace, wall, |number| kubelet_event(&event, wall, number));
        }
        let wake = kubelet.wake().map(|moment| clock.instant(moment));
        tokio::select! {
            biased;
            batch = input.recv() => match batch {
                Some(batch) => take(&mut kubelet, &mut places, now(), &batch),
                None => return,
            },
            Some(done) = flights.join_next() => landed(&mut kubelet, now(), done),
            () = sleep_until(wake), if wake.is_some() && flights.len() < SIDE_BY_SIDE => {}
        }
    }
}

/// What became of a request.
enum Landed {
    /// A pod was written to, or deleted.
    Write(Uid, bool, Outcome),
    /// An object was read.
    Read(Needed, Found),
}

fn landed(kubelet: &mut Kubelet, now: Now, done: Result<Landed, JoinError>) {
    match done {
        Ok(Landed::Write(uid, delete, outcome)) => kubelet.done(now, &uid, delete, outcome),
        Ok(Landed::Read(needed, found)) => kubelet.found(now, &needed, found),
        Err(_) => {}
    }
}

/// Sleeps until an instant; without one, for ever.
pub(crate) async fn sleep_until(wake: Option<tokio::time::Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

fn take(kubelet: &mut Kubelet, places: &mut Places, now: Now, input: &Input) {
    match input {
        Input::Pods(batch) => {
            for change in batch.iter() {
                let (gone, pod) = parts(change);
                if let Some(gone) = gone {
                    kubelet.forget(gone);
                }
                if let Some(pod) = pod {
                    kubelet.observe(now, pod);
                }
            }
        }
        Input::Objects(kind, batch) => {
            for change in batch.iter() {
                kubelet.changed(&Needed { kind: *kind, key: change.object().meta.key() });
            }
        }
        Input::Nodes(batch) => {
            for change in batch.iter() {
                let (gone, node) = parts(change);
                if let Some(gone) = gone {
                    kubelet.node_gone(&gone.meta.name);
                }
                if let Some(node) = node.filter(|node| node.simulated) {
                    kubelet.node(now, &node.meta.name, places.of(node), !node.unreachable);
                }
            }
        }
    }
}

async fn perform(client: Client, action: Action) -> Landed {
    match action {
        Action::Read(needed) => {
            let found = read(&client, &needed).await;
            Landed::Read(needed, found)
        }
        Action::Report { pod, uid, patch, whole } => {
            let kind = if whole { PatchType::Merge } else { PatchType::StrategicMerge };
            let answer = patch_pod_status(&client, &pod, kind, patch).await;
            if whole && answer.as_ref().is_err_and(ClientError::is_conflict) {
                return Landed::Write(uid, false, Outcome::Outdated);
            }
            // Were it refused for good, trying again would go on for ever; its next change will be reported.
            if let Err(error) = &answer
                && error.is_invalid()
            {
                tracing::error!(%pod, %error, "a pod's status was refused");
                return Landed::Write(uid, false, Outcome::Done);
            }
            Landed::Write(uid, false, outcome("report a pod's status", &pod, answer))
        }
        Action::Delete { pod, uid } => {
            let answer = delete_pod(&client, &pod, &uid, true).await;
            Landed::Write(uid, true, outcome("delete a stopped pod", &pod, answer))
        }
    }
}

/// Reads what pods need, for as long as it takes.
async fn read(client: &Client, Needed { kind, key }: &Needed) -> Found {
    let resource = match kind {
        NeedKind::Claim => volumes::all_claims(),
        NeedKind::ConfigMap => WatchedResource::new("", "v1", "configmaps"),
        NeedKind::Secret => WatchedResource::new("", "v1", "secrets"),
    };
    let path = resource.object(Some(&key.namespace), &key.name);
    let mut pause = RETRY;
    loop {
        match client.get(&path).await {
            Ok(answer) => match Found::read(*kind, &answer.body) {
                Ok(found) => return found,
                Err(error) => tracing::error!(%key, %error, "what a pod needs cannot be read"),
            },
            Err(error) if error.is_not_found() => return Found::Missing,
            Err(error) => tracing::warn!(%key, %error, "what a pod needs will be read again"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_RETRY);
    }
}

/// Where nodes are: those made by this crate by their ordinals, others after them as they come.
struct Places {
    capacity: Capacity,
    by_hand: BTreeMap<Arc<str>, u32>,
}

impl Places {
    fn of(&mut self, node: &Node) -> Place {
        let name = &node.meta.name;
        let next = BY_HAND + u32::try_from(self.by_hand.len()).unwrap_or(0);
        let ordinal = node_ordinal(name).unwrap_or_else(|| *self.by_hand.entry(Arc::clone(name)).or_insert(next));
        let place = place(ordinal, &self.capacity);
        // The node's own word counts for its address.
        let host = node.address.as_deref().and_then(|address| address.parse().ok());
        Place { host: host.unwrap_or(place.host), ..place }
    }
}
