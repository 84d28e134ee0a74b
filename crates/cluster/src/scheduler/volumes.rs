//! What the volumes of a pod say of where it can go (SIM-02).
//!
//! A pod waits for claims that are bound by themselves. Claims whose binding waits for it are bound once it has a node:
//! to volumes that are there, or to such as are then made.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_machinery::Cache;

use super::fit::Misfit;
use crate::control::Slim;
use crate::node::Node;
use crate::pod::Pod;
use crate::volumes::{Claim, Class, Near, SELECTED_NODE, Volume, Write, binding, find_for_node, selecting};

/// The claims, volumes and classes of the cluster.
#[derive(Debug, Default)]
pub(super) struct Storage {
    pub(super) claims: Cache<Slim<Claim>>,
    pub(super) volumes: Cache<Slim<Volume>>,
    pub(super) classes: Cache<Slim<Class>>,
}

/// The claims of a pod that may have a node.
#[derive(Debug, Default)]
pub(super) struct PodClaims {
    /// The volumes of those that are bound; none for one that is not there.
    bound: Vec<Option<Arc<Slim<Volume>>>>,
    /// Those whose binding waits for the pod.
    delayed: Vec<Arc<Slim<Claim>>>,
}

impl Storage {
    /// The claims of a pod, or why it can go nowhere yet, in a real scheduler's words.
    pub(super) fn claims_of(&self, pod: &Pod) -> Result<PodClaims, String> {
        let mut claims = Vec::new();
        for volume in &pod.extras().claims {
            let name = &*volume.claim;
            let Some(claim) = self.claims.get_named(&pod.meta.namespace, name) else {
                return Err(if volume.ephemeral {
                    format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}")
                } else {
                    format!("persistentvolumeclaim {name:?} not found")
                });
            };
            if claim.body.status.phase == "Lost" {
                let volume = &claim.body.volume;
                return Err(format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
                ));
            }
            if claim.meta.is_being_deleted() {
                return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if volume.ephemeral && !claim.meta.is_controlled_by(&pod.meta.uid) {
                let (claim, pod) = (claim.meta.key(), pod.meta.key());
                return Err(format!("PVC {claim} was not created for pod {pod} (pod is not owner)"));
            }
            claims.push(claim);
        }
        let mut found = PodClaims::default();
        for claim in claims {
            if claim.body.is_bound() {
                found.bound.push(self.volumes.get_named("", &claim.body.volume).cloned());
            } else if claim.body.volume.is_empty() && claim.body.is_delayed(&self.classes) {
                found.delayed.push(Arc::clone(claim));
            } else {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
        }
        Ok(found)
    }

    /// What has to be written so that the pod's claims are bound on a node; nothing where they all are.
    pub(super) fn on_node(&self, claims: &PodClaims, node: &Node) -> Result<Vec<Write>, Misfit> {
        let near = Near { name: &node.meta.name, labels: &node.meta.labels };
        if claims.bound.iter().any(Option::is_none) {
            return Err(Misfit::never("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"));
        }
        if claims.bound.iter().flatten().any(|volume| !near.reaches(&volume.body)) {
            return Err(Misfit::never("node(s) didn't match PersistentVolume's node affinity"));
        }
        let mut writes = Vec::new();
        let mut taken: BTreeSet<Arc<str>> = BTreeSet::new();
        for claim in &claims.delayed {
            let nothing = || Misfit::never("node(s) didn't find available persistent volumes to bind");
            match claim.body.annotations.get(SELECTED_NODE) {
                // A volume is being made for it.
                Some(selected) if *selected == *node.meta.name => continue,
                Some(_) => return Err(nothing()),
                None => {}
            }
            if let Some(volume) = find_for_node(claim, &self.volumes, near, &taken) {
                taken.insert(Arc::clone(&volume.meta.name));
                writes.extend(binding(&volume, claim));
                continue;
            }
            let class = self.classes.get_named("", claim.body.class());
            if !class.is_some_and(|class| class.body.provisions()) {
                return Err(nothing());
            }
            writes.push(selecting(claim, &node.meta.name));
        }
        Ok(writes)
    }

    /// Whether every claim of a pod is bound.
    pub(super) fn are_bound(&self, pod: &Pod) -> bool {
        self.claims_of(pod).is_ok_and(|claims| claims.delayed.is_empty())
    }
}
