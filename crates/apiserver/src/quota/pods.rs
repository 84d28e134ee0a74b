//! What pods count: their number, and what they request and may use while they live.

use std::collections::BTreeSet;

use muster_objects::time::Timestamp;
use muster_schema::quantity::Quantity;

use super::resources::{Amounts, is_for_pods, of_pod};
use super::{object_count, one};
use crate::model::fields::{Fields, metadata};
use crate::model::{Object, ResourceList};

/// The resources of pods that are known by name.
const RESOURCES: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];

const REQUESTS: &str = "requests.";
const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn tracks(resource: &str) -> bool {
    RESOURCES.contains(&resource)
        || resource.starts_with(HUGE_PAGES)
        || resource
            .strip_prefix(REQUESTS)
            .is_some_and(|name| name.starts_with(HUGE_PAGES) || name.starts_with(DEVICE_CLASS) || !is_native(resource))
}

/// Whether a resource is one of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a name among a container's requests is that of an extended resource.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) || name.starts_with(DEVICE_CLASS)
}

/// A pod that is over, or that should be gone, counts as an object only.
pub(super) fn usage(pod: &Object, now: Timestamp) -> ResourceList {
    let mut usage = ResourceList::default();
    usage.insert(object_count("", "pods"), one());
    if !is_charged(pod, now) {
        return usage;
    }
    usage.insert("pods".to_string(), one());
    let mut put = |name: String, amount: &Quantity| usage.insert(name, amount.clone());
    for (name, amount) in of_pod(pod, Amounts::Requests).iter() {
        if matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES) {
            put(name.to_owned(), amount);
            put(format!("{REQUESTS}{name}"), amount);
        } else if is_extended(name) {
            put(format!("{REQUESTS}{name}"), amount);
        }
    }
    for (name, amount) in of_pod(pod, Amounts::Limits).iter() {
        if matches!(name, "cpu" | "memory" | "ephemeral-storage") {
            put(format!("limits.{name}"), amount);
        }
    }
    usage
}

/// Whether a pod's resources count: it is not over, and not beyond the end of its grace period.
fn is_charged(pod: &Object, now: Timestamp) -> bool {
    if matches!(pod.object("status").map(|status| status.text("phase")), Some("Failed" | "Succeeded")) {
        return false;
    }
    ends(pod).is_none_or(|end| now <= end)
}

/// The end of the grace period of a pod that is being deleted.
pub(super) fn ends(pod: &Object) -> Option<Timestamp> {
    let meta = metadata(pod);
    let deleted = Timestamp::parse(meta.maybe_text("deletionTimestamp")?).ok()?;
    let grace = meta.maybe_int("deletionGracePeriodSeconds")?;
    Some(deleted.plus_nanos(grace.saturating_mul(1_000_000_000)))
}

/// Resources that every container must name where a quota limits them.
const REQUIRED: [&str; 6] = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// What the containers of a pod do not name of what is limited, and must; none where that is nothing.
#[must_use]
pub fn unspecified(hard: &ResourceList, pod: &Object) -> Option<String> {
    let spec = pod.part("spec");
    let own = spec.part("resources");
    if ["requests", "limits"].into_iter().flat_map(|list| own.part(list).keys()).any(|name| is_for_pods(name)) {
        return None;
    }
    let lacks = |container: &Object, resource: &str| {
        let (list, name) = match resource.split_once('.') {
            Some(("limits", name)) => ("limits", name),
            Some((_, name)) => ("requests", name),
            None => ("requests", resource),
        };
        !container.part("resources").part(list).contains_key(name)
    };
    let each = REQUIRED.into_iter().filter(|resource| hard.get(resource).is_some()).filter_map(|resource| {
        let containers = spec.items("containers").chain(spec.items("initContainers"));
        let names: BTreeSet<&str> = containers.filter(|one| lacks(one, resource)).map(|one| one.text("name")).collect();
        let names: Vec<&str> = names.into_iter().collect();
        (!names.is_empty()).then(|| format!("{resource} for: {}", names.join(",")))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// Whether an affinity of the pod looks at pods of other namespaces.
pub(super) fn reaches_other_namespaces(spec: &Object) -> bool {
    let Some(affinity) = spec.object("affinity") else { return false };
    let reaches = |term: &Object| !term.list("namespaces").is_empty() || term.object("namespaceSelector").is_some();
    ["podAffinity", "podAntiAffinity"].into_iter().filter_map(|kind| affinity.object(kind)).any(|affinity| {
        let required = affinity.items("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = affinity.items("preferredDuringSchedulingIgnoredDuringExecution");
        let preferred = preferred.filter_map(|weighted| weighted.object("podAffinityTerm"));
        required.chain(preferred).any(reaches)
    })
}
