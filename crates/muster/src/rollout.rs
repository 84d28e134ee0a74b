//! A Deployment's rollout as a person wants to see it: which ReplicaSet gives way to which, and how far it is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_objects::IntOrPercent;
use serde::Deserialize;

use crate::workload::{Progress, Seen};

/// What a Deployment's progress has beyond that of other workloads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rollout {
    /// The Deployment's revision; empty before it has one.
    pub(crate) revision: String,
    /// Pods of the new template.
    pub(crate) updated: i64,
    /// How many pods there may be above the wanted number.
    pub(crate) max_surge: i64,
    /// The ReplicaSet of the highest revision.
    pub(crate) new: Option<Set>,
    /// The others that have pods or are to have some, newest first.
    pub(crate) old: Vec<Set>,
    /// Whether it stands still by its owner's wish.
    pub(crate) paused: bool,
    /// The reason of its condition Progressing, such as `ReplicaSetUpdated`; empty where there is none.
    pub(crate) reason: String,
    /// The message of that condition, once the progress deadline is exceeded.
    pub(crate) deadline_exceeded: Option<String>,
}

/// A ReplicaSet of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) name: String,
    /// The uid of its Deployment.
    deployment: String,
    /// `deployment.kubernetes.io/revision`; 0 where it is not a number.
    revision: i64,
    /// `spec.replicas`.
    pub(crate) wanted: i64,
    /// `status.replicas`.
    pub(crate) replicas: i64,
    /// `status.availableReplicas`.
    pub(crate) available: i64,
}

/// `spec.strategy`, as far as the surge needs it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SeenStrategy {
    rolling_update: Option<SeenBounds>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SeenBounds {
    max_surge: Option<IntOrPercent>,
}

/// The ReplicaSets of Deployments, by namespace and name of the Deployment and then by their own name.
#[derive(Debug, Default)]
pub(crate) struct Sets(BTreeMap<(String, String), BTreeMap<String, Set>>);

impl Sets {
    /// Takes in a ReplicaSet that is there, or one that is gone. Returns namespace and name of its Deployment, where
    /// it has one.
    pub(crate) fn take(&mut self, seen: &Seen, gone: bool) -> Option<(String, String)> {
        let meta = &seen.metadata;
        let owner = meta.owner_references.iter().find(|owner| owner.controller && owner.kind == "Deployment")?;
        let key = (meta.namespace.clone(), owner.name.clone());
        let sets = self.0.entry(key.clone()).or_default();
        if gone {
            sets.remove(&meta.name);
        } else {
            let set = Set {
                name: meta.name.clone(),
                deployment: owner.uid.clone(),
                revision: meta.annotations.revision.parse().unwrap_or(0),
                wanted: seen.spec.replicas.unwrap_or(1),
                replicas: seen.status.replicas,
                available: seen.status.available_replicas,
            };
            sets.insert(meta.name.clone(), set);
        }
        Some(key)
    }

    /// Those of one Deployment, newest revision first.
    fn of(&self, deployment: &Seen) -> Vec<Set> {
        let meta = &deployment.metadata;
        let sets = self.0.get(&(meta.namespace.clone(), meta.name.clone()));
        let own = sets.into_iter().flat_map(BTreeMap::values).filter(|set| set.deployment == meta.uid);
        let mut own: Vec<Set> = own.cloned().collect();
        own.sort_by_key(|set| std::cmp::Reverse(set.revision));
        own
    }
}

impl Rollout {
    /// The rollout that a Deployment and its ReplicaSets show.
    pub(crate) fn of(deployment: &Seen, sets: &Sets) -> Self {
        let (spec, status) = (&deployment.spec, &deployment.status);
        let desired = i32::try_from(spec.replicas.unwrap_or(1)).unwrap_or(i32::MAX);
        let max_surge = spec.strategy.rolling_update.as_ref().and_then(|bounds| bounds.max_surge.as_ref());
        let progressing = status.conditions.iter().find(|condition| condition.kind == "Progressing");
        let exceeded = progressing.filter(|condition| condition.reason == "ProgressDeadlineExceeded");
        let mut sets = sets.of(deployment).into_iter();
        Self {
            revision: deployment.metadata.annotations.revision.clone(),
            updated: status.updated_replicas,
            // A bound that is no number is the server's to refuse.
            max_surge: max_surge.and_then(|bound| bound.scaled(desired, true).ok()).unwrap_or(0),
            new: sets.next(),
            old: sets.filter(|set| set.wanted > 0 || set.replicas > 0).collect(),
            paused: spec.paused,
            reason: progressing.map(|condition| condition.reason.clone()).unwrap_or_default(),
            deadline_exceeded: exceeded.map(|condition| condition.message.clone()),
        }
    }

    /// How far it is, in one line.
    pub(crate) fn words(&self, progress: &Progress) -> String {
        let Progress { desired, current, ready, available, .. } = progress;
        let mut words = String::new();
        if !self.revision.is_empty() {
            let _ = write!(words, "revision {}: ", self.revision);
        }
        if let Some(message) = progress.deadline_exceeded() {
            let _ = write!(words, "progress deadline exceeded: {message} ");
        } else if self.paused {
            words.push_str("paused, ");
        }
        let surge = (current - desired).max(0);
        let _ = write!(
            words,
            "{}/{desired} updated, {available} available, {ready} ready, {current} created, surge {surge} of {}",
            self.updated, self.max_surge
        );
        for (age, set) in self.new.iter().map(|set| ("new", set)).chain(self.old.iter().map(|set| ("old", set))) {
            let _ = write!(words, ", {age} {} {}/{}", set.name, set.replicas, set.wanted);
        }
        if !self.reason.is_empty() && self.deadline_exceeded.is_none() {
            let _ = write!(words, " ({})", self.reason);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(value: Value) -> Seen {
        serde_json::from_value(value).unwrap()
    }

    fn set(name: &str, revision: &str, wanted: i64, replicas: i64) -> Seen {
        seen(json!({
            "metadata": {
                "name": name, "namespace": "n", "annotations": {"deployment.kubernetes.io/revision": revision},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true}],
            },
            "spec": {"replicas": wanted}, "status": {"replicas": replicas, "availableReplicas": replicas},
        }))
    }

    fn deployment(condition: &Value) -> Seen {
        seen(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u", "generation": 2,
                "annotations": {"deployment.kubernetes.io/revision": "2"}},
            "spec": {"replicas": 10, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
            "status": {"observedGeneration": 2, "replicas": 13, "updatedReplicas": 5, "readyReplicas": 8,
                "availableReplicas": 8, "unavailableReplicas": 5, "conditions": [condition]},
        }))
    }

    #[test]
    fn a_rollout_names_its_replicasets_new_and_old() {
        let mut sets = Sets::default();
        for (name, revision, wanted, replicas) in [("web-a", "1", 8, 8), ("web-b", "2", 5, 5), ("web-c", "0", 0, 0)] {
            assert_eq!(sets.take(&set(name, revision, wanted, replicas), false), Some(("n".into(), "web".into())));
        }
        let condition = json!({"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"});
        let progress = deployment(&condition).progress("Deployment", &sets);
        let words = progress.rollout.as_ref().map(|rollout| rollout.words(&progress));
        assert_eq!(
            words.as_deref(),
            Some(
                "revision 2: 5/10 updated, 8 available, 8 ready, 13 created, surge 3 of 3, \
                 new web-b 5/5, old web-a 8/8 (ReplicaSetUpdated)"
            )
        );
        sets.take(&set("web-a", "1", 0, 0), true);
        assert!(Rollout::of(&deployment(&condition), &sets).old.is_empty());
    }

    /// Contract: DEP-17
    #[test]
    fn an_exceeded_deadline_is_told_with_its_message() {
        let condition = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
            "message": "ReplicaSet \"web-b\" has timed out progressing."});
        let progress = deployment(&condition).progress("Deployment", &Sets::default());
        assert_eq!(progress.deadline_exceeded(), Some("ReplicaSet \"web-b\" has timed out progressing."));
        let words = progress.rollout.as_ref().map(|rollout| rollout.words(&progress)).unwrap();
        assert!(words.starts_with("revision 2: progress deadline exceeded: ReplicaSet \"web-b\""), "{words}");
    }

    #[test]
    fn a_replicaset_of_a_deployment_that_had_the_name_before_is_no_part_of_it() {
        let mut sets = Sets::default();
        let mut other = set("web-a", "1", 3, 3);
        other.metadata.owner_references[0].uid = "another".to_owned();
        sets.take(&other, false);
        assert_eq!(Rollout::of(&deployment(&json!({"type": "Available", "status": "True"})), &sets).new, None);
    }
}
