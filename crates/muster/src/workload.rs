//! What of an applied object counts as a workload, and how far it is.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::apply::Applied;
use crate::rollout::{Rollout, SeenStrategy, Sets};

/// The kinds that have replicas to wait for, with the path of their collection over all namespaces.
const KINDS: &[(&str, &str)] = &[
    ("Deployment", "/apis/apps/v1/deployments"),
    ("ReplicaSet", "/apis/apps/v1/replicasets"),
    ("ReplicationController", "/api/v1/replicationcontrollers"),
    ("Pod", "/api/v1/pods"),
];

/// The collections to watch for these objects, each once.
pub(crate) fn collections(applied: &[Applied]) -> Vec<(&'static str, &'static str)> {
    let has = |kind: &str| applied.iter().any(|object| object.kind == kind && !object.is_custom);
    // A Deployment is told by its ReplicaSets.
    let wanted = |kind: &str| has(kind) || (kind == "ReplicaSet" && has("Deployment"));
    KINDS.iter().filter(|(kind, _)| wanted(kind)).copied().collect()
}

/// Whether an applied object is one that becomes available.
pub(crate) fn is_workload(applied: &Applied) -> bool {
    !applied.is_custom && KINDS.iter().any(|(kind, _)| applied.kind == *kind)
}

/// How far a workload is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The replicas asked for.
    pub(crate) desired: i64,
    /// Those that exist.
    pub(crate) current: i64,
    /// Those that are ready.
    pub(crate) ready: i64,
    /// Those that have been ready for long enough.
    pub(crate) available: i64,
    /// Whether the controller has seen the newest specification.
    pub(crate) observed: bool,
    /// What only a Deployment has.
    pub(crate) rollout: Option<Rollout>,
}

impl Progress {
    /// All that was asked for is there, of the newest template, and nothing else (DEP-24).
    pub(crate) fn is_complete(&self) -> bool {
        let up_to_date = self.rollout.as_ref().is_none_or(|rollout| rollout.updated == self.desired);
        self.observed && up_to_date && self.available == self.desired && self.current == self.desired
    }

    /// How far it is, for a program.
    pub(crate) fn json(&self) -> Value {
        let Self { desired, current, ready, available, .. } = self;
        let revision = self.rollout.as_ref().map(|rollout| &rollout.revision);
        json!({"desired": desired, "current": current, "ready": ready, "available": available, "revision": revision})
    }

    /// What the rollout's deadline was exceeded with, if it was (DEP-17).
    pub(crate) fn deadline_exceeded(&self) -> Option<&str> {
        self.rollout.as_ref().filter(|_| self.observed)?.deadline_exceeded.as_deref()
    }
}

/// The few fields of any workload that its progress is read from.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Seen {
    pub(crate) metadata: SeenMeta,
    #[serde(default)]
    pub(crate) spec: SeenSpec,
    #[serde(default)]
    pub(crate) status: SeenStatus,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenMeta {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    pub(crate) annotations: SeenAnnotations,
    #[serde(default)]
    pub(crate) owner_references: Vec<SeenOwner>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct SeenAnnotations {
    #[serde(rename = "deployment.kubernetes.io/revision", default)]
    pub(crate) revision: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SeenOwner {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) controller: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SeenSpec {
    pub(crate) replicas: Option<i64>,
    pub(crate) paused: bool,
    pub(crate) strategy: SeenStrategy,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SeenStatus {
    pub(crate) replicas: i64,
    pub(crate) updated_replicas: i64,
    ready_replicas: i64,
    pub(crate) available_replicas: i64,
    observed_generation: i64,
    phase: String,
    pub(crate) conditions: Vec<SeenCondition>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SeenCondition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) message: String,
}

impl Seen {
    /// The progress that an object of this kind shows; a Deployment's together with its ReplicaSets.
    pub(crate) fn progress(&self, kind: &str, sets: &Sets) -> Progress {
        let status = &self.status;
        if kind == "Pod" {
            let ready = status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True");
            let up = i64::from(ready || status.phase == "Succeeded");
            return Progress { desired: 1, current: 1, ready: up, available: up, observed: true, rollout: None };
        }
        Progress {
            desired: self.spec.replicas.unwrap_or(1),
            current: status.replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            observed: status.observed_generation >= self.metadata.generation,
            rollout: (kind == "Deployment").then(|| Rollout::of(self, sets)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(value: Value) -> Seen {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_has_replicas_is_complete_when_what_was_asked_for_is_available_and_nothing_else_is_there() {
        for kind in ["ReplicaSet", "ReplicationController"] {
            let set = |generation: i64, spec: i64, status: (i64, i64, i64)| {
                seen(json!({"metadata": {"name": "a", "generation": generation}, "spec": {"replicas": spec},
                    "status": {"replicas": status.0, "readyReplicas": status.1, "availableReplicas": status.2, "observedGeneration": 1}}))
                .progress(kind, &Sets::default())
                .is_complete()
            };
            assert!(set(1, 3, (3, 3, 3)));
            assert!(set(1, 0, (0, 0, 0)));
            assert!(!set(1, 3, (3, 3, 2)), "not available for long enough");
            assert!(!set(2, 3, (3, 3, 3)), "a specification that was not seen yet");
            assert!(!set(1, 3, (4, 3, 3)), "one too many");
        }
        let new = seen(json!({"metadata": {"name": "a", "generation": 1}, "spec": {}}));
        assert!(!new.progress("ReplicaSet", &Sets::default()).is_complete());
    }

    /// Contract: DEP-24
    #[test]
    fn a_deployment_is_complete_when_moreover_every_pod_is_of_the_newest_template() {
        let complete = |updated: i64, generation: i64| {
            seen(json!({"metadata": {"name": "a", "generation": generation}, "spec": {"replicas": 2},
                "status": {"replicas": 2, "updatedReplicas": updated, "availableReplicas": 2, "observedGeneration": 1}}))
            .progress("Deployment", &Sets::default())
            .is_complete()
        };
        assert!(complete(2, 1));
        assert!(!complete(1, 1), "an old pod is left");
        assert!(!complete(2, 2), "a specification that was not seen yet");
    }

    #[test]
    fn a_deployment_brings_the_watch_of_its_replicasets() {
        let applied = |kind: &str| Applied {
            kind: kind.to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
            path: String::new(),
            is_custom: false,
        };
        let watched = |kinds: &[&str]| -> Vec<&str> {
            let applied: Vec<Applied> = kinds.iter().map(|kind| applied(kind)).collect();
            collections(&applied).iter().map(|(kind, _)| *kind).collect()
        };
        assert_eq!(watched(&["Deployment", "ConfigMap"]), ["Deployment", "ReplicaSet"]);
        assert_eq!(watched(&["ReplicationController", "Pod"]), ["ReplicationController", "Pod"]);
        assert!(watched(&["ConfigMap"]).is_empty());
        let namesake = Applied { is_custom: true, ..applied("Deployment") };
        assert!(collections(std::slice::from_ref(&namesake)).is_empty() && !is_workload(&namesake));
    }
}
