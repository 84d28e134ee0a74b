//! What pods need before they start, as far as the nodes know of it: claims, ConfigMaps and Secrets (SIM-07).
//!
//! An object is read once for all pods that use it, and again when it changes, for as long as one of them is there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use muster_objects::{ObjectKey, Uid};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::json::or_default;
use crate::pod::{Need, NeedKind, NeededBy, Pod};

/// An object that pods need.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// What it is.
    pub kind: NeedKind,
    /// Its namespace and name.
    pub key: ObjectKey,
}

/// What was found where it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Missing,
    /// A ConfigMap or Secret with these keys.
    Data {
        /// Those of texts, and all of a Secret's.
        keys: BTreeSet<Box<str>>,
        /// Those of a ConfigMap's `binaryData`.
        binary: BTreeSet<Box<str>>,
    },
    /// A claim.
    Claim {
        /// Whether it is bound to a volume.
        bound: bool,
        /// Whether it is being deleted.
        deleting: bool,
    },
}

impl Found {
    /// What an object of that kind is, out of its JSON.
    pub(super) fn read(kind: NeedKind, json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            metadata: WireMeta,
            #[serde(default, deserialize_with = "or_default")]
            data: BTreeMap<Box<str>, IgnoredAny>,
            #[serde(default, deserialize_with = "or_default")]
            binary_data: BTreeMap<Box<str>, IgnoredAny>,
            #[serde(default, deserialize_with = "or_default")]
            status: WireStatus,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct WireMeta {
            deletion_timestamp: Option<IgnoredAny>,
        }
        #[derive(Deserialize, Default)]
        struct WireStatus {
            #[serde(default)]
            phase: String,
        }
        let wire: Wire = serde_json::from_slice(json)?;
        Ok(match kind {
            NeedKind::Claim => Self::Claim {
                bound: wire.status.phase == "Bound",
                deleting: wire.metadata.deletion_timestamp.is_some(),
            },
            NeedKind::ConfigMap | NeedKind::Secret => {
                Self::Data { keys: wire.data.into_keys().collect(), binary: wire.binary_data.into_keys().collect() }
            }
        })
    }
}

/// Something that a pod needs and that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lack {
    /// Who needs it.
    pub(super) by: NeededBy,
    /// Whether it is a claim.
    pub(super) claim: bool,
    /// What is the matter, in the words of a real kubelet.
    pub(super) message: String,
}

/// What is known of the objects that pods need.
#[derive(Debug, Default)]
pub(super) struct Needs {
    objects: BTreeMap<Needed, Known>,
    to_read: VecDeque<Needed>,
}

#[derive(Debug, Default)]
struct Known {
    /// None until it was read.
    found: Option<Found>,
    reading: bool,
    /// It changed while it was read.
    again: bool,
    /// The pods that use it, in the order in which they came.
    users: BTreeSet<(u64, Uid)>,
}

impl Needs {
    /// The next object to read. Answer each with [`Needs::found`].
    pub(super) fn next(&mut self) -> Option<Needed> {
        self.to_read.pop_front()
    }

    /// A pod is there.
    pub(super) fn add(&mut self, pod: &Pod, sequence: u64) {
        for needed in needed(pod) {
            let known = self.objects.entry(needed.clone()).or_default();
            known.users.insert((sequence, pod.meta.uid.clone()));
            if known.found.is_none() && !known.reading {
                known.reading = true;
                self.to_read.push_back(needed);
            }
        }
    }

    /// A pod is gone.
    pub(super) fn remove(&mut self, pod: &Pod, sequence: u64) {
        for needed in needed(pod) {
            let Some(known) = self.objects.get_mut(&needed) else { continue };
            known.users.remove(&(sequence, pod.meta.uid.clone()));
            if known.users.is_empty() {
                self.objects.remove(&needed);
            }
        }
    }

    /// An object changed.
    pub(super) fn changed(&mut self, needed: &Needed) {
        let Some(known) = self.objects.get_mut(needed) else { return };
        if std::mem::replace(&mut known.reading, true) {
            known.again = true;
        } else {
            self.to_read.push_back(needed.clone());
        }
    }

    /// What was read. Returns the pods that use the object, where that is news.
    pub(super) fn found(&mut self, needed: &Needed, found: Found) -> Vec<Uid> {
        let Some(known) = self.objects.get_mut(needed) else { return Vec::new() };
        known.reading = std::mem::take(&mut known.again);
        if known.reading {
            self.to_read.push_back(needed.clone());
        }
        if known.found.as_ref() == Some(&found) {
            return Vec::new();
        }
        known.found = Some(found);
        known.users.iter().map(|(_, uid)| uid.clone()).collect()
    }

    /// What a pod lacks; `None` while that is not known.
    pub(super) fn lacks(&self, pod: &Pod) -> Option<Box<[Lack]>> {
        let extras = pod.extras();
        let mut lacks = Vec::new();
        for volume in &extras.claims {
            let needed = claim(pod, &volume.claim);
            let message = match self.of(&needed)? {
                Found::Claim { bound: true, deleting: false } => continue,
                Found::Claim { deleting: true, .. } => "PVC is being deleted".to_owned(),
                Found::Claim { .. } => "PVC is not bound".to_owned(),
                _ => {
                    let name = &volume.claim;
                    format!("failed to fetch PVC from API server: persistentvolumeclaims {name:?} not found")
                }
            };
            let message = format!("error processing PVC {}/{}: {message}", pod.meta.namespace, volume.claim);
            lacks.push(Lack { by: NeededBy::Volume(volume.volume.clone()), claim: true, message });
        }
        for need in &extras.needs {
            if let Some(message) = lacking(need, self.of(&object(pod, need))?, &pod.meta.namespace) {
                lacks.push(Lack { by: need.by.clone(), claim: false, message });
            }
        }
        Some(lacks.into())
    }

    fn of(&self, needed: &Needed) -> Option<&Found> {
        self.objects.get(needed).and_then(|known| known.found.as_ref())
    }
}

/// What is the matter with something needed, if anything is.
fn lacking(need: &Need, found: &Found, namespace: &str) -> Option<String> {
    let Need { by, kind, name, key } = need;
    let is_map = *kind == NeedKind::ConfigMap;
    let Found::Data { keys, binary } = found else {
        return Some(format!("{} {name:?} not found", if is_map { "configmap" } else { "secret" }));
    };
    let key = key.as_ref().filter(|key| !keys.contains(*key))?;
    match by {
        NeededBy::Volume(_) if binary.contains(key) => None,
        NeededBy::Volume(_) if is_map => Some(format!("configmap references non-existent config key: {key}")),
        NeededBy::Volume(_) => Some(format!("references non-existent secret key: {key}")),
        NeededBy::Container(_) => {
            let kind = if is_map { "ConfigMap" } else { "Secret" };
            Some(format!("couldn't find key {key} in {kind} {namespace}/{name}"))
        }
    }
}

fn needed(pod: &Pod) -> impl Iterator<Item = Needed> {
    let extras = pod.extras();
    let claims = extras.claims.iter().map(|volume| claim(pod, &volume.claim));
    claims.chain(extras.needs.iter().map(|need| object(pod, need)))
}

fn claim(pod: &Pod, name: &Arc<str>) -> Needed {
    Needed { kind: NeedKind::Claim, key: ObjectKey::new(Arc::clone(&pod.meta.namespace), Arc::clone(name)) }
}

fn object(pod: &Pod, need: &Need) -> Needed {
    Needed { kind: need.kind, key: ObjectKey::new(Arc::clone(&pod.meta.namespace), need.name.clone()) }
}
