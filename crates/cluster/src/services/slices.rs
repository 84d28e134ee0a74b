//! The decision about the EndpointSlices of one Service: which are made, filled, changed and taken away.
//!
//! Endpoints with the same ports share slices of at most a hundred. What is there is changed as little as can be:
//! endpoints stay in the slice that they are in, slices that change anyway are filled first, then one that has just
//! room enough, and only then a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_objects::{Labels, Meta, Timestamp, Uid};
use serde_json::{Map, Value, json};

use super::trigger;
use super::wire::{
    Conditions, Endpoint, EndpointPort, EndpointSlice, Family, HEADLESS, Hints, MANAGED_BY, Named, SERVICE_NAME,
    SLICE_CONTROLLER, Service, ServicePort, TargetPort, TargetRef,
};
use crate::control::Slim;
use crate::pod::{Pod, Protocol};

/// How many endpoints a slice holds.
const MOST: usize = 100;

/// The labels of a slice that are its controller's own.
const RESERVED: [&str; 3] = [SERVICE_NAME, MANAGED_BY, HEADLESS];

/// What is to be written.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SlicePlan {
    /// Objects to create.
    pub(super) create: Vec<Value>,
    /// Merge patches by the name of the slice.
    pub(super) update: Vec<(Arc<str>, Value)>,
    /// Slices to delete.
    pub(super) delete: Vec<(Arc<str>, Uid)>,
    /// Whether a pod was left out because its node is not known.
    pub(super) incomplete: bool,
}

/// What makes the slices of a Service show its pods.
///
/// `pods` are those that it selects, `zone` says in which zone a node is (empty for none; `None` where there is no such
/// node), and `changed_at` is when what the slices show last changed.
pub(super) fn decide(
    service: &Slim<Service>,
    pods: &[Arc<Pod>],
    existing: &[Arc<Slim<EndpointSlice>>],
    zone: impl Fn(&str) -> Option<String>,
    changed_at: Option<Timestamp>,
) -> SlicePlan {
    let decision = Decision { service, labels: labels(service), changed_at };
    let mut plan = SlicePlan::default();
    let families = service.body.address_types();
    for family in &families {
        let of_family: Vec<&Arc<Slim<EndpointSlice>>> =
            existing.iter().filter(|slice| slice.body.address_type == family.as_str()).collect();
        let (desired, incomplete) = decision.desired(pods, *family, &zone);
        plan.incomplete |= incomplete;
        decision.reconcile(*family, desired, &of_family, &mut plan);
    }
    for slice in existing {
        if !families.iter().any(|family| slice.body.address_type == family.as_str()) {
            plan.delete.push((Arc::clone(&slice.meta.name), slice.meta.uid.clone()));
        }
    }
    plan
}

/// The number in a pod that a Service's port leads to.
pub(super) fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Name(name) => {
            let protocol = Protocol::parse(&port.protocol);
            let ports = pod.extras().ports.iter();
            ports.filter(|port| *port.name == **name && port.protocol == protocol).map(|port| port.number.into()).next()
        }
    }
}

/// Whether a pod has an address to show. Terminating pods are for who asks for them.
pub(super) fn has_endpoint(pod: &Pod, terminating: bool) -> bool {
    !pod.is_terminal() && !pod.status.pod_ips.is_empty() && (terminating || !pod.meta.is_being_deleted())
}

/// The name under which a pod wants to be found behind a Service.
pub(super) fn hostname(pod: &Pod, service: &Meta) -> Option<String> {
    let extras = pod.extras();
    (!extras.hostname.is_empty() && *extras.subdomain == *service.name).then(|| extras.hostname.to_string())
}

/// What a pod is called among endpoints.
pub(super) fn target(pod: &Pod) -> TargetRef {
    TargetRef {
        kind: "Pod".to_owned(),
        namespace: pod.meta.namespace.to_string(),
        name: pod.meta.name.to_string(),
        uid: pod.meta.uid.clone(),
    }
}

/// What makes an endpoint the one that it is; all else may change in place.
pub(super) type Identity = (Vec<String>, Option<String>, String, String);

pub(super) fn identity(endpoint: &Endpoint) -> Identity {
    let mut addresses = endpoint.addresses.clone();
    addresses.sort_unstable();
    let target = endpoint.target_ref.as_ref();
    let of = |field: fn(&TargetRef) -> &String| target.map(field).cloned().unwrap_or_default();
    let hostname = endpoint.hostname.clone().filter(|hostname| !hostname.is_empty());
    (addresses, hostname, of(|target| &target.namespace), of(|target| &target.name))
}

pub(super) fn equal_beyond_identity(a: &Endpoint, b: &Endpoint) -> bool {
    a.node_name == b.node_name && a.zone == b.zone && a.conditions == b.conditions && a.target_ref == b.target_ref
}

/// The labels of a Service's slices: its own, and those that say what they are.
fn labels(service: &Slim<Service>) -> Labels {
    let own = service.meta.labels.iter().filter(|(key, _)| !RESERVED.contains(key));
    let mut labels: BTreeMap<&str, &str> = own.collect();
    if !service.body.has_ip() {
        labels.insert(HEADLESS, "");
    }
    labels.insert(SERVICE_NAME, &service.meta.name);
    labels.insert(MANAGED_BY, SLICE_CONTROLLER);
    labels.into_iter().collect()
}

/// The labels that a slice should have in common with its Service.
fn own_labels(labels: &Labels) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().filter(|(key, _)| !RESERVED.contains(key))
}

/// The endpoints that should be there, by the ports that they have.
type Desired = BTreeMap<Vec<EndpointPort>, BTreeMap<Identity, Endpoint>>;

struct Decision<'a> {
    service: &'a Slim<Service>,
    labels: Labels,
    changed_at: Option<Timestamp>,
}

/// A slice that is there, and what becomes of it.
struct Draft<'a> {
    slice: &'a Slim<EndpointSlice>,
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unchanged,
    Update,
    Delete,
}

impl Decision<'_> {
    fn desired(&self, pods: &[Arc<Pod>], family: Family, zone: &impl Fn(&str) -> Option<String>) -> (Desired, bool) {
        let service = &self.service.body;
        let mut desired = Desired::new();
        let mut incomplete = false;
        for pod in pods.iter().filter(|pod| has_endpoint(pod, true)) {
            let group = desired.entry(self.ports(pod)).or_default();
            let zone = pod.node.as_deref().and_then(zone);
            if zone.is_none() && !service.publish_not_ready {
                incomplete = true;
                continue;
            }
            let addresses = pod.status.pod_ips.iter().filter(|ip| Family::of(ip) == family);
            let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
            if addresses.is_empty() {
                continue;
            }
            let (serving, terminating) = (pod.status.ready, pod.meta.is_being_deleted());
            let ready = service.publish_not_ready || serving && !terminating;
            let endpoint = Endpoint {
                addresses,
                conditions: Conditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) },
                hostname: hostname(pod, &self.service.meta),
                target_ref: Some(target(pod)),
                node_name: pod.node.as_deref().map(str::to_owned),
                zone: zone.filter(|zone| !zone.is_empty()),
                hints: None,
            };
            group.insert(identity(&endpoint), endpoint);
        }
        (desired, incomplete)
    }

    /// The ports that a pod has behind the Service, in an order that does not depend on the Service's.
    fn ports(&self, pod: &Pod) -> Vec<EndpointPort> {
        let ports = self.service.body.ports.iter().filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone()),
                port: Some(find_port(pod, port)?),
                protocol: Some(port.protocol.clone()),
                app_protocol: port.app_protocol.clone(),
            })
        });
        sorted(ports.collect())
    }

    fn reconcile(
        &self,
        family: Family,
        mut desired: Desired,
        existing: &[&Arc<Slim<EndpointSlice>>],
        plan: &mut SlicePlan,
    ) {
        let mut drafts: Vec<Draft<'_>> = existing
            .iter()
            .map(|slice| Draft {
                slice,
                ports: sorted(slice.body.ports.clone()),
                endpoints: slice.body.endpoints.clone(),
                fate: Fate::Delete,
            })
            .collect();
        let mut create: Vec<(Vec<EndpointPort>, Vec<Endpoint>)> = Vec::new();
        for (ports, group) in &mut desired {
            let owned = |draft: &Draft<'_>| draft.slice.body.is_owned_by("Service", &self.service.meta.uid);
            let mut of_group: Vec<&mut Draft<'_>> =
                drafts.iter_mut().filter(|draft| draft.ports == *ports && owned(draft)).collect();
            let new = self.pack(group, &mut of_group);
            create.extend(new.into_iter().map(|endpoints| (ports.clone(), endpoints)));
        }
        let left = drafts.iter().filter(|draft| draft.fate != Fate::Delete).count();
        if left == 0 && create.is_empty() {
            match &mut drafts[..] {
                [only] if self.is_placeholder(only.slice) => only.fate = Fate::Unchanged,
                _ => create.push((Vec::new(), Vec::new())),
            }
        }
        self.give_hints(&mut drafts, &mut create);
        self.put_into(family, drafts, create, plan);
    }

    /// Distributes a group of endpoints over the slices of its ports. Returns what new slices have to hold.
    fn pack(&self, group: &mut BTreeMap<Identity, Endpoint>, drafts: &mut [&mut Draft<'_>]) -> Vec<Vec<Endpoint>> {
        for draft in drafts.iter_mut() {
            let mut changed = false;
            let before = std::mem::take(&mut draft.endpoints);
            let count = before.len();
            for endpoint in before {
                if let Some(wanted) = group.remove(&identity(&endpoint)) {
                    changed |= !equal_beyond_identity(&wanted, &endpoint);
                    // Hints are decided upon later, and only where they are wrong do they change a slice.
                    draft.endpoints.push(Endpoint { hints: endpoint.hints, ..wanted });
                }
            }
            let relabelled = !own_labels(&draft.slice.meta.labels).eq(own_labels(&self.labels));
            draft.fate = match changed || draft.endpoints.len() != count {
                true if draft.endpoints.is_empty() => Fate::Delete,
                true => Fate::Update,
                false if relabelled => Fate::Update,
                false => Fate::Unchanged,
            };
        }
        let mut changing: Vec<&mut &mut Draft<'_>> =
            drafts.iter_mut().filter(|draft| draft.fate == Fate::Update).collect();
        // The fullest first. The sort is stable, so that equals keep the order of their names.
        changing.sort_by_key(|draft| std::cmp::Reverse(draft.endpoints.len()));
        for draft in changing {
            fill(&mut draft.endpoints, group);
        }
        let mut new = Vec::new();
        while !group.is_empty() {
            let room = |draft: &&mut &mut Draft<'_>| {
                let full = group.len() + draft.endpoints.len();
                (draft.fate == Fate::Unchanged && group.len() < MOST && full <= MOST).then(|| MOST - full)
            };
            let best = drafts.iter_mut().filter_map(|draft| Some((room(&draft)?, draft))).min_by_key(|(room, _)| *room);
            match best {
                Some((_, draft)) => {
                    fill(&mut draft.endpoints, group);
                    draft.fate = Fate::Update;
                }
                None => {
                    let mut endpoints = Vec::new();
                    fill(&mut endpoints, group);
                    new.push(endpoints);
                }
            }
        }
        new
    }

    /// Whether a slice is the one that stands for a Service without endpoints.
    fn is_placeholder(&self, slice: &Slim<EndpointSlice>) -> bool {
        slice.body.endpoints.is_empty()
            && slice.body.ports.is_empty()
            && slice.body.is_owned_by("Service", &self.service.meta.uid)
            && slice.meta.labels == self.labels
    }

    /// Hints where the Service's traffic should stay near; none elsewhere.
    fn give_hints(&self, drafts: &mut [Draft<'_>], create: &mut [(Vec<EndpointPort>, Vec<Endpoint>)]) {
        let distribution = self.service.body.traffic_distribution.as_deref();
        let near = matches!(distribution, Some("PreferClose" | "PreferSameZone" | "PreferSameNode"));
        let by_node = distribution == Some("PreferSameNode");
        let wanted = |endpoint: &Endpoint| {
            let named = |name: &Option<String>| name.iter().map(|name| Named { name: name.clone() }).collect();
            let for_nodes = if by_node { named(&endpoint.node_name) } else { Vec::new() };
            let hints = Hints { for_zones: named(&endpoint.zone), for_nodes };
            (hints != Hints::default()).then_some(hints)
        };
        let hint = |endpoint: &mut Endpoint| {
            // What is not ready keeps the hints that it has.
            let hints = match (near, endpoint.conditions.ready) {
                (true, Some(true)) => wanted(endpoint),
                (true, _) => endpoint.hints.clone(),
                (false, _) => None,
            };
            let changed = endpoint.hints != hints;
            endpoint.hints = hints;
            changed
        };
        for draft in drafts.iter_mut().filter(|draft| draft.fate != Fate::Delete) {
            let mut changed = false;
            for endpoint in &mut draft.endpoints {
                changed |= hint(endpoint);
            }
            if changed {
                draft.fate = Fate::Update;
            }
        }
        for endpoint in create.iter_mut().flat_map(|(_, endpoints)| endpoints) {
            hint(endpoint);
        }
    }

    fn put_into(
        &self,
        family: Family,
        drafts: Vec<Draft<'_>>,
        mut create: Vec<(Vec<EndpointPort>, Vec<Endpoint>)>,
        plan: &mut SlicePlan,
    ) {
        for draft in drafts {
            let slice = draft.slice;
            match draft.fate {
                Fate::Unchanged => {}
                Fate::Update => plan.update.push(self.patch(slice, &slice.body.ports, &draft.endpoints)),
                // Rather than to delete one slice and create another, the one is made the other.
                Fate::Delete if slice.body.is_owned_by("Service", &self.service.meta.uid) && !create.is_empty() => {
                    if let Some((ports, endpoints)) = create.pop() {
                        plan.update.push(self.patch(slice, &ports, &endpoints));
                    }
                }
                Fate::Delete => plan.delete.push((Arc::clone(&slice.meta.name), slice.meta.uid.clone())),
            }
        }
        // What a Service owns goes with it: nothing is added to one that is going.
        if !self.service.meta.is_being_deleted() {
            plan.create.extend(create.iter().map(|(ports, endpoints)| self.object(family, ports, endpoints)));
        }
    }

    fn object(&self, family: Family, ports: &[EndpointPort], endpoints: &[Endpoint]) -> Value {
        let service = &self.service.meta;
        let mut object = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": format!("{}-", service.name),
                "namespace": service.namespace,
                "labels": self.labels,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": service.name, "uid": service.uid,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": family.as_str(),
            "endpoints": endpoints,
            "ports": ports,
        });
        if let Some(time) = self.changed_at {
            object["metadata"]["annotations"] = json!({trigger::ANNOTATION: time.to_string()});
        }
        object
    }

    fn patch(&self, slice: &Slim<EndpointSlice>, ports: &[EndpointPort], endpoints: &[Endpoint]) -> (Arc<str>, Value) {
        let patch = json!({
            "metadata": {
                "uid": slice.meta.uid,
                "resourceVersion": slice.meta.resource_version,
                "labels": relabelled(&slice.meta.labels, &self.labels),
                "annotations": {trigger::ANNOTATION: self.changed_at.map(|time| time.to_string())},
            },
            "endpoints": endpoints,
            "ports": ports,
        });
        (Arc::clone(&slice.meta.name), patch)
    }
}

/// A merge patch that turns labels into others.
pub(super) fn relabelled(old: &Labels, new: &Labels) -> Map<String, Value> {
    let names: BTreeSet<&str> = old.iter().chain(new.iter()).map(|(key, _)| key).collect();
    let changed = names.into_iter().filter(|name| old.get(name) != new.get(name));
    changed.map(|name| (name.to_owned(), new.get(name).map_or(Value::Null, Value::from))).collect()
}

/// Ports in an order that does not depend on where they come from.
pub(super) fn sorted(mut ports: Vec<EndpointPort>) -> Vec<EndpointPort> {
    ports.sort_unstable();
    ports
}

/// Moves endpoints into a slice until it is full.
fn fill(endpoints: &mut Vec<Endpoint>, group: &mut BTreeMap<Identity, Endpoint>) {
    while endpoints.len() < MOST {
        let Some((_, endpoint)) = group.pop_first() else { return };
        endpoints.push(endpoint);
    }
}
