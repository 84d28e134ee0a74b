//! Order: which of two pods goes first, here and by the reference's own comparison (DEL-04).

use std::cmp::Ordering;
use std::sync::Arc;

use muster_objects::{Pod, Timestamp};

use muster_controllers::replicaset::ranking::{Age, Colocation, Rank};

/// How many of the pods go for certain before `pod`, by the ranking here.
#[must_use]
pub fn certain_before(pod: &Pod, pods: &[&Arc<Pod>], colocation: &Colocation, now: Timestamp) -> usize {
    pods.iter().filter(|other| here(other, pod, colocation, now)).count()
}

/// The same by the reference's comparison of pairs, whatever its sort makes of it.
///
/// A sort by comparing neighbours ends where none is less than the one before it. As the comparison is not transitive,
/// a pod may stand before one that is less than it, where a third stands between that goes with both: of three ready
/// pods in one power of two, the first and the last may have the same times, and be told apart from the one between
/// by uid. What cannot be reached over such neighbours goes before.
#[must_use]
pub fn certain_before_by_pairs(pod: &Pod, pods: &[&Arc<Pod>], colocation: &Colocation, now: Timestamp) -> usize {
    let mut left: Vec<&Pod> =
        pods.iter().map(|other| &***other).filter(|other| other.meta.uid != pod.meta.uid).collect();
    let mut reached = vec![pod];
    while let Some(from) = reached.pop() {
        left.retain(|other| {
            let before = reference(other, from, colocation, now);
            if !before {
                reached.push(other);
            }
            before
        });
    }
    left.len()
}

/// What a pod is ranked by, for people.
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

/// By the ranking here. Where all times are the same Kubernetes leaves open which goes, and neither goes before the
/// other.
fn here(a: &Pod, b: &Pod, colocation: &Colocation, now: Timestamp) -> bool {
    let (left, right) = (Rank::of(a, colocation, now), Rank::of(b, colocation, now));
    left < right && !(left.ties(&right) && same_times(a, b))
}

/// By the reference's comparison, which is not transitive: pods whose ready times differ within one power of two are
/// told apart by their uids before their restarts are looked at.
fn reference(a: &Pod, b: &Pod, colocation: &Colocation, now: Timestamp) -> bool {
    let first = |pod: &Pod| {
        let more_on_node = std::cmp::Reverse(colocation.around(pod));
        (pod.node_name.is_some(), pod.phase.ordinal(), pod.is_ready(), pod.deletion_cost, more_on_node)
    };
    let order = first(a).cmp(&first(b));
    if order != Ordering::Equal {
        return order == Ordering::Less;
    }
    if a.is_ready() && b.is_ready() && a.ready_since() != b.ready_since() {
        return later(a, b, a.ready_since(), b.ready_since(), now);
    }
    if a.restarts != b.restarts {
        return a.restarts > b.restarts;
    }
    let (created, other) = (a.meta.creation_timestamp, b.meta.creation_timestamp);
    created != other && later(a, b, created, other, now)
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
