//! Protection: a claim that a pod uses, or a volume that is bound, goes only when it no longer is.
//!
//! They are the `persistentvolumeclaim-protection-controller` and the `persistentvolume-protection-controller` of
//! kube-controller-manager. Their finalizers are put on by the server when it admits an object, and here on what has
//! none.

use futures::future::BoxFuture;
use muster_machinery::{Cached, Change};
use muster_objects::{Meta, ObjectKey};
use muster_runtime::client::Client;
use muster_runtime::informer::{Store, WatchedResource};
use serde_json::{Value, json};

use super::{Claim, Volume, all_claims, all_volumes};
use crate::control::{Again, Control, Frame, Slim, Trouble, Writes};
use crate::pod::{Pod, PodIndexes, claims_of};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// Sets up the `persistentvolumeclaim-protection-controller`.
pub(crate) fn protect_claims(frame: &mut Frame<'_>) {
    if !frame.serves(&all_claims()) {
        return;
    }
    let client = frame.client.clone();
    let mut setup = frame.controller("pvcprotection");
    let claims = setup.watch_own::<Slim<Claim>>(&all_claims());
    let pods = setup.watch::<Pod>(&WatchedResource::pods(), |change: &Change<Pod>, queue| match change {
        Change::Deleted { last, .. } => queue.add(claims_of(last)),
        Change::Updated { old, new } if old.meta.uid != new.meta.uid => queue.add(claims_of(old)),
        Change::Updated { old, new } if !old.is_terminal() && new.is_terminal() => queue.add(claims_of(new)),
        Change::Added(_) | Change::Updated { .. } => {}
    });
    setup.run(1, ClaimProtector { client, claims, pods });
}

/// Sets up the `persistentvolume-protection-controller`.
pub(crate) fn protect_volumes(frame: &mut Frame<'_>) {
    if !frame.serves(&all_volumes()) {
        return;
    }
    let client = frame.client.clone();
    let mut setup = frame.controller("pvprotection");
    let volumes = setup.watch_own::<Slim<Volume>>(&all_volumes());
    setup.run(1, VolumeProtector { client, volumes });
}

struct ClaimProtector {
    client: Client,
    claims: Store<Slim<Claim>>,
    pods: Store<Pod>,
}

impl Control for ClaimProtector {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let Some(claim) = self.claims.read().get(key).cloned() else { return Ok(Again::Never) };
            let used = || {
                let pods = PodIndexes::using(&self.pods.read(), key);
                // One without a node is not started with a claim that is going.
                pods.iter().any(|pod| pod.node.is_some() && uses(pod, &claim.meta))
            };
            let path = all_claims().object(Some(&key.namespace), &key.name);
            let patch = decide(&claim.meta, &claim.body.finalizers, CLAIM_FINALIZER, used);
            write(&self.client, &self.claims, &path, patch).await
        })
    }
}

/// Whether a pod with a node holds a claim that is among its volumes.
fn uses(pod: &Pod, claim: &Meta) -> bool {
    let mut volumes = pod.extras().claims.iter().filter(|volume| volume.claim == claim.name);
    // One that was made for a pod that is shut down is not held by it.
    let shut_down = pod.meta.is_being_deleted() && pod.deletion_grace == Some(0);
    volumes.any(|volume| !volume.ephemeral || !shut_down && claim.is_controlled_by(&pod.meta.uid))
}

struct VolumeProtector {
    client: Client,
    volumes: Store<Slim<Volume>>,
}

impl Control for VolumeProtector {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let Some(volume) = self.volumes.read().get(key).cloned() else { return Ok(Again::Never) };
            let used = || volume.body.status.phase == "Bound";
            let path = all_volumes().object(None, &key.name);
            let patch = decide(&volume.meta, &volume.body.finalizers, VOLUME_FINALIZER, used);
            write(&self.client, &self.volumes, &path, patch).await
        })
    }
}

/// A merge patch that puts the finalizer on an object, or takes it off one that is going and not used.
pub(crate) fn decide(
    meta: &Meta,
    finalizers: &[String],
    finalizer: &str,
    used: impl FnOnce() -> bool,
) -> Option<Value> {
    let protected = finalizers.iter().any(|own| own == finalizer);
    let finalizers: Vec<&str> = match (meta.is_being_deleted(), protected) {
        (true, true) if !used() => finalizers.iter().map(String::as_str).filter(|own| *own != finalizer).collect(),
        (false, false) => finalizers.iter().map(String::as_str).chain([finalizer]).collect(),
        _ => return None,
    };
    Some(json!({"metadata": {
        "uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers,
    }}))
}

async fn write<T: Cached>(
    client: &Client,
    store: &Store<T>,
    path: &str,
    patch: Option<Value>,
) -> Result<Again, Trouble> {
    if let Some(patch) = patch {
        Writes { client, store }.merge(path, &patch).await?;
    }
    Ok(Again::Never)
}
