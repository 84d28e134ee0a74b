//! The plug-ins of admission by the reference's names, and which of them are switched off.

use std::collections::BTreeSet;
use std::str::FromStr;

/// A plug-in of the reference that runs here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// Who may approve requests for certificates.
    CertificateApproval,
    /// Who may sign them.
    CertificateSigning,
    /// Which nobody can ask for.
    CertificateSubjectRestriction,
    /// The class of an Ingress that names none.
    DefaultIngressClass,
    /// The class of a claim that names none.
    DefaultStorageClass,
    /// How long pods stay on a node that is not ready.
    DefaultTolerationSeconds,
    /// Defaults and bounds of a namespace's LimitRanges.
    LimitRanger,
    /// Policies that change writes.
    MutatingAdmissionPolicy,
    /// Webhooks that change writes.
    MutatingAdmissionWebhook,
    /// No namespace, no objects.
    NamespaceLifecycle,
    /// Which claims may grow.
    PersistentVolumeClaimResize,
    /// Which pods may be resized.
    PodResizeValidator,
    /// What the labels of a namespace forbid its pods.
    PodSecurity,
    /// The zone and region of a pod's node.
    PodTopologyLabels,
    /// Priorities of pods by their classes.
    Priority,
    /// Quotas of namespaces.
    ResourceQuota,
    /// What a RuntimeClass adds to a pod.
    RuntimeClass,
    /// The account of a pod must be there.
    ServiceAccount,
    /// Finalizers of claims and volumes.
    StorageObjectInUseProtection,
    /// A new node has a taint.
    TaintNodesByCondition,
    /// Policies that refuse writes.
    ValidatingAdmissionPolicy,
    /// Webhooks that refuse writes.
    ValidatingAdmissionWebhook,
}

/// Those that run here, all of which the reference runs by default.
const HERE: [(&str, Plugin); 22] = [
    ("CertificateApproval", Plugin::CertificateApproval),
    ("CertificateSigning", Plugin::CertificateSigning),
    ("CertificateSubjectRestriction", Plugin::CertificateSubjectRestriction),
    ("DefaultIngressClass", Plugin::DefaultIngressClass),
    ("DefaultStorageClass", Plugin::DefaultStorageClass),
    ("DefaultTolerationSeconds", Plugin::DefaultTolerationSeconds),
    ("LimitRanger", Plugin::LimitRanger),
    ("MutatingAdmissionPolicy", Plugin::MutatingAdmissionPolicy),
    ("MutatingAdmissionWebhook", Plugin::MutatingAdmissionWebhook),
    ("NamespaceLifecycle", Plugin::NamespaceLifecycle),
    ("PersistentVolumeClaimResize", Plugin::PersistentVolumeClaimResize),
    ("PodResizeValidator", Plugin::PodResizeValidator),
    ("PodSecurity", Plugin::PodSecurity),
    ("PodTopologyLabels", Plugin::PodTopologyLabels),
    ("Priority", Plugin::Priority),
    ("ResourceQuota", Plugin::ResourceQuota),
    ("RuntimeClass", Plugin::RuntimeClass),
    ("ServiceAccount", Plugin::ServiceAccount),
    ("StorageObjectInUseProtection", Plugin::StorageObjectInUseProtection),
    ("TaintNodesByCondition", Plugin::TaintNodesByCondition),
    ("ValidatingAdmissionPolicy", Plugin::ValidatingAdmissionPolicy),
    ("ValidatingAdmissionWebhook", Plugin::ValidatingAdmissionWebhook),
];

/// Those that the reference has and this server has not.
const ELSEWHERE: [&str; 19] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "ClusterTrustBundleAttest",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "JobValidation",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// A plug-in, as the reference names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// One that can be switched.
    Here(Plugin),
    /// One that is not here.
    Elsewhere(&'static str),
}

/// A name that is no plug-in's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("admission plugin {name:?} is unknown; known are {}", all())]
pub struct UnknownPlugin {
    name: String,
}

impl FromStr for Named {
    type Err = UnknownPlugin;

    fn from_str(name: &str) -> Result<Self, UnknownPlugin> {
        let here = HERE.iter().find(|(known, _)| *known == name).map(|(_, plugin)| Self::Here(*plugin));
        let elsewhere = || ELSEWHERE.iter().find(|known| **known == name).map(|known| Self::Elsewhere(known));
        here.or_else(elsewhere).ok_or_else(|| UnknownPlugin { name: name.to_owned() })
    }
}

fn all() -> String {
    let mut names: Vec<&str> = HERE.iter().map(|(name, _)| *name).chain(ELSEWHERE).collect();
    names.sort_unstable();
    names.join(", ")
}

/// Which plug-ins run: all, but for those that were switched off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plugins {
    off: BTreeSet<Plugin>,
}

impl Plugins {
    /// These and no others.
    #[must_use]
    pub fn only(some: &BTreeSet<Plugin>) -> Self {
        Self { off: HERE.iter().map(|(_, plugin)| *plugin).filter(|plugin| !some.contains(plugin)).collect() }
    }

    /// Switches one off.
    pub fn disable(&mut self, plugin: Plugin) {
        self.off.insert(plugin);
    }

    /// Whether one runs.
    #[must_use]
    pub fn run(&self, plugin: Plugin) -> bool {
        !self.off.contains(&plugin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-36
    #[test]
    fn plugins_have_the_names_of_the_reference() {
        for (name, plugin) in HERE {
            assert_eq!(name, format!("{plugin:?}"));
            assert_eq!(name.parse(), Ok(Named::Here(plugin)));
        }
        let some = Plugins::only(&BTreeSet::from([Plugin::Priority]));
        assert_eq!(
            HERE.map(|(_, plugin)| plugin).into_iter().filter(|one| some.run(*one)).collect::<Vec<_>>(),
            [Plugin::Priority]
        );
        assert_eq!("EventRateLimit".parse(), Ok(Named::Elsewhere("EventRateLimit")));
        let said = "Nope".parse::<Named>().expect_err("no plug-in").to_string();
        assert!(said.starts_with("admission plugin \"Nope\" is unknown; known are AlwaysAdmit, "), "{said}");
    }
}
