//! The ReplicaSets of a Deployment: which is new, which are old, their order and their sums.

use std::cmp::Ordering;
use std::sync::Arc;

use muster_objects::{Deployment, ReplicaSet};
use muster_schema::template::Template;

/// The new ReplicaSet of a Deployment and the old ones, by their templates (DEP-03).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sets {
    /// The new one: the oldest of those whose template equals the Deployment's.
    pub new: Option<Arc<ReplicaSet>>,
    /// All others, oldest first.
    pub old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    /// Divides `sets`, which may be in any order.
    #[must_use]
    pub fn of(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Self {
        let new = find_new(deployment, sets);
        Self::with_new(new, sets)
    }

    /// The same if the new one is known.
    #[must_use]
    pub fn with_new(new: Option<Arc<ReplicaSet>>, sets: &[Arc<ReplicaSet>]) -> Self {
        let is_new = |set: &ReplicaSet| new.as_ref().is_some_and(|new| new.meta.uid == set.meta.uid);
        let mut old: Vec<_> = sets.iter().filter(|set| !is_new(set)).cloned().collect();
        old.sort_by(|a, b| by_age(a, b));
        Self { new, old }
    }

    /// The old ones, oldest first, then the new one.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    /// Those of all whose `spec.replicas` is not 0.
    pub fn active(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.all().filter(|set| is_active(set))
    }

    /// Those of the old ones whose `spec.replicas` is not 0.
    pub fn active_old(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().filter(|set| is_active(set))
    }
}

/// The new ReplicaSet: the oldest whose template equals the Deployment's. Rarely there are several, such as after
/// an upgrade of the server that filled in a default which older ReplicaSets do not have.
#[must_use]
pub fn find_new(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Option<Arc<ReplicaSet>> {
    with_equal_template(deployment, sets).min_by(|a, b| by_age(a, b)).cloned()
}

/// Those whose template equals the Deployment's, but for the label `pod-template-hash` (DEP-03).
pub fn with_equal_template<'a>(
    deployment: &'a Deployment,
    sets: &'a [Arc<ReplicaSet>],
) -> impl Iterator<Item = &'a Arc<ReplicaSet>> {
    let wanted = Template::new(deployment.template.raw());
    sets.iter().filter(move |set| wanted.equals_ignoring_hash(&Template::new(set.template.raw())))
}

/// Whether the ReplicaSet has the Deployment's template, in the same sense.
#[must_use]
pub fn has_template_of(set: &ReplicaSet, deployment: &Deployment) -> bool {
    Template::new(deployment.template.raw()).equals_ignoring_hash(&Template::new(set.template.raw()))
}

/// Whether the ReplicaSet's `spec.replicas` is not 0.
#[must_use]
pub fn is_active(set: &ReplicaSet) -> bool {
    set.replicas > 0
}

/// Whether the ReplicaSet's status has observed its size: only then is its number of pods known. One that was scaled
/// since may have created or deleted pods that its status does not show yet.
#[must_use]
pub fn is_reported(set: &ReplicaSet) -> bool {
    set.status.observed_generation >= set.meta.generation
}

/// Whether the ReplicaSet has or wants pods, and its status does not say how many. One that shrank and grew again may
/// report more than it has.
#[must_use]
pub fn is_unreported(set: &ReplicaSet) -> bool {
    (is_active(set) || set.status.replicas > 0) && !is_reported(set)
}

/// Oldest first; of those created in the same second, by name.
#[must_use]
pub fn by_age(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    let created = a.meta.creation_timestamp.cmp(&b.meta.creation_timestamp);
    created.then_with(|| a.meta.name.cmp(&b.meta.name))
}

/// Largest first; of equal ones the newer first.
#[must_use]
pub fn by_size_newer(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    b.replicas.cmp(&a.replicas).then_with(|| by_age(b, a))
}

/// Largest first; of equal ones the older first.
#[must_use]
pub fn by_size_older(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    b.replicas.cmp(&a.replicas).then_with(|| by_age(a, b))
}

/// The sum of `spec.replicas`.
pub fn wanted<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    sets.into_iter().map(|set| i64::from(set.replicas)).sum()
}

/// The sum of the pods that the ReplicaSets have or want, whichever is more; `None` if the status of one has not
/// observed its size, so that it may have any number.
///
/// One that was scaled down and has not deleted its pods yet still takes their room (B-18). A pod that is being deleted
/// takes none, as in Kubernetes.
pub fn taken<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> Option<i64> {
    let taken = |set: &Arc<ReplicaSet>| is_reported(set).then(|| i64::from(set.replicas.max(set.status.replicas)));
    sets.into_iter().map(taken).sum()
}

/// The sum of `status.replicas`.
pub fn actual<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    sets.into_iter().map(|set| i64::from(set.status.replicas)).sum()
}

/// The sum of `status.readyReplicas`.
pub fn ready<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    sets.into_iter().map(|set| i64::from(set.status.ready_replicas)).sum()
}

/// The sum of `status.availableReplicas`.
pub fn available<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    sets.into_iter().map(|set| i64::from(set.status.available_replicas)).sum()
}

/// The sum of `status.terminatingReplicas`; `None` if a ReplicaSet does not report it although its controller has
/// observed it.
pub fn terminating<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> Option<i64> {
    let counts = sets.into_iter().map(|set| match set.status.terminating_replicas {
        None if set.status.observed_generation == 0 => Some(0),
        count => count.map(i64::from),
    });
    counts.sum()
}
