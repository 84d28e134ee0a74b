//! Update: one ReplicaSet before and after a change, and the patch for it (DEP-13).

use std::sync::Arc;

use bytes::Bytes;
use muster_objects::{Annotations, Deployment, ReplicaSet};
use serde_json::{Value, json};

use super::revision::{replicas_need_update, with_replicas};
use crate::plan::{EventText, EventTexts, Patch, PatchType, Resource};

/// A change of a ReplicaSet's replicas, minReadySeconds or annotations.
#[derive(Debug, Clone, PartialEq)]
pub struct SetUpdate {
    /// The ReplicaSet now.
    pub before: Arc<ReplicaSet>,
    /// The ReplicaSet after the update.
    pub after: Arc<ReplicaSet>,
}

/// When a ReplicaSet's annotations about replicas are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// Only together with a change of its size.
    WhenScaled,
    /// Whenever they are out of date.
    Always,
}

impl SetUpdate {
    /// Scales a ReplicaSet for the current Deployment; `None` if there is nothing to write.
    #[must_use]
    pub fn scale(deployment: &Deployment, set: &Arc<ReplicaSet>, replicas: i32, refresh: Refresh) -> Option<Self> {
        let stale = || refresh == Refresh::Always && replicas_need_update(deployment, &set.annotations);
        if set.replicas == replicas && !stale() {
            return None;
        }
        let annotations = with_replicas(deployment, &set.annotations);
        let after = ReplicaSet { replicas, annotations, ..ReplicaSet::clone(set) };
        Some(Self { before: Arc::clone(set), after: Arc::new(after) })
    }

    /// Whether the number of replicas changes.
    #[must_use]
    pub fn is_scaling(&self) -> bool {
        self.before.replicas != self.after.replicas
    }

    /// By how many replicas it shrinks; negative if it grows.
    #[must_use]
    pub fn shrinks_by(&self) -> i64 {
        i64::from(self.before.replicas) - i64::from(self.after.replicas)
    }

    /// The JSON patch. It tests what the change depends on, the uid and the number of replicas, and touches nothing
    /// else: a status that the ReplicaSet's controller writes in between is no conflict, and a field that this version
    /// does not know is kept (B-13).
    #[must_use]
    pub fn patch(&self) -> Patch {
        let Self { before, after } = self;
        let mut operations = vec![
            json!({"op": "test", "path": "/metadata/uid", "value": before.meta.uid}),
            json!({"op": "test", "path": "/spec/replicas", "value": before.replicas}),
        ];
        if self.is_scaling() {
            operations.push(json!({"op": "replace", "path": "/spec/replicas", "value": after.replicas}));
        }
        if before.min_ready_seconds != after.min_ready_seconds {
            operations.push(json!({"op": "add", "path": "/spec/minReadySeconds", "value": after.min_ready_seconds}));
        }
        operations.extend(annotate(before, &after.annotations));
        Patch {
            resource: Resource::REPLICA_SETS,
            key: before.meta.key(),
            subresource: None,
            patch_type: PatchType::Json,
            body: Bytes::from(Value::Array(operations).to_string()),
            events: self.events(),
            purpose: self.purpose(),
        }
    }

    fn events(&self) -> EventTexts {
        if !self.is_scaling() {
            return EventTexts::SILENT;
        }
        let (name, from, to) = (&self.before.meta.name, self.before.replicas, self.after.replicas);
        let way = if from < to { "up" } else { "down" };
        let words = format!("Scaled {way} replica set {name} from {from} to {to}");
        EventTexts { success: Some(("ScalingReplicaSet", EventText::Exactly(words))), ..EventTexts::SILENT }
    }

    fn purpose(&self) -> String {
        let (from, to) = (self.before.replicas, self.after.replicas);
        match from.cmp(&to) {
            std::cmp::Ordering::Less => format!("scale up from {from} to {to}"),
            std::cmp::Ordering::Greater => format!("scale down from {from} to {to}"),
            std::cmp::Ordering::Equal => "bring up to date with its Deployment".to_owned(),
        }
    }
}

/// The operations that set the annotations that differ. If the map itself is missing it is added whole, with a test of
/// the version, so that annotations added meanwhile are not lost.
fn annotate(before: &ReplicaSet, annotations: &Annotations) -> Vec<Value> {
    if before.annotations == *annotations {
        return Vec::new();
    }
    if before.annotations.is_empty() {
        return vec![
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": before.meta.resource_version}),
            json!({"op": "add", "path": "/metadata/annotations", "value": annotations}),
        ];
    }
    let changed = annotations.iter().filter(|(key, value)| before.annotations.get(key) != Some(value));
    changed.map(|(key, value)| json!({"op": "add", "path": annotation_path(key), "value": value})).collect()
}

/// The JSON pointer to an annotation.
pub(super) fn annotation_path(key: &str) -> String {
    format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"))
}
