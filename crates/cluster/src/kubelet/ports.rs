//! The ports of a node that its pods have taken: a pod that asks for one of them again is not admitted.
//!
//! A scheduler binds no such pod; one that names its node itself comes past it.

use std::collections::BTreeMap;

use muster_objects::Uid;

use crate::pod::HostPort;

/// The message of a pod that is not admitted, beside the reason `NodePorts`.
pub(super) const TAKEN: &str = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";

/// Who took which ports of a node.
#[derive(Debug, Default)]
pub(super) struct Ports(BTreeMap<HostPort, Vec<Uid>>);

impl Ports {
    /// Whether one of these is taken by a pod that runs.
    pub(super) fn are_taken(&self, ports: &[HostPort], runs: impl Fn(&Uid) -> bool) -> bool {
        ports.iter().flat_map(|port| port.rivals(&self.0)).flatten().any(runs)
    }

    /// A pod came that asks for these.
    pub(super) fn take(&mut self, ports: &[HostPort], pod: &Uid) {
        for port in ports {
            self.0.entry(port.clone()).or_default().push(pod.clone());
        }
    }

    /// The pod is gone.
    pub(super) fn release(&mut self, ports: &[HostPort], pod: &Uid) {
        for port in ports {
            if let Some(holders) = self.0.get_mut(port) {
                holders.retain(|holder| holder != pod);
                if holders.is_empty() {
                    self.0.remove(port);
                }
            }
        }
    }
}
