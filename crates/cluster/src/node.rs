//! The slim node: what the scheduler and the lifecycle of nodes read of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_objects::{DecodeError, Interner, Meta, Object, Timestamp};
use serde::Deserialize;

use crate::fate::PREFIX;
use crate::json::{Text, list, or_default};
use crate::metadata::WireMeta;
use crate::resources::{Resources, WireResources};
use crate::taints::{Effect, Taint};

/// The status of a node's Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The node posts that it is ready.
    True,
    /// The node posts that it is not.
    False,
    /// It has stopped posting.
    Unknown,
    /// It never posted.
    Absent,
}

/// The name of a resource, and how much of it there is; nothing where it has gone.
pub type Advertised = (Arc<str>, Option<Box<str>>);

/// A node, as far as the cluster's loops look at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its metadata, labels included.
    pub meta: Meta,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Box<[Taint]>,
    /// What it has to give.
    pub allocatable: Resources,
    /// How many pods it takes.
    pub pods: i64,
    /// Extended resources of which it has something else to give than its capacity says, each with its capacity.
    pub advertised: Box<[Advertised]>,
    /// Its Ready condition.
    pub ready: Readiness,
    /// When that last changed.
    pub ready_since: Option<Timestamp>,
    /// Its internal address.
    pub address: Option<Arc<str>>,
    /// `muster.dev/simulated: "true"`: a node that someone made by hand and wants simulated.
    pub simulated: bool,
    /// `muster.dev/unreachable: "true"`: its agent is cut off.
    pub unreachable: bool,
}

impl Object for Node {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let wire: WireNode<'_> = muster_objects::json::from_slice(json).map_err(DecodeError::of("Node"))?;
        let annotations = &wire.metadata.annotations.0;
        let annotated = |name: &str| {
            let annotations = annotations.iter();
            annotations
                .filter_map(|(k, v)| Some((k.strip_prefix(PREFIX)?, v)))
                .any(|(k, v)| k == name && &**v == "true")
        };
        let mut ready = (Readiness::Absent, None);
        for condition in wire.status.conditions.iter().filter(|condition| &*condition.kind == "Ready") {
            let status = match &*condition.status {
                "True" => Readiness::True,
                "False" => Readiness::False,
                _ => Readiness::Unknown,
            };
            ready = (status, condition.last_transition_time);
        }
        let taints = wire.spec.taints.iter().filter_map(|taint| {
            Some(Taint {
                key: interner.text(&taint.key),
                value: interner.text(taint.value.as_deref().unwrap_or_default()),
                effect: Effect::parse(&taint.effect)?,
                time_added: taint.time_added,
            })
        });
        let taints = taints.collect();
        let allocatable = wire.status.allocatable.as_ref().or(wire.status.capacity.as_ref());
        let address = wire.status.addresses.iter().find(|address| &*address.kind == "InternalIP");
        Ok(Self {
            unschedulable: wire.spec.unschedulable.unwrap_or(false),
            taints,
            allocatable: allocatable.map(Resources::from_wire).unwrap_or_default(),
            pods: allocatable.and_then(Resources::pods).unwrap_or(0),
            advertised: advertised(&wire.status),
            ready: ready.0,
            ready_since: ready.1,
            address: address.map(|address| interner.text(&address.address)),
            simulated: annotated("simulated"),
            unreachable: annotated("unreachable"),
            meta: wire.metadata.read(interner, true).0,
        })
    }
}

/// Whoever has devices to offer writes them into a node's capacity; its agent gives them out from there.
fn advertised(status: &WireStatus<'_>) -> Box<[Advertised]> {
    let texts = |list: &Option<WireResources<'_>>| -> BTreeMap<Arc<str>, Box<str>> {
        let extended = list.iter().flatten().filter(|(name, _)| is_extended(name));
        extended.map(|(name, quantity)| (Arc::from(&**name), quantity.text())).collect()
    };
    let (capacity, allocatable) = (texts(&status.capacity), texts(&status.allocatable));
    let more = capacity.iter().filter(|(name, amount)| allocatable.get(*name) != Some(*amount));
    let gone = allocatable.keys().filter(|name| !capacity.contains_key(*name)).map(|name| (Arc::clone(name), None));
    more.map(|(name, amount)| (Arc::clone(name), Some(amount.clone()))).chain(gone).collect()
}

/// Whether a resource is one of somebody's own: its name has a domain, and that is not Kubernetes'.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

#[derive(Deserialize)]
struct WireNode<'a> {
    #[serde(borrow, default)]
    metadata: WireMeta<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    spec: WireSpec<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    status: WireStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireSpec<'a> {
    unschedulable: Option<bool>,
    #[serde(borrow, deserialize_with = "list")]
    taints: Vec<WireTaint<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireTaint<'a> {
    #[serde(borrow, default)]
    key: Text<'a>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
    #[serde(borrow, default)]
    effect: Text<'a>,
    time_added: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireStatus<'a> {
    #[serde(borrow)]
    capacity: Option<WireResources<'a>>,
    #[serde(borrow)]
    allocatable: Option<WireResources<'a>>,
    #[serde(borrow, deserialize_with = "list")]
    conditions: Vec<WireCondition<'a>>,
    #[serde(borrow, deserialize_with = "list")]
    addresses: Vec<WireAddress<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCondition<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize)]
struct WireAddress<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    address: Text<'a>,
}
