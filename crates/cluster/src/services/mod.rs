//! Endpoints and EndpointSlices: which pods stand behind each Service (API-27).
//!
//! ```text
//!   Service, its pods, their nodes --+--> slices::decide ----> EndpointSlices created, patched, deleted
//!                                    +--> endpoints::decide -> the Endpoints of the Service's name
//! ```
//!
//! The two are the `endpointslice-controller` and the `endpoints-controller` of kube-controller-manager, each with a
//! queue of Services. Where a Service selects nothing, `mirror` makes slices of the Endpoints that somebody else keeps. `default/kubernetes` has no selector: the API server itself keeps what belongs to it.

mod endpoints;
mod mirror;
mod ranges;
mod repack;
mod slices;
#[cfg(test)]
mod tests;
mod trigger;
mod wire;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use muster_machinery::{Cache, Change};
use muster_objects::{Meta, Object as _, ObjectKey, Timestamp};
use muster_runtime::client::{Client, ClientError};
use muster_runtime::informer::{Store, WatchedResource};
use muster_runtime::workers::Queue;

use self::endpoints::EndpointsWrite;
pub(crate) use self::mirror::mirror_endpoints;
pub(crate) use self::ranges::keep_ranges;
use self::slices::SlicePlan;
use self::trigger::TriggerTimes;
use self::wire::{EndpointSlice, Endpoints, Keeper, Service};
use crate::control::{Again, Control, Frame, Setup, Slim, Trouble, Writes};
use crate::node::Node;
use crate::pod::{Pod, PodIndexes};

/// How many Services are synced at once.
const WORKERS: usize = 5;
/// How long after an EndpointSlice was changed by somebody its Service is looked at.
const SLICE_CHANGED: Duration = Duration::from_secs(1);
/// The label by which a node says in which zone it is.
const ZONE: &str = "topology.kubernetes.io/zone";

fn services() -> WatchedResource {
    WatchedResource::new("", "v1", "services")
}

fn slices() -> WatchedResource {
    WatchedResource::new("discovery.k8s.io", "v1", "endpointslices")
}

fn all_endpoints() -> WatchedResource {
    WatchedResource::new("", "v1", "endpoints")
}

/// Sets up the `endpointslice-controller`.
pub(crate) fn keep_slices(frame: &mut Frame<'_>) {
    if !frame.serves(&services()) || !frame.serves(&slices()) {
        return;
    }
    let client = frame.client.clone();
    let mut setup = frame.controller("endpoint_slice");
    let world = World::watched(&mut setup);
    let nodes = setup.read::<Node>(&WatchedResource::new("", "v1", "nodes"));
    let slices = setup.watch::<Slim<EndpointSlice>>(&slices(), |change, queue| {
        let meta = change.object().meta();
        if let Some(service) = Keeper::Pods.service_of(meta) {
            queue.add_after(ObjectKey::new(Arc::clone(&meta.namespace), service), SLICE_CHANGED);
        }
    });
    setup.run(WORKERS, SliceControl { client, world, nodes, slices, times: Mutex::default() });
}

/// Sets up the `endpoints-controller`.
pub(crate) fn keep_endpoints(frame: &mut Frame<'_>) {
    if !frame.serves(&services()) || !frame.serves(&all_endpoints()) {
        return;
    }
    let client = frame.client.clone();
    let mut setup = frame.controller("endpoint");
    let world = World::watched(&mut setup);
    let endpoints = setup.watch::<Slim<Endpoints>>(&all_endpoints(), |change, queue| {
        if let Change::Deleted { last, .. } = change {
            queue.add([last.meta.key()]);
        }
    });
    setup.run(WORKERS, EndpointsControl { client, world, endpoints, times: Mutex::default() });
}

/// What both controllers look at.
struct World {
    services: Store<Slim<Service>>,
    pods: Store<Pod>,
}

impl World {
    fn watched(setup: &mut Setup<'_>) -> Self {
        let services = setup.watch_own::<Slim<Service>>(&services());
        let seen = services.clone();
        let pods = setup.watch::<Pod>(&WatchedResource::pods(), move |change, queue: &Queue| {
            let concerned = concerned(change, &seen.read());
            if !concerned.is_empty() {
                queue.add(concerned);
            }
        });
        Self { services, pods }
    }

    /// A Service that pods are to be found for, and the pods that it selects. None where it does not exist, and
    /// [`Found::Foreign`] where its addresses are somebody else's business.
    fn find(&self, key: &ObjectKey) -> Found {
        let Some(service) = self.services.read().get(key).cloned() else { return Found::Gone };
        let Some(selector) = service.body.selector.as_ref().filter(|_| !service.body.is_external_name()) else {
            return Found::Foreign;
        };
        let pods = PodIndexes::selected(&self.pods.read(), &key.namespace, selector);
        Found::Service(service, pods)
    }
}

/// What a key stands for.
enum Found {
    Gone,
    Foreign,
    Service(Arc<Slim<Service>>, Vec<Arc<Pod>>),
}

/// The Services whose endpoints a change of a pod may change.
fn concerned(change: &Change<Pod>, services: &Cache<Slim<Service>>) -> BTreeSet<ObjectKey> {
    match change {
        Change::Added(pod) | Change::Deleted { last: pod, .. } => wire::selecting(services, &pod.meta),
        Change::Updated { old, new } => {
            let same = old.meta.uid == new.meta.uid;
            let extras = |pod: &Pod| (pod.extras().hostname.clone(), pod.extras().subdomain.clone());
            let moved = old.meta.labels != new.meta.labels || extras(old) != extras(new);
            let changed = !same
                || old.meta.is_being_deleted() != new.meta.is_being_deleted()
                || old.status.ready != new.status.ready
                || old.status.pod_ips != new.status.pod_ips
                || old.is_terminal() != new.is_terminal();
            if !changed && !moved {
                return BTreeSet::new();
            }
            let mut selecting = wire::selecting(services, &new.meta);
            if !same || old.meta.labels != new.meta.labels {
                selecting.append(&mut wire::selecting(services, &old.meta));
            }
            selecting
        }
    }
}

/// The `endpointslice-controller`.
struct SliceControl {
    client: Client,
    world: World,
    nodes: Store<Node>,
    slices: Store<Slim<EndpointSlice>>,
    times: Mutex<TriggerTimes>,
}

impl Control for SliceControl {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let (service, pods) = match self.world.find(key) {
                Found::Service(service, pods) => (service, pods),
                Found::Gone => {
                    forget(&self.times, key);
                    return Ok(Again::Never);
                }
                Found::Foreign => return Ok(Again::Never),
            };
            let changed_at = changed_at(&self.times, &service.meta, &pods);
            let plan = {
                let (slices, nodes) = (self.slices.read(), self.nodes.read());
                let existing = wire::SliceIndexes::of_service(&slices, Keeper::Pods, key);
                let zone = |node: &str| {
                    nodes.get_named("", node).map(|node| node.meta.labels.get(ZONE).unwrap_or_default().to_owned())
                };
                slices::decide(&service, &pods, &existing, zone, changed_at)
            };
            let writes = Writes { client: &self.client, store: &self.slices };
            write(&writes, &key.namespace, &plan).await?;
            // A pod whose node is not known has no endpoint yet.
            if plan.incomplete { Err(Trouble::NotYet) } else { Ok(Again::Never) }
        })
    }
}

/// Writes what is planned for the slices of a Service.
async fn write(writes: &Writes<'_, Slim<EndpointSlice>>, namespace: &str, plan: &SlicePlan) -> Result<(), ClientError> {
    for slice in &plan.create {
        writes.create(&slices().collection(Some(namespace)), slice).await?;
    }
    for (name, patch) in &plan.update {
        writes.merge(&slices().object(Some(namespace), name), patch).await?;
    }
    for (name, uid) in &plan.delete {
        writes.delete(&slices().object(Some(namespace), name), uid).await?;
    }
    Ok(())
}

/// The `endpoints-controller`.
struct EndpointsControl {
    client: Client,
    world: World,
    endpoints: Store<Slim<Endpoints>>,
    times: Mutex<TriggerTimes>,
}

impl Control for EndpointsControl {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let writes = Writes { client: &self.client, store: &self.endpoints };
            let path = all_endpoints().object(Some(&key.namespace), &key.name);
            let existing = self.endpoints.read().get(key).cloned();
            match self.world.find(key) {
                Found::Gone => {
                    forget(&self.times, key);
                    if let Some(existing) = existing {
                        writes.delete(&path, &existing.meta.uid).await?;
                    }
                }
                Found::Foreign => {}
                Found::Service(service, pods) => {
                    let changed_at = changed_at(&self.times, &service.meta, &pods);
                    match endpoints::decide(&service, &pods, existing.as_deref(), changed_at) {
                        None => {}
                        Some(EndpointsWrite::Create(object)) => {
                            writes.create(&all_endpoints().collection(Some(&key.namespace)), &object).await?;
                        }
                        Some(EndpointsWrite::Patch(patch)) => writes.merge(&path, &patch).await?,
                    }
                }
            }
            Ok(Again::Never)
        })
    }
}

fn changed_at(times: &Mutex<TriggerTimes>, service: &Meta, pods: &[Arc<Pod>]) -> Option<Timestamp> {
    times.lock().unwrap_or_else(PoisonError::into_inner).changed_at(service, pods)
}

fn forget(times: &Mutex<TriggerTimes>, key: &ObjectKey) {
    times.lock().unwrap_or_else(PoisonError::into_inner).forget(key);
}
