//! One watch of each kind's metadata, as kinds come and go, for whoever has to know of objects of every kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use muster_machinery::Change;
use muster_runtime::client::Client;
use muster_runtime::informer::{Informer, Store, WatchedResource};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::feed::{Batch, Fan};
use crate::kinds::{Kind, Kinds};
use crate::metadata::PartialObject;

/// Hears of the changes of each kind. It must not wait.
type Listener = Arc<dyn Fn(&Kind, &Batch<PartialObject>) + Send + Sync>;

/// Who listens.
#[derive(Default)]
pub(crate) struct Everything {
    listeners: Vec<Listener>,
}

/// A kind that is followed.
struct Followed {
    kind: Kind,
    store: Store<PartialObject>,
    task: AbortHandle,
}

impl Everything {
    /// Adds a listener.
    pub(crate) fn to(&mut self, listener: impl Fn(&Kind, &Batch<PartialObject>) + Send + Sync + 'static) {
        self.listeners.push(Arc::new(listener));
    }

    /// Whether nobody listens.
    pub(crate) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Follows every kind that can be collected, but those of events and pods, which others watch whole. `synced` is
    /// called once the kinds that there are at first have been read.
    pub(crate) async fn run(
        self,
        client: Client,
        mut kinds: watch::Receiver<Arc<Kinds>>,
        mut seed: u64,
        synced: impl FnOnce() + Send,
    ) {
        let listeners: Arc<[Listener]> = self.listeners.into();
        let mut tasks: JoinSet<()> = JoinSet::new();
        let mut followed: BTreeMap<WatchedResource, Followed> = BTreeMap::new();
        let mut synced = Some(synced);
        loop {
            let present = kinds.borrow_and_update().clone();
            followed.retain(|resource, followed| {
                let stays = present.iter().any(|kind| is_followed(kind) && kind.resource == *resource);
                if !stays {
                    followed.task.abort();
                    tell_gone(followed, &listeners);
                }
                stays
            });
            for kind in present.iter().filter(|kind| is_followed(kind)) {
                if followed.contains_key(&kind.resource) {
                    continue;
                }
                seed = seed.wrapping_add(1);
                let resource = kind.resource.clone().metadata();
                let mut informer = Informer::new(client.clone(), resource, Duration::ZERO, seed);
                let store = informer.store();
                let (told, of) = (Arc::clone(&listeners), kind.clone());
                let mut fan: Fan<PartialObject> = Fan::default();
                fan.to(move |batch| told.iter().for_each(|listener| listener(&of, &batch)));
                fan.attach(&mut informer);
                let task = tasks.spawn(informer.run());
                followed.insert(kind.resource.clone(), Followed { kind: kind.clone(), store, task });
            }
            if let Some(synced) = synced.take() {
                let stores: Vec<Store<PartialObject>> =
                    followed.values().map(|followed| followed.store.clone()).collect();
                join_all(stores.iter().map(Store::synced)).await;
                synced();
            }
            if kinds.changed().await.is_err() {
                // They stay what they are; the watches go on.
                std::future::pending::<()>().await;
            }
            while tasks.try_join_next().is_some() {}
        }
    }
}

fn is_followed(kind: &Kind) -> bool {
    kind.preferred && kind.collectable && !kind.is_event() && kind.resource != WatchedResource::pods()
}

/// The objects of a kind that is served no more are gone.
fn tell_gone(followed: &Followed, listeners: &[Listener]) {
    let gone = |object: &Arc<PartialObject>| Change::Deleted { last: Arc::clone(object), tombstone: true };
    let batch: Batch<PartialObject> = followed.store.read().iter().map(gone).collect();
    if !batch.is_empty() {
        listeners.iter().for_each(|listener| listener(&followed.kind, &batch));
    }
}
