//! Ranking: which pods of a surplus are deleted first (DEL).
//!
//! The order is that of the least harm: pods that do not run yet first, then those that are not ready, those that are not
//! available yet, those with a low deletion cost, those with more related pods on their node, and those that turned ready
//! or were created recently. Upstream has no rule for pods that are ready for less than `minReadySeconds`, and deletes
//! available ones in their place where a deletion cost, more pods on the node or the uid says so (B-29).
//!
//! Each pod has one key ([`Rank`]), and the smallest keys are deleted. A key is a function of one pod and of what is the
//! same for all pods of an owner ([`Circumstances`]), so the order is total by construction, and the same for everyone
//! who computes it.
//!
//! Times are compared by the power of two that their age in nanoseconds lies in. On so coarse a scale pods of about the
//! same age are equal, and the uid, which is as good as random, decides between them. That spreads deletions over the
//! zones and nodes that a scheduler filled one after the other; exact times would empty the youngest zone first
//! (KEP-2185).
//!
//! Upstream compares pairs instead: two pods that turned ready at different times within one power of two are ordered
//! by uid before their restarts are compared; two of equal ready times by restarts. The two rules can contradict each
//! other in a cycle of three pods. Here restarts and creation come before the uid in both cases. Wherever upstream's
//! rules give an order this one agrees, except for pairs of the first sort with different restarts or creation buckets.

use std::cmp::Ordering;
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
    /// Counts the active ones of related pods. Each pod must occur once.
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

    /// How many are on the pod's node; 0 for a pod without a node.
    #[must_use]
    pub fn around(&self, pod: &Pod) -> u32 {
        pod.node_name.as_ref().and_then(|node| self.0.get(node)).copied().unwrap_or(0)
    }
}

/// The criteria that order two pods. They are applied in this order, and the first by which the two differ decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// 1. Not assigned to a node before assigned.
    Assigned,
    /// 2. Pending before Unknown before Running.
    Phase,
    /// 3. Not ready before ready.
    Ready,
    /// Ready for less than `minReadySeconds` before available. Upstream has no such rule.
    Available,
    /// 4. Lower deletion cost first.
    Cost,
    /// 5. More related pods on the node first.
    Colocated,
    /// 6. Both ready: ready more recently first.
    ReadyFor,
    /// 7. More restarts of a container first.
    Restarts,
    /// 7. Then more restarts of a sidecar.
    SidecarRestarts,
    /// 8. Created more recently first.
    Created,
    /// Equal so far: smaller uid first.
    Uid,
    /// By name, should two pods have the same uid.
    Name,
}

impl Rule {
    /// All of them, in the order in which they apply.
    pub const ALL: [Self; 12] = [
        Self::Assigned,
        Self::Phase,
        Self::Ready,
        Self::Available,
        Self::Cost,
        Self::Colocated,
        Self::ReadyFor,
        Self::Restarts,
        Self::SidecarRestarts,
        Self::Created,
        Self::Uid,
        Self::Name,
    ];

    /// Its row of the contract, such as `DEL-01`.
    #[must_use]
    pub const fn row(self) -> &'static str {
        match self {
            Self::Assigned | Self::Phase | Self::Ready => "DEL-01",
            Self::Available => "B-29",
            Self::Cost => "DEL-02",
            Self::Colocated => "DEL-03",
            Self::ReadyFor | Self::Restarts | Self::SidecarRestarts | Self::Created | Self::Uid | Self::Name => {
                "DEL-04"
            }
        }
    }
}

/// A pod's place in the order of deletion: the smaller is deleted first, by the first [`Rule`] by which two differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank<'a> {
    assigned: bool,
    phase: u8,
    ready: bool,
    available: bool,
    cost: i32,
    colocated: u32,
    ready_for: Age,
    restarts: Restarts,
    created: Age,
    uid: &'a Uid,
    name: &'a str,
}

impl Ord for Rank<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(other).0
    }
}

impl PartialOrd for Rank<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What the pods of one owner are ranked by, besides themselves.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// How many related pods are on each node.
    pub colocation: &'a Colocation,
    /// The owner's `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// The server's wall clock.
    pub now: Timestamp,
}

impl Circumstances<'_> {
    /// The rank of one pod.
    #[must_use]
    pub fn rank<'a>(&self, pod: &'a Pod) -> Rank<'a> {
        let &Self { colocation, min_ready_seconds, now } = self;
        let ready = pod.is_ready();
        Rank {
            assigned: pod.node_name.is_some(),
            phase: pod.phase.ordinal(),
            ready,
            available: pod.is_available(min_ready_seconds, now),
            cost: pod.deletion_cost,
            colocated: colocation.around(pod),
            ready_for: if ready { Age::since(pod.ready_since(), now) } else { Age::Unknown },
            restarts: pod.restarts,
            created: Age::since(pod.meta.creation_timestamp, now),
            uid: &pod.meta.uid,
            name: &pod.meta.name,
        }
    }
}

impl Rank<'_> {
    /// Which of two pods is deleted first, and the rule that decides: the last one if the two are equal.
    ///
    /// Pods are deleted by this comparison.
    #[must_use]
    pub fn compare(&self, other: &Self) -> (Ordering, Rule) {
        for rule in Rule::ALL {
            let order = self.compare_by(other, rule);
            if order.is_ne() {
                return (order, rule);
            }
        }
        (Ordering::Equal, Rule::Name)
    }

    fn compare_by(&self, other: &Self, rule: Rule) -> Ordering {
        match rule {
            Rule::Assigned => self.assigned.cmp(&other.assigned),
            Rule::Phase => self.phase.cmp(&other.phase),
            Rule::Ready => self.ready.cmp(&other.ready),
            Rule::Available => self.available.cmp(&other.available),
            Rule::Cost => self.cost.cmp(&other.cost),
            Rule::Colocated => other.colocated.cmp(&self.colocated),
            Rule::ReadyFor => self.ready_for.cmp(&other.ready_for),
            Rule::Restarts => other.restarts.regular.cmp(&self.restarts.regular),
            Rule::SidecarRestarts => other.restarts.sidecar.cmp(&self.restarts.sidecar),
            Rule::Created => self.created.cmp(&other.created),
            Rule::Uid => self.uid.cmp(other.uid),
            Rule::Name => self.name.cmp(other.name),
        }
    }

    /// Whether the two differ only by uid and name.
    #[must_use]
    pub fn ties(&self, other: &Self) -> bool {
        let (order, rule) = self.compare(other);
        order.is_eq() || matches!(rule, Rule::Uid | Rule::Name)
    }
}

/// How long ago something was, on a scale of powers of two. Smaller is more recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    /// The time is not known: counts as the most recent of all.
    Unknown,
    /// Not in the past.
    None,
    /// floor(log2) of the nanoseconds.
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

/// The `count` pods to delete, in order.
///
/// If all are deleted they are not ranked (DEL-05), and keep their order.
#[must_use]
pub fn victims<'a>(pods: &'a [Claimed], by: Circumstances<'_>, count: usize) -> Vec<&'a Claimed> {
    let mut pods: Vec<&Claimed> = pods.iter().collect();
    if count >= pods.len() {
        return pods;
    }
    let rank = |claimed: &&'a Claimed| by.rank(&claimed.pod);
    // Only the pods to delete need an order among themselves.
    if count > 0 {
        pods.select_nth_unstable_by_key(count - 1, rank);
    }
    pods.truncate(count);
    pods.sort_unstable_by_key(rank);
    pods
}
