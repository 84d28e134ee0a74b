//! The page's own watches: of the owners of pods, and of pods.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use muster_machinery::{Cached, Change, queue::Priority};
use muster_objects::{Deployment, ReplicaSet, ReplicationController};
use muster_runtime::client::Client;
use muster_runtime::informer::{Handler, Informers, Store, WatchedResource};
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use tokio::task::JoinSet;

use crate::model::Model;
use crate::pods::Seen;

/// How often at least a cache is compared with the server.
const RESYNC: Duration = Duration::from_secs(3600);

/// Starts the watches.
pub(crate) fn start(client: &Client, tasks: &mut JoinSet<()>) -> Arc<Model> {
    let mut informers = Informers::new(client.clone(), RESYNC, OsRng.try_next_u64().unwrap_or_default());
    // The handlers are made before what they tell.
    let told: Arc<OnceLock<Arc<Model>>> = Arc::default();
    let deployments =
        follow::<Deployment>(&mut informers, &WatchedResource::deployments(), &told, Model::deployments_changed);
    let sets = follow::<ReplicaSet>(&mut informers, &WatchedResource::replicasets(), &told, Model::sets_changed);
    let resource = WatchedResource::replicationcontrollers();
    let controllers = follow::<ReplicationController>(&mut informers, &resource, &told, Model::controllers_changed);
    let pods = follow::<Seen>(&mut informers, &WatchedResource::pods(), &told, Model::pods_changed);
    let model = Arc::new(Model::new((deployments, sets, controllers, pods), client.clone()));
    let _ = told.set(Arc::clone(&model));
    for run in informers.into_runs() {
        tasks.spawn(run);
    }
    model
}

fn follow<T: Cached>(
    informers: &mut Informers,
    resource: &WatchedResource,
    model: &Arc<OnceLock<Arc<Model>>>,
    tell: fn(&Model, &[Change<T>]),
) -> Store<T> {
    let informer = informers.of::<T>(resource);
    informer.add_handler(Telling { model: Arc::clone(model), tell });
    informer.store()
}

struct Telling<T> {
    model: Arc<OnceLock<Arc<Model>>>,
    tell: fn(&Model, &[Change<T>]),
}

impl<T: Cached> Handler<T> for Telling<T> {
    fn changed(&mut self, changes: &[Change<T>], _priority: Priority) {
        if let Some(model) = self.model.get() {
            (self.tell)(model, changes);
        }
    }
}
