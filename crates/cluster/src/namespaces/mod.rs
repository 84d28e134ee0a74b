//! Namespaces: emptied and removed when they are deleted, furnished while they live (API-20).
//!
//! ```text
//!   deletionTimestamp --> Terminating --> pods deleted --> all else deleted --> finalizer taken --> gone
//!   Active -------------> ServiceAccount default, ConfigMap kube-root-ca.crt: made, and made again
//! ```

mod furnish;
mod terminate;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_machinery::{Cached, WorkQueue, queue::Namespaced};
use muster_objects::{DecodeError, Interner, Meta, Object};
use muster_runtime::client::{Client, ClientError};
use muster_runtime::informer::WatchedResource;
use serde::Deserialize;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::feed::{Batch, parts};
use crate::json::{Text, list, or_default};
use crate::kinds::Kinds;
use crate::kubelet::sleep_until;
use crate::metadata::{PartialObject, WireMeta};

/// How many namespaces are worked on at once.
const SIDE_BY_SIDE: usize = 10;
/// How long a namespace whose content is going is left alone at first; doubled up to the second.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(2);

/// A namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Its metadata, labels included.
    pub meta: Meta,
    /// Whether its phase is Terminating.
    pub terminating: bool,
    /// Whether `kubernetes` still stands among the finalizers of its spec.
    pub kept: bool,
}

impl Object for Namespace {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Namespace";

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, default)]
            metadata: WireMeta<'a>,
            #[serde(borrow, default, deserialize_with = "or_default")]
            spec: Spec<'a>,
            #[serde(borrow, default, deserialize_with = "or_default")]
            status: Status<'a>,
        }
        #[derive(Deserialize, Default)]
        struct Spec<'a> {
            #[serde(borrow, default, deserialize_with = "list")]
            finalizers: Vec<Text<'a>>,
        }
        #[derive(Deserialize, Default)]
        struct Status<'a> {
            #[serde(borrow)]
            phase: Option<Text<'a>>,
        }
        let wire: Wire<'_> = muster_objects::json::from_slice(json).map_err(DecodeError::of("Namespace"))?;
        let (meta, _, _) = wire.metadata.read(interner, true);
        let terminating = wire.status.phase.as_deref() == Some("Terminating");
        Ok(Self { meta, terminating, kept: wire.spec.finalizers.iter().any(|finalizer| &**finalizer == "kubernetes") })
    }
}

impl Cached for Namespace {
    type Indexes = ();
}

/// What every living namespace gets.
#[derive(Debug, Clone, Default)]
pub struct Furniture {
    /// The certificate authority for ConfigMap `kube-root-ca.crt`, in PEM; without it that is not made.
    pub ca: Option<String>,
    /// Whether ServiceAccount `default` is made.
    pub service_account: bool,
}

/// What the loop is told.
pub(crate) enum Input {
    /// Namespaces changed.
    Namespaces(Batch<Namespace>),
    /// ConfigMaps `kube-root-ca.crt` or ServiceAccounts `default` changed.
    Furniture(Batch<PartialObject>),
}

/// The watch of all namespaces.
pub(crate) fn resource() -> WatchedResource {
    WatchedResource::new("", "v1", "namespaces")
}

/// The watches of what every namespace gets.
pub(crate) fn furniture_resources() -> [WatchedResource; 2] {
    [("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")].map(|(plural, name)| {
        let mut resource = WatchedResource::new("", "v1", plural).metadata();
        resource.field_selector = format!("metadata.name={name}");
        resource
    })
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Terminate(Arc<str>),
    Furnish(Arc<str>),
}

/// Namespaces are objects of no namespace: first in, first out.
impl Namespaced for Key {
    type Namespace = ();

    fn namespace(&self) -> &() {
        &()
    }
}

/// Where a namespace stands after it was worked on.
enum Step {
    /// Done, as far as can be.
    Done,
    /// Content is still going.
    Wait,
    /// It did not work.
    Failed,
}

/// Deletes one namespace with all that is in it, for who cannot leave that to a controller: it works with one beside
/// it as well. Tries again where something did not work, so that its caller limits the time. One that is not there is
/// removed already.
///
/// # Errors
/// Where the server refuses to delete the namespace.
pub async fn remove(client: &Client, kinds: &Kinds, name: &str) -> Result<(), ClientError> {
    match client.delete(&format!("/api/v1/namespaces/{name}"), None).await {
        Err(error) if error.is_not_found() => return Ok(()),
        // 409: it is being removed already.
        Err(error) if !error.is_conflict() => return Err(error),
        _ => {}
    }
    let mut look = FIRST_LOOK;
    while !matches!(terminate::step(client, kinds, name).await, Step::Done) {
        tokio::time::sleep(look).await;
        look = (look * 2).min(LAST_LOOK);
    }
    Ok(())
}

/// Runs the loop for as long as it is fed. Without `terminate` namespaces are only furnished; it is how long one that is
/// deleted is left alone, for others who empty it.
pub(crate) async fn run(
    mut input: UnboundedReceiver<Input>,
    client: Client,
    kinds: watch::Receiver<Arc<Kinds>>,
    furniture: Option<Furniture>,
    terminate: Option<Duration>,
) {
    let clock = client.clock();
    let furniture = furniture.map(Arc::new);
    let mut queue: WorkQueue<Key> = WorkQueue::new();
    let mut living: BTreeMap<Arc<str>, bool> = BTreeMap::new();
    let mut looks: BTreeMap<Arc<str>, Duration> = BTreeMap::new();
    let mut flights: JoinSet<(Key, Step)> = JoinSet::new();
    loop {
        while flights.len() < SIDE_BY_SIDE {
            let Some(key) = queue.get(clock.moment()) else { break };
            let (client, kinds, furniture) = (client.clone(), kinds.borrow().clone(), furniture.clone());
            flights.spawn(async move {
                let step = match (&key, furniture) {
                    (Key::Terminate(name), _) => terminate::step(&client, &kinds, name).await,
                    (Key::Furnish(name), Some(furniture)) => furnish::step(&client, &furniture, name).await,
                    (Key::Furnish(_), None) => Step::Done,
                };
                (key, step)
            });
        }
        let wake = queue.next_wakeup(clock.moment()).map(|moment| clock.instant(moment));
        tokio::select! {
            biased;
            told = input.recv() => match told {
                Some(Input::Namespaces(batch)) => {
                    for change in batch.iter() {
                        let (gone, namespace) = parts(change);
                        if let Some(gone) = gone {
                            living.remove(&gone.meta.name);
                            looks.remove(&gone.meta.name);
                        }
                        let Some(namespace) = namespace else { continue };
                        let name = Arc::clone(&namespace.meta.name);
                        let alive = !namespace.meta.is_being_deleted() && !namespace.terminating;
                        let before = living.insert(Arc::clone(&name), alive);
                        if alive && before != Some(true) {
                            queue.add(Key::Furnish(name), clock.moment());
                        } else if let Some(grace) = terminate
                            && namespace.meta.is_being_deleted()
                            && namespace.kept
                        {
                            // Only who sees it go for the first time leaves it alone.
                            let grace = if before == Some(false) { Duration::ZERO } else { grace };
                            queue.add_after(Key::Terminate(name), grace, clock.moment());
                        }
                    }
                }
                Some(Input::Furniture(batch)) => {
                    for change in batch.iter() {
                        let namespace = &change.object().meta().namespace;
                        if living.get(namespace) == Some(&true) {
                            queue.add(Key::Furnish(Arc::clone(namespace)), clock.moment());
                        }
                    }
                }
                None => return,
            },
            Some(done) = flights.join_next() => {
                if let Ok((key, step)) = done {
                    match (&key, step) {
                        (Key::Terminate(name), Step::Wait) => {
                            let look = looks.entry(Arc::clone(name)).or_insert(FIRST_LOOK);
                            queue.add_after(key.clone(), *look, clock.moment());
                            *look = (*look * 2).min(LAST_LOOK);
                        }
                        (_, Step::Failed) => {
                            queue.add_rate_limited_at_most(key.clone(), Duration::from_secs(60), clock.moment());
                        }
                        (_, Step::Done | Step::Wait) => queue.forget(&key),
                    }
                    queue.done(&key, clock.moment());
                }
            }
            () = sleep_until(wake), if wake.is_some() && flights.len() < SIDE_BY_SIDE => {}
        }
    }
}
