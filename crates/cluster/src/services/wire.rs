//! Services, EndpointSlices and Endpoints, as far as the controllers of endpoints read and write them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use muster_machinery::cache::{Cache, Index, Indexes, SelectorIndex, Slot};
use muster_objects::selector::LabelSelector;
use muster_objects::{Labels, Meta, ObjectKey, Selector, Uid};
use serde::{Deserialize, Deserializer, Serialize};

use crate::control::{Body, Slim};
use crate::json::{list, or_default};

/// The label that names the Service of an EndpointSlice.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that names who keeps an EndpointSlice.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label of what belongs to a Service without an address.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";
/// Who keeps the EndpointSlices of Services that select pods.
pub(super) const SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// Who keeps those that mirror Endpoints.
pub(super) const MIRROR: &str = "endpointslicemirroring-controller.k8s.io";
/// Annotations that are not mirrored.
const NOT_MIRRORED: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

/// Who keeps an EndpointSlice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Keeper {
    /// The controller of Services that select pods.
    Pods,
    /// The one that mirrors Endpoints.
    Mirror,
}

impl Keeper {
    fn of(slice: &Meta) -> Option<Self> {
        match slice.labels.get(MANAGED_BY)? {
            SLICE_CONTROLLER => Some(Self::Pods),
            MIRROR => Some(Self::Mirror),
            _ => None,
        }
    }

    /// The Service of a slice that this one keeps.
    pub(super) fn service_of(self, slice: &Meta) -> Option<Arc<str>> {
        let service = slice.labels.get(SERVICE_NAME).filter(|name| !name.is_empty())?;
        (Self::of(slice) == Some(self)).then(|| Arc::from(service))
    }
}

/// A Service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "WireService")]
pub(super) struct Service {
    /// The pods behind it; none where their addresses are somebody else's business.
    pub(super) selector: Option<Selector>,
    /// Its type; empty for the default.
    pub(super) kind: String,
    /// Its address, or `None`.
    pub(super) cluster_ip: String,
    /// The families of its addresses.
    pub(super) families: Vec<Family>,
    pub(super) ports: Vec<ServicePort>,
    /// Whether pods are shown whether they are ready or not.
    pub(super) publish_not_ready: bool,
    /// Which endpoints its clients should prefer.
    pub(super) traffic_distribution: Option<String>,
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) enum Family {
    #[serde(rename = "IPv4")]
    V4,
    #[serde(rename = "IPv6")]
    V6,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServicePort {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default = "tcp")]
    pub(super) protocol: String,
    #[serde(default)]
    pub(super) app_protocol: Option<String>,
    #[serde(default)]
    pub(super) target_port: TargetPort,
}

/// Where a Service's port leads in a pod.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum TargetPort {
    Number(i32),
    Name(String),
}

impl Default for TargetPort {
    fn default() -> Self {
        Self::Number(0)
    }
}

fn tcp() -> String {
    "TCP".to_owned()
}

#[derive(Deserialize)]
struct WireService {
    #[serde(default, deserialize_with = "or_default")]
    spec: WireServiceSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireServiceSpec {
    #[serde(deserialize_with = "or_default")]
    selector: Labels,
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    #[serde(deserialize_with = "list")]
    ip_families: Vec<Family>,
    #[serde(deserialize_with = "list")]
    ports: Vec<ServicePort>,
    publish_not_ready_addresses: bool,
    traffic_distribution: Option<String>,
}

impl From<WireService> for Service {
    fn from(wire: WireService) -> Self {
        let WireServiceSpec { selector, kind, cluster_ip, ip_families, ports, .. } = wire.spec;
        // A selector that is no set of labels is refused by the server.
        let selector = (!selector.is_empty())
            .then(|| Selector::try_from(&LabelSelector::from_labels(selector)).unwrap_or(Selector::nothing()));
        Self {
            selector,
            kind,
            cluster_ip,
            families: ip_families,
            ports,
            publish_not_ready: wire.spec.publish_not_ready_addresses,
            traffic_distribution: wire.spec.traffic_distribution,
        }
    }
}

impl Service {
    /// Whether it is only another name.
    pub(super) fn is_external_name(&self) -> bool {
        self.kind == "ExternalName"
    }

    /// Whether it says that it has no address.
    pub(super) fn is_headless(&self) -> bool {
        self.cluster_ip == "None"
    }

    /// Whether it has an address.
    pub(super) fn has_ip(&self) -> bool {
        !self.is_headless() && !self.cluster_ip.is_empty()
    }

    /// The family of its address, where it does not say.
    pub(super) fn family_of_ip(&self) -> Option<Family> {
        self.has_ip().then(|| Family::of(&self.cluster_ip))
    }

    /// The families of addresses that its EndpointSlices have.
    pub(super) fn address_types(&self) -> BTreeSet<Family> {
        match (self.families.is_empty(), self.family_of_ip()) {
            (false, _) => self.families.iter().copied().collect(),
            (true, Some(family)) => [family].into(),
            (true, None) => [Family::V4, Family::V6].into(),
        }
    }
}

impl Family {
    /// The family of an address; what is none counts as IPv4.
    pub(super) fn of(address: &str) -> Self {
        match address.parse() {
            Ok(IpAddr::V6(_)) => Self::V6,
            Ok(IpAddr::V4(_)) | Err(_) => Self::V4,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

impl Body for Service {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Service";
    type Indexes = ServiceIndexes;
}

/// The index of Services by what they select.
#[derive(Debug, Default)]
pub(super) struct ServiceIndexes(SelectorIndex);

impl Indexes<Slim<Service>> for ServiceIndexes {
    fn insert(&mut self, slot: Slot, service: &Slim<Service>) {
        if let Some(selector) = &service.body.selector {
            self.0.insert(slot, &service.meta.namespace, selector);
        }
    }

    fn remove(&mut self, slot: Slot, service: &Slim<Service>) {
        if let Some(selector) = &service.body.selector {
            self.0.remove(slot, &service.meta.namespace, selector);
        }
    }
}

/// The keys of the Services that select a pod.
pub(super) fn selecting(services: &Cache<Slim<Service>>, pod: &Meta) -> BTreeSet<ObjectKey> {
    let candidates = services.indexes().0.candidates(&pod.namespace, &pod.labels);
    let candidates = candidates.into_iter().filter_map(|slot| services.get_slot(slot));
    let selects = |service: &&Arc<Slim<Service>>| {
        service.body.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    };
    candidates.filter(selects).map(|service| service.meta.key()).collect()
}

/// An EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EndpointSlice {
    metadata: SliceMeta,
    pub(super) address_type: String,
    #[serde(deserialize_with = "list")]
    pub(super) endpoints: Vec<Endpoint>,
    #[serde(deserialize_with = "list")]
    pub(super) ports: Vec<EndpointPort>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SliceMeta {
    #[serde(deserialize_with = "list")]
    owner_references: Vec<SliceOwner>,
    #[serde(deserialize_with = "mirrored")]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SliceOwner {
    api_version: String,
    kind: String,
    uid: Uid,
}

impl EndpointSlice {
    /// Whether that Service, or those Endpoints, are among its owners.
    pub(super) fn is_owned_by(&self, kind: &str, uid: &Uid) -> bool {
        let owners = &self.metadata.owner_references;
        owners.iter().any(|owner| owner.uid == *uid && owner.kind == kind && owner.api_version == "v1")
    }

    /// Its annotations but for those that are never mirrored.
    pub(super) fn annotations(&self) -> &BTreeMap<String, String> {
        &self.metadata.annotations
    }
}

/// One pod among the endpoints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Endpoint {
    #[serde(deserialize_with = "list")]
    pub(super) addresses: Vec<String>,
    pub(super) conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target_ref: Option<TargetRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hints: Option<Hints>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Conditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) terminating: Option<bool>,
}

/// The object that an address leads to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TargetRef {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: Uid,
}

/// Whose clients an endpoint is meant for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Hints {
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(super) for_zones: Vec<Named>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(super) for_nodes: Vec<Named>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub(super) name: String,
}

/// A port of endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EndpointPort {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) app_protocol: Option<String>,
}

impl Body for EndpointSlice {
    const API_VERSION: &'static str = "discovery.k8s.io/v1";
    const KIND: &'static str = "EndpointSlice";
    type Indexes = SliceIndexes;
}

/// The index of the EndpointSlices that the controller here keeps, by the Service that they belong to.
#[derive(Debug, Default)]
pub(super) struct SliceIndexes(Index<(Keeper, ObjectKey)>);

impl SliceIndexes {
    fn key(slice: &Slim<EndpointSlice>) -> Option<(Keeper, ObjectKey)> {
        let keeper = Keeper::of(&slice.meta)?;
        Some((keeper, ObjectKey::new(Arc::clone(&slice.meta.namespace), keeper.service_of(&slice.meta)?)))
    }
}

impl Indexes<Slim<EndpointSlice>> for SliceIndexes {
    fn insert(&mut self, slot: Slot, slice: &Slim<EndpointSlice>) {
        if let Some(key) = Self::key(slice) {
            self.0.insert(key, slot);
        }
    }

    fn remove(&mut self, slot: Slot, slice: &Slim<EndpointSlice>) {
        if let Some(key) = Self::key(slice) {
            self.0.remove(&key, slot);
        }
    }
}

impl SliceIndexes {
    /// The slices of a Service that one keeps and that are not being deleted, sorted by name.
    pub(super) fn of_service(
        cache: &Cache<Slim<EndpointSlice>>,
        keeper: Keeper,
        service: &ObjectKey,
    ) -> Vec<Arc<Slim<EndpointSlice>>> {
        let key = (keeper, service.clone());
        let slots = cache.indexes().0.get(&key);
        let mut slices: Vec<_> = slots.filter_map(|slot| cache.get_slot(slot).cloned()).collect();
        slices.retain(|slice| !slice.meta.is_being_deleted());
        slices.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
        slices
    }
}

/// Endpoints.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Endpoints {
    metadata: EndpointsMeta,
    #[serde(deserialize_with = "list")]
    pub(super) subsets: Vec<Subset>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct EndpointsMeta {
    #[serde(deserialize_with = "mirrored")]
    annotations: BTreeMap<String, String>,
}

/// Annotations without those that are never mirrored.
fn mirrored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let mut annotations: BTreeMap<String, String> = or_default(deserializer)?;
    annotations.retain(|name, _| !NOT_MIRRORED.contains(&name.as_str()));
    Ok(annotations)
}

impl Endpoints {
    /// Its annotations but for those that are never mirrored.
    pub(super) fn annotations(&self) -> &BTreeMap<String, String> {
        &self.metadata.annotations
    }

    /// Whether an annotation is there.
    pub(super) fn has_annotation(&self, name: &str) -> bool {
        self.metadata.annotations.contains_key(name)
    }
}

impl Body for Endpoints {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Endpoints";
    type Indexes = ();
}

/// Addresses that have the same ports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Subset {
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(super) addresses: Vec<Address>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(super) not_ready_addresses: Vec<Address>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(super) ports: Vec<SubsetPort>,
}

/// One address.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Address {
    pub(super) ip: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target_ref: Option<TargetRef>,
}

/// One port.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SubsetPort {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    pub(super) port: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) app_protocol: Option<String>,
}
