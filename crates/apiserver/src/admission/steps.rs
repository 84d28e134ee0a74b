//! The steps of the plugins: which of them looks at which kind, and when.

use super::plugins::Plugin;
use super::{
    certificates, classes, limits, podsecurity, priority, resize, runtimeclass, serviceaccount, taints, tolerations,
    topology, volumes,
};
use crate::access::User;
use crate::model::{Object, Part, metadata};
use crate::registry::{Registry, Served};
use crate::status::ApiError;

/// A write to an object, as plugins are told of it.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The server's objects and settings.
    pub registry: &'a Registry,
    /// The kind.
    pub served: &'a Served,
    /// The part that is written.
    pub part: Part,
    /// What is stored; `None` for a creation.
    pub live: Option<&'a Object>,
    /// Who writes.
    pub user: &'a User,
}

impl Write<'_> {
    /// Whether the object is being deleted.
    pub(super) fn ends(&self) -> bool {
        self.live.is_some_and(|live| metadata(live).contains_key("deletionTimestamp"))
    }

    /// Refuses the write to the object of this name.
    pub(super) fn forbidden(&self, name: &str, why: &str) -> ApiError {
        ApiError::forbidden(self.served.group_resource(), name, why)
    }

    fn when(&self) -> When {
        if self.live.is_some() { When::Update(self.part) } else { When::Create }
    }
}

/// What is done with an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Create,
    Update(Part),
}

/// One look of a plugin at the objects of a kind, by its group and plural name.
struct Step<F>(Plugin, (&'static str, &'static str), &'static [When], F);

type Completes = fn(&Write<'_>, &mut Object) -> Result<(), ApiError>;
type Checks = fn(&Write<'_>, &Object) -> Result<(), ApiError>;
type Warns = fn(&Write<'_>, &Object, &mut Vec<String>) -> Result<(), ApiError>;

/// What a plugin does with an object that is complete and valid.
#[derive(Clone, Copy)]
enum Look {
    Check(Checks),
    Warn(Warns),
}

const PODS: (&str, &str) = ("", "pods");
const CLAIMS: (&str, &str) = ("", "persistentvolumeclaims");
const CERTIFICATES: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");
const PRIORITIES: (&str, &str) = ("scheduling.k8s.io", "priorityclasses");

const CREATE: &[When] = &[When::Create];
const UPDATE: &[When] = &[When::Update(Part::Main)];
const CREATE_UPDATE: &[When] = &[When::Create, When::Update(Part::Main)];
const CREATE_RESIZE: &[When] = &[When::Create, When::Update(Part::Resize)];
/// Whatever gives a pod other containers.
const CONTAINERS: &[When] =
    &[When::Create, When::Update(Part::Main), When::Update(Part::EphemeralContainers), When::Update(Part::Resize)];
const UPDATE_RESIZE: &[When] = &[When::Update(Part::Main), When::Update(Part::Resize)];

/// What completes an object before its kind looks at it, in the reference's order.
const COMPLETE: &[Step<Completes>] = &[
    Step(Plugin::LimitRanger, PODS, CREATE_RESIZE, limits::complete),
    Step(Plugin::ServiceAccount, PODS, CREATE, serviceaccount::create),
    Step(Plugin::TaintNodesByCondition, ("", "nodes"), CREATE, taints::complete),
    Step(Plugin::Priority, PODS, CREATE, priority::create),
    Step(Plugin::Priority, PODS, UPDATE, priority::update),
    Step(Plugin::DefaultTolerationSeconds, PODS, CREATE_UPDATE, tolerations::complete),
    Step(Plugin::DefaultStorageClass, CLAIMS, CREATE, classes::complete_claim),
    Step(Plugin::StorageObjectInUseProtection, CLAIMS, CREATE, volumes::protect_claim),
    Step(Plugin::StorageObjectInUseProtection, ("", "persistentvolumes"), CREATE, volumes::protect_volume),
    Step(
        Plugin::StorageObjectInUseProtection,
        ("storage.k8s.io", "volumeattributesclasses"),
        CREATE,
        volumes::protect_attributes,
    ),
    Step(Plugin::RuntimeClass, PODS, CREATE, runtimeclass::create),
    Step(Plugin::DefaultIngressClass, ("networking.k8s.io", "ingresses"), CREATE, classes::complete_ingress),
    Step(Plugin::PodTopologyLabels, PODS, CREATE, topology::create),
];

const TEMPLATE: Look = Look::Warn(podsecurity::template);

/// What may refuse an object that is complete and valid, in the reference's order.
const CHECK: &[Step<Look>] = &[
    Step(Plugin::LimitRanger, PODS, CREATE_RESIZE, Look::Check(limits::validate)),
    Step(Plugin::LimitRanger, CLAIMS, CREATE_UPDATE, Look::Check(limits::validate)),
    Step(Plugin::PodSecurity, PODS, CONTAINERS, Look::Warn(podsecurity::pod)),
    Step(Plugin::PodSecurity, ("", "namespaces"), CREATE_UPDATE, Look::Warn(podsecurity::namespace)),
    Step(Plugin::PodSecurity, ("", "replicationcontrollers"), CREATE_UPDATE, TEMPLATE),
    Step(Plugin::PodSecurity, ("", "podtemplates"), CREATE_UPDATE, TEMPLATE),
    Step(Plugin::PodSecurity, ("apps", "replicasets"), CREATE_UPDATE, TEMPLATE),
    Step(Plugin::PodSecurity, ("apps", "deployments"), CREATE_UPDATE, TEMPLATE),
    Step(Plugin::PodSecurity, ("apps", "statefulsets"), CREATE_UPDATE, TEMPLATE),
    Step(Plugin::PodSecurity, ("apps", "daemonsets"), CREATE_UPDATE, TEMPLATE),
    Step(Plugin::PodSecurity, ("batch", "jobs"), CREATE_UPDATE, TEMPLATE),
    Step(Plugin::PodSecurity, ("batch", "cronjobs"), CREATE_UPDATE, TEMPLATE),
    Step(Plugin::Priority, PRIORITIES, CREATE_UPDATE, Look::Check(priority::validate_class)),
    Step(Plugin::PersistentVolumeClaimResize, CLAIMS, UPDATE, Look::Check(volumes::validate_resize)),
    Step(Plugin::RuntimeClass, PODS, CREATE, Look::Check(runtimeclass::validate)),
    Step(
        Plugin::CertificateApproval,
        CERTIFICATES,
        &[When::Update(Part::Approval)],
        Look::Check(certificates::approve),
    ),
    Step(Plugin::CertificateSigning, CERTIFICATES, &[When::Update(Part::Status)], Look::Check(certificates::sign)),
    Step(Plugin::CertificateSubjectRestriction, CERTIFICATES, CREATE, Look::Check(certificates::create)),
    Step(Plugin::PodResizeValidator, PODS, UPDATE_RESIZE, Look::Check(resize::validate)),
];

/// Completes what is written.
///
/// # Errors
/// 403 for whatever a plugin forbids.
pub(super) fn complete(write: &Write<'_>, object: &mut Object) -> Result<(), ApiError> {
    steps(COMPLETE, write).try_for_each(|step| step(write, object))
}

/// Looks at what is written once it is complete and valid.
///
/// # Errors
/// 403 for whatever a plugin forbids.
pub(super) fn check(write: &Write<'_>, object: &Object, warnings: &mut Vec<String>) -> Result<(), ApiError> {
    steps(CHECK, write).try_for_each(|step| match step {
        Look::Check(check) => check(write, object),
        Look::Warn(warn) => warn(write, object, warnings),
    })
}

/// The steps that are meant and switched on.
fn steps<F: Copy>(table: &[Step<F>], write: &Write<'_>) -> impl Iterator<Item = F> {
    let (kind, when) = (super::kind(write.served), write.when());
    // Most differ in the first, and then in the second.
    let is_meant = move |step: &&Step<F>| step.2.contains(&when) && step.1.1 == kind.1 && step.1.0 == kind.0;
    let meant = table.iter().filter(is_meant);
    meant.filter(|step| write.registry.settings.plugins.run(step.0)).map(|step| step.3)
}
