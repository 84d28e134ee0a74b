//! Garbage collection by owner reference (API-19): the graph at work.
//!
//! ```text
//!   metadata watches --> Graph --> queue --> judge --> requests side by side --> what they found --> Graph
//! ```
//!
//! Semantics are those of upstream's collector. What differs is how often the server is asked: where a
//! watch has seen an owner or a dependent, the graph's word is taken, and the delete carries the uid and
//! the resourceVersion at which it was true. Only on a conflict, or for what no watch has seen, is the
//! object itself read.

mod graph;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;

use muster_machinery::{WorkQueue, queue::Namespaced};
use muster_objects::event::{EventType, ObjectReference};
use muster_objects::{Moment, Uid};
use muster_runtime::client::Client;
use muster_runtime::events::EventSink;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

pub use self::graph::{Case, Graph, Identity, Judgement, Observed, Owner};
use self::work::{Found, Job};
use crate::feed::{Batch, parts};
use crate::kinds::Kinds;
use crate::kubelet::sleep_until;
use crate::metadata::PartialObject;
use crate::pod::Pod;

/// Who its events are from.
const COMPONENT: &str = "garbage-collector-controller";
/// How many objects are worked on at once.
const SIDE_BY_SIDE: usize = 64;

/// What the collector is told.
pub(crate) enum Input {
    /// Pods changed.
    Pods(Batch<Pod>),
    /// Objects of a kind changed: its API version, its name, and the changes.
    Objects(Arc<str>, Arc<str>, Batch<PartialObject>),
    /// Every watch has read its first list.
    Synced,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Delete(Uid),
    Orphan(Uid),
}

/// A uid does not say where its object is: first in, first out.
impl Namespaced for Key {
    type Namespace = ();

    fn namespace(&self) -> &() {
        &()
    }
}

/// Runs the collector for as long as it is fed.
pub(crate) async fn run(
    mut input: UnboundedReceiver<Input>,
    client: Client,
    kinds: watch::Receiver<Arc<Kinds>>,
    events: EventSink,
) {
    let clock = client.clock();
    let mut collector = Collector::default();
    let mut flights: JoinSet<(Key, Found)> = JoinSet::new();
    loop {
        // What is told comes first below: jobs that are done must not wait for a pause in it.
        while let Some(done) = flights.try_join_next() {
            collector.landed(done, clock.moment());
        }
        collector.queue_up(clock.moment());
        while flights.len() < SIDE_BY_SIDE {
            let Some((key, job)) = collector.next(clock.moment()) else { break };
            let (client, kinds) = (client.clone(), kinds.borrow().clone());
            flights.spawn(async move { (key, job.run(&client, &kinds).await) });
        }
        let wake = collector.wake(clock.moment()).map(|moment| clock.instant(moment));
        tokio::select! {
            biased;
            told = input.recv() => match told {
                Some(told) => {
                    collector.take(told);
                    for (dependent, owner) in collector.graph.misplaced.drain(..) {
                        warn(&events, &dependent, &owner);
                    }
                }
                None => return,
            },
            Some(done) = flights.join_next() => collector.landed(done, clock.moment()),
            () = sleep_until(wake), if wake.is_some() && flights.len() < SIDE_BY_SIDE => {}
        }
    }
}

/// Warns of a dependent whose owner is in another namespace, in the reference's words.
fn warn(events: &EventSink, dependent: &Identity, owner: &Identity) {
    let Identity { api_version, kind, namespace, name, uid } = dependent;
    let about = ObjectReference {
        api_version: api_version.to_string(),
        kind: kind.to_string(),
        namespace: namespace.to_string(),
        name: name.to_string(),
        uid: uid.clone(),
        ..ObjectReference::default()
    };
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
        owner.api_version, owner.kind, owner.namespace, owner.name, owner.uid, &**namespace
    );
    events.emit(about, COMPONENT, EventType::Warning, "OwnerRefInvalidNamespace", message);
}

#[derive(Default)]
struct Collector {
    graph: Graph,
    queue: WorkQueue<Key>,
    synced: bool,
    /// `v1` and `Pod`, shared by every pod in the graph.
    pod: Option<(Arc<str>, Arc<str>)>,
}

impl Collector {
    fn take(&mut self, told: Input) {
        match told {
            Input::Pods(batch) => {
                let (api_version, kind) = self.pod.get_or_insert_with(|| ("v1".into(), "Pod".into())).clone();
                for change in batch.iter() {
                    let (gone, pod) = parts(change);
                    if let Some(gone) = gone {
                        self.graph.deleted(&gone.meta.uid);
                    }
                    if let Some(pod) = pod {
                        let Pod { meta, owners, finalizers, .. } = &**pod;
                        let (api_version, kind, finalizers) = (&api_version, &kind, *finalizers);
                        self.graph.changed(Observed { api_version, kind, meta, owners, finalizers });
                    }
                }
            }
            Input::Objects(api_version, kind, batch) => {
                for change in batch.iter() {
                    let (gone, object) = parts(change);
                    if let Some(gone) = gone {
                        self.graph.deleted(&gone.meta.uid);
                    }
                    if let Some(object) = object {
                        let PartialObject { meta, owners, finalizers } = &**object;
                        let (api_version, kind, finalizers) = (&api_version, &kind, *finalizers);
                        self.graph.changed(Observed { api_version, kind, meta, owners, finalizers });
                    }
                }
            }
            Input::Synced => self.synced = true,
        }
    }

    fn queue_up(&mut self, now: Moment) {
        while let Some(uid) = self.graph.to_orphan.pop_front() {
            self.queue.add(Key::Orphan(uid), now);
        }
        while let Some(uid) = self.graph.to_delete.pop_front() {
            self.queue.add(Key::Delete(uid), now);
        }
    }

    /// The next job that takes requests. Before every watch has been read nothing is concluded.
    fn next(&mut self, now: Moment) -> Option<(Key, Job)> {
        while self.synced {
            let key = self.queue.get(now)?;
            let job = match &key {
                Key::Orphan(uid) => self.graph.orphans(uid).map(|(owner, dependents)| Job::Orphan(owner, dependents)),
                Key::Delete(uid) => match self.graph.judge(uid) {
                    Judgement::Leave => None,
                    Judgement::LookUp(identity) => Some(Job::LookUp(identity)),
                    Judgement::Finish(identity) => Some(Job::Finish(identity)),
                    Judgement::Classify(case) => Job::of(case),
                },
            };
            // A judgement may bring others up.
            self.queue_up(now);
            match job {
                Some(job) => return Some((key, job)),
                None => {
                    self.queue.forget(&key);
                    self.queue.done(&key, now);
                }
            }
        }
        None
    }

    fn wake(&self, now: Moment) -> Option<Moment> {
        if self.synced { self.queue.next_wakeup(now) } else { None }
    }

    fn landed(&mut self, done: Result<(Key, Found), JoinError>, now: Moment) {
        if let Ok((key, found)) = done {
            self.done(&key, found, now);
        }
    }

    fn done(&mut self, key: &Key, found: Found, now: Moment) {
        for identity in found.absent {
            self.graph.remember_absent(identity);
        }
        if let Some(identity) = &found.gone {
            self.graph.found_absent(identity);
        }
        let (Key::Delete(uid) | Key::Orphan(uid)) = key;
        // What exists though no watch has seen it will be seen, or was deleted meanwhile.
        let unseen = found.gone.is_none() && matches!(key, Key::Delete(_)) && self.graph.is_virtual(uid);
        if found.again || unseen && !found.hopeless {
            self.queue.add_rate_limited(key.clone(), now);
        } else {
            self.queue.forget(key);
        }
        self.queue.done(key, now);
        self.queue_up(now);
    }
}
