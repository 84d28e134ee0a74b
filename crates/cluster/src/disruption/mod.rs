//! Disruption: how many pods of a PodDisruptionBudget may be evicted now (API-27).
//!
//! ```text
//!   budget, its pods, the scale of what controls them --> decide --> status: healthy, desired, expected, allowed
//!                                                            |
//!                        pods whose eviction was granted, and when that is given up as not followed by a deletion
//! ```
//!
//! It is the `disruption-controller` of kube-controller-manager: the eviction of a pod reads and lowers what it wrote.

mod budget;
mod decide;
mod stale;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::BoxFuture;
use muster_machinery::{Cache, Change};
use muster_objects::event::{EventType, ObjectReference};
use muster_objects::{ControllerRef, Meta, ObjectKey};
use muster_runtime::client::Client;
use muster_runtime::events::EventSink;
use muster_runtime::informer::{Store, WatchedResource};
use muster_runtime::workers::Queue;
use serde::Deserialize;
use tokio::sync::watch;

use self::budget::Budget;
use self::decide::{Decision, Scale, Scales, decide};
use crate::control::{Again, ByNamespace, Control, Frame, Slim, Trouble, Writes};
use crate::kinds::{Kind, Kinds};
use crate::pod::{Pod, PodIndexes};

/// The name under which it tells of what it finds.
const COMPONENT: &str = "controllermanager";

fn budgets() -> WatchedResource {
    WatchedResource::new("policy", "v1", "poddisruptionbudgets")
}

/// Sets up the `disruption-controller`.
pub(crate) fn keep_budgets(frame: &mut Frame<'_>) {
    if !frame.serves(&budgets()) {
        return;
    }
    let (client, kinds, events) = (frame.client.clone(), frame.kinds.clone(), frame.events.clone());
    let mut setup = frame.controller("disruption");
    let budgets = setup.watch_own::<Slim<Budget>>(&budgets());
    let seen = budgets.clone();
    let pods = setup.watch::<Pod>(&WatchedResource::pods(), move |change, queue: &Queue| {
        queue.add(concerned(change, &seen.read()));
    });
    setup.run(1, BudgetControl { client, kinds, events, budgets, pods });
    stale::keep(frame);
}

/// The budgets whose status a change of a pod may change.
fn concerned(change: &Change<Pod>, budgets: &Cache<Slim<Budget>>) -> Vec<ObjectKey> {
    let of_namespace = ByNamespace::of(budgets, &change.object().meta.namespace);
    let concerns = |budget: &Slim<Budget>, pod: &Meta| {
        budget.body.selector.as_ref().is_ok_and(|selector| selector.matches(&pod.labels))
    };
    let keys = of_namespace.filter(|budget| match change {
        Change::Added(pod) | Change::Deleted { last: pod, .. } => concerns(budget, &pod.meta),
        Change::Updated { old, new } => concerns(budget, &new.meta) || concerns(budget, &old.meta),
    });
    keys.map(|budget| budget.meta.key()).collect()
}

struct BudgetControl {
    client: Client,
    kinds: watch::Receiver<Arc<Kinds>>,
    events: EventSink,
    budgets: Store<Slim<Budget>>,
    pods: Store<Pod>,
}

impl Control for BudgetControl {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let Some(budget) = self.budgets.read().get(key).cloned() else { return Ok(Again::Never) };
            let pods = match &budget.body.selector {
                Ok(selector) => PodIndexes::selected(&self.pods.read(), &key.namespace, selector),
                Err(_) => Vec::new(),
            };
            let scales = match budget.body.needs_scale() {
                true => self.scales(&key.namespace, &pods).await,
                false => Ok(Scales::default()),
            };
            let Decision { status, tell, again } = decide(&budget, &pods, scales, self.client.server_now());
            for (about, note) in tell {
                let about = match about {
                    None => ObjectReference::to("policy/v1", "PodDisruptionBudget", &budget.meta),
                    Some(pod) => ObjectReference::to("v1", "Pod", &pod),
                };
                let kind = if note.warning { EventType::Warning } else { EventType::Normal };
                self.events.emit(about, COMPONENT, kind, note.reason, note.message);
            }
            if let Some(status) = status {
                let path = format!("{}/status", budgets().object(Some(&key.namespace), &key.name));
                Writes { client: &self.client, store: &self.budgets }.merge(&path, &status).await?;
            }
            Ok(again.map_or(Again::Never, Again::After))
        })
    }
}

impl BudgetControl {
    /// The scales of everything that controls the pods, by the uid of what the pods name.
    async fn scales(&self, namespace: &str, pods: &[Arc<Pod>]) -> Result<Scales, String> {
        let mut scales = Scales::default();
        for pod in pods {
            let Some(owner) = &pod.meta.controller else { continue };
            if scales.knows(&owner.uid) {
                continue;
            }
            let scale = self.scale(namespace, owner).await?;
            let scale = scale.ok_or_else(|| format!("found no controllers for pod {:?}", &*pod.meta.name))?;
            scales.insert(owner.uid.clone(), scale);
        }
        Ok(scales)
    }

    /// The scale of what controls a pod: of a ReplicaSet's Deployment rather than of the ReplicaSet. None where that
    /// does not exist any more.
    async fn scale(&self, namespace: &str, owner: &ControllerRef) -> Result<Option<Scale>, String> {
        let is = |owner: &ControllerRef, kind: &str| {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            &*owner.kind == kind && matches!(group, "apps" | "extensions")
        };
        if is(owner, "ReplicaSet") {
            let Some(set) = self.read_owner(namespace, owner, "").await? else { return Ok(None) };
            let above = set.metadata.owner_references.iter().find(|reference| reference.controller == Some(true));
            let above = above.map(|reference| ControllerRef {
                api_version: reference.api_version.as_str().into(),
                kind: reference.kind.as_str().into(),
                name: reference.name.as_str().into(),
                uid: reference.uid.clone(),
            });
            if let Some(above) = above.filter(|above| is(above, "Deployment")) {
                return self.own_scale(namespace, &above).await;
            }
        }
        self.own_scale(namespace, owner).await
    }

    async fn own_scale(&self, namespace: &str, owner: &ControllerRef) -> Result<Option<Scale>, String> {
        if let Some(found) = self.read_owner(namespace, owner, "/scale").await? {
            let replicas = found.spec.and_then(|spec| spec.replicas).unwrap_or(0);
            return Ok(Some(Scale { owner: owner.uid.clone(), replicas }));
        }
        // Either the object is not there, or its kind has no scale.
        let kind = self.kind(owner)?;
        if kind.scalable {
            return Ok(None);
        }
        let of_group = if kind.resource.group.is_empty() { String::new() } else { format!(".{}", kind.resource.group) };
        Err(format!("{}{of_group} does not implement the scale subresource", kind.resource.plural))
    }

    /// The owner itself, or a part of it; none where it is not there, or is another object of that name.
    async fn read_owner(&self, namespace: &str, owner: &ControllerRef, part: &str) -> Result<Option<Found>, String> {
        let path = format!("{}{part}", self.kind(owner)?.path(namespace, &owner.name));
        match self.client.get(&path).await {
            Ok(answer) => {
                let found: Found = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
                Ok(Some(found).filter(|found| found.metadata.uid == owner.uid))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn kind(&self, owner: &ControllerRef) -> Result<Kind, String> {
        let kinds = self.kinds.borrow();
        kinds
            .get(&owner.api_version, &owner.kind)
            .cloned()
            .ok_or_else(|| format!("no matches for kind {:?} in version {:?}", &*owner.kind, &*owner.api_version))
    }
}

/// An owner, or its scale.
#[derive(Deserialize)]
struct Found {
    metadata: FoundMeta,
    #[serde(default)]
    spec: Option<FoundSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundMeta {
    #[serde(default)]
    uid: muster_objects::Uid,
    #[serde(default)]
    owner_references: Vec<muster_objects::OwnerReference>,
}

#[derive(Deserialize)]
struct FoundSpec {
    #[serde(default)]
    replicas: Option<i32>,
}
