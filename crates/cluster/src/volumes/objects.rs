//! Claims, volumes and classes, as far as the controllers of volumes and the scheduler read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_machinery::cache::{Cache, Index, Indexes, Slot};
use muster_objects::selector::LabelSelector;
use muster_objects::{ObjectKey, Selector, Uid};
use muster_schema::quantity::Quantity;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::control::{Body, Slim};
use crate::json::{list, or_default};
use crate::taints::{NodeOperator, NodeRequirement, NodeTerm};

/// On claims: it was bound once.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On claims and volumes: the binder chose the other one.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On claims: the node for which a volume is to be made.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On claims: who is to make a volume; by its older name as well.
pub(super) const PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];
/// On volumes: who made it.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On volumes: somebody else than the binder has it.
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// On claims and volumes: the class, by its older name.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On volumes that were made by the simulated provisioner.
pub(super) const SIMULATED: &str = "muster.dev/simulated";
/// On classes, `false`: their volumes are made by a program that was brought along.
const PROVISION: &str = "muster.dev/provision";
/// On classes: claims without one get it.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The annotations that count, and those alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Option<BTreeMap<String, String>>")]
pub(crate) struct Annotations(BTreeMap<String, String>);

impl From<Option<BTreeMap<String, String>>> for Annotations {
    fn from(all: Option<BTreeMap<String, String>>) -> Self {
        const PREFIXES: [&str; 6] = [
            "pv.kubernetes.io/",
            "volume.kubernetes.io/",
            "volume.beta.kubernetes.io/",
            "storageclass.kubernetes.io/",
            "storageclass.beta.kubernetes.io/",
            crate::fate::PREFIX,
        ];
        let counts = |key: &String| PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        Self(all.into_iter().flatten().filter(|(key, _)| counts(key)).collect())
    }
}

impl Annotations {
    /// The value of one.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether it is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct WireMeta {
    annotations: Annotations,
    #[serde(deserialize_with = "list")]
    finalizers: Vec<String>,
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "WireClaim")]
pub(crate) struct Claim {
    pub(crate) annotations: Annotations,
    pub(super) finalizers: Vec<String>,
    pub(super) access_modes: Vec<String>,
    /// Which volumes it takes; none for any. A selector that is none is refused by the server.
    pub(super) selector: Option<Selector>,
    /// How much it asks for.
    pub(super) request: Quantity,
    /// The volume that it is bound to, or asks for; empty for none.
    pub(crate) volume: String,
    /// Its class: none where it does not say, empty where it wants none.
    pub(super) class: Option<String>,
    /// `Filesystem` or `Block`.
    pub(super) mode: String,
    /// The class of its attributes; empty for none.
    pub(super) attributes: String,
    pub(crate) status: ClaimStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimStatus {
    #[serde(deserialize_with = "or_default")]
    pub(crate) phase: String,
    pub(super) access_modes: Option<Vec<String>>,
    pub(super) capacity: Option<Map<String, Value>>,
    pub(super) current_volume_attributes_class_name: Option<String>,
}

#[derive(Deserialize)]
struct WireClaim {
    #[serde(default)]
    metadata: WireMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: WireClaimSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: ClaimStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireClaimSpec {
    #[serde(deserialize_with = "list")]
    access_modes: Vec<String>,
    selector: Option<LabelSelector>,
    #[serde(deserialize_with = "or_default")]
    resources: WireRequirements,
    volume_name: Option<String>,
    storage_class_name: Option<String>,
    volume_mode: Option<String>,
    volume_attributes_class_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireRequirements {
    #[serde(deserialize_with = "or_default")]
    requests: Map<String, Value>,
}

impl From<WireClaim> for Claim {
    fn from(wire: WireClaim) -> Self {
        let WireMeta { annotations, finalizers } = wire.metadata;
        let selector = wire.spec.selector.as_ref();
        Self {
            access_modes: wire.spec.access_modes,
            selector: selector.map(|selector| Selector::try_from(selector).unwrap_or(Selector::nothing())),
            request: storage(&wire.spec.resources.requests),
            volume: wire.spec.volume_name.unwrap_or_default(),
            class: annotations.get(BETA_CLASS).map(str::to_owned).or(wire.spec.storage_class_name),
            mode: wire.spec.volume_mode.unwrap_or_else(filesystem),
            attributes: wire.spec.volume_attributes_class_name.unwrap_or_default(),
            status: wire.status,
            annotations,
            finalizers,
        }
    }
}

fn filesystem() -> String {
    "Filesystem".to_owned()
}

fn storage(list: &Map<String, Value>) -> Quantity {
    list.get("storage").and_then(Value::as_str).map(Quantity::of).unwrap_or_default()
}

impl Claim {
    /// Its class; empty for none.
    pub(crate) fn class(&self) -> &str {
        self.class.as_deref().unwrap_or_default()
    }

    /// Whether it is bound to a volume for good.
    pub(crate) fn is_bound(&self) -> bool {
        !self.volume.is_empty() && self.annotations.has(BIND_COMPLETED)
    }

    /// Whether its binding waits until a pod that uses it is scheduled.
    pub(crate) fn is_delayed(&self, classes: &Cache<Slim<Class>>) -> bool {
        let class = classes.get_named("", self.class());
        class.is_some_and(|class| class.body.delays)
    }
}

impl Body for Claim {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "PersistentVolumeClaim";
    type Indexes = ClaimIndexes;
}

/// The claims that were never bound.
#[derive(Debug, Default)]
pub(crate) struct ClaimIndexes(BTreeSet<Slot>);

impl Indexes<Slim<Claim>> for ClaimIndexes {
    fn insert(&mut self, slot: Slot, claim: &Slim<Claim>) {
        if !claim.body.annotations.has(BIND_COMPLETED) {
            self.0.insert(slot);
        }
    }

    fn remove(&mut self, slot: Slot, _: &Slim<Claim>) {
        self.0.remove(&slot);
    }
}

/// The claims that were never bound.
pub(super) fn waiting(claims: &Cache<Slim<Claim>>) -> impl Iterator<Item = &Arc<Slim<Claim>>> {
    claims.indexes().0.iter().filter_map(|slot| claims.get_slot(*slot))
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "WireVolume")]
pub(crate) struct Volume {
    pub(super) annotations: Annotations,
    pub(super) finalizers: Vec<String>,
    /// Everything that it has.
    pub(super) capacity: Map<String, Value>,
    /// How much it stores.
    pub(super) size: Quantity,
    pub(super) access_modes: Vec<String>,
    /// The claim that it is bound to, or kept for.
    pub(crate) claim: Option<ClaimRef>,
    /// `Retain`, `Delete` or `Recycle`.
    pub(super) reclaim: String,
    pub(super) class: String,
    pub(super) mode: String,
    pub(super) attributes: String,
    /// Whether it is a driver's.
    pub(super) is_csi: bool,
    /// The nodes that reach it; none for all.
    pub(crate) nodes: Option<Box<[NodeTerm]>>,
    pub(super) status: VolumeStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct VolumeStatus {
    #[serde(deserialize_with = "or_default")]
    pub(super) phase: String,
}

/// The claim of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimRef {
    namespace: String,
    name: String,
    /// Empty while the volume is only kept for a claim of that name.
    #[serde(deserialize_with = "or_default")]
    pub(super) uid: Uid,
}

impl ClaimRef {
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new(&*self.namespace, &*self.name)
    }
}

#[derive(Deserialize)]
struct WireVolume {
    #[serde(default)]
    metadata: WireMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: WireVolumeSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: VolumeStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireVolumeSpec {
    #[serde(deserialize_with = "or_default")]
    capacity: Map<String, Value>,
    #[serde(deserialize_with = "list")]
    access_modes: Vec<String>,
    claim_ref: Option<ClaimRef>,
    persistent_volume_reclaim_policy: Option<String>,
    storage_class_name: Option<String>,
    volume_mode: Option<String>,
    volume_attributes_class_name: Option<String>,
    csi: Option<serde::de::IgnoredAny>,
    node_affinity: Option<WireAffinity>,
}

#[derive(Deserialize)]
struct WireAffinity {
    required: Option<WireNodeSelector>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireNodeSelector {
    #[serde(default, deserialize_with = "list")]
    node_selector_terms: Vec<WireTerm>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireTerm {
    #[serde(default, deserialize_with = "list")]
    match_expressions: Vec<WireRequirement>,
    #[serde(default, deserialize_with = "list")]
    match_fields: Vec<WireRequirement>,
}

#[derive(Deserialize)]
struct WireRequirement {
    key: String,
    operator: String,
    #[serde(default, deserialize_with = "list")]
    values: Vec<String>,
}

impl From<WireTerm> for NodeTerm {
    fn from(wire: WireTerm) -> Self {
        let requirements = |wire: Vec<WireRequirement>| {
            let read = |requirement: WireRequirement| NodeRequirement {
                key: requirement.key.into(),
                // The server validates operators; In without a match is never satisfied.
                operator: NodeOperator::parse(&requirement.operator).unwrap_or(NodeOperator::In),
                values: requirement.values.into_iter().map(Arc::from).collect(),
            };
            wire.into_iter().map(read).collect()
        };
        Self { expressions: requirements(wire.match_expressions), fields: requirements(wire.match_fields) }
    }
}

impl From<WireVolume> for Volume {
    fn from(wire: WireVolume) -> Self {
        let WireMeta { annotations, finalizers } = wire.metadata;
        let spec = wire.spec;
        let required = spec.node_affinity.and_then(|affinity| affinity.required);
        Self {
            size: storage(&spec.capacity),
            capacity: spec.capacity,
            access_modes: spec.access_modes,
            claim: spec.claim_ref,
            reclaim: spec.persistent_volume_reclaim_policy.unwrap_or_default(),
            class: annotations.get(BETA_CLASS).map(str::to_owned).or(spec.storage_class_name).unwrap_or_default(),
            mode: spec.volume_mode.unwrap_or_else(filesystem),
            attributes: spec.volume_attributes_class_name.unwrap_or_default(),
            is_csi: spec.csi.is_some(),
            nodes: required.map(|required| required.node_selector_terms.into_iter().map(NodeTerm::from).collect()),
            status: wire.status,
            annotations,
            finalizers,
        }
    }
}

impl Volume {
    /// Whether it is bound to that claim, or kept for it.
    pub(super) fn is_for(&self, claim: &Slim<Claim>) -> bool {
        self.claim.as_ref().is_some_and(|reference| {
            *reference.name == *claim.meta.name
                && *reference.namespace == *claim.meta.namespace
                && (reference.uid.is_empty() || reference.uid == claim.meta.uid)
        })
    }

    /// Whether its reclaiming is somebody else's business.
    pub(super) fn is_migrated(&self) -> bool {
        self.annotations.get(MIGRATED_TO).is_some_and(|driver| !driver.is_empty())
    }
}

impl Body for Volume {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "PersistentVolume";
    type Indexes = VolumeIndexes;
}

/// The volumes of each claim, and those of none.
#[derive(Debug, Default)]
pub(crate) struct VolumeIndexes {
    free: BTreeSet<Slot>,
    claims: Index<ObjectKey>,
}

impl Indexes<Slim<Volume>> for VolumeIndexes {
    fn insert(&mut self, slot: Slot, volume: &Slim<Volume>) {
        match &volume.body.claim {
            None => {
                self.free.insert(slot);
            }
            Some(claim) => self.claims.insert(claim.key(), slot),
        }
    }

    fn remove(&mut self, slot: Slot, volume: &Slim<Volume>) {
        match &volume.body.claim {
            None => {
                self.free.remove(&slot);
            }
            Some(claim) => self.claims.remove(&claim.key(), slot),
        }
    }
}

/// The volumes that are bound to a claim of that name or kept for it.
pub(super) fn bound_to<'c>(
    volumes: &'c Cache<Slim<Volume>>,
    claim: &ObjectKey,
) -> impl Iterator<Item = &'c Arc<Slim<Volume>>> {
    volumes.indexes().claims.get(claim).filter_map(|slot| volumes.get_slot(slot))
}

/// The volumes that are nobody's.
pub(super) fn free(volumes: &Cache<Slim<Volume>>) -> impl Iterator<Item = &Arc<Slim<Volume>>> {
    volumes.indexes().free.iter().filter_map(|slot| volumes.get_slot(*slot))
}

/// A StorageClass.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "WireClass")]
pub(crate) struct Class {
    pub(super) provisioner: String,
    /// Whether claims are bound only when a pod that uses them is scheduled.
    pub(super) delays: bool,
    pub(super) reclaim: String,
    pub(super) mount_options: Vec<String>,
    /// Whether claims without a class get this one.
    pub(super) is_default: bool,
    /// Whether the simulated provisioner makes its volumes.
    pub(super) is_simulated: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireClass {
    #[serde(default)]
    metadata: WireMeta,
    #[serde(default)]
    provisioner: String,
    #[serde(default)]
    volume_binding_mode: Option<String>,
    #[serde(default)]
    reclaim_policy: Option<String>,
    #[serde(default, deserialize_with = "list")]
    mount_options: Vec<String>,
}

impl From<WireClass> for Class {
    fn from(wire: WireClass) -> Self {
        let annotations = &wire.metadata.annotations;
        Self {
            delays: wire.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            reclaim: wire.reclaim_policy.unwrap_or_else(|| "Delete".to_owned()),
            mount_options: wire.mount_options,
            is_default: DEFAULT_CLASS.iter().any(|name| annotations.get(name) == Some("true")),
            is_simulated: annotations.get(PROVISION) != Some("false"),
            provisioner: wire.provisioner,
        }
    }
}

impl Body for Class {
    const API_VERSION: &'static str = "storage.k8s.io/v1";
    const KIND: &'static str = "StorageClass";
    type Indexes = ();
}

impl Class {
    /// Whether somebody makes volumes of this class.
    pub(crate) fn provisions(&self) -> bool {
        !matches!(&*self.provisioner, "" | "kubernetes.io/no-provisioner")
    }
}

/// The class of claims that do not say: of several, the newest, and of those the first by name.
pub(super) fn default_class(classes: &Cache<Slim<Class>>) -> Option<&Arc<Slim<Class>>> {
    let defaults = classes.iter().filter(|class| class.body.is_default);
    defaults.min_by(|a, b| {
        b.meta.creation_timestamp.cmp(&a.meta.creation_timestamp).then_with(|| a.meta.name.cmp(&b.meta.name))
    })
}
