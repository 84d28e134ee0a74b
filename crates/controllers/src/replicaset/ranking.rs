//! Ranking: of too many pods, which go first (DEL).
//!
//! The order is that of the least harm: what does not run yet before what does, what is not ready before
//! what is, what its author calls cheap, what stands beside its like on one node, what turned ready or
//! was created lately. Each pod is given one key ([`Rank`]), and the smallest keys go. A key is a function
//! of one pod and `now` alone, so that the order is total by construction, and the same for everyone who
//! computes it.
//!
//! Times are compared by the power of two that their age in nanoseconds lies in. On so coarse a scale
//! pods of about the same age are equal, and the uid, which is as good as random, decides between them.
//! That spreads deletions over the zones and nodes that a scheduler filled one after the other, where
//! exact times would empty the youngest zone first (KEP-2185).
//!
//! Upstream compares pairs instead: two pods that turned ready at different times within one power of two
//! are told apart by uid at once, before their restarts are looked at; two of the very same time by
//! restarts. The two rules can contradict each other in a circle of three pods. Here restarts and creation
//! come before the uid in both cases. Wherever upstream's rules put pods in an order, this one agrees
//! but for pairs of that first sort with different restarts or creation buckets.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use muster_objects::meta::Uid;
use muster_objects::pod::Restarts;
use muster_objects::{Pod, Timestamp};

use super::claiming::Claimed;

/// On each node, how many active pods belong to the ReplicaSets of one controlling owner (DEL-03).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Colocation(BTreeMap<Arc<str>, u32>);

impl Colocation {
    /// Counts the active ones of related pods. Each pod must come up once.
    #[must_use]
    pub fn of<'a>(related: impl IntoIterator<Item = &'a Pod>) -> Self {
        let mut counts = Self::default();
        related.into_iter().for_each(|pod| counts.add(pod));
        counts
    }

    /// Counts one more related pod.
    pub fn add(&mut self, pod: &Pod) {
        if let (true, Some(node)) = (pod.is_active(), &pod.node_name) {
            *self.0.entry(Arc::clone(node)).or_default() += 1;
        }
    }

    /// How many stand on the pod's node. Pods without a node are not told apart by it: 0.
    #[must_use]
    pub fn around(&self, pod: &Pod) -> u32 {
        pod.node_name.as_ref().and_then(|node| self.0.get(node)).copied().unwrap_or(0)
    }
}

/// A pod's place in the order of deletion: smaller goes first.
///
/// The fields are compared from top to bottom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank<'a> {
    /// 1. Not assigned to a node before assigned.
    assigned: bool,
    /// 2. Pending before Unknown before Running.
    phase: u8,
    /// 3. Not ready before ready.
    ready: bool,
    /// 4. Lower deletion cost first.
    cost: i32,
    /// 5. More of its like on the node first.
    colocated: Reverse<u32>,
    /// 6. Both ready: ready more recently first.
    ready_for: Age,
    /// 7. More restarts of a container first, then of a sidecar.
    restarts: Reverse<Restarts>,
    /// 8. Created more recently first.
    created: Age,
    /// Equal so far: smaller uid first.
    uid: &'a Uid,
    /// No two pods have one uid; should they, their names tell them apart.
    name: &'a str,
}

impl<'a> Rank<'a> {
    /// The place of one pod. `now` is the server's wall clock.
    #[must_use]
    pub fn of(pod: &'a Pod, colocation: &Colocation, now: Timestamp) -> Self {
        let ready = pod.is_ready();
        Self {
            assigned: pod.node_name.is_some(),
            phase: pod.phase.ordinal(),
            ready,
            cost: pod.deletion_cost,
            colocated: Reverse(colocation.around(pod)),
            ready_for: if ready { Age::since(pod.ready_since(), now) } else { Age::Unknown },
            restarts: Reverse(pod.restarts),
            created: Age::since(pod.meta.creation_timestamp, now),
            uid: &pod.meta.uid,
            name: &pod.meta.name,
        }
    }

    /// Whether nothing but their uids tells the two apart.
    #[must_use]
    pub fn ties(&self, other: &Self) -> bool {
        Self { uid: other.uid, name: other.name, ..self.clone() } == *other
    }
}

/// How long ago something was, on a scale of powers of two. Smaller is more recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    /// Nobody wrote down when: counts as the most recent of all.
    Unknown,
    /// Not in the past.
    None,
    /// So many nanoseconds ago, as floor(log2).
    Log2(u32),
}

impl Age {
    /// The age of `time`.
    #[must_use]
    pub fn since(time: Option<Timestamp>, now: Timestamp) -> Self {
        let Some(time) = time else { return Self::Unknown };
        match u64::try_from(now.nanos_since(time)) {
            Ok(nanos @ 1..) => Self::Log2(nanos.ilog2()),
            _ => Self::None,
        }
    }
}

/// The `count` pods that go, the most dispensable first.
///
/// Where all go, none is compared with another (DEL-05): they come in the order they stand in.
#[must_use]
pub fn victims<'a>(pods: &'a [Claimed], colocation: &Colocation, count: usize, now: Timestamp) -> Vec<&'a Claimed> {
    let mut pods: Vec<&Claimed> = pods.iter().collect();
    if count >= pods.len() {
        return pods;
    }
    let rank = |claimed: &&'a Claimed| Rank::of(&claimed.pod, colocation, now);
    // Only those that go need an order among themselves.
    if count > 0 {
        pods.select_nth_unstable_by_key(count - 1, rank);
    }
    pods.truncate(count);
    pods.sort_unstable_by_key(rank);
    pods
}
