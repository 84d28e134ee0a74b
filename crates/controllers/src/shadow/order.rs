//! Order: which of two pods goes first, here and by the reference's own comparison (DEL-04).

use std::cmp::Ordering;

use muster_objects::{Pod, Timestamp};

use crate::replicaset::ranking::{Age, Colocation, Rank};

/// A comparison of two pods: whether the first goes for certain before the second.
pub type Before = fn(&Pod, &Pod, &Colocation, Timestamp) -> bool;

/// By the ranking here. Where all times are the same Kubernetes leaves open which goes, and neither goes before the
/// other.
#[must_use]
pub fn here(a: &Pod, b: &Pod, colocation: &Colocation, now: Timestamp) -> bool {
    let (left, right) = (Rank::of(a, colocation, now), Rank::of(b, colocation, now));
    left < right && !(left.ties(&right) && same_times(a, b))
}

/// By the reference's comparison, which is not transitive: pods whose ready times differ within one power of two are
/// told apart by their uids before their restarts are looked at.
#[must_use]
pub fn reference(a: &Pod, b: &Pod, colocation: &Colocation, now: Timestamp) -> bool {
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
