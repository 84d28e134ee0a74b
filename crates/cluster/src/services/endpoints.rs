//! The decision about the Endpoints of one Service.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_objects::{Labels, Timestamp};
use serde_json::{Map, Value, json};

use super::repack::repack;
use super::slices::{find_port, has_endpoint, hostname, relabelled, target};
use super::trigger;
use super::wire::{Address, Endpoints, Family, HEADLESS, Service, Subset, SubsetPort};
use crate::control::Slim;
use crate::pod::Pod;

/// The label that says who keeps Endpoints.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Who does here.
const CONTROLLER: &str = "endpoint-controller";
/// The annotation of Endpoints that do not show every address.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// How many addresses Endpoints show.
const MOST: usize = 1000;

/// What is to be written.
#[derive(Debug, PartialEq)]
pub(super) enum EndpointsWrite {
    /// An object to create.
    Create(Value),
    /// A merge patch of the one that is there.
    Patch(Value),
}

/// What makes the Endpoints show the pods that the Service selects; none where they do already.
pub(super) fn decide(
    service: &Slim<Service>,
    pods: &[Arc<Pod>],
    existing: Option<&Slim<Endpoints>>,
    changed_at: Option<Timestamp>,
) -> Option<EndpointsWrite> {
    let mut subsets = subsets(service, pods);
    if let Some(existing) = existing {
        let same = existing.body.subsets == subsets || repack(&existing.body.subsets) == subsets;
        let labelled = labels_are_right(&existing.meta.labels, &service.meta.labels);
        let over = existing.body.has_annotation(OVER_CAPACITY) || count(&existing.body.subsets) > MOST;
        if same && labelled && !over {
            return None;
        }
    }
    let truncated = truncate(&mut subsets);
    let labels = labels(service);
    Some(match existing {
        None => {
            let mut annotations = Map::new();
            if let Some(time) = changed_at {
                annotations.insert(trigger::ANNOTATION.to_owned(), time.to_string().into());
            }
            if truncated {
                annotations.insert(OVER_CAPACITY.to_owned(), "truncated".into());
            }
            let metadata = json!({
                "name": service.meta.name, "namespace": service.meta.namespace,
                "labels": labels, "annotations": annotations,
            });
            let object = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});
            EndpointsWrite::Create(object)
        }
        Some(existing) => EndpointsWrite::Patch(json!({
            "metadata": {
                "uid": existing.meta.uid,
                "resourceVersion": existing.meta.resource_version,
                "labels": relabelled(&existing.meta.labels, &labels),
                "annotations": {
                    trigger::ANNOTATION: changed_at.map(|time| time.to_string()),
                    OVER_CAPACITY: truncated.then_some("truncated"),
                },
            },
            "subsets": subsets,
        })),
    })
}

fn subsets(service: &Slim<Service>, pods: &[Arc<Pod>]) -> Vec<Subset> {
    let Service { ports, publish_not_ready, .. } = &service.body;
    let mut subsets = Vec::new();
    for pod in pods.iter().filter(|pod| has_endpoint(pod, *publish_not_ready)) {
        let Some(ip) = address(&service.body, pod) else { continue };
        let address = Address {
            ip,
            hostname: hostname(pod, &service.meta).unwrap_or_default(),
            node_name: Some(pod.node.as_deref().unwrap_or_default().to_owned()),
            target_ref: Some(target(pod)),
        };
        let mut push = |ports: Vec<SubsetPort>| {
            let (addresses, not_ready_addresses) = match *publish_not_ready || pod.status.ready {
                true => (vec![address.clone()], Vec::new()),
                false => (Vec::new(), vec![address.clone()]),
            };
            subsets.push(Subset { addresses, not_ready_addresses, ports });
        };
        if ports.is_empty() && service.body.is_headless() {
            push(Vec::new());
        }
        for port in ports {
            if let Some(number) = find_port(pod, port) {
                push(vec![SubsetPort {
                    name: port.name.clone(),
                    port: number,
                    protocol: port.protocol.clone(),
                    app_protocol: port.app_protocol.clone(),
                }]);
            }
        }
    }
    repack(&subsets)
}

/// A pod's address of the Service's first family.
fn address(service: &Service, pod: &Pod) -> Option<String> {
    let ips = &pod.status.pod_ips;
    let family = service.families.first().copied().or(service.family_of_ip());
    let family = family.or_else(|| ips.first().map(|ip| Family::of(ip)))?;
    ips.iter().find(|ip| Family::of(ip) == family).map(ToString::to_string)
}

fn labels(service: &Slim<Service>) -> Labels {
    let mut labels: BTreeMap<&str, &str> = service.meta.labels.iter().collect();
    if service.body.has_ip() {
        labels.remove(HEADLESS);
    } else {
        labels.insert(HEADLESS, "");
    }
    labels.insert(MANAGED_BY, CONTROLLER);
    labels.into_iter().collect()
}

fn labels_are_right(labels: &Labels, service: &Labels) -> bool {
    let own = || labels.iter().filter(|(key, _)| *key != HEADLESS && *key != MANAGED_BY);
    labels.get(MANAGED_BY) == Some(CONTROLLER)
        && own().all(|(key, value)| service.get(key) == Some(value))
        && own().count() == service.len()
}

fn count(subsets: &[Subset]) -> usize {
    subsets.iter().map(|subset| subset.addresses.len() + subset.not_ready_addresses.len()).sum()
}

/// Leaves a thousand addresses at most, ready ones rather than others, of each subset in proportion. Says whether any
/// had to go.
fn truncate(subsets: &mut [Subset]) -> bool {
    if count(subsets) <= MOST {
        return false;
    }
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let too_many_ready = ready > MOST;
    let (most, total) = match too_many_ready {
        true => (MOST, ready),
        false => (MOST - ready, subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum()),
    };
    let mut left = most;
    for subset in subsets {
        let list = if too_many_ready {
            subset.not_ready_addresses.clear();
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        list.truncate((list.len() * most).div_ceil(total).min(left));
        left -= list.len();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-27
    #[test]
    fn a_thousand_addresses_are_kept_ready_ones_first() {
        let addresses = |count: usize| vec![Address::default(); count];
        let subset = |ready: usize, not_ready: usize| Subset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: Vec::new(),
        };
        for (name, before, after) in [
            ("a thousand", vec![(500, 500)], vec![(500, 500)]),
            ("too many that are not ready", vec![(500, 1000)], vec![(500, 500)]),
            ("too many that are ready", vec![(1500, 20)], vec![(1000, 0)]),
            ("in proportion", vec![(900, 20), (600, 3)], vec![(600, 0), (400, 0)]),
            ("rounded up until none is left", vec![(0, 333), (0, 334), (0, 666)], vec![(0, 250), (0, 251), (0, 499)]),
        ] {
            let mut subsets: Vec<Subset> = before.iter().map(|(ready, other)| subset(*ready, *other)).collect();
            assert_eq!(truncate(&mut subsets), before != after, "{name}");
            let left: Vec<_> = subsets.iter().map(|s| (s.addresses.len(), s.not_ready_addresses.len())).collect();
            assert_eq!(left, after, "{name}");
        }
    }
}
