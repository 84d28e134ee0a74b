//! Whether a pod fits a node, and how a real scheduler words it when it fits none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::node::Node;
use crate::pod::{HostPort, PodSpec};
use crate::resources::Resources;
use crate::taints::{Effect, TolerationOperator, untolerated};

/// The taint that stands for `spec.unschedulable`.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// A node and what is already promised of it.
#[derive(Debug)]
pub(super) struct NodeInfo {
    /// The node as it was last seen.
    pub(super) node: Arc<Node>,
    /// What the pods on it request, those included that are only assumed to be there.
    pub(super) requested: Resources,
    /// How many they are.
    pub(super) pods: usize,
    /// The ports they took, with how many took them.
    pub(super) ports: BTreeMap<HostPort, u32>,
}

/// Why a pod does not fit a node.
#[derive(Debug, Default)]
pub(super) struct Misfit {
    /// In the words of a real scheduler, one for each thing that is short.
    pub(super) reasons: Vec<String>,
    /// Whether pods leaving the node could not help.
    pub(super) unresolvable: bool,
}

impl Misfit {
    /// Pods that leave the node could not help.
    pub(super) fn never(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], unresolvable: true }
    }

    /// They could.
    pub(super) fn now(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], unresolvable: false }
    }
}

impl NodeInfo {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node, requested: Resources::default(), pods: 0, ports: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, requests: &Resources, ports: &[HostPort]) {
        self.requested.add(requests);
        self.pods += 1;
        for port in ports {
            *self.ports.entry(port.clone()).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, requests: &Resources, ports: &[HostPort]) {
        self.requested.subtract(requests);
        self.pods = self.pods.saturating_sub(1);
        for port in ports {
            if let Some(count) = self.ports.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.ports.remove(port);
                }
            }
        }
    }

    /// Whether the node would rather not have the pod: a PreferNoSchedule taint that it does not bear.
    pub(super) fn is_unwelcome(&self, pod: &PodSpec) -> bool {
        untolerated(&self.node.taints, &pod.tolerations, &[Effect::PreferNoSchedule]).is_some()
    }

    /// Whether the pod fits, asked in the order in which a real scheduler asks; the first plugin that
    /// says no has the word.
    pub(super) fn fit(&self, pod: &PodSpec) -> Result<(), Misfit> {
        if self.node.unschedulable && !tolerates_cordon(pod) {
            return Err(Misfit::never("node(s) were unschedulable"));
        }
        if !self.is_tolerated_by(pod) {
            return Err(Misfit::never("node(s) had untolerated taint(s)"));
        }
        if !self.is_wanted_by(pod) {
            return Err(Misfit::never("node(s) didn't match Pod's node affinity/selector"));
        }
        if pod.host_ports.iter().any(|port| port.rivals(&self.ports).next().is_some()) {
            return Err(Misfit::now("node(s) didn't have free ports for the requested pod ports"));
        }
        self.has_room(pod)
    }

    /// Whether the pod bears its taints.
    pub(super) fn is_tolerated_by(&self, pod: &PodSpec) -> bool {
        untolerated(&self.node.taints, &pod.tolerations, &[Effect::NoSchedule, Effect::NoExecute]).is_none()
    }

    /// Whether the pod's node selector and affinity allow it.
    pub(super) fn is_wanted_by(&self, pod: &PodSpec) -> bool {
        let labels = &self.node.meta.labels;
        pod.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && pod
                .node_terms
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term.matches(&self.node.meta.name, labels)))
    }

    fn has_room(&self, pod: &PodSpec) -> Result<(), Misfit> {
        let mut misfit = Misfit::default();
        if i64::try_from(self.pods).unwrap_or(i64::MAX) >= self.node.pods {
            misfit.reasons.push("Too many pods".to_owned());
        }
        let (have, used, want) = (&self.node.allocatable, &self.requested, &pod.requests);
        let mut short = |name: &str, want: i64, have: i64, used: i64| {
            if want > 0 && want > have.saturating_sub(used) {
                misfit.reasons.push(format!("Insufficient {name}"));
                misfit.unresolvable |= want > have;
            }
        };
        short("cpu", want.milli_cpu, have.milli_cpu, used.milli_cpu);
        short("memory", want.memory, have.memory, used.memory);
        short("ephemeral-storage", want.ephemeral_storage, have.ephemeral_storage, used.ephemeral_storage);
        for (name, amount) in &want.other {
            short(name, *amount, have.extended(name), used.extended(name));
        }
        if misfit.reasons.is_empty() { Ok(()) } else { Err(misfit) }
    }
}

fn tolerates_cordon(pod: &PodSpec) -> bool {
    pod.tolerations.iter().any(|toleration| {
        let key = toleration.key.is_empty() && toleration.operator == TolerationOperator::Exists
            || &*toleration.key == UNSCHEDULABLE_TAINT;
        key && toleration.effect.is_none_or(|effect| effect == Effect::NoSchedule)
            && (toleration.operator == TolerationOperator::Exists || toleration.value.is_empty())
    })
}

/// The message of a pod that may go nowhere, whatever the nodes: `why`, in a real scheduler's words.
pub(super) fn explain_all(total: usize, why: &str) -> String {
    if total == 0 {
        return NO_NODES.to_owned();
    }
    format!(
        "0/{total} nodes are available: {why}. no new claims to deallocate, preemption: 0/{total} nodes are available: \
         {total} Preemption is not helpful for scheduling.",
    )
}

const NO_NODES: &str = "no nodes available to schedule pods";

/// The message of a pod that fits nowhere, word for word as a real scheduler's, its attempt at
/// preemption (of which simulated pods are never the victims) included.
pub(super) fn explain<'n>(
    nodes: impl Iterator<Item = &'n NodeInfo>,
    fit: impl Fn(&NodeInfo) -> Result<(), Misfit>,
) -> String {
    let mut total = 0;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut unhelpful, mut no_victims) = (0, 0);
    for node in nodes {
        total += 1;
        let misfit = fit(node).err().unwrap_or_default();
        if misfit.unresolvable {
            unhelpful += 1;
        } else {
            no_victims += 1;
        }
        for reason in misfit.reasons {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    if total == 0 {
        return NO_NODES.to_owned();
    }
    // Upstream sorts the finished phrases, counts included.
    let phrases: BTreeSet<String> = reasons.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let phrases: Vec<String> = phrases.into_iter().collect();
    let mut preemption: BTreeSet<String> = BTreeSet::new();
    if unhelpful > 0 {
        preemption.insert(format!("{unhelpful} Preemption is not helpful for scheduling"));
    }
    if no_victims > 0 {
        preemption.insert(format!("{no_victims} No preemption victims found for incoming pod"));
    }
    let preemption: Vec<String> = preemption.into_iter().collect();
    format!(
        "0/{total} nodes are available: {}. no new claims to deallocate, preemption: 0/{total} nodes are available: {}.",
        phrases.join(", "),
        preemption.join(", "),
    )
}
