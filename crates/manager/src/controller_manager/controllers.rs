//! `--controllers`: which of ours run. The list may be one that was written for kube-controller-manager.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use muster_runtime::manager::{self, CONTROLLERS, Name};

/// Those that `list` names (CM-01). To leave out a controller that kube-controller-manager has and this program does
/// not is nothing to be refused: it does not run here. To ask for one is.
///
/// # Errors
/// Where an entry names a controller that does not exist, or asks for one that is not ours; where none is chosen.
pub(super) fn select(list: &str) -> Result<BTreeSet<Name>> {
    let entries = list.split(',').map(str::trim).filter(|entry| !is_left_out_anyway(entry));
    let ours = entries.collect::<Vec<_>>().join(",");
    let chosen = manager::select(&ours, CONTROLLERS).context("--controllers")?;
    if chosen.is_empty() {
        // It would lead, and keep every other manager from the work.
        bail!(
            "--controllers: found {list:?}, which chooses none of this program's; expected `*`, names, or `*,-NAME` to leave one out"
        );
    }
    Ok(chosen)
}

fn is_left_out_anyway(entry: &str) -> bool {
    entry.strip_prefix('-').is_some_and(|name| OTHERS.contains(&name))
}

/// The controllers of kube-controller-manager 1.36 that are none of ours, by name and by alias.
const OTHERS: &[&str] = &[
    "attachdetach",
    "bootstrap-signer-controller",
    "bootstrapsigner",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "cloud-node-lifecycle",
    "cloud-node-lifecycle-controller",
    "clusterrole-aggregation",
    "clusterrole-aggregation-controller",
    "cronjob",
    "cronjob-controller",
    "csrapproving",
    "csrcleaner",
    "csrsigning",
    "daemonset",
    "daemonset-controller",
    "device-taint-eviction-controller",
    "disruption",
    "disruption-controller",
    "endpoint",
    "endpoints-controller",
    "endpointslice",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "endpointslicemirroring",
    "ephemeral-volume",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "garbagecollector",
    "horizontal-pod-autoscaler-controller",
    "horizontalpodautoscaling",
    "job",
    "job-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-service-account-token-cleaner",
    "legacy-serviceaccount-token-cleaner-controller",
    "namespace",
    "namespace-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "node-route-controller",
    "nodeipam",
    "nodelifecycle",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder",
    "persistentvolume-binder-controller",
    "persistentvolume-expander",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "podcertificaterequest-cleaner-controller",
    "podgc",
    "podgroup-protection-controller",
    "pv-protection",
    "pvc-protection",
    "resource-claim-controller",
    "resourceclaim-controller",
    "resourcepoolstatusrequest-controller",
    "resourcequota",
    "resourcequota-controller",
    "root-ca-cert-publisher",
    "root-ca-certificate-publisher-controller",
    "route",
    "selinux-warning-controller",
    "service",
    "service-ca-cert-publisher",
    "service-ca-certificate-publisher-controller",
    "service-cidr-controller",
    "service-lb-controller",
    "serviceaccount",
    "serviceaccount-controller",
    "serviceaccount-token",
    "serviceaccount-token-controller",
    "statefulset",
    "statefulset-controller",
    "storage-version-gc",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "svm",
    "taint-eviction-controller",
    "token-cleaner-controller",
    "tokencleaner",
    "ttl",
    "ttl-after-finished",
    "ttl-after-finished-controller",
    "ttl-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: CM-01
    #[test]
    fn leaving_out_what_is_not_here_is_allowed_and_asking_for_it_is_not() {
        let all: Vec<Name> = CONTROLLERS.to_vec();
        for list in ["*", "*,-job-controller", "-ttl,-garbagecollector,*"] {
            assert_eq!(select(list).unwrap().into_iter().collect::<Vec<_>>().len(), all.len(), "{list}");
        }
        assert!(select("*,-replicaset,-job").unwrap().iter().all(|name| name.alias != "replicaset"));
        for list in ["", "-replicaset", "-deployment,-job-controller"] {
            let said = select(list).unwrap_err().to_string();
            assert!(said.contains(&format!("found {list:?}")) && said.contains("`*,-NAME`"), "{said}");
        }
        for list in ["*,bootstrapsigner", "job-controller", "*,-nosuch"] {
            let said = format!("{:#}", select(list).unwrap_err());
            assert!(said.starts_with("--controllers: ") && said.contains("replicaset-controller"), "{said}");
        }
        assert!(OTHERS.is_sorted());
    }
}
