//! The decision about a claim: bound to which volume, or waiting for what.

use muster_machinery::Cache;
use serde_json::json;

use super::about_claim;
use super::matching::{find, mismatch};
use super::objects::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, Claim, Class, PROVISIONER, SELECTED_NODE, Volume, default_class,
};
use super::writes::{Decision, Note, Write, bind, claim_phase};
use crate::control::Slim;

/// The plugins of the past, and the drivers that took their place.
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// Decides on a claim. `unscheduled` are the names of the pods that use it and have no node.
pub(super) fn decide(
    claim: &Slim<Claim>,
    volumes: &Cache<Slim<Volume>>,
    classes: &Cache<Slim<Class>>,
    unscheduled: &[String],
) -> Decision {
    let mut deciding = Deciding { claim, decision: Decision::default() };
    let decided = if claim.body.annotations.has(BIND_COMPLETED) {
        deciding.bound(volumes)
    } else if claim.body.volume.is_empty() {
        deciding.unbound(volumes, classes, unscheduled)
    } else {
        deciding.asking(volumes)
    };
    deciding.decision.failure = decided.err();
    deciding.decision
}

struct Deciding<'a> {
    claim: &'a Slim<Claim>,
    decision: Decision,
}

impl Deciding<'_> {
    /// One that takes any volume that does.
    fn unbound(
        &mut self,
        volumes: &Cache<Slim<Volume>>,
        classes: &Cache<Slim<Class>>,
        unscheduled: &[String],
    ) -> Result<(), String> {
        let claim = self.claim;
        let delayed = claim.body.is_delayed(classes);
        if let Some(volume) = find(claim, volumes, delayed) {
            return self.bind(&volume);
        }
        if claim.body.class.is_none()
            && let Some(class) = default_class(classes)
        {
            let patch = json!({
                "metadata": {"uid": claim.meta.uid, "resourceVersion": claim.meta.resource_version},
                "spec": {"storageClassName": class.meta.name},
            });
            self.decision.writes.push(Write::Claim(claim.meta.key(), patch));
            return Ok(());
        }
        if delayed && !claim.body.annotations.has(SELECTED_NODE) {
            let (reason, message) = match unscheduled {
                [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
                [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
                pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
            };
            self.tell(false, reason, message);
        } else if !claim.body.class().is_empty() {
            self.ask_provisioner(classes);
            return Ok(());
        } else {
            let message = "no persistent volumes available for this claim and no storage class is set";
            self.tell(false, "FailedBinding", message.to_owned());
        }
        self.phase("Pending")
    }

    /// One that asks for a volume by name.
    fn asking(&mut self, volumes: &Cache<Slim<Volume>>) -> Result<(), String> {
        let claim = self.claim;
        let Some(volume) = volumes.get_named("", &claim.body.volume) else { return self.phase("Pending") };
        if volume.body.claim.is_none() {
            if let Some(why) = mismatch(claim, volume) {
                let message = format!("Cannot bind to requested volume {:?}: {why}", &*volume.meta.name);
                self.tell(true, "VolumeMismatch", message);
                return self.phase("Pending");
            }
            return self.bind(volume);
        }
        if volume.body.is_for(claim) {
            return self.bind(volume);
        }
        let message = format!("volume {:?} already bound to a different claim.", &*volume.meta.name);
        self.tell(true, "FailedBinding", message);
        if claim.body.annotations.has(BOUND_BY_CONTROLLER) {
            let (claim, volume) = (claim.meta.key(), &*volume.meta.name);
            return Err(format!("invalid binding of claim \"{claim}\" to volume {volume:?}: volume already claimed"));
        }
        self.phase("Pending")
    }

    /// One that was bound before.
    fn bound(&mut self, volumes: &Cache<Slim<Volume>>) -> Result<(), String> {
        let claim = self.claim;
        let lost = |message: &str| ("ClaimLost", message.to_owned());
        let (reason, message) = if claim.body.volume.is_empty() {
            lost("Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
        } else {
            match volumes.get_named("", &claim.body.volume) {
                None => lost("Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
                Some(volume) if volume.body.claim.as_ref().is_none_or(|own| own.uid == claim.meta.uid) => {
                    return self.bind(volume);
                }
                Some(_) => {
                    let message = "Two claims are bound to the same volume, this one is bound incorrectly";
                    ("ClaimMisbound", message.to_owned())
                }
            }
        };
        if claim.body.status.phase != "Lost" {
            self.tell(true, reason, message);
            self.phase("Lost")?;
        }
        Ok(())
    }

    /// Has a volume made by whoever the claim's class names.
    fn ask_provisioner(&mut self, classes: &Cache<Slim<Class>>) {
        let claim = self.claim;
        let name = claim.body.class();
        let Some(class) = classes.get_named("", name) else {
            let message = format!("storageclass.storage.k8s.io {name:?} not found");
            return self.tell(true, "ProvisioningFailed", message);
        };
        let named = &*class.body.provisioner;
        let driver = MIGRATED.iter().find(|(plugin, _)| *plugin == named).map(|(_, driver)| *driver);
        let Some(provisioner) = driver.or((!named.starts_with("kubernetes.io/")).then_some(named)) else {
            return self.tell(true, "ProvisioningFailed", format!("no volume plugin matched name: {named}"));
        };
        if PROVISIONER.iter().any(|name| claim.body.annotations.get(name) != Some(provisioner)) {
            let [beta, current] = PROVISIONER;
            let patch = json!({"metadata": {
                "uid": claim.meta.uid, "resourceVersion": claim.meta.resource_version,
                "annotations": {beta: provisioner, current: provisioner},
            }});
            self.decision.writes.push(Write::Claim(claim.meta.key(), patch));
        }
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
             system administrator. If volume creation is delayed, please verify that the provisioner is running and \
             correctly registered."
        );
        self.tell(false, "ExternalProvisioning", message);
    }

    fn bind(&mut self, volume: &Slim<Volume>) -> Result<(), String> {
        self.decision.writes.extend(bind(volume, self.claim)?);
        Ok(())
    }

    fn phase(&mut self, phase: &str) -> Result<(), String> {
        self.decision.writes.extend(claim_phase(self.claim, phase, None)?);
        Ok(())
    }

    fn tell(&mut self, warning: bool, reason: &'static str, message: String) {
        self.decision.tell.push(Note { about: about_claim(self.claim), warning, reason, message });
    }
}
