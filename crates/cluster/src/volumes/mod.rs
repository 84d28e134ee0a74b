//! Volumes: PersistentVolumeClaims and the PersistentVolumes that they are bound to.
//!
//! ```text
//!   claim --> a volume that matches? --> bind: volume.claimRef, volume Bound, claim.volumeName, claim Bound
//!               | none                               ^
//!               +--> its class has a provisioner ----+ a volume is made for it (provision)
//!   claim gone --> volume Released --> Retain: stays   Delete: who made it deletes it
//! ```
//!
//! The binder, the two protectors and the maker of claims for ephemeral volumes are controllers of
//! kube-controller-manager. The provisioner stands in for the
//! programs that make volumes in a real cluster, as the simulated nodes stand in for kubelets.

mod bind;
mod claims;
mod ephemeral;
mod matching;
mod objects;
mod protect;
mod provision;
#[cfg(test)]
mod tests;
mod writes;

use std::sync::Arc;

use futures::future::BoxFuture;
use muster_machinery::Change;
use muster_objects::event::ObjectReference;
use muster_objects::{Interner, Object as _, ObjectKey};
use muster_runtime::client::Client;
use muster_runtime::events::EventSink;
use muster_runtime::informer::{Store, WatchedResource};
use muster_runtime::workers::Queue;

pub(crate) use self::ephemeral::make_claims;
pub(crate) use self::matching::{Near, find_for_node};
pub(crate) use self::objects::{Claim, Class, SELECTED_NODE, Volume};
pub(crate) use self::protect::{decide as protection, protect_claims, protect_volumes};
pub(crate) use self::provision::provision;
use self::writes::{Decision, Note};
pub(crate) use self::writes::{Write, binding, selecting};
use crate::control::{Again, Control, Frame, Slim, Trouble, Writes};
use crate::pod::{Pod, PodIndexes};

/// The name under which the binder tells of what it finds.
const COMPONENT: &str = "persistentvolume-controller";

/// Where claims are served.
pub(crate) fn all_claims() -> WatchedResource {
    WatchedResource::new("", "v1", "persistentvolumeclaims")
}

/// Where volumes are served.
pub(crate) fn all_volumes() -> WatchedResource {
    WatchedResource::new("", "v1", "persistentvolumes")
}

/// Where classes are served.
pub(crate) fn all_classes() -> WatchedResource {
    WatchedResource::new("storage.k8s.io", "v1", "storageclasses")
}

/// Whether the server has all of these.
pub(crate) fn are_served(frame: &Frame<'_>) -> bool {
    [all_claims(), all_volumes(), all_classes()].iter().all(|resource| frame.serves(resource))
}

/// Sets up the `persistentvolume-binder-controller`.
pub(crate) fn bind_volumes(frame: &mut Frame<'_>) {
    if !are_served(frame) {
        return;
    }
    let (client, events) = (frame.client.clone(), frame.events.clone());
    let mut setup = frame.controller("claims");
    let claims = setup.read::<Slim<Claim>>(&all_claims());
    let volumes = setup.read::<Slim<Volume>>(&all_volumes());
    let bound = volumes.clone();
    setup.watch::<Slim<Claim>>(&all_claims(), move |change, queue| {
        let claim = change.object();
        queue.add([claim.meta.key()]);
        // What was bound to one that is gone is free, or released.
        let replaced = matches!(change, Change::Updated { old, new } if old.meta.uid != new.meta.uid);
        if replaced || matches!(change, Change::Deleted { .. }) {
            queue.add(objects::bound_to(&bound.read(), &claim.meta.key()).map(|volume| volume.meta.key()));
        }
    });
    let waiting = claims.clone();
    setup.watch::<Slim<Volume>>(&all_volumes(), move |change, queue| {
        let volume = change.object();
        match &volume.body.claim {
            Some(claim) => queue.add([claim.key(), volume.meta.key()]),
            None => queue.add([volume.meta.key()]),
        }
        queue_waiting(queue, &waiting);
    });
    let waiting = claims.clone();
    let classes = setup.watch::<Slim<Class>>(&all_classes(), move |change, queue| {
        if !matches!(change, Change::Deleted { .. }) {
            queue_waiting(queue, &waiting);
        }
    });
    let pods = setup.read::<Pod>(&WatchedResource::pods());
    // One after the other, so that no volume is given to two claims.
    setup.run(1, Binder { client, events, claims, volumes, classes, pods });
}

/// Queues the claims that are bound to no volume.
fn queue_waiting(queue: &Queue, claims: &Store<Slim<Claim>>) {
    let waiting: Vec<ObjectKey> = objects::waiting(&claims.read()).map(|claim| claim.meta.key()).collect();
    if !waiting.is_empty() {
        queue.add(waiting);
    }
}

/// Keys with a namespace are those of claims, the others those of volumes.
struct Binder {
    client: Client,
    events: EventSink,
    claims: Store<Slim<Claim>>,
    volumes: Store<Slim<Volume>>,
    classes: Store<Slim<Class>>,
    pods: Store<Pod>,
}

impl Control for Binder {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let decision = if key.namespace.is_empty() { self.volume(key).await? } else { self.claim(key) };
            let Some(Decision { writes, tell, failure }) = decision else { return Ok(Again::Never) };
            for Note { about, warning, reason, message } in tell {
                self.events.emit(about, COMPONENT, event_type(warning), reason, message);
            }
            let claims = Writes { client: &self.client, store: &self.claims };
            let volumes = Writes { client: &self.client, store: &self.volumes };
            for write in writes {
                let (path, patch) = write.request();
                match write {
                    Write::Claim(..) | Write::ClaimStatus(..) => claims.merge(&path, patch).await?,
                    Write::Volume(..) | Write::VolumeStatus(..) => volumes.merge(&path, patch).await?,
                }
            }
            failure.map_or(Ok(Again::Never), |failure| Err(Trouble::Objects(failure)))
        })
    }
}

impl Binder {
    fn claim(&self, key: &ObjectKey) -> Option<Decision> {
        let claim = self.claims.read().get(key).cloned()?;
        let waiting = {
            let pods = PodIndexes::using(&self.pods.read(), key);
            let unscheduled = pods.iter().filter(|pod| !pod.is_terminal() && pod.node.is_none());
            unscheduled.map(|pod| pod.meta.name.to_string()).collect::<Vec<_>>()
        };
        Some(claims::decide(&claim, &self.volumes.read(), &self.classes.read(), &waiting))
    }

    async fn volume(&self, key: &ObjectKey) -> Result<Option<Decision>, Trouble> {
        let Some(volume) = self.volumes.read().get(key).cloned() else { return Ok(None) };
        let mut claim = None;
        if let Some(reference) = volume.body.claim.as_ref().filter(|reference| !reference.uid.is_empty()) {
            claim = self.claims.read().get(&reference.key()).cloned();
            let is_it = claim.as_ref().is_some_and(|claim| claim.meta.uid == reference.uid);
            // Before a volume is given up the server has the word: the claim may not have been seen yet.
            if !is_it && !matches!(&*volume.body.status.phase, "Released" | "Failed") {
                claim = self.read_claim(&reference.key()).await?;
            }
            claim = claim.filter(|claim| claim.meta.uid == reference.uid);
        }
        let used = volume.body.claim.as_ref().is_some_and(|reference| {
            let pods = PodIndexes::using(&self.pods.read(), &reference.key());
            pods.iter().any(|pod| !pod.is_terminal())
        });
        Ok(Some(bind::decide(&volume, claim.as_deref(), used)))
    }

    async fn read_claim(&self, key: &ObjectKey) -> Result<Option<Arc<Slim<Claim>>>, Trouble> {
        match self.client.get(&all_claims().object(Some(&key.namespace), &key.name)).await {
            Ok(answer) => {
                let claim = Slim::decode(&answer.body, &mut Interner::new());
                claim.map(|claim| Some(Arc::new(claim))).map_err(|error| Trouble::Objects(error.to_string()))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn event_type(warning: bool) -> muster_objects::EventType {
    if warning { muster_objects::EventType::Warning } else { muster_objects::EventType::Normal }
}

fn about_claim(claim: &Slim<Claim>) -> ObjectReference {
    ObjectReference::to("v1", "PersistentVolumeClaim", &claim.meta)
}

fn about_volume(volume: &Slim<Volume>) -> ObjectReference {
    ObjectReference::to("v1", "PersistentVolume", &volume.meta)
}
