//! Claims of volumes that live as long as their pod.
//!
//! It is the `ephemeral-volume-controller` of kube-controller-manager.

use bytes::Bytes;
use futures::future::BoxFuture;
use muster_machinery::Change;
use muster_objects::event::ObjectReference;
use muster_objects::{EventType, ObjectKey};
use muster_runtime::client::Client;
use muster_runtime::events::EventSink;
use muster_runtime::informer::{Store, WatchedResource};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Claim, all_claims};
use crate::api::pod_path;
use crate::control::{Again, Control, Frame, Slim, Trouble, Writes};
use crate::json::or_default;
use crate::pod::{Pod, PodIndexes};

/// Sets up the `ephemeral-volume-controller`.
pub(crate) fn make_claims(frame: &mut Frame<'_>) {
    if !frame.serves(&all_claims()) {
        return;
    }
    let (client, events) = (frame.client.clone(), frame.events.clone());
    let mut setup = frame.controller("ephemeral_volume");
    let pods = setup.watch::<Pod>(&WatchedResource::pods(), |change: &Change<Pod>, queue| {
        let pod = change.object();
        if !matches!(change, Change::Deleted { .. }) && pod.extras().claims.iter().any(|volume| volume.ephemeral) {
            queue.add([pod.meta.key()]);
        }
    });
    let seen = pods.clone();
    let claims = setup.watch::<Slim<Claim>>(&all_claims(), move |change, queue| {
        if let Change::Deleted { last, .. } = change {
            let users = PodIndexes::using(&seen.read(), &last.meta.key());
            queue.add(users.iter().map(|pod| pod.meta.key()).collect::<Vec<_>>());
        }
    });
    setup.run(1, Maker { client, events, pods, claims });
}

struct Maker {
    client: Client,
    events: EventSink,
    pods: Store<Pod>,
    claims: Store<Slim<Claim>>,
}

impl Control for Maker {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let Some(pod) = self.pods.read().get(key).cloned() else { return Ok(Again::Never) };
            if pod.meta.is_being_deleted() {
                return Ok(Again::Never);
            }
            for volume in pod.extras().claims.iter().filter(|volume| volume.ephemeral) {
                let claim = ObjectKey::new(key.namespace.clone(), volume.claim.clone());
                let own = self.claims.read().get(&claim).map(|claim| claim.meta.is_controlled_by(&pod.meta.uid));
                let made = match own {
                    Some(true) => continue,
                    Some(false) => {
                        Err(Trouble::Objects(format!("PVC {claim} was not created for pod {key} (pod is not owner)")))
                    }
                    None => self.make(&pod, &volume.volume, &claim).await,
                };
                if let Err(trouble) = made {
                    let message = format!("ephemeral volume {}: {trouble}", volume.volume);
                    let about = ObjectReference::to("v1", "Pod", &pod.meta);
                    self.events.emit(about, "ephemeral_volume", EventType::Warning, "FailedBinding", message);
                    return Err(trouble);
                }
            }
            Ok(Again::Never)
        })
    }
}

impl Maker {
    /// Makes the claim of a volume out of the template in its pod, which is read for that.
    async fn make(&self, pod: &Pod, volume: &str, claim: &ObjectKey) -> Result<(), Trouble> {
        let answer = match self.client.get(&pod_path(&pod.meta.key(), "")).await {
            Err(error) if error.is_not_found() => return Ok(()),
            answer => answer?,
        };
        let Some(claim) = claim_of(pod, volume, claim, &answer.body).map_err(Trouble::Objects)? else {
            return Ok(());
        };
        let writes = Writes { client: &self.client, store: &self.claims };
        writes.create(&all_claims().collection(Some(&pod.meta.namespace)), &claim).await?;
        Ok(())
    }
}

/// The claim for a volume of a pod; none where the pod that was read is another one.
fn claim_of(pod: &Pod, volume: &str, claim: &ObjectKey, read: &Bytes) -> Result<Option<Value>, String> {
    #[derive(Deserialize)]
    struct WirePod {
        metadata: Value,
        spec: WireSpec,
    }
    #[derive(Deserialize)]
    struct WireSpec {
        #[serde(default, deserialize_with = "or_default")]
        volumes: Vec<Value>,
    }
    let read: WirePod = serde_json::from_slice(read).map_err(|error| error.to_string())?;
    if read.metadata["uid"] != pod.meta.uid.to_string() {
        return Ok(None);
    }
    let Some(volume) = read.spec.volumes.iter().find(|found| found["name"] == volume) else { return Ok(None) };
    let template = &volume["ephemeral"]["volumeClaimTemplate"];
    let mut metadata = json!({
        "name": claim.name,
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Pod", "name": pod.meta.name, "uid": pod.meta.uid, "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    for part in ["annotations", "labels"] {
        if let Some(of) = template["metadata"].get(part) {
            metadata[part] = of.clone();
        }
    }
    let spec = &template["spec"];
    Ok(Some(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})))
}
