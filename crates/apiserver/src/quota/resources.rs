//! What a pod as a whole requests, and what it may use: of its containers, of the pod's own level, and of overhead.

use crate::model::fields::Fields;
use crate::model::pod::{Runs, aggregate_by};
use crate::model::{Object, ResourceList};

/// `requests` or `limits`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Amounts {
    Requests,
    Limits,
}

/// What the pod requests of its node, or may use of it.
pub(super) fn of_pod(pod: &Object, which: Amounts) -> ResourceList {
    let empty = Object::new();
    let (spec, status) = (pod.object("spec").unwrap_or(&empty), pod.object("status").unwrap_or(&empty));
    let mut total = of_containers(spec, status, which);
    if let Some(own) = spec.object("resources").map(|resources| ResourceList::read(resources.object(which.field()))) {
        for (name, amount) in own.into_iter().filter(|(name, _)| is_for_pods(name)) {
            total.insert(name, amount);
        }
    }
    let mut overhead = ResourceList::read(spec.object("overhead"));
    if which == Amounts::Limits {
        // What has no limit has none with overhead either.
        overhead.retain(|name| total.get(name).is_some_and(|limit| !limit.is_zero()));
    }
    total.add(&overhead);
    total
}

/// Whether a resource can be asked for by a pod rather than by its containers.
pub(super) fn is_for_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

impl Amounts {
    fn field(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// What containers request or may use, by their state where that is told.
fn of_containers(spec: &Object, status: &Object, which: Amounts) -> ResourceList {
    let infeasible = status
        .items("conditions")
        .find(|condition| condition.text("type") == "PodResizePending")
        .is_some_and(|condition| condition.text("reason") == "Infeasible");
    aggregate_by(spec, |container, runs| match runs {
        Runs::Always => effective(container, status.items("containerStatuses"), which, infeasible),
        Runs::AsSidecar => effective(container, status.items("initContainerStatuses"), which, infeasible),
        Runs::AtFirst => declared(container, which),
    })
}

fn declared(container: &Object, which: Amounts) -> ResourceList {
    ResourceList::read(container.object("resources").and_then(|resources| resources.object(which.field())))
}

/// What a container has or is to have, whichever is more, while it is being resized.
fn effective<'a>(
    container: &Object,
    mut statuses: impl Iterator<Item = &'a Object>,
    which: Amounts,
    infeasible: bool,
) -> ResourceList {
    let name = container.text("name");
    let status = statuses.find(|status| status.text("name") == name);
    let Some((status, actual)) = status.and_then(|status| Some((status, status.object("resources")?))) else {
        return declared(container, which);
    };
    let mut amounts = ResourceList::read(actual.object(which.field()));
    if !infeasible {
        amounts.raise_to(&declared(container, which));
    }
    if which == Amounts::Requests {
        amounts.raise_to(&ResourceList::read(status.object("allocatedResources")));
    }
    amounts
}
