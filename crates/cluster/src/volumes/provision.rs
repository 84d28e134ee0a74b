//! The simulated provisioner: makes a volume for each claim whose class names a provisioner, and deletes it when that
//! claim is gone.
//!
//! It stands in for the drivers of a real cluster. A class with the annotation `muster.dev/provision: "false"` is left
//! to a provisioner that was brought along.

use std::sync::Arc;

use futures::future::BoxFuture;
use muster_machinery::Cache;
use muster_objects::ObjectKey;
use muster_objects::names::is_dns1123_subdomain;
use muster_runtime::client::Client;
use muster_runtime::informer::Store;
use serde_json::{Value, json};

use super::objects::{Claim, Class, PROVISIONED_BY, PROVISIONER, SELECTED_NODE, SIMULATED, Volume, waiting};
use super::{all_claims, all_classes, all_volumes, are_served};
use crate::control::{Again, Control, Frame, Slim, Trouble, Writes};

/// The longest name of a driver.
const LONGEST_DRIVER: usize = 63;

/// Sets up the provisioner.
pub(crate) fn provision(frame: &mut Frame<'_>) {
    if !are_served(frame) {
        return;
    }
    let client = frame.client.clone();
    let mut setup = frame.controller("simulated_provisioner");
    let claims = setup.watch_own::<Slim<Claim>>(&all_claims());
    let volumes = setup.watch_own::<Slim<Volume>>(&all_volumes());
    let seen = claims.clone();
    let classes = setup.watch::<Slim<Class>>(&all_classes(), move |_, queue| {
        queue.add(waiting(&seen.read()).map(|claim| claim.meta.key()));
    });
    setup.run(1, Provisioner { client, claims, volumes, classes });
}

/// Keys with a namespace are those of claims, the others those of volumes.
struct Provisioner {
    client: Client,
    claims: Store<Slim<Claim>>,
    volumes: Store<Slim<Volume>>,
    classes: Store<Slim<Class>>,
}

impl Control for Provisioner {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let writes = Writes { client: &self.client, store: &self.volumes };
            if key.namespace.is_empty() {
                let volume = self.volumes.read().get(key).cloned();
                if let Some(volume) = volume.filter(|volume| is_to_go(volume)) {
                    writes.delete(&all_volumes().object(None, &key.name), &volume.meta.uid).await?;
                }
                return Ok(Again::Never);
            }
            let volume = {
                let Some(claim) = self.claims.read().get(key).cloned() else { return Ok(Again::Never) };
                make(&claim, &self.classes.read(), &self.volumes.read())
            };
            if let Some(volume) = volume {
                match writes.create(&all_volumes().collection(None), &volume).await {
                    // It was made before.
                    Err(error) if error.is_already_exists() => {}
                    made => made?,
                }
            }
            Ok(Again::Never)
        })
    }
}

/// The volume that a claim waits for; none where it does not, or where that is there.
pub(super) fn make(claim: &Slim<Claim>, classes: &Cache<Slim<Class>>, volumes: &Cache<Slim<Volume>>) -> Option<Value> {
    let body = &claim.body;
    let provisioner = body.annotations.get(PROVISIONER[1]).or(body.annotations.get(PROVISIONER[0]))?;
    let class: &Arc<Slim<Class>> = classes.get_named("", body.class())?;
    let wanted = body.volume.is_empty()
        && !claim.meta.is_being_deleted()
        && class.body.is_simulated
        && (!class.body.delays || body.annotations.has(SELECTED_NODE));
    let name = format!("pvc-{}", claim.meta.uid);
    if !wanted || volumes.get_named("", &name).is_some() {
        return None;
    }
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: provisioner, SIMULATED: "true"},
        },
        "spec": {
            "accessModes": body.access_modes,
            "capacity": {"storage": body.request.to_string()},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.meta.namespace, "name": claim.meta.name,
                "uid": claim.meta.uid, "resourceVersion": claim.meta.resource_version,
            },
            "persistentVolumeReclaimPolicy": class.body.reclaim,
            "storageClassName": class.meta.name,
            "volumeMode": body.mode,
        },
    });
    let spec = &mut volume["spec"];
    if !class.body.mount_options.is_empty() {
        spec["mountOptions"] = json!(class.body.mount_options);
    }
    if !body.attributes.is_empty() {
        spec["volumeAttributesClassName"] = json!(body.attributes);
    }
    // What is no name of a driver makes directories of nodes, as such provisioners do.
    if is_dns1123_subdomain(provisioner) && provisioner.len() <= LONGEST_DRIVER {
        spec["csi"] = json!({"driver": provisioner, "volumeHandle": name});
    } else {
        spec["hostPath"] = json!({"path": format!("/var/lib/muster/{name}"), "type": "DirectoryOrCreate"});
    }
    Some(volume)
}

/// Whether a volume was made here for a claim that is gone.
pub(super) fn is_to_go(volume: &Slim<Volume>) -> bool {
    let body = &volume.body;
    body.annotations.get(SIMULATED) == Some("true")
        && body.reclaim == "Delete"
        && body.status.phase == "Released"
        && !volume.meta.is_being_deleted()
}
