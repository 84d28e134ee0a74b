//! Order: which of two pods is deleted first, here and by upstream's comparison (DEL-04, B-29).

use std::cmp::Ordering;
use std::sync::Arc;

use muster_objects::{Pod, Timestamp};

use muster_controllers::replicaset::ranking::{Age, Circumstances};

/// How many of the pods are certainly deleted before `pod`, by the ranking here.
#[must_use]
pub fn certain_before(pod: &Pod, pods: &[&Arc<Pod>], by: Circumstances<'_>) -> usize {
    pods.iter().filter(|other| here(other, pod, by)).count()
}

/// The same without the rule for pods that are ready and not available yet, which upstream has not.
#[must_use]
pub fn certain_before_by_readiness(pod: &Pod, pods: &[&Arc<Pod>], by: Circumstances<'_>) -> usize {
    certain_before(pod, pods, Circumstances { min_ready_seconds: 0, ..by })
}

/// The same by upstream's comparison of pairs, for any order that its sort may produce.
///
/// Such a sort ends where no pod is less than its neighbour before it. The comparison is not transitive, so a pod may
/// still come before a lesser one with a third between them that compares well with both: of three ready pods whose
/// ready times are in one power of two, the first and the last may have equal times and differ from the middle one only
/// by uid. A pod that cannot be reached over such neighbours is certainly deleted before.
#[must_use]
pub fn certain_before_by_pairs(pod: &Pod, pods: &[&Arc<Pod>], by: Circumstances<'_>) -> usize {
    let mut left: Vec<&Pod> =
        pods.iter().map(|other| &***other).filter(|other| other.meta.uid != pod.meta.uid).collect();
    let mut reached = vec![pod];
    while let Some(from) = reached.pop() {
        left.retain(|other| {
            let before = reference(other, from, by);
            if !before {
                reached.push(other);
            }
            before
        });
    }
    left.len()
}

/// The values by which a pod is ranked, as text.
#[must_use]
pub fn text_of(pod: &Pod) -> String {
    let time = |time: Option<Timestamp>| time.map_or_else(|| "never".to_owned(), |time| time.to_string());
    format!(
        "{}: node {}, {}, ready since {}, cost {}, restarts {} and {}, created {}, uid {}",
        pod.meta.name,
        pod.node_name.as_deref().unwrap_or("none"),
        pod.phase.as_str(),
        time(pod.ready_since()),
        pod.deletion_cost,
        pod.restarts.regular,
        pod.restarts.sidecar,
        time(pod.meta.creation_timestamp),
        pod.meta.uid,
    )
}

/// By the ranking here. Kubernetes leaves the order open where all times are equal, so neither pod is before the other.
fn here(a: &Pod, b: &Pod, by: Circumstances<'_>) -> bool {
    let (left, right) = (by.rank(a), by.rank(b));
    left < right && !(left.ties(&right) && same_times(a, b))
}

/// By upstream's comparison, which is not transitive: pods whose ready times differ within one power of two are ordered
/// by uid before their restarts are compared.
fn reference(a: &Pod, b: &Pod, by: Circumstances<'_>) -> bool {
    let first = |pod: &Pod| {
        let more_on_node = std::cmp::Reverse(by.colocation.around(pod));
        (pod.node_name.is_some(), pod.phase.ordinal(), pod.is_ready(), pod.deletion_cost, more_on_node)
    };
    let order = first(a).cmp(&first(b));
    if order != Ordering::Equal {
        return order == Ordering::Less;
    }
    if a.is_ready() && b.is_ready() && a.ready_since() != b.ready_since() {
        return later(a, b, a.ready_since(), b.ready_since(), by.now);
    }
    if a.restarts != b.restarts {
        return a.restarts > b.restarts;
    }
    let (created, other) = (a.meta.creation_timestamp, b.meta.creation_timestamp);
    created != other && later(a, b, created, other, by.now)
}

fn later(a: &Pod, b: &Pod, left: Option<Timestamp>, right: Option<Timestamp>, now: Timestamp) -> bool {
    match Age::since(left, now).cmp(&Age::since(right, now)) {
        Ordering::Less => true,
        Ordering::Equal => a.meta.uid < b.meta.uid,
        Ordering::Greater => false,
    }
}

fn same_times(a: &Pod, b: &Pod) -> bool {
    a.ready_since() == b.ready_since() && a.meta.creation_timestamp == b.meta.creation_timestamp
}
